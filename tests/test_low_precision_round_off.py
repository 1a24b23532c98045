"""Round-off inside low precision: what it explains passes, and what it does not fails, with a twin and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import gradproof
from gradproof import engine
from gradproof.backends.torch.derivative.round_off import RandomRounding
from gradproof.core.capabilities import Batching
from gradproof.results.report import Report, Verdict

Inputs = tuple[torch.Tensor, ...]
Function = Callable[..., torch.Tensor]
HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64


def drawn(*shape: int, dtype: torch.dtype = SINGLE, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(shape, generator=generator)).to(dtype).requires_grad_()


def spoiled(function: Function, spoil: Callable[[torch.Tensor], torch.Tensor], low_only: bool = False) -> Function:
    """The function with the gradient of its first input spoiled, in low precision only or in all."""

    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(*inputs)
            return function(*inputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            with torch.enable_grad():
                first, *others = torch.autograd.grad(function(*inputs), inputs, cotangents)
            return (first if low_only and first.dtype is DOUBLE else spoil(first), *others)

    return Spoiled.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def one_kernel(function: Function, spoil: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Function:
    """A kernel that refuses float64, so that there is no twin; its last gradient is spoiled."""

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            if any(tensor.dtype is DOUBLE for tensor in inputs):
                raise TypeError("for half precision only")
            ctx.save_for_backward(*inputs)
            return function(*inputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            with torch.enable_grad():
                *others, last = torch.autograd.grad(function(*inputs), inputs, cotangents)
            return (*others, last if spoil is None else spoil(last))

    return Kernel.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (20.0 * (q @ k.T)).softmax(-1) @ v


ILL_CONDITIONED: dict[str, tuple[Function, Callable[[int], Inputs]]] = {
    "softmax with a gap": (
        lambda x: x.softmax(-1),
        lambda seed: (torch.tensor([0.0, 12.0, 0.3 + seed / 8], requires_grad=True),),
    ),
    "sharp softmax": (lambda x: (60 * x).softmax(-1), lambda seed: (drawn(5, 7, seed=seed),)),
    "sharp attention": (
        attention,
        lambda seed: (drawn(6, 8, seed=seed), drawn(7, 8, seed=seed + 50), drawn(7, 4, seed=seed + 90)),
    ),
    "sharp cross entropy": (
        lambda x: F.cross_entropy(30 * x, torch.arange(6), reduction="none"),
        lambda seed: (drawn(6, 9, seed=seed),),
    ),
    "sort": (lambda x: x.sort().values, lambda seed: (drawn(1500, seed=seed),)),
    "top k": (lambda x: x.topk(300).values, lambda seed: (drawn(1200, seed=seed),)),
    "high frequency": (lambda x: (1e4 * x).sin(), lambda seed: (drawn(40, seed=seed),)),
    "high frequency in half": (lambda x: (100 * x).cos(), lambda seed: (drawn(60, dtype=HALF, seed=seed),)),
    "sigmoid far out": (lambda x: torch.sigmoid(12 * x), lambda seed: (drawn(30, seed=seed),)),
    "large exp in half": (
        lambda x: (10 * x).exp(),
        lambda seed: ((0.1 + 0.9 * drawn(30, seed=seed).detach().sigmoid()).to(HALF).requires_grad_(),),
    ),
    "layer norm in brain": (
        lambda x: F.layer_norm(x, (16,)),
        lambda seed: (drawn(4, 16, dtype=BRAIN, seed=seed, scale=8.0),),
    ),
    "log-sum-exp in half": (lambda x: (20 * x).logsumexp(-1), lambda seed: (drawn(5, 8, dtype=HALF, seed=seed),)),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ILL_CONDITIONED)
def test_what_round_off_explains_passes(name: str, seed: int) -> None:
    function, inputs = ILL_CONDITIONED[name]
    report = gradproof.check(function, inputs(seed), seed=seed)
    assert report.ok, str(report)


WRONGS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "1.1 times": lambda g: 1.1 * g,
    "the other sign": lambda g: -g,
    "the largest doubled": lambda g: torch.where(g.abs() == g.abs().max(), 2 * g, g),
}


@pytest.mark.parametrize("low_only", [False, True])
@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("name", [name for name in ILL_CONDITIONED if name not in ("large exp in half",)])
def test_what_it_does_not_explain_fails(name: str, wrong: str, low_only: bool) -> None:
    function, inputs = ILL_CONDITIONED[name]
    report = gradproof.check(spoiled(function, WRONGS[wrong], low_only), inputs(1), modes=("reverse",))
    blurred = name == "high frequency in half" or (name == "layer norm in brain" and low_only)
    expected = (Verdict.FAIL, Verdict.INCONCLUSIVE) if blurred else (Verdict.FAIL,)
    assert report.verdict in expected, str(report)


def test_a_number_too_large_for_half_precision_breaks_no_law() -> None:
    """1 / x**2 exceeds 65504 for some elements: the answer is infinite for a whole cotangent, and finite for a part."""
    x = (torch.linspace(0.003, 1.0, 60)).to(HALF).requires_grad_()
    report = gradproof.check(lambda x: 1 / x, (x,), modes=("reverse",))
    assert report.verdict is not Verdict.FAIL, str(report)
    wrong = gradproof.check(spoiled(lambda x: 1 / x, lambda g: g.abs()), (x,), modes=("reverse",))
    assert wrong.verdict is Verdict.FAIL


def second_order(function: Function, *inputs: torch.Tensor) -> Report:
    return gradproof.check(function, inputs, order=2)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_a_bias_before_a_norm_passes_at_second_order(dtype: torch.dtype) -> None:
    """Its gradient is zero but for round-off, and so is what it changes by."""

    def normed(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(F.linear(x, w, b), None, None, training=True)

    inputs = drawn(6, 5, dtype=dtype), drawn(4, 5, dtype=dtype, seed=1), drawn(4, dtype=dtype, seed=2)
    report = second_order(normed, *inputs)
    assert report.ok, str(report)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_shift_before_softmax_passes_at_second_order(seed: int) -> None:
    x, b = drawn(4, 8, dtype=DOUBLE, seed=seed), drawn(4, 1, dtype=DOUBLE, seed=seed + 5)
    report = second_order(lambda x, b: (x + b).softmax(-1), x, b)
    assert report.ok, str(report)


def test_a_second_derivative_that_should_be_zero_and_is_not_fails() -> None:
    class Shift(torch.autograd.Function):
        """x + b, whose gradient for b (the sum of the cotangent) says at second order that it depends on 3 times it."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return x + b

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
            (v,) = cotangents
            return v, v.sum(-1, keepdim=True).detach() + 3 * (v - v.detach()).sum(-1, keepdim=True)

    x, b = drawn(4, 8, dtype=DOUBLE), drawn(4, 1, dtype=DOUBLE, seed=5)
    report = second_order(lambda x, b: Shift.apply(x, b).softmax(-1), x, b)  # pyright: ignore[reportUnknownMemberType]
    assert report.verdict is Verdict.PASS  # three times zero is zero
    report = second_order(lambda x, b: Shift.apply(x, b).sin(), x, b)  # pyright: ignore[reportUnknownMemberType]
    assert report.verdict is Verdict.FAIL


KERNELS: dict[str, tuple[Function, Callable[[int], Inputs]]] = {
    f"{kind}, {n}": (function, lambda seed, n=n: (drawn(n // 8, 8, dtype=BRAIN, seed=seed),))
    for kind, function in {
        "gelu": F.gelu,
        "silu": F.silu,
        "tanh": torch.tanh,
        "softmax": lambda x: x.softmax(-1),
    }.items()
    for n in (8, 64, 512)
}
KERNELS["product"] = (
    torch.matmul,
    lambda seed: (drawn(8, 16, dtype=BRAIN, seed=seed), drawn(16, 4, dtype=BRAIN, seed=seed + 9)),
)


@pytest.fixture(autouse=True)
def plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_of_one_precision_does_not_fail(name: str) -> None:
    function, inputs = KERNELS[name]
    report = gradproof.check(one_kernel(function), inputs(3))
    mixes = name.startswith(("product", "softmax"))  # an entry's bar may be wider than its tolerance
    expected = (Verdict.PASS, Verdict.INCONCLUSIVE) if mixes else (Verdict.PASS,)
    assert report.verdict in expected, str(report)


@pytest.mark.parametrize("factor", [1.2, 2.0])
@pytest.mark.parametrize("name", KERNELS)
def test_a_common_factor_of_a_kernel_of_one_precision_fails(name: str, factor: float) -> None:
    function, inputs = KERNELS[name]
    report = gradproof.check(one_kernel(function, lambda g: factor * g), inputs(3))
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("n", [8, 64, 512])
@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_the_derivative_of_another_approximation_fails(n: int, strategy: Any) -> None:
    """That of x sigmoid(1.702 x) is off by 0.03 at most, for some numbers upwards and for others downwards."""

    class Quick(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is DOUBLE:
                raise TypeError("for half precision only")
            ctx.save_for_backward(x)
            return F.gelu(x)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            x = ctx.saved_tensors[0].float()
            s = torch.sigmoid(1.702 * x)
            return (cotangents[0].float() * (s + 1.702 * x * s * (1 - s))).to(BRAIN)

    x = drawn(n, dtype=BRAIN, seed=4)
    report = gradproof.check(Quick.apply, (x,), strategy=strategy, modes=("reverse",))
    assert report.verdict is Verdict.FAIL, str(report)
    right = gradproof.check(one_kernel(F.gelu), (x,), strategy=strategy, modes=("reverse",))
    assert right.verdict is not Verdict.FAIL, str(right)


def test_rounding_keeps_what_the_precision_can_hold() -> None:
    x = torch.randn(50, dtype=SINGLE, generator=torch.Generator().manual_seed(0)).double()
    with RandomRounding(2.0**-23, 0):
        same, rounded = x.clone() * 2.0, x / 3.0
    assert torch.equal(same, 2.0 * x)
    assert torch.equal(rounded.float().double(), rounded)
    assert not torch.equal(rounded, x / 3.0)
    assert float(((rounded - x / 3.0) / x).abs().max()) <= 2.0**-23


def test_rounding_takes_a_backward_apart() -> None:
    """Of the cross entropy of a sure prediction float32 loses all but two digits, in one operator."""
    x = torch.tensor([[0.0, 12.0, 0.3]], dtype=DOUBLE, requires_grad=True)
    gradients: list[torch.Tensor] = []
    for seed in range(4):
        with RandomRounding(2.0**-23, seed):
            gradients += torch.autograd.grad(F.cross_entropy(x, torch.tensor([1])), x)
    (exact,) = torch.autograd.grad(F.cross_entropy(x, torch.tensor([1])), x)
    off = max(float(((gradient - exact) / exact).abs()[0, 1]) for gradient in gradients)
    assert 1e-4 < off < 0.1


@pytest.mark.parametrize("pick", [torch.amax, torch.amin, torch.max, torch.min, torch.median])
def test_rounding_gives_numbers_that_are_picked_as_they_were(pick: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The backward looks for them among all: rounded ones are none of these, and the gradient was no number."""
    x = torch.tensor([0.5, 1 / 3, 16.0 + 1e-7, -5.0 - 1e-8, 2.0], dtype=DOUBLE, requires_grad=True)
    with RandomRounding(2.0**-23, 1):
        (gradient,) = torch.autograd.grad(pick(x), x)
    assert gradient.sum() == 1.0
    assert gradient.max() == 1.0


@pytest.mark.parametrize("function", [lambda x: F.log_softmax(x, 0)[0], lambda x: torch.logsumexp(x, 0) - x[0]])
def test_rounding_takes_apart_what_cancels_inside(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Of what is left of 1 - 1 in the value of a sure prediction float32 has a digit at most."""
    x = torch.tensor([15.0, 0.0, 0.0], dtype=DOUBLE)
    exact, values = float(function(x)), list[float]()
    for seed in range(6):
        with RandomRounding(2.0**-23, seed):
            values.append(float(function(x)))
    off = max(abs(value - exact) for value in values)
    assert 2.0**-25 < off < 2.0**-18


def saturated(rows: int, columns: int, scale: float, seed: int) -> torch.Tensor:
    return drawn(rows, columns, seed=seed, scale=scale)


def plus(function: Function, off: float) -> Function:
    """The function with a gradient that is off by so much everywhere, in low precision only."""
    return spoiled(function, lambda g: g + off, low_only=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_divergence_from_itself_is_round_off_of_one_and_no_more(seed: int) -> None:
    """Its gradient is softmax(x) less the same: in some runs of a twin that rounds nothing at all is left of that."""
    x = saturated(6, 5, 5.0, seed)
    targets = x.detach().softmax(1)

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.kl_div(x.log_softmax(1), targets.to(x.dtype), reduction="batchmean")

    report = gradproof.check(function, x)
    assert report.verdict is not Verdict.FAIL, str(report)
    report = gradproof.check(plus(function, 1e-5), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("seed", range(4))
def test_the_entropy_of_saturated_logits_fails_only_where_its_derivative_is_wrong(seed: int) -> None:
    x = saturated(6, 5, 60.0, seed)

    def entropy(x: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Categorical(logits=x, validate_args=False).entropy()

    report = gradproof.check(entropy, x)
    assert report.verdict is not Verdict.FAIL, str(report)
    report = gradproof.check(plus(entropy, 1e-5), x, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


def far_out(off: float, number: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (off + torch.randn(number, generator=generator)).requires_grad_()


ONE_UNIT_OFF: dict[str, tuple[Function, float]] = {
    "sigmoid": (torch.sigmoid, 12.0),
    "sigmoid further out": (torch.sigmoid, 16.0),
    "expm1": (torch.expm1, -16.0),
    "one less sigmoid": (lambda x: 1 - torch.sigmoid(x), 16.0),
    "log of sigmoid": (lambda x: torch.sigmoid(x).log(), 16.0),
    "square of sigmoid": (lambda x: torch.sigmoid(x) ** 2, 12.0),
    "softmax": (lambda x: torch.stack([x, 0 * x], 1).softmax(1), 16.0),
    "loss of ones": (lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)), 10.0),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ONE_UNIT_OFF)
def test_a_kernel_may_be_off_by_one_unit(name: str, seed: int) -> None:
    """What is left of 1 - y then differs by as much, where y lies close to a number that float32 can hold."""
    function, off = ONE_UNIT_OFF[name]
    report = gradproof.check(function, far_out(off, 40, seed))
    assert report.verdict is not Verdict.FAIL, str(report)


FAR_OUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "5 % more of one": lambda g: torch.where(g.abs() == g.abs().max(), 1.05 * g, g),
    "the other sign": lambda g: -g,
    "half of them lost": lambda g: g * (torch.arange(len(g)) % 2),
    "a term is missing": lambda g: g + 1e-5,
}


@pytest.mark.parametrize("wrong", FAR_OUT)
@pytest.mark.parametrize("name", ["sigmoid", "expm1", "loss of ones"])
def test_a_wrong_derivative_is_found_where_a_kernel_may_be_off(name: str, wrong: str) -> None:
    function, off = ONE_UNIT_OFF[name]
    report = gradproof.check(spoiled(function, FAR_OUT[wrong]), far_out(off, 40, 0), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("wrong", ["the other sign", "half of them lost", "a term is missing"])
def test_one_that_is_wrong_in_low_precision_alone_is_found_there_too(wrong: str) -> None:
    report = gradproof.check(spoiled(torch.sigmoid, FAR_OUT[wrong], low_only=True), far_out(12, 40, 0), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


def test_rounding_moves_a_transcendental_result_by_a_unit_and_not_beyond_one() -> None:
    x = torch.tensor([0.0, 14.0, 18.0, 30.0], dtype=DOUBLE)
    exact = torch.sigmoid(x)
    for seed in range(20):
        with RandomRounding(2.0**-23, seed):
            y = torch.sigmoid(x)
        assert y[0] == 0.5  # which it can hold
        assert float(y.max()) <= 1.0
        assert 2.0**-26 < float((y - exact).abs()[2]) <= 2.0**-23
        with RandomRounding(2.0**-7, seed):  # half precision is computed in single
            assert float(torch.sigmoid(x)[3]) == 1.0


def test_rounding_does_not_move_what_every_processor_rounds_alike() -> None:
    x = torch.tensor([1.0 - 2.0**-40, 4.0 + 2.0**-40], dtype=DOUBLE)
    for seed in range(20):
        with RandomRounding(2.0**-23, seed):
            root, product = x.sqrt(), x * 0.5
        assert torch.equal(root.round(decimals=9), torch.tensor([1.0, 2.0], dtype=DOUBLE))
        assert torch.equal(product, torch.tensor([0.5, 2.0], dtype=DOUBLE))


UNDERFLOW: dict[str, Function] = {
    "loss of zeros": lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x)),
    "logaddexp": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "silu": F.silu,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", UNDERFLOW)
def test_what_a_processor_may_take_for_zero_is_nothing(name: str, seed: int) -> None:
    report = gradproof.check(UNDERFLOW[name], far_out(-100.0, 40, seed))
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("name", UNDERFLOW)
def test_what_it_may_not_is_something(name: str) -> None:
    for off, wrong in ((-100.0, lambda g: g + 1e-30), (-70.0, lambda g: 0 * g), (-70.0, lambda g: -g)):
        function = spoiled(UNDERFLOW[name], wrong, low_only=True)
        report = gradproof.check(function, far_out(off, 40, 0), modes="reverse")
        assert report.verdict is Verdict.FAIL, str(report)


def curved(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("seed", [0, 2, 3, 6])
def test_a_kernel_for_whole_vectors_is_no_other_memory_layout(seed: int) -> None:
    """It leaves -0 of what one for single numbers leaves 1e-6 of: both are round-off of numbers of order one."""
    report = gradproof.check(curved, far_out(-6.0, 40, seed))
    assert not [finding for finding in report.findings if finding.property == "layout"], str(report)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_gradient_that_depends_on_the_layout_is_found_there_too(seed: int) -> None:
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return curved(x)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                (g,) = torch.autograd.grad(curved(x), x, cotangents)
            return g if cotangents[0].is_contiguous() else g + 5e-5

    report = gradproof.check(Careless.apply, far_out(-6.0, 40, seed))  # pyright: ignore[reportUnknownMemberType]
    assert [finding for finding in report.findings if finding.property == "layout"], str(report)


def dropped(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """For half precision only, so that there is no twin."""
    if x.dtype is DOUBLE:
        raise TypeError
    return F.layer_norm(x + F.dropout(x @ w, 0.1), (8,))


@pytest.mark.parametrize(
    ("dtype", "draws", "batched"), [(BRAIN, True, False), (HALF, True, False), (BRAIN, False, True)]
)
def test_random_numbers_of_half_precision_are_not_drawn_in_batches(
    dtype: torch.dtype, draws: bool, batched: bool
) -> None:
    """vmap draws others, and a witness does not tell them from round-off."""
    made: list[Batching] = []
    observed = engine.Investigation

    def noted(problem: Any, *arguments: Any, **named: Any) -> Any:
        made.append(problem.capabilities[Batching])
        return observed(problem, *arguments, **named)

    function = dropped if draws else one_kernel(lambda x, w: F.layer_norm(x + x @ w, (8,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "Investigation", noted)
        inputs = drawn(3, 8, dtype=dtype), drawn(8, 8, dtype=dtype, seed=1)
        report = gradproof.check(function, inputs, modes="reverse")
    assert (made[0].evaluate is not None) == batched
    assert report.verdict is not Verdict.FAIL, str(report)


def test_a_wrong_derivative_with_random_numbers_in_half_precision_is_found() -> None:
    function = spoiled(lambda x: 3 * F.dropout(x, 0.1), lambda g: -g)
    report = gradproof.check(function, drawn(12, dtype=BRAIN), modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)


def from_saved_softmax(factor: float, targets: torch.Tensor) -> Function:
    """The cross entropy, whose gradient is made of the softmax that was saved, times a factor."""

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x.softmax(1))
            return F.cross_entropy(x, targets)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            (p,) = ctx.saved_tensors
            return factor * (p - F.one_hot(targets, p.shape[1])) * (cotangents[0] / len(p))

    return Loss.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("margin", [14.0, 17.0])
def test_a_sum_of_small_terms_and_one_loses_them(margin: float, seed: int) -> None:
    targets = torch.randint(0, 10, (16,), generator=torch.Generator().manual_seed(seed))
    x = (drawn(16, 10, seed=seed).detach() + margin * F.one_hot(targets, 10)).requires_grad_()
    report = gradproof.check(from_saved_softmax(1.0, targets), x, modes="reverse")
    assert report.verdict is not Verdict.FAIL, str(report)
    for factor in (-1.0, 1.05, 0.0):
        assert gradproof.check(from_saved_softmax(factor, targets), x, modes="reverse").verdict is Verdict.FAIL
