"""gradproof.sweep: the smallest case that fails, among sizes, dtypes, memory and gradients of some inputs only."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from functions import custom

import gradproof
from gradproof import CheckFailedError, SweepReport, Verdict, sweep, sweep_cases

BLOCK = 4


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return (torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5).to(dtype)


def pair(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return draw(n, 3), draw(n, 3) + 1


class Product(torch.autograd.Function):
    """A right product."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        of_a = cotangent * b if ctx.needs_input_grad[0] else None
        of_b = cotangent * a if ctx.needs_input_grad[1] else None
        return of_a, of_b


class OneBranch(Product):
    """Both gradients hang on the first input."""

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        return (cotangent * b, cotangent * a) if ctx.needs_input_grad[0] else (None, None)


def blockwise(x: torch.Tensor) -> torch.Tensor:
    """sin, whose backward loses what is beyond the last whole block, unless there is none."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = g * saved[0].cos()
        whole = len(g) // BLOCK * BLOCK
        if whole:
            gradient[whole:] = 0
        return gradient

    return custom(torch.sin, backward)(x)


def strided(x: torch.Tensor) -> torch.Tensor:
    """sin, whose backward reads its input as if it were contiguous."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = saved
        return g * torch.as_strided(x, x.shape, torch.empty(x.shape).stride()).cos()

    return custom(torch.sin, backward)(x)


def half_only(x: torch.Tensor) -> torch.Tensor:
    """sin, with a factor too many in float32."""
    return custom(torch.sin, lambda s, g: g * s[0].cos() * (1.5 if g.dtype is torch.float32 else 1))(x)


def test_a_right_function_passes_every_case() -> None:
    report = sweep(pair, Product.apply, block=BLOCK, dtypes=["float64", torch.float32])
    assert report.ok, str(report)
    assert bool(report)
    assert report.failures == ()
    names = [case.name for case in report.cases]
    assert len(set(names)) == len(names)
    assert {"size 1, float64", "size 3, float64", "size 4, float32", "size 5, float64", "size 7, float64"} <= set(names)
    assert {"size 4, float64, expanded", "size 4, float32, transposed", "size 4, float64, sliced"} <= set(names)
    assert "size 4, float64, gradient of input 1 `b` only" in names
    assert str(report).startswith(f"PASS: Product.apply, {len(names)} cases: {len(names)} PASS")
    report.raise_for_failure()


def test_the_tail_of_a_block_is_found_at_the_smallest_size() -> None:
    report = sweep(draw, blockwise, block=BLOCK)
    assert report.verdict is Verdict.FAIL
    assert report.cases[0].name == "size 5"
    assert report.cases[0].report.findings[0].input_element == (4,)
    assert [case.elements for case in report.failures] == sorted(case.elements for case in report.failures)
    assert {case.elements for case in report.failures} == {5, 7, 11}
    text = str(report)
    assert "The smallest case: size 5" in text
    assert "size 7: WRONG jacobian: Jacobian mismatch" in text


@pytest.mark.parametrize("full", [False, True])
def test_a_wrong_branch_of_needs_input_grad_is_found(full: bool) -> None:
    assert gradproof.check(OneBranch.apply, tuple(t.requires_grad_() for t in pair(3))).ok
    report = sweep(pair, OneBranch.apply, shapes=[2, 3], strides="contiguous", full=full)
    assert {case.name.partition(", ")[2] for case in report.failures} == {"gradient of input 1 `b` only"}
    assert report.cases[0].name == "size 2, gradient of input 1 `b` only"
    assert len(report.failures) == (2 if full else 1)
    assert sweep(pair, OneBranch.apply, shapes=[2, 3], strides="contiguous", some_gradients=False).ok


def test_of_three_inputs_each_is_alone_and_left_out() -> None:
    cases = sweep_cases(
        lambda n: (draw(n), draw(n), draw(n)), lambda a, b, c: a * b * c, shapes=[2], strides="contiguous"
    )
    assert [case.name for case in cases[1:]] == [
        "size 2, gradient of input 0 `a` only",
        "size 2, gradient of input 1 `b` only",
        "size 2, gradient of input 2 `c` only",
        "size 2, gradient of input 1 `b` and input 2 `c` only",
        "size 2, gradient of input 0 `a` and input 2 `c` only",
        "size 2, gradient of input 0 `a` and input 1 `b` only",
    ]


def test_memory_that_is_misread_is_found() -> None:
    report = sweep(lambda n: draw(n, 3), strided, shapes=[1, 3, 4])
    assert {case.name for case in report.failures} == {"size 3, transposed", "size 3, sliced", "size 3, expanded"}
    assert sweep(lambda n: draw(n, 3), strided, shapes=[1, 3, 4], strides="contiguous").ok


def test_an_expanded_input_reaches_the_function_as_such() -> None:
    seen: list[tuple[int, ...]] = []

    def looking(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.stride())
        return x.sin()

    report = sweep(lambda n: draw(n, 3), looking, shapes=[4], strides=["expanded"])
    assert report.ok
    assert (0, 1) in seen
    assert report.cases[0].report.covered == ("input 0 `x`",)


def test_a_dtype_is_found() -> None:
    report = sweep(draw, half_only, shapes=[2, 3], dtypes=["float64", "float32"], strides="contiguous")
    assert {case.name for case in report.failures} == {"size 2, float32", "size 3, float32"}


def test_inputs_may_be_made_in_a_dtype_and_nested() -> None:
    made: list[Any] = []

    def make(shape: tuple[int, ...], dtype: Any) -> Any:
        made.append(dtype)
        return ({"x": draw(*shape, dtype=dtype)}, 3, torch.arange(4))

    report = sweep(make, lambda d, k, i: d["x"] * k, shapes=[(1, 4), (3, 4)], dtypes=[torch.float32])
    assert report.ok, str(report)
    assert set(made) == {torch.float32}
    assert {"shape (1, 4), float32, expanded", "shape (3, 4), float32"} <= {case.name for case in report.cases}


def test_only_what_requires_a_gradient_is_tested_if_something_does() -> None:
    cases = sweep_cases(lambda n: (draw(n).requires_grad_(), draw(n)), torch.mul, shapes=[2], strides="contiguous")
    assert [case.name for case in cases] == ["size 2"]
    assert cases[0].check().covered == ("input 0",)


def test_a_reference_is_compared_with() -> None:
    report = sweep(draw, blockwise, block=BLOCK, reference=torch.sin)
    assert report.cases[0].name == "size 5"
    assert report.cases[0].report.findings[0].property == "compare"
    assert sweep(lambda n: draw(n, 3), torch.sin, block=BLOCK, reference=torch.sin, rtol=1e-12).ok


def test_options_are_passed_on() -> None:
    rounding = custom(torch.round, lambda s, g: g)
    assert sweep(lambda n: draw(n, 2), rounding, shapes=[3], intended=lambda x: 1.0 * x).ok
    report = sweep(draw, torch.sin, shapes=[3], budget=1)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "do not pass" in str(report)


def test_the_inputs_of_the_user_stay_as_they_are() -> None:
    x = draw(4, 3)
    before = x.clone()
    assert sweep(lambda n: x, torch.sin, shapes=[4]).ok
    assert torch.equal(x, before)
    assert not x.requires_grad


def test_an_exception_of_the_function_is_a_failing_case() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if len(x) == 3:
            raise ArithmeticError("three")
        return x.sin()

    report = sweep(draw, picky, shapes=[2, 3, 4], strides="contiguous")
    assert [case.name for case in report.failures] == ["size 3"]
    with pytest.raises(CheckFailedError, match="The smallest case: size 3") as raised:
        report.raise_for_failure()
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert raised.value.report is report.cases[0].report


def test_an_exception_of_a_call_that_checks_nothing_names_the_case() -> None:
    with pytest.raises(ValueError, match="nothing to check") as raised:
        sweep(draw, torch.sin, shapes=[2, 0], strides="contiguous")
    assert raised.value.__notes__ == ["in the case of the sweep: size 0"]


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"strides": ["diagonal"]}, r"unknown strides \['diagonal'\]: choose from \['contiguous'"),
        ({"strides": []}, "strides is empty"),
        ({"shapes": []}, "shapes is empty"),
        ({"dtypes": []}, "dtypes is empty"),
        ({"dtypes": ["float99"]}, "unknown dtype 'float99'"),
        ({"block": 0}, "block must be a whole number > 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        sweep(draw, torch.sin, **options)


@pytest.mark.parametrize("block", [1, 2, 3, 16, 32, 128])
def test_sizes_lie_around_the_block(block: int) -> None:
    sizes = [case.shape for case in sweep_cases(draw, torch.sin, block=block, strides="contiguous")]
    assert sizes == sorted(set(sizes))
    assert {1, 2, block, block + 1} <= set(sizes)
    beyond = [size for size in sizes if size > block + 1]
    assert len(beyond) == (1 if block < 3 else 2)
    assert all(size % factor for size, factor in itertools.product(beyond, range(2, 12)) if size != factor)


def test_a_sweep_is_written_as_one_document(tmp_path: Path) -> None:
    from gradproof.render.json import load_run

    report = sweep(draw, blockwise, block=BLOCK, strides="contiguous")
    assert [name for name, _ in load_run(report.to_json()).reports] == [case.name for case in report.cases]
    pytest.importorskip("jinja2")
    report.to_html(tmp_path / "sweep.html")
    assert "size 5" in (tmp_path / "sweep.html").read_text()


CASES = sweep_cases(pair, Product.apply, shapes=[1, 3], strides=["contiguous", "expanded"])


@pytest.mark.parametrize("case", CASES)
def test_cases_parametrise_a_test(case: Any, request: pytest.FixtureRequest) -> None:
    case.check().raise_for_failure()
    assert str(case) in request.node.name


def test_a_case_can_be_checked_by_hand() -> None:
    function, inputs = CASES[0].call()
    assert gradproof.check(function, inputs).ok


def test_the_order_is_by_verdict_and_then_by_size() -> None:
    good, bad = (sweep(draw, f, shapes=[n], strides="contiguous").cases[0] for f, n in ((torch.sin, 1), (blockwise, 5)))
    report = SweepReport.of("f", [good, bad])
    assert [case.report.verdict for case in report.cases] == [Verdict.FAIL, Verdict.PASS]
