"""Probes pass what they have seen, and ask again about what they have not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

from gradproof import Status, Verdict, check
from gradproof.core.problem import Mode
from gradproof.torch import UnseenWarning, gradcheck


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


MANY: dict[str, tuple[Callable[..., Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "log": (torch.log, lambda x: x.abs() + 1e-3),
    "reciprocal": (torch.reciprocal, lambda x: x),
    "sqrt": (torch.sqrt, lambda x: x.abs()),
    "clamp": (lambda x: x.clamp(-1, 1), lambda x: x),
}


@pytest.mark.parametrize("size", [2049, 9000])
@pytest.mark.parametrize("name", MANY)
def test_ordinary_functions_of_many_elements_pass(name: str, size: int) -> None:
    function, make = MANY[name]
    for seed in range(3):
        x = make(draw(size, seed=seed)).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenWarning)
            assert gradcheck(function, (x,), fast_mode=True)


@pytest.mark.parametrize("seed", [2007, 3007])
def test_numbers_that_nearly_tie_are_sorted_with_the_shortest_steps(seed: int) -> None:
    x = draw(9000, seed=seed).requires_grad_()
    assert check(lambda x: x.sort()[0], x, modes="reverse", properties="jacobian").verdict is Verdict.PASS
    order = torch.argsort(x)

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = torch.zeros_like(g).scatter_(0, order, g)
        gradient[order[17]] *= 1.01
        return gradient

    report = check(custom(lambda x: x.sort()[0], backward), x, modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].entries[0].output.element == (17,)


def kinked(spoil: str) -> tuple[Callable[..., Any], torch.Tensor]:
    """relu.sum, with half of its elements on the kink."""
    x = draw(5000, seed=1)
    x[:2500] = 0

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        gradient = g * (s[0] > 0).to(torch.float64)
        if spoil == "all":
            gradient = 1.01 * gradient
        elif spoil:
            gradient[{"off the kinks": 3000, "on a kink": 100}[spoil]] += 5.0 * g
        return gradient

    return custom(lambda x: x.relu().sum(), backward), x.requires_grad_()


@pytest.mark.parametrize("spoil", ["", "all", "off the kinks", "on a kink"])
def test_kinks_hide_nothing(spoil: str) -> None:
    function, x = kinked(spoil)
    report = check(function, x, modes="reverse")
    assert report.verdict is (Verdict.FAIL if spoil else Verdict.PASS), str(report)
    if spoil.startswith("o"):
        assert report.findings[0].input_element == ({"off the kinks": 3000, "on a kink": 100}[spoil],)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.PASS), (0.0, Verdict.FAIL), (-1.0, Verdict.FAIL)])
def test_a_weak_input_beside_a_large_term_is_looked_at_alone(factor: float, verdict: Verdict) -> None:
    function = custom(lambda x, w: (x**2).sum() + w.sin().sum(), lambda s, g: (2 * g * s[0], factor * g * s[1].cos()))
    report = check(function, ((3e3 * draw(50)).requires_grad_(), draw(5, seed=1).requires_grad_()), modes="reverse")
    assert report.verdict is verdict, str(report)
    if not report.ok:
        assert report.findings[0].input == 1


@pytest.mark.parametrize("strong", [3e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_weak_input_is_seen_or_named(strong: float, factor: float) -> None:
    """Beside a term of 1e11 and more the derivative of five sines is round-off: then nothing passes, right or wrong."""
    right, wrong = (
        custom(lambda x, w: (x**2).sum() + w.sin().sum(), lambda s, g, by=by: (2 * g * s[0], by * g * s[1].cos()))
        for by in (1.0, factor)
    )
    inputs = (strong * draw(50, seed=3)).requires_grad_(), draw(5, seed=1).requires_grad_()
    verdict = Verdict.FAIL if strong < 1e5 else Verdict.INCONCLUSIVE
    report = check(wrong, inputs, modes="reverse", properties="jacobian")
    assert report.verdict is verdict, str(report)
    assert "input 1" in str(report.findings[0])
    assert check(right, inputs, modes="reverse", properties="jacobian").verdict is not Verdict.FAIL


def test_an_input_that_is_not_used_passes_beside_others() -> None:
    x, unused = draw(50, seed=3).requires_grad_(), draw(5, seed=1).requires_grad_()
    report = check(lambda x, w: (x**2).sum() + 0.0 * w.sum(), (x, unused), modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.PASS


def test_what_could_hide_is_a_warning_of_gradcheck_and_inconclusive_in_check() -> None:
    """Offsets of 1e9 drown the derivative of thousands of outputs."""
    x = draw(3000).requires_grad_()
    with pytest.warns(UnseenWarning, match="an error of up to .* could hide in .* outputs"):
        assert gradcheck(lambda x: x.sin() + 1e9, (x,), fast_mode=True)
    report = check(lambda x: x.sin() + 1e9, x, modes="reverse", atol=1e-5, rtol=1e-3)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.findings[0].status is Status.INCONCLUSIVE


@pytest.mark.parametrize("offset", [1e8, 1e9, 1e10])
@pytest.mark.parametrize("n", [3, 50, 3000])
def test_a_lost_gradient_beside_a_large_term_is_no_pass(n: int, offset: float) -> None:
    x = draw(n).requires_grad_()
    for factor in (0.0, 2.0):
        wrong = custom(lambda x: x.sin() + offset, lambda s, g, factor=factor: factor * g * s[0].cos())
        verdict = check(wrong, x, modes="reverse", properties="jacobian").verdict
        assert verdict is Verdict.FAIL or (verdict is Verdict.INCONCLUSIVE and n * offset > 1e13)
    right = custom(lambda x: x.sin() + offset, lambda s, g: g * s[0].cos())
    assert check(right, x, modes="reverse", properties="jacobian").verdict is not Verdict.FAIL


def test_offsets_that_leave_much_to_be_seen_pass() -> None:
    for n, offset in ((3, 1e10), (50, 1e10), (3000, 1e7)):
        right = custom(lambda x, offset=offset: x.sin() + offset, lambda s, g: g * s[0].cos())
        x = draw(n).requires_grad_()
        assert check(right, x, modes="reverse", properties="jacobian").verdict is Verdict.PASS


HIDDEN: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "erfc far left": (torch.erfc, lambda x: -1.1283791670955126 * (-x * x).exp(), -5.2134),
    "erfc further right of it": (torch.erfc, lambda x: -1.1283791670955126 * (-x * x).exp(), -5.0),
    "offset": (lambda x: 1e8 + 1e-3 * x, lambda x: torch.full_like(x, 1e-3), 0.3),
    "logistic": (torch.sigmoid, lambda x: torch.sigmoid(x) * torch.sigmoid(-x), 27.0),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_longer_steps_see_what_round_off_hides_from_others(name: str) -> None:
    """The derivative is a few hundred spacings of the value, over a step: a tenth of it is told, no more."""
    function, derivative, at = HIDDEN[name]
    x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
    right, wrong = (
        custom(function, lambda s, g, by=by: by * g * derivative(s[0]))  # a custom Function has no forward mode
        for by in (1.0, 3.0)
    )
    report = check(right, x, modes="reverse", properties="jacobian")
    assert report.verdict is Verdict.PASS, str(report)
    assert check(wrong, x, modes="reverse", properties="jacobian").verdict is not Verdict.PASS


@pytest.mark.parametrize("by", [0.0, 2.0])
def test_longer_steps_do_not_pass_a_lone_entry_that_is_wrong(by: float) -> None:
    """Of sixty, round-off hides most; a probe along all of them would not see the one."""
    factor = torch.ones(60, dtype=torch.float64)
    factor[1] = by
    large = custom(lambda a, b: 1e8 * a + 1e-3 * b, lambda _, g: (1e8 * g, 1e-3 * factor * g))
    a, b = (draw(60, seed=seed).requires_grad_() for seed in range(2))
    assert check(large, (a, b), properties="jacobian").verdict is not Verdict.PASS


def test_longer_steps_do_not_speak_for_waves() -> None:
    """The mean slope that they see is 1; what is lost is that of waves which ordinary steps come upon."""
    for rate in (1e7, 1e9):
        wrong = custom(lambda x, rate=rate: x + (rate * x).sin() / rate, lambda s, g: g)
        x = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
        assert check(wrong, x, modes="reverse", properties="jacobian").verdict is not Verdict.PASS


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_tolerance_that_round_off_does_not_let_see_is_said_so(fast_mode: bool) -> None:
    strong, weak = ((draw(50, seed=seed).abs() + 0.5).requires_grad_() for seed in range(2))

    def lost(strong: torch.Tensor, weak: torch.Tensor) -> torch.Tensor:
        return (1e8 * strong.sin() + 1e-3 * weak.detach().sin()).sum() + 0.0 * weak.sum()

    with pytest.warns(UnseenWarning, match="round-off hides an error of up to .* with respect to input 1"):
        assert gradcheck(lost, (strong, weak), fast_mode=fast_mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnseenWarning)
        assert gradcheck(lambda x: 1e8 * x.sin(), (strong,), fast_mode=fast_mode)  # beside its own tolerance


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient")
@pytest.mark.parametrize("fast_mode", [False, True])
def test_entries_that_cannot_be_judged_pass_with_a_warning(fast_mode: bool) -> None:
    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is not torch.bfloat16:
                raise TypeError("bfloat16 only")
            ctx.save_for_backward(x)
            return x * x + 1e4  # numbers here are 64 apart

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return 6 * ctx.saved_tensors[0] * grads[0]

    x = (draw(5).abs() + 0.5).to(torch.bfloat16).requires_grad_()
    with pytest.warns(UnseenWarning, match="cannot be judged"):
        assert gradcheck(Squared.apply, (x,), fast_mode=fast_mode)


def ill_conditioned(n: int) -> torch.Tensor:
    left, right = (torch.linalg.qr(draw(n, n, seed=seed))[0] for seed in range(2))
    return left @ torch.diag(torch.logspace(0, -5, n, dtype=torch.float64)) @ right


@pytest.mark.parametrize("wrong", [False, True])
def test_round_off_beyond_that_of_the_precision_is_seen_in_many_outputs(wrong: bool) -> None:
    class Inverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            inverse = torch.linalg.inv(x)
            ctx.save_for_backward(inverse)
            ctx.save_for_forward(inverse)
            return inverse

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (inverse,) = ctx.saved_tensors
            return -inverse.mT @ grads[0] @ inverse.mT

        @staticmethod
        def jvp(ctx: Any, *tangents: torch.Tensor) -> Any:
            (inverse,) = ctx.saved_tensors
            tangent = -inverse @ tangents[0] @ inverse
            tangent[3, 5] *= 1.01 if wrong else 1.0
            return tangent

    x = ill_conditioned(60).requires_grad_()
    report = check(Inverse.apply, x, properties="jacobian", modes=("reverse", "forward"))
    assert report.verdict is (Verdict.FAIL if wrong else Verdict.PASS), str(report)
    assert all(finding.mode is Mode.FORWARD for finding in report.findings)


@pytest.mark.parametrize("seed", range(6))
def test_no_entry_is_excused_more_than_the_certificate_says(seed: int) -> None:
    x = draw(30, seed=seed).requires_grad_()  # the largest entries of a product may cancel in every sum of them

    def with_error(error: float) -> Callable[..., Any]:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = x.cumprod(0)
            return torch.cat([y[:1] + error * (x[:1] - x[:1].detach()), y[1:]])

        return function

    options: dict[str, Any] = {"properties": "jacobian", "modes": "reverse", "seed": seed}
    report = check(with_error(0.0), x, **options)
    smallest = report.pairs[0].smallest
    assert report.verdict is Verdict.PASS
    assert smallest is not None
    assert check(with_error(-1.2 * smallest), x, **options).verdict is Verdict.FAIL


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(3, 4), (60, 50)])
def test_what_is_masked_by_the_smallest_number_hides_nothing(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    scores = torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.ones(shape, dtype=torch.bool).tril()
    least = torch.finfo(dtype).min
    right = check(lambda x: torch.where(mask, x, least), scores).verdict
    # of many outputs, no probe sees what those hide that are masked
    assert right is Verdict.PASS if scores.numel() < 100 else right is not Verdict.FAIL
    wrong = custom(lambda x: torch.where(mask, x, least), lambda s, g: 1.1 * g * mask)
    assert check(wrong, scores).verdict is Verdict.FAIL


def counted(function: Callable[..., Any], x: torch.Tensor) -> int:
    """How often fast mode calls a function, which it passes."""
    calls = 0

    def counting(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return function(x)

    assert gradcheck(counting, (x,), fast_mode=True)
    return calls


def test_small_outputs_beside_huge_ones_are_seen_by_how_still_they_are() -> None:
    x = torch.linspace(-9.0, 9.0, 20, dtype=torch.float64, requires_grad=True)  # values from 1e-1 to 1e35
    assert counted(torch.special.erfcx, x) <= 20, "every entry takes 290"

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        slope = 2 * s[0] * torch.special.erfcx(s[0]) - 2 / torch.pi**0.5
        return g * torch.where(s[0] > 8.5, 1.01 * slope, slope)

    wrong = custom(torch.special.erfcx, backward)
    assert not gradcheck(wrong, (x,), fast_mode=True, raise_exception=False)
    finding = check(wrong, x, modes="reverse", properties="jacobian", atol=1e-5, rtol=1e-3).findings[0]
    assert finding.status is Status.WRONG
    assert finding.input_element == (19,)


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("factor", [1.0, 1.01, 0.0])
def test_small_outputs_are_judged_by_their_own_size_where_they_are_still(factor: float, strategy: Any) -> None:
    x = torch.linspace(-4.0, 4.0, 30, dtype=torch.float64, requires_grad=True)  # values from 6e-6 to 2e5

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        return g * torch.where(s[0] < -3.9, factor, 1.0) * 3 * (3 * s[0]).exp()

    function = custom(lambda x: (3 * x).exp(), backward)
    report = check(function, x, modes="reverse", properties="jacobian", strategy=strategy)
    assert report.verdict is (Verdict.PASS if factor == 1 else Verdict.FAIL)
    assert factor == 1 or report.findings[0].input_element == (0,)


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize(
    ("function", "ends"),
    [
        (torch.special.ndtr, (-8.0, 8.0)),
        (torch.nn.functional.gelu, (-9.0, 9.0)),
        (lambda x: 1 - x.sigmoid(), (-3.0, 36.0)),
        (lambda x: 1 - x.erf(), (-2.0, 6.0)),
    ],
)
def test_small_outputs_on_a_grid_of_lost_digits_are_not_taken_for_still(
    function: Callable[..., Any], ends: tuple[float, float], strategy: Any
) -> None:
    x = torch.linspace(*ends, 41, dtype=torch.float64, requires_grad=True)
    for seed in range(3):
        assert check(function, x, strategy=strategy, seed=seed).verdict is Verdict.PASS


def test_small_outputs_that_owe_their_noise_to_large_numbers_are_not_taken_for_still() -> None:
    x = draw(40).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        assert gradcheck(lambda x: torch.cat([(x + 1e8) - 1e8, 1e8 + x]), (x,), fast_mode=True)


@pytest.mark.parametrize("right", [True, False])
def test_targets_on_a_jump_are_verified_together(right: bool) -> None:
    """hinge_embedding_loss asks whether its target is 1: where that moves too, values jump, and slopes do not."""
    x, target = draw(5, 5).requires_grad_(), torch.sign(draw(5, 5, seed=1)).requires_grad_()
    calls = 0

    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        lost = torch.nn.functional.hinge_embedding_loss(x, target, margin=8.0)
        return lost if right else lost + 0.01 * (target - target.detach()).sum() - 0.01 * (target.sum() - 0.0).detach()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passed = gradcheck(loss, (x, target), fast_mode=True, raise_exception=False)
    assert passed is right
    assert calls <= 110 or not right, "every entry takes 240, and noise is looked for along each of two inputs"
