"""One function, every way it is run: a right one passes all, wrong ones are named in the right column."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import regime_functions as functions
import torch
from regime_functions import Product
from torch import nn

import gradproof.regimes
from gradproof.regimes import NAMES
from gradproof.results.regimes import RegimesFailedError, RegimesReport, Standing
from gradproof.results.report import CheckFailedError, Verdict
from gradproof.torch import regimes

WITHOUT_INDUCTOR = tuple(name for name in NAMES if name != "compile_inductor")
"""It takes 15 seconds, and has a test of its own."""
TRANSFORMS = ("vjp", "jvp", "vmap", "jacrev")


@pytest.fixture(autouse=True)
def _own_matmuls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some processors have no bfloat16 through oneDNN."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


def numbers(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> torch.Tensor:
    drawn = torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (0.25 + drawn).to(dtype).requires_grad_()


def pair(*shape: int) -> tuple[torch.Tensor, ...]:
    return numbers(*shape), numbers(*shape, seed=2)


def departing(report: RegimesReport) -> set[str]:
    return {row.way for row in report.departing}


def test_a_right_function_passes_every_way() -> None:
    report = regimes(Product.apply, pair(4, 3), ways=WITHOUT_INDUCTOR)
    assert report.ok, str(report)
    assert {row.way for row in report.rows if row.standing is Standing.AGREES} == {*WITHOUT_INDUCTOR} - {"opcheck"}
    assert report["opcheck"].standing is Standing.NOT_APPLICABLE
    assert report["opcheck"].reason == "the function calls no custom operator"


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
def test_inductor_where_a_compiler_is_there() -> None:
    report = regimes(lambda x, w: x * w.sin(), pair(4, 3), ways=["compile_inductor"])
    assert report.ok, str(report)
    assert report["compile_inductor"].standing is Standing.AGREES


def test_no_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    report = regimes(torch.sin, numbers(3), ways=["compile_inductor"])
    assert report.ok
    assert report["compile_inductor"].reason.startswith("no C++ compiler is here")


class Wrong(NamedTuple):
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    ways: set[str]
    """All that depart."""
    says: str
    """What the row of the first says."""


WRONG = {
    "vmap rule": Wrong(functions.WrongVmap.apply, pair(4, 3), {"vmap"}, "only input 1 `w` batched"),
    "state under checkpoint": Wrong(
        functions.draws_elsewhere, pair(4, 3), {"checkpoint", "checkpoint_reentrant"}, "gradient of input"
    ),
    "double backward": Wrong(functions.WrongTwice.apply, pair(4, 3), {"double_backward"}, "`gradient of x`"),
    "weight alone": Wrong(
        functions.WrongForWeightAlone.apply, pair(4, 3), {"frozen"}, "only input 1 `w` needs a gradient"
    ),
    "beside a frozen input": Wrong(
        functions.WrongBesideFrozen.apply, (*pair(4, 3), numbers(4, 3, seed=3)), {"frozen"}, "gradient of input 0 `x`"
    ),
    "autocast dtype": Wrong(
        functions.WrongDtypeUnderAutocast.apply, pair(4, 3), {"autocast"}, "float16 in place of float32"
    ),
    "autocast storage": Wrong(
        functions.LossyUnderAutocast.apply, (numbers(4, 3),), {"autocast"}, "gradient of input 0"
    ),
    "jvp": Wrong(functions.WrongJvp.apply, pair(4, 3), {"jvp"}, "tangent of output 0 at"),
    "hidden write": Wrong(
        functions.hidden_write, (numbers(4, 3),), {"compile_aot_eager", "opcheck"}, "first call output 0 at"
    ),
    "compiled backward": Wrong(
        functions.WrongCompiled.apply, (numbers(4, 3),), {"compile_aot_eager"}, "gradient of input 0 `x` at"
    ),
    "stale number": Wrong(functions.stale, (numbers(4, 3),), {"compile_aot_eager"}, "called again with other values"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_named_in_the_right_column(name: str) -> None:
    wrong = WRONG[name]
    report = regimes(wrong.function, wrong.inputs, ways=WITHOUT_INDUCTOR)
    assert report.verdict is Verdict.FAIL
    assert report["eager"].standing is Standing.AGREES
    assert departing(report) == wrong.ways
    first = report.first
    assert first is not None
    assert first.way == next(way for way in NAMES if way in wrong.ways)
    assert wrong.says in f"{first.variation} {first.place} {first.fault}"
    assert f"first to depart  {first.way}" in str(report)
    if not first.fault:
        assert first.difference is not None
        assert first.allowed is not None
        assert first.difference > first.allowed


def test_the_element_and_both_values_are_named() -> None:
    x, w = pair(4, 3)
    row = regimes(functions.WrongJvp.apply, (x, w), ways=["jvp"])["jvp"]
    assert row.element is not None
    assert row.element[-1] == 2
    assert (row.wrong, row.total) == (4, 12)


def test_without_setup_context_the_transforms_cannot_run_and_say_why() -> None:
    report = regimes(functions.OldStyle.apply, pair(4, 3), ways=WITHOUT_INDUCTOR)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert tuple(row.way for row in report.unsettled) == TRANSFORMS
    assert all("setup_context" in report[way].reason for way in TRANSFORMS)
    assert regimes(functions.OldStyle.apply, pair(4, 3), ways=["checkpoint", *TRANSFORMS], allow=TRANSFORMS).ok


def test_a_wrong_fake_shape_is_named_by_opcheck_and_does_not_compile() -> None:
    report = regimes(functions.row_sums, numbers(4, 3), ways=["compile_aot_eager", "opcheck"])
    assert departing(report) == {"opcheck"}
    assert "gradproof_regimes.row_sums" in report["opcheck"].variation
    assert "test_faketensor" in report["opcheck"].fault
    assert report["compile_aot_eager"].standing is Standing.CANNOT_RUN
    assert "shape" in report["compile_aot_eager"].reason


def test_a_right_custom_operator_passes_opcheck_and_loses_its_tangent_in_torch() -> None:
    report = regimes(lambda x: functions.scale_rows(x, 2.0), numbers(4, 3), ways=["compile_aot_eager", "opcheck"])
    assert report.ok, str(report)
    assert report["opcheck"].standing is Standing.AGREES
    assert departing(regimes(lambda x: functions.scale_rows(x, 2.0), numbers(4, 3), ways="jvp")) == {"jvp"}


def test_a_wrong_derivative_is_named_before_everything() -> None:
    report = regimes(lambda x: x * x.detach(), numbers(3), ways=["double_backward", "vjp"])
    assert report.verdict is Verdict.FAIL
    assert report.first is report["eager"]
    assert report["double_backward"].standing is Standing.NOT_APPLICABLE
    assert "the derivative itself is wrong" in str(report)


def test_a_function_that_raises_fails_and_nothing_else_is_asked() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of order")

    report = regimes(broken, numbers(3), ways=["vjp"])
    assert report.verdict is Verdict.FAIL
    assert "out of order" in report["eager"].reason
    assert report["vjp"].standing is Standing.NOT_APPLICABLE


class OneTangentWrong(Product):
    """Of 600 tangents one is wrong."""

    @staticmethod
    def jvp(ctx: Any, dx: Any, dw: Any) -> Any:
        tangent = Product.jvp(ctx, dx, dw)
        spoilt = torch.zeros_like(tangent)
        spoilt[7, 11] = 1e-3
        return tangent + spoilt


def test_one_wrong_tangent_among_many_is_found() -> None:
    assert regimes(Product.apply, pair(20, 30), ways=["jvp", "jacrev"]).ok
    row = regimes(OneTangentWrong.apply, pair(20, 30), ways=["jvp"])["jvp"]
    assert row.departs
    assert row.element == (7, 11)
    assert row.difference == pytest.approx(1e-3, rel=1e-6)


class BackwardNotBatched(torch.autograd.Function):
    """Its backward looks at a number, and takes another way where vmap gives it many."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * grad * x if bool((grad.abs().sum() > 0).item()) else grad


def test_what_jacrev_batches_is_the_backward() -> None:
    report = regimes(BackwardNotBatched.apply, numbers(3), ways=["vjp", "jacrev"])
    assert report["vjp"].standing is Standing.AGREES
    assert report["jacrev"].standing is Standing.CANNOT_RUN
    assert ".item()" in report["jacrev"].reason


def norm_behind_bias() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Dropout(0.3), nn.Linear(7, 2)).double()


RIGHT: dict[str, tuple[Callable[..., Any], Any]] = {
    "a gradient of zero": (norm_behind_bias(), numbers(6, 5)),
    "float32": (nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)), numbers(3, 6, dtype=torch.float32)),
    "rounding in the middle": (lambda a, b: (a @ b).logsumexp(0), (numbers(20, 30), numbers(30, 10, seed=2))),
    "complex": (lambda z: (z * z.conj() * 2, z.exp()), torch.tensor([0.3 + 1j, -1 + 0.2j]).cdouble().requires_grad_()),
    "containers and counts": (
        lambda d, k: {"y": d["a"] * k + d["b"][0].sum(), "n": torch.arange(3)},
        ({"a": numbers(3), "b": [numbers(2), torch.ones(2)]}, 2.5),
    ),
    "random numbers": (lambda x: nn.functional.dropout(x, 0.5) * x, numbers(40)),
    "a number": (torch.sum, numbers(4)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_depart_in_no_way(name: str) -> None:
    function, inputs = RIGHT[name]
    ways = [way for way in WITHOUT_INDUCTOR if way != "double_backward"]
    report = regimes(function, inputs, ways=ways)
    assert not departing(report), str(report)
    refused = {row.way for row in report.unsettled}
    assert refused == {"complex": {"jacrev"}, "a gradient of zero": {"vmap"}}.get(name, set()), str(report)


def test_other_random_numbers_are_no_departure() -> None:
    """`torch.func` draws the dropout of a transposed tensor in another order."""

    def transposed(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x.transpose(0, 1), 0.3) * 2

    report = regimes(transposed, numbers(4, 8), ways=["checkpoint", *TRANSFORMS])
    assert report.verdict is Verdict.INCONCLUSIVE, str(report)
    assert report["checkpoint"].standing is Standing.AGREES
    assert {row.way for row in report.unsettled} == {*TRANSFORMS}
    assert all("draws random numbers" in report[way].reason for way in TRANSFORMS)


def test_of_many_inputs_each_is_frozen_and_each_alone_needs_a_gradient() -> None:
    class Last(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            return sum(xs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            others = sum(ctx.needs_input_grad) == 3 and not ctx.needs_input_grad[1]
            return tuple(grad * (2 if others and k == 3 else 1) for k in range(4))

    row = regimes(Last.apply, tuple(numbers(2, seed=k) for k in range(4)), ways=["frozen"])["frozen"]
    assert row.departs
    assert row.variation == "input 1 frozen"
    assert "input 3" in row.target


def test_everything_is_left_as_it_was() -> None:
    module = norm_behind_bias()
    outside = nn.Parameter(torch.ones(5, dtype=torch.float64))
    outside.grad = torch.full((5,), 3.0, dtype=torch.float64)
    x = numbers(6, 5)
    x.grad = torch.ones_like(x)

    def function(x: torch.Tensor) -> torch.Tensor:
        return module(x * outside + random.random() + np.random.rand())

    before = {name: value.clone() for name, value in module.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    copy, gradients = x.detach().clone(), (x.grad, outside.grad)
    regimes(function, x, ways=[way for way in WITHOUT_INDUCTOR if way != "double_backward"])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]
    assert torch.equal(x, copy)
    assert x.requires_grad
    assert (x.grad is gradients[0], outside.grad is gradients[1]) == (True, True)
    assert outside.grad.tolist() == [3.0] * 5
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_what_the_user_compiled_stays_compiled() -> None:
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    x = numbers(3)
    own = torch.compile(function, backend=backend)
    own(x)
    regimes(function, x, ways=["compile_aot_eager"])
    own(x)
    assert len(compiled) == 1


def test_a_report_is_a_value_that_renders_itself(tmp_path: Path) -> None:
    right = regimes(torch.sin, numbers(3), ways=["vjp"])
    right.raise_for_failure()
    wrong = regimes(functions.WrongVmap.apply, pair(4, 3), ways=["vmap"])
    for report in (right, wrong):
        assert RegimesReport.from_json(report.to_json()) == report
        assert bool(report) is report.ok
    assert repr(wrong).startswith("<RegimesReport FAIL: WrongVmap.apply, 2 ways, vmap departs: ")
    wrong.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "only input 1 `w` batched" in page
    assert "DEPARTS" in page
    with pytest.raises(RegimesFailedError, match="first to depart  vmap") as caught:
        wrong.raise_for_failure()
    assert caught.value.regimes is wrong
    assert isinstance(caught.value, CheckFailedError)
    with pytest.raises(ValueError, match="not a document"):
        RegimesReport.from_json("{}")
    with pytest.raises(KeyError):
        right["vmap"]


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown way 'jit' in ways"):
        regimes(torch.sin, numbers(3), ways=["jit"])
    with pytest.raises(ValueError, match="cannot be allowed to fail"):
        regimes(torch.sin, numbers(3), allow="eager")
    with pytest.raises(ValueError, match="require gradient"):
        regimes(torch.sin, torch.ones(3))
    with pytest.raises(TypeError, match="a function or a module"):
        regimes(3, numbers(3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="strided"):
        regimes(torch.sin, torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_())


def test_the_checks_inside_are_no_checks_of_a_test_run() -> None:
    from gradproof.engine import observers

    seen: list[Any] = []
    observers.append(seen.append)
    try:
        regimes(torch.sin, numbers(3), ways=["double_backward"])
        assert seen == []
        assert seen.append in observers
    finally:
        observers.remove(seen.append)


def test_the_names_are_those_of_the_ways() -> None:
    assert gradproof.regimes.NAMES[:2] == ("eager", "double_backward")
    assert len(set(NAMES)) == len(NAMES) == 13


def test_the_page_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "regimes.md").read_text(encoding="utf-8")
    ((example, shown),) = re.findall(r"```python\n((?:(?!```).)*?)```\n\nprints\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "regimes.md", "exec"), {})
    assert re.sub(r"\d+\.\d+ s;", "… s;", capsys.readouterr().out) == shown


def test_the_page_names_every_way() -> None:
    page = (Path(__file__).parents[1] / "docs" / "regimes.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in NAMES)


def test_a_tensor_that_the_function_writes_to_is_not_rounded_with_the_results() -> None:
    weight = torch.rand(4, dtype=torch.float64)
    before = weight.clone()

    def function(x: torch.Tensor) -> torch.Tensor:
        weight.data.mul_(1)
        return (x * weight).sin()

    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert regimes(function, x, ways=["autocast", "checkpoint"]).ok
    assert torch.equal(weight, before)
