"""Second derivatives: check(order=2), and gradgradcheck of nested and sparse inputs."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from functions import custom, numbers
from sparse_functions import LAYOUTS, STORED, sparse

import gradproof
from gradproof import Verdict
from gradproof.core.status import Status
from gradproof.torch import GradcheckError, as_sparse_gradcheck, gradgradcheck

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
both_masks = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
both_modes = pytest.mark.parametrize("fast_mode", [False, True], ids=["entries", "probes"])

constant_square = custom(lambda x: x * x, lambda s, g: 2 * s[0].detach() * g)
"""The first derivative is right; to differentiate it again finds no x in it."""


# check(order=2)


@pytest.mark.parametrize("strategy", ["entries", "probes"])
def test_a_right_second_derivative_passes_in_both_modes(strategy: str) -> None:
    report = gradproof.check(
        lambda x, y: (x**3 * y).sin(), (numbers(4), numbers(4, seed=1)), order=2, strategy=strategy
    )
    assert report, str(report)
    assert [mode.value for mode in report.modes] == ["reverse", "forward"]
    assert report.entries == 4 * 8 + 8 * 12
    assert report.certificate is not None
    assert [str(about) for about, _ in report.certificate.smallest] == [
        "input 0 `x`",
        "input 1 `y`",
        "input 0 `x`, second order",
        "input 1 `y`, second order",
        "input 2 `grad_outputs[0]`, second order",
    ]


@pytest.mark.parametrize("strategy", ["entries", "probes"])
def test_a_wrong_second_derivative_is_placed(strategy: str) -> None:
    assert gradproof.check(constant_square, numbers(4))
    report = gradproof.check(constant_square, numbers(4), order=2, strategy=strategy)
    finding = report.findings[0]
    assert (finding.property, finding.status, finding.input, finding.output) == ("jacobian", Status.WRONG, 0, 0)
    assert finding.input_element == finding.output_element
    assert finding.message.startswith("Second order: Jacobian mismatch for output 0 `gradient of input 0` with respect")


def test_a_wrong_first_derivative_is_found_too() -> None:
    report = gradproof.check(lambda x: x * x.detach(), numbers(3), order=2)
    assert any(not finding.message.startswith("Second order") for finding in report.findings)


def test_forward_over_reverse_is_compared() -> None:
    class Square(torch.autograd.Function):
        """Its backward is right, and so is that of its backward, but not the backward's forward mode."""

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *g: Any) -> Any:
            return product(ctx.saved_tensors[0], g[0])

        @staticmethod
        def jvp(ctx: Any, *t: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * t[0]

    product = custom(
        lambda x, g: 2 * x * g,
        lambda s, h: (2 * s[1] * h, 2 * s[0] * h),
        lambda s, t, u: 2 * s[1] * t + (2 * s[0] * u if u is not None else 0) + t,
    )
    x = numbers(3)
    assert gradproof.check(Square.apply, x)
    assert gradproof.check(Square.apply, x, order=2, modes="reverse")
    report = gradproof.check(Square.apply, x, order=2)
    finding = report.findings[0]
    assert "Second order: Jacobian mismatch in forward mode" in finding.message
    assert (finding.input, finding.output) == (0, 0)


def test_the_hessian_of_a_scalar_function_is_symmetric() -> None:
    weight = torch.triu(numbers(4, 4).detach())
    right = custom(lambda x: x @ weight @ x, lambda s, g: g * (s[0] @ (weight + weight.mT)))
    skewed = custom(lambda x: x @ weight @ x, lambda s, g: 2 * g * (weight @ s[0]))
    assert gradproof.check(right, numbers(4), order=2, properties=["symmetry"])
    report = gradproof.check(skewed, numbers(4), order=2, properties=["symmetry"])
    (finding,) = report.findings
    assert (finding.property, finding.status) == ("symmetry", Status.WRONG)
    assert finding.input_element != finding.output_element
    assert "Second order: The Hessian is not symmetric" in finding.message


@both_masks
def test_the_hessian_of_a_scalar_function_of_a_sparse_tensor(masked: bool) -> None:
    factor = torch.arange(24.0, dtype=torch.float64).reshape(4, 6)
    skewed = custom(lambda x: (x.sum() ** 2) / 2, lambda s, g: g * factor * s[0].sum())

    def function(s: torch.Tensor) -> torch.Tensor:
        return (s.to_dense(masked_grad=masked) ** 3).sum()

    names = ["jacobian", "symmetry"]
    assert gradproof.check(function, sparse("csr"), order=2, masked=masked, properties=names)
    wrong = gradproof.check(
        lambda s: skewed(s.to_dense(masked_grad=masked)), sparse("csr"), order=2, masked=masked, properties=["symmetry"]
    )
    (finding,) = wrong.findings
    assert "specified)" in finding.message


def test_no_symmetry_is_asked_of_several_or_complex_numbers() -> None:
    functions = [lambda x: x[:2] ** 3, lambda x: (x.sum() ** 2, x.sum()), lambda x: (x * (1 + 2j)).sum() ** 2]
    for function in functions:
        report = gradproof.check(function, numbers(3), order=2)
        assert report, str(report)


def test_complex_inputs_keyword_arguments_and_nested_ones() -> None:
    z, w = numbers(3, dtype=torch.complex128), numbers(3, seed=1)
    assert gradproof.check(lambda z: (z * z.conj()).real.sum(), z, order=2)
    report = gradproof.check(lambda p, w: p["a"][0] ** 2 * w, ({"a": [numbers(3)]},), {"w": w}, order=2)
    assert report, str(report)
    assert report.entries == 3 * 6 + 6 * 9
    wrong = gradproof.check(lambda p, w: constant_square(p["a"][0]) * w, ({"a": [numbers(3)]},), {"w": w}, order=2)
    assert "`gradient of p['a'][0]` with respect to input 0 `p['a'][0]`" in str(wrong)


def test_an_order_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        gradproof.check(torch.sin, numbers(3), order=3)


def test_what_cannot_be_differentiated_twice_is_reported() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g[0]

    assert gradproof.check(Once.apply, numbers(3))
    report = gradproof.check(Once.apply, numbers(3), order=2)
    assert (report.findings[0].status, report.findings[0].analytic) == (Status.WRONG, 0.0)


def test_the_budget_is_for_both_orders() -> None:
    spent = gradproof.check(torch.sin, numbers(3), strategy="entries").cost.evaluations
    report = gradproof.check(torch.sin, numbers(3), order=2, strategy="entries", budget=spent + 3)
    assert report.verdict is gradproof.Verdict.INCONCLUSIVE
    assert all(finding.message.startswith("Second order: The budget") for finding in report.findings)


# nested inputs of gradgradcheck, and manners


@both_modes
def test_gradgradcheck_of_nested_inputs(fast_mode: bool) -> None:
    nested, plain = (numbers(3), {"w": numbers(3, seed=1)}), numbers(3, seed=2)
    assert gradgradcheck(lambda n, x: n[0] ** 2 * n[1]["w"] * x, (nested, plain), fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match=r"input 0 `n\[1\]\['w'\]`"):
        gradgradcheck(lambda n, x: constant_square(n[1]["w"]) * x, (nested, plain), fast_mode=fast_mode)


@pytest.mark.parametrize("layout", [None, *LAYOUTS])
@both_masks
def test_what_the_first_call_does_to_its_inputs_is_undone(layout: str | None, masked: bool) -> None:
    x = numbers(3, 2) if layout is None else sparse(layout)
    before = x.detach().clone().to_dense() if layout else x.detach().clone()

    def function(x: torch.Tensor) -> torch.Tensor:
        values = x.data if layout is None else x.data._values() if layout == "coo" else x.data.values()
        values.mul_(2)
        raise KeyError("user")

    with pytest.raises(KeyError):
        gradgradcheck(function, x, masked=masked)
    assert torch.equal(x.detach().to_dense() if layout else x.detach(), before)
    report = gradproof.check(function, x, order=2, masked=masked)
    assert report.findings[0].status is Status.RAISED
    assert torch.equal(x.detach().to_dense() if layout else x.detach(), before)


# sparse


@every_layout
@both_masks
@both_modes
def test_gradgradcheck_of_sparse_inputs(layout: str, masked: bool, fast_mode: bool) -> None:
    def function(s: torch.Tensor) -> torch.Tensor:
        return s.to_dense(masked_grad=masked) ** 3

    assert gradgradcheck(function, sparse(layout), masked=masked, fast_mode=fast_mode)


@every_layout
@both_masks
@both_modes
def test_a_wrong_second_derivative_of_a_sparse_input_is_named(layout: str, masked: bool, fast_mode: bool) -> None:
    factor = torch.ones(4, 6, dtype=torch.float64)
    factor[STORED] = 1.5
    gradient = custom(lambda x, g: 2 * x * g, lambda s, h: (2 * s[1] * h * factor, 2 * s[0] * h))
    square = custom(lambda x: x * x, lambda s, g: gradient(s[0], g))

    def function(s: torch.Tensor) -> torch.Tensor:
        return square(s.to_dense(masked_grad=masked))

    with pytest.raises(GradcheckError) as caught:
        gradgradcheck(function, sparse(layout), masked=masked, fast_mode=fast_mode)
    (finding,) = caught.value.findings
    assert (finding.input, finding.input_element) == (0, STORED)
    assert "element [2, 1] (specified)" in finding.message


@every_layout
@both_masks
def test_as_sparse_gradcheck_of_gradgradcheck(layout: str, masked: bool) -> None:
    check = as_sparse_gradcheck(functools.partial(gradgradcheck, fast_mode=True))
    assert check(lambda s: s.to_dense() ** 3, sparse(layout), masked=masked)
    assert check(lambda s: s * 2, sparse(layout), masked=masked)
    assert not check(lambda s: constant_square(s.to_dense()), sparse(layout), masked=masked, raise_exception=False)


def test_as_sparse_gradcheck_takes_sparse_grad_outputs() -> None:
    x, v = sparse("coo"), sparse("coo")
    check = as_sparse_gradcheck(gradgradcheck)
    dense = v.detach().to_dense().requires_grad_()
    assert check(lambda s: s * s, x, dense, masked=True)
    assert check(lambda s: s * s, x, grad_outputs=v.detach(), masked=True)


@pytest.mark.parametrize("raise_exception", [False, True])
def test_what_torch_lacks_is_named(raise_exception: bool) -> None:
    dense = numbers(6, 2)
    with pytest.raises(NotImplementedError, match=r"torch has no second derivative .*sparse_csr .*SparseAddmm"):
        gradgradcheck(lambda s: torch.sparse.mm(s, dense), sparse("csr"), masked=True, raise_exception=raise_exception)
    report = gradproof.check(lambda s: torch.sparse.mm(s, dense.detach()), sparse("csr"), masked=True, order=2)
    assert "torch has no second derivative" in report.findings[0].message


def test_an_error_of_the_functions_own_is_not_blamed_on_torch() -> None:
    def backward(saved: Any, g: torch.Tensor) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$"):
        gradgradcheck(custom(lambda s: s.to_dense(), backward), sparse("csr"), masked=True)


def test_plain_gradgradcheck_refuses_sparse_outputs() -> None:
    with pytest.raises(ValueError, match="Sparse output"):
        gradgradcheck(lambda s: s * 2, sparse("coo"), masked=True)


def test_statistics_of_a_batch_norm_are_as_before() -> None:
    module = torch.nn.BatchNorm1d(3).double()
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(module, x)
    assert module.num_batches_tracked is not None
    assert module.num_batches_tracked.item() == 0
    assert module.running_mean is not None
    assert not module.running_mean.any()


def test_views_among_the_outputs_alias_nothing() -> None:
    def views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.sin()
        return y, y.view(-1)

    assert gradgradcheck(views, torch.rand(3, 2, dtype=torch.float64, requires_grad=True))


def test_the_table_has_the_pairs_of_the_second_order() -> None:
    """The first derivative is right, the second has half of what it should."""

    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, g)
            return 3 * g * x**2

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            x, g = ctx.saved_tensors
            return 3 * grads[0] * g * x, 3 * grads[0] * x**2

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return Slope.apply(ctx.saved_tensors[0], grads[0])

    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    report = gradproof.check(Cube.apply, x, order=2)
    assert report.verdict is Verdict.FAIL
    told = [(pair.output_label, pair.status) for pair in report.pairs]
    assert told[0] == ("output 0 `gradient of x`, second order", Status.WRONG)
    assert ("output 0", Status.RIGHT) in told
    assert all(pair.output_label.endswith("second order") == (pair.order == 2) for pair in report.pairs)
    assert "output 0 `gradient of x`, second order" in str(report)
    assert ", second order: " in repr(report)
    assert report.findings[0].order == 2
    assert gradproof.Report.from_json(report.to_json()).findings[0].order == 2
    large = gradproof.check(Cube.apply, torch.rand(900, dtype=torch.float64, requires_grad=True), order=2)
    assert large.findings[0].located
    assert [pair.status for pair in large.pairs if pair.order == 1] == [Status.RIGHT]
    assert gradproof.Report.from_json(report.to_json()).pairs == report.pairs
    right = gradproof.check(torch.sin, x, order=2)
    assert right.verdict is Verdict.PASS
    assert [pair.status for pair in right.pairs] == [Status.RIGHT] * 3
