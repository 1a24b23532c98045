"""Kernels that write to their inputs, to grad_output or to what they saved: named, and judged when called once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Report, Verdict, check
from gradproof.torch import GradcheckError, compare, gradcheck

RIGHT_ONCE = "values are right when called once"
TARGETS = torch.tensor([0, 3, 1])


def cross_entropy(factor: float = 1.0) -> Any:
    """The gradient is written over the logits in forward, and scaled in place in backward, unless by 1."""

    class FusedCrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            rows = torch.arange(len(target))
            logits = x.data
            loss = (torch.logsumexp(logits, -1) - logits[rows, target]).mean()
            gradient = torch.softmax(logits, -1)
            gradient[rows, target] -= 1
            logits.copy_(factor * gradient / len(target))
            ctx.save_for_backward(x.detach())
            return loss

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
            (gradient,) = ctx.saved_tensors
            if cotangent != 1:
                gradient.mul_(cotangent)
            return gradient, None

    return FusedCrossEntropy.apply


def consuming(factor: float = 2.0, *, attribute: bool = False, forgets: bool = False) -> Any:
    """x² with the gradient made in forward, and used up in backward."""

    class Consuming(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if attribute:
                ctx.kept = {"gradients": [factor * x]}
            else:
                ctx.save_for_backward(factor * x)
            return x * x

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            if forgets:
                return ctx.kept.pop("gradients")[0] * cotangent
            gradient = (
                ctx.kept["gradients"][0] if attribute else ctx.saved_tensors[0].data
            )  # as a kernel writes: unseen by torch
            return gradient.mul_(cotangent)

    return Consuming.apply


def in_backward(factor: float = 2.0) -> Any:
    """x², where backward writes the gradient over the input."""
    return custom(lambda x: x * x, lambda s, g: s[0].mul_(factor * g))


def on_cotangent(factor: float = 2.0) -> Any:
    """x², where backward works in place on grad_output."""
    return custom(lambda x: x * x, lambda s, g: g.mul_(factor * s[0]))


def rotating(factor: float = 1.0) -> Any:
    """A rotation written over the input, which is returned; backward turns grad_output back in place."""

    def turn(x: torch.Tensor, sine: float) -> None:
        left, right = x[..., ::2].clone(), x[..., 1::2].clone()
        x[..., ::2], x[..., 1::2] = 0.8 * left - sine * right, sine * left + 0.8 * right

    class Rotating(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            turn(x.data, 0.6)
            return x

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            cotangent = cotangent.contiguous()
            turn(cotangent, -0.6 * factor)
            return cotangent

    return Rotating.apply


def found(report: Report) -> list[str]:
    return [finding.property for finding in report.findings]


WAYS = {
    "saved": consuming(),
    "attribute": consuming(attribute=True),
    "forgotten": consuming(attribute=True, forgets=True),
    "input": in_backward(),
}
BESIDE = {**WAYS, "cotangent": on_cotangent()}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_consumed_by_design_is_named_and_its_values_are_right(
    way: str, strategy: str, dtype: torch.dtype
) -> None:
    x = numbers(3, 4, dtype=dtype)
    before = x.detach().clone()
    report = check(WAYS[way], x, strategy=strategy)
    assert report.verdict is Verdict.FAIL
    assert set(found(report)) <= {"mutation", "aliasing"}, str(report)
    assert found(report)[0] == "mutation"
    assert RIGHT_ONCE in report.findings[0].headline
    assert "seed" not in report.findings[0].hint
    assert torch.equal(x, before)
    assert check(WAYS[way], x, strategy=strategy, allow=("mutation", "aliasing")).verdict is Verdict.PASS


def test_work_in_place_on_the_cotangent_shows_in_its_layout_too() -> None:
    """Memory that y.sum().backward() hands out cannot be written to: that is no value that is right."""
    report = check(on_cotangent(), numbers(3, 4))
    assert set(found(report)) == {"mutation", "layout"}
    assert found(report)[0] == "mutation"
    assert RIGHT_ONCE not in str(report)
    assert check(on_cotangent(), numbers(3, 4), allow=("mutation", "layout")).ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_a_fused_cross_entropy_is_right_but_for_what_it_overwrites(strategy: str, dtype: torch.dtype) -> None:
    x = numbers(3, 4, dtype=dtype)
    report = check(cross_entropy(), (x, TARGETS), strategy=strategy)
    assert set(found(report)) == {"mutation", "aliasing"}, str(report)
    assert report.findings[0].message.startswith("The function overwrote input 0")
    assert RIGHT_ONCE in str(report).split("hint")[0]
    assert "seed inside" not in str(report)
    allowed = check(cross_entropy(), (x, TARGETS), strategy=strategy, allow=("mutation", "aliasing"))
    assert allowed.verdict is Verdict.PASS
    notes = [note for note in allowed.notes if note.startswith("allowed: mutation: The function overwrote input 0")]
    assert len(notes) == 1
    assert RIGHT_ONCE in notes[0]


@pytest.mark.parametrize(
    "wrong", [consuming(3.0), consuming(3.0, attribute=True), in_backward(3.0), on_cotangent(3.0)], ids=str
)
def test_a_wrong_factor_is_found_beside_the_mutation(wrong: Any) -> None:
    report = check(wrong, numbers(3, 4), allow=("mutation", "aliasing"))
    assert "jacobian" in found(report)
    entry = next(f for f in report.findings if f.property == "jacobian").entries[0]
    assert entry.ratio == pytest.approx(1.5)
    report = check(wrong, numbers(3, 4))
    assert {"mutation", "jacobian"} <= set(found(report))
    assert found(report)[0] == "mutation"
    assert RIGHT_ONCE not in str(report)


def test_a_wrong_cross_entropy_is_found() -> None:
    report = check(cross_entropy(1.5), (numbers(3, 4), TARGETS), allow=("mutation", "aliasing"))
    assert found(report) == ["jacobian"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_an_output_in_the_memory_of_an_input(strategy: str, dtype: torch.dtype) -> None:
    x = numbers(3, 4, dtype=dtype)
    report = check(rotating(), x, strategy=strategy)
    assert found(report)[0] == "mutation"
    assert set(found(report)) == {"mutation"}, str(report)
    assert RIGHT_ONCE in report.findings[0].headline
    wrong = check(rotating(-1.0), x, strategy=strategy, allow="mutation")
    assert found(wrong) == ["jacobian"], str(wrong)


def test_second_derivatives_of_what_is_consumed() -> None:
    """What is saved has no graph: the first derivative is right, the second is lost."""
    (finding,) = check(consuming(), numbers(3), order=2, allow="mutation").findings
    assert finding.headline.startswith("Second order: Jacobian mismatch")


def test_room_to_work_in_is_no_mutation() -> None:
    class Working(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.room = torch.empty_like(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            return torch.mul(2 * ctx.saved_tensors[0], cotangent, out=ctx.room).clone()

    assert check(Working.apply, numbers(3, 4)).ok


def reusing(factor: float = 1.0, *, copies: bool = False) -> Any:
    """sin, with one buffer for the gradients of all calls."""
    buffers: dict[tuple[torch.Size, torch.dtype], torch.Tensor] = {}

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        buffer = buffers.setdefault((g.shape, g.dtype), torch.empty_like(g))
        torch.mul(g, factor * saved[0].cos(), out=buffer)
        return buffer.clone() if copies else buffer

    return custom(torch.sin, backward)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_a_buffer_that_the_next_backward_writes_to_again(strategy: str, dtype: torch.dtype) -> None:
    """A Jacobian of its rows, as `torch.autograd.grad` returns them, is the last row in all of them."""
    x = numbers(3, 4, dtype=dtype)
    (finding,) = check(reusing(), x, strategy=strategy).findings
    assert (finding.property, finding.kind, finding.input) == ("aliasing", "reused", 0)
    assert check(reusing(), x, strategy=strategy, allow="aliasing").ok
    assert check(reusing(copies=True), x, strategy=strategy).ok
    assert "jacobian" in found(check(reusing(1.5), x, strategy=strategy))


@pytest.mark.parametrize("size", [2**15, 2**15 + 1, 2**17])
def test_so_does_one_of_many_numbers(size: int) -> None:
    x = numbers(size)
    (finding,) = check(reusing(), x).findings
    assert (finding.property, finding.kind, finding.input) == ("aliasing", "reused", 0)
    assert check(reusing(copies=True), x).ok


def test_a_gradient_that_was_made_in_forward_may_be_returned_as_it_is() -> None:
    """So do fused losses where the cotangent is 1: nobody writes to it."""

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(2 * x)
            return (x * x).sum()

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            (gradient,) = ctx.saved_tensors
            return gradient if cotangent == 1 else gradient * cotangent

    for dtype in (torch.float64, torch.float32):
        assert check(Loss.apply, numbers(3, 4, dtype=dtype)).ok


def test_calls_for_new_graphs_are_counted_and_bounded() -> None:
    calls = 0

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return consuming()(x)

    report = check(counted, numbers(5), modes="reverse")
    assert calls == report.cost.evaluations
    for budget in range(1, calls):
        calls = 0
        report = check(counted, numbers(5), modes="reverse", budget=budget)
        assert calls <= budget
        assert "mutation" in found(report), budget  # known from the first vjp
        assert RIGHT_ONCE not in str(report)


def test_gradcheck_names_the_mutation() -> None:
    with pytest.raises(GradcheckError, match="overwrote a tensor that Consuming saved for backward"):
        gradcheck(consuming(), (numbers(3),))


@pytest.mark.parametrize("name", ["mutations", "Mutation", ""])
def test_a_misspelt_allowance_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown properties .* in allow: choose from .*mutation"):
        check(torch.sin, numbers(3), allow=(name,))
    with pytest.raises(ValueError, match=r"unknown properties .* in allow: choose from .*mutation"):
        compare(torch.sin, torch.sin, numbers(3), allow=name)


def test_what_is_allowed_hides_nothing_else_and_no_exception() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("mine")

    assert not check(raising, numbers(3), allow=("jacobian", "mutation")).ok
    assert not check(custom(lambda x: x * x, lambda s, g: 3 * s[0] * g), numbers(3), allow="mutation").ok


# compare


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("way", BESIDE)
def test_a_kernel_that_works_in_place_does_not_corrupt_the_reference(way: str, dtype: torch.dtype) -> None:
    x = numbers(3, 4, dtype=dtype)
    before = x.detach().clone()
    report = compare(BESIDE[way], lambda x: x * x, x)
    assert "compare" not in found(report), str(report)
    assert compare(BESIDE[way], lambda x: x * x, x, allow="mutation").ok
    if way not in ("attribute", "forgotten"):  # what is its own, compare does not see: it asks once
        assert found(report)[0] == "mutation"
        assert RIGHT_ONCE in report.findings[0].headline
    assert torch.equal(x, before)


@pytest.mark.parametrize("wrong", [consuming(3.0), in_backward(3.0), on_cotangent(3.0)], ids=str)
def test_a_wrong_kernel_that_works_in_place_is_found(wrong: Any) -> None:
    report = compare(wrong, lambda x: x * x, numbers(3, 4), allow="mutation")
    assert found(report) == ["compare"]
    assert report.findings[0].analytic == pytest.approx(1.5 * report.findings[0].numeric)
    assert RIGHT_ONCE not in str(report)


@pytest.mark.parametrize("way", BESIDE)
def test_a_reference_may_work_in_place(way: str) -> None:
    assert compare(lambda x: x * x, BESIDE[way], numbers(3, 4)).ok
    assert compare(lambda x: x * x, BESIDE[way], numbers(3, 4, dtype=torch.float32)).ok


def test_a_fused_cross_entropy_compares() -> None:
    x, reference = numbers(3, 4), torch.nn.functional.cross_entropy
    assert compare(cross_entropy(), reference, (x, TARGETS), allow="mutation").ok
    assert found(compare(cross_entropy(1.01), reference, (x, TARGETS), allow="mutation")) == ["compare"]


def rounded(bits: int) -> Any:
    """A product of matrices that rounds what it multiplies, as tensor cores do."""

    def rounds(x: torch.Tensor) -> torch.Tensor:
        mantissa, exponent = torch.frexp(x)
        return torch.ldexp((mantissa * 2**bits).round() / 2**bits, exponent)

    return custom(
        lambda a, b: rounds(a) @ rounds(b),
        lambda s, g: (rounds(g) @ rounds(s[1]).mT, rounds(s[0]).mT @ rounds(g)),
    )


def test_precision_inside_can_be_said() -> None:
    a, b = numbers(4, 6, dtype=torch.float32), numbers(6, 5, dtype=torch.float32, seed=1)
    assert found(compare(rounded(11), torch.matmul, (a, b))) == ["compare"] * 3
    assert compare(rounded(11), torch.matmul, (a, b), precision="tfloat32").ok
    assert compare(rounded(8), torch.matmul, (a, b), precision=torch.bfloat16).ok
    wrong = custom(torch.matmul, lambda s, g: (g @ s[1].mT, 1.5 * s[0].mT @ g))
    assert found(compare(wrong, torch.matmul, (a, b), precision="tfloat32")) == ["compare"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(4, 5), (16, 33)])
def test_a_common_factor_is_no_round_off(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Each number may be off by more than that."""
    factor = 1.0 + 6 * torch.finfo(dtype).eps
    x = numbers(*shape, dtype=dtype)
    right = custom(lambda x: x.float().sin().to(dtype), lambda s, g: (g * s[0].float().cos()).to(dtype))
    wrong = custom(
        lambda x: x.float().sin().to(dtype), lambda s, g: (factor * g.float() * s[0].float().cos()).to(dtype)
    )
    assert compare(right, torch.sin, x).ok
    (finding,) = compare(wrong, torch.sin, x).findings
    assert (finding.property, finding.kind, finding.input) == ("compare", "factor", 0)
    assert f"is {factor:.3g}"[:6] in finding.headline
    assert compare(wrong, torch.sin, x, rtol=0.2, atol=1e-2).ok


def test_a_precision_inside_that_was_not_said_is_asked_about() -> None:
    x = numbers(4, 5)
    single = custom(lambda x: x.float().sin().double(), lambda s, g: (g.float() * s[0].float().cos()).double())
    report = compare(single, torch.sin, x)
    assert all("if the function or the reference computes in float32 inside" in f.hint for f in report.findings)
    assert compare(single, torch.sin, x, precision="float32").ok
    wrong = custom(torch.sin, lambda s, g: 1.3 * g * s[0].cos())
    assert [f.hint for f in compare(wrong, torch.sin, x).findings] == [""]


def test_tolerances_can_be_said() -> None:
    x = numbers(5)

    def off(x: torch.Tensor) -> torch.Tensor:
        return 1.001 * x

    assert found(compare(off, lambda x: 1.0 * x, x)) == ["compare", "compare"]
    assert compare(off, lambda x: 1.0 * x, x, rtol=2e-3).ok
    assert compare(off, lambda x: 1.0 * x, x, atol=2e-3).ok
    report = compare(off, lambda x: 1.0 * x, x, atol=1e-4, rtol=1e-4)
    assert found(report) == ["compare", "compare"]
    assert report.findings[0].allowed == pytest.approx(2e-4, rel=0.6)
    with pytest.raises(ValueError, match="atol must be a finite number >= 0"):
        compare(off, off, x, atol=-1.0)
    with pytest.raises(ValueError, match="rtol must be a finite number >= 0"):
        compare(off, off, x, rtol=float("inf"))
    with pytest.raises(ValueError, match="unknown precision 'float99'"):
        compare(off, off, x, precision="float99")


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_missing_term_is_no_round_off(dtype: torch.dtype, seed: int) -> None:
    """It is 6 % of the gradient."""

    def backward(s: Any, g: torch.Tensor, term: float) -> torch.Tensor:
        x, g = s[0].float(), g.float()
        inverse = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        return (inverse * (g - term * inverse**2 * x * (g * x).mean(-1, keepdim=True))).to(dtype)

    x = numbers(16, 256, dtype=dtype, seed=seed)
    right, wrong = (custom(rms_norm, lambda s, g, term=term: backward(s, g, term)) for term in (1.0, 0.0))
    assert compare(right, rms_norm, x).ok
    assert [(finding.property, finding.input) for finding in compare(wrong, rms_norm, x).findings] == [("compare", 0)]


@pytest.mark.parametrize("seed", range(8))
def test_a_reference_in_double_precision_has_round_off_of_its_own(seed: int) -> None:
    x = torch.randn(8, 100, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    assert compare(lambda x: x.exp().sum(-1).log(), lambda x: x.logsumexp(-1), x).ok
    assert not compare(lambda x: (1 + 1e-14) * x.exp().sum(-1).log(), lambda x: x.logsumexp(-1), x).ok
