"""The certificate: what a check says it could see is what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from array_problem import Part, findings, investigation
from functions import custom, numbers

from gradproof import Status, Verdict, check
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.properties.jacobian import jacobian
from gradproof.results.certificate import About


@pytest.fixture(autouse=True)
def quiet_as_in_the_engine() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("strategy", ["probes", "entries"])
def test_the_report_lists_every_input(strategy: str) -> None:
    inputs = (numbers(3), numbers(3, seed=1), numbers(0))
    report = check(lambda x, weight, nothing: x * weight, inputs, strategy=strategy, modes="reverse")
    assert report.certificate is not None
    assert [str(about) for about, _ in report.certificate.smallest] == ["input 0 `x`", "input 1 `weight`"]
    assert all(0 < size < 1e-5 for _, size in report.certificate.smallest)
    assert report.certificate.miss == (1e-12 if strategy == "probes" else 0.0)
    assert f"certificate: {report.certificate}" in str(report)


def test_two_modes_have_one_certificate_the_weaker() -> None:
    both, reverse = (check(torch.sin, numbers(5), modes=modes).certificate for modes in (None, "reverse"))
    assert both is not None
    assert reverse is not None
    assert both.smallest[0][1] >= reverse.smallest[0][1]
    assert both.miss == 1e-12


def test_a_probe_that_gave_way_to_every_entry_misses_nothing() -> None:
    x = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)
    report = check(torch.relu, x, strategy="entries", modes="reverse")
    assert report.verdict is Verdict.PASS
    assert report.certificate is not None
    assert report.certificate.miss == 0.0


@pytest.mark.parametrize("name", ["determinism", "linearity"])
def test_without_a_comparison_there_is_none(name: str) -> None:
    report = check(torch.sin, numbers(3), properties=name)
    assert report.certificate is None
    assert "certificate" not in str(report)


def sines(off: dict[int, float], seed: int) -> Investigation:
    """sin of 200 numbers in two blocks, whose claimed diagonal has these errors."""
    point = np.random.default_rng(seed).uniform(0.5, 1.5, 200)
    error = np.zeros(200)
    for place, size in off.items():
        error[place] = size
    slopes = np.cos(point) + error
    inputs = [Part((150,), name="x"), Part((50,), name="y")]
    return investigation(np.sin, point, inputs=inputs, vjp=lambda v: slopes * v, jvp=lambda u: slopes * u, seed=seed)


def options(mode: Mode, **more: Any) -> Options:
    return Options(strategy=Strategy.PROBES, modes=(mode,), affordable_columns=0, rtol=0.0, **more)


@pytest.mark.parametrize("atol", [None, 1e-8], ids=["no atol", "atol"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("seed", range(8))
def test_an_error_just_above_the_certificate_is_caught(seed: int, mode: Mode, atol: float | None) -> None:
    right = sines({}, seed)
    (seen,) = jacobian(right, options(mode, atol=atol))
    assert isinstance(seen, Seen)
    place = int(np.random.default_rng(100 + seed).integers(200))
    size = seen.smallest[0 if place < 150 else 1]
    assert 0 < size < 1e-7
    wrong = sines({place: 1.5 * size}, seed)
    found = findings(jacobian(wrong, options(mode, atol=0.0)))
    assert found, "missed"
    assert found[0].status is Status.WRONG
    number, within = (0, place) if place < 150 else (1, place - 150)
    assert (found[0].input, found[0].input_element) == (number, (within,))


@pytest.mark.parametrize("place", [0, 7, 19])
def test_every_entry_is_certified_by_its_tolerance(place: int) -> None:
    """With every entry compared, the certificate is the tolerance of an entry that is zero."""
    weights = numbers(20, seed=3).detach()
    size = check(lambda x: x * weights, numbers(20), strategy="entries", modes="reverse", atol=1e-6, rtol=0.0)
    assert size.certificate is not None
    ((about, smallest),) = size.certificate.smallest
    assert about == About(size.inputs[0])
    assert 1e-6 <= smallest < 1.001e-6  # and what round-off of the largest output could excuse

    def spoiled(by: float) -> Any:
        return custom(lambda x: x * weights, lambda s, g: g * (weights + by * (torch.arange(20) == place)))

    assert check(spoiled(0.9e-6), numbers(20), strategy="entries", atol=1e-6, rtol=0.0).ok
    assert not check(spoiled(1.1e-6), numbers(20), strategy="entries", atol=1e-6, rtol=0.0).ok


@pytest.mark.parametrize(
    ("function", "dtypes", "error"),
    [
        (lambda x: x.float() ** 2, (torch.float64, torch.float32), 4e-4),
        (lambda x: x**2 + 1e9, (torch.float64, torch.float64), 2e-6),
    ],
    ids=["a float32 output", "an output with a large offset"],
)
def test_no_certificate_is_below_what_would_have_been_excused(function: Any, dtypes: Any, error: float) -> None:
    """Of every entry too: the precision of the output and its round-off excuse some."""

    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            slope = 2 * ctx.saved_tensors[0]
            slope[1] += error
            return slope * grads[0].double()

    x = torch.tensor([0.5, 1.0, 1.5], dtype=dtypes[0], requires_grad=True)
    report = check(Spoiled.apply, x, strategy="entries", modes="reverse")
    assert report.certificate is not None
    ((_, smallest),) = report.certificate.smallest
    assert not report.ok or smallest >= error


class Settling(torch.autograd.Function):
    """z = tanh(W z + x) by iteration, which stops at a tolerance; the derivative is the implicit one, with an error."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        z, change = torch.zeros_like(x), 1.0
        while change > 1e-8:
            following = torch.tanh(weight @ z + x)
            change, z = float((following - z).abs().max()), following
        ctx.save_for_backward(z, weight, error)
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, weight, error = ctx.saved_tensors
        slope = 1 - z * z
        matrix = torch.eye(len(z), dtype=z.dtype) - slope[:, None] * weight
        return slope * torch.linalg.solve(matrix.T, grads[0]) + grads[0] @ error, None, None


@pytest.mark.parametrize("seed", range(6))
def test_jumps_of_a_solver_excuse_no_lone_entry(seed: int) -> None:
    """They are beside the point, in all entries alike; of a right derivative they are not even measured."""
    x, weight = numbers(12, seed=seed), 0.1 * numbers(12, 12, seed=100 + seed).detach()
    error = torch.zeros(12, 12, dtype=torch.float64)

    def report(size: float) -> Any:
        error[4, 7] = size
        function = lambda x: Settling.apply(x, weight, error)  # noqa: E731
        return check(function, x, properties="jacobian", modes="reverse", rtol=1e-4, atol=1e-6)

    right = report(0.0)
    assert right.verdict is Verdict.PASS
    ((_, size),) = right.certificate.smallest
    wrong = report(1.2 * size)
    assert wrong.verdict is Verdict.FAIL
    assert (wrong.findings[0].output_element, wrong.findings[0].input_element) == ((4,), (7,))


def spoiled(function: Any, output: int, input_: int, error: float, only: torch.dtype | None = None) -> Any:
    """A function of one input, with an error of one entry; perhaps only where the input is of one dtype."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        y, moved = function(x), x[input_] - x[input_].detach()
        if only not in (None, x.dtype):
            return y
        return y + (torch.arange(len(y)) == output) * (error * moved).to(y.dtype)

    return wrong


@pytest.mark.parametrize("seed", range(6))
def test_in_noise_the_certificate_knows_the_bars_of_the_ladder(seed: int) -> None:
    """Entries that agree at first sight are not measured; one that does not is, and its error bar excuses it."""

    def rounding(x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16().sin().double()

    x = numbers(50, seed=seed)
    right = check(rounding, x, properties="jacobian", modes="reverse", seed=seed)
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    ((_, size),) = right.certificate.smallest
    for place in (3, 17, 41):
        wrong = spoiled(rounding, place, place, 1.2 * size)
        assert check(wrong, x, properties="jacobian", modes="reverse", seed=seed).verdict is Verdict.FAIL


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_what_is_wrong_in_one_precision_only_is_certified_too(dtype: torch.dtype, everywhere: bool) -> None:
    """There rounding excuses more than the float64 twin does, and what exceeds that by little is not called wrong."""
    weights = numbers(9, 12, seed=4).detach().to(dtype)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return weights @ x.sin()

    x = numbers(12, seed=1, dtype=dtype)
    right = check(mixed, x, properties="jacobian", modes="reverse")
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    ((_, size),) = right.certificate.smallest
    for output, input_ in ((0, 0), (5, 3), (8, 11)):
        wrong = spoiled(mixed, output, input_, 1.2 * size, None if everywhere else dtype)
        assert check(wrong, x, properties="jacobian", modes="reverse").verdict is Verdict.FAIL


@pytest.mark.parametrize("given", [{}, {"rtol": 1e-3, "atol": 1e-5}], ids=["no tolerances", "tolerances"])
def test_forward_mode_alone_knows_what_its_tolerance_excuses(given: Any) -> None:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor, error: float) -> torch.Tensor:
            return x.sin()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(inputs[0])
            ctx.error = inputs[1]

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            slope = ctx.saved_tensors[0].cos()
            return (slope + ctx.error * (torch.arange(len(slope)) == 7)) * tangents[0]

    def report(error: float) -> Any:
        return check(lambda x: Sine.apply(x, error), numbers(50), modes="forward", properties="jacobian", **given)

    right = report(0.0)
    ((_, size),) = right.certificate.smallest
    assert right.verdict is Verdict.PASS
    assert report(1.2 * size).verdict is Verdict.FAIL
    assert report(0.01 * size).verdict is Verdict.PASS, "it is not idle"


@pytest.mark.parametrize("place", [3, 5])
def test_a_lone_entry_that_only_noise_lets_see_is_wrong(place: int) -> None:
    """Between two steps of a staircase nothing can be judged; with its width known, one entry sticks out."""

    def stairs(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + (torch.round(x.sin() / 1e-7) * 1e-7 - x.sin()).detach()

    x = numbers(12, seed=2)
    right = check(stairs, x, properties="jacobian", modes="reverse")
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    ((_, size),) = right.certificate.smallest
    wrong = spoiled(stairs, place, place, 1.2 * size)
    assert check(wrong, x, properties="jacobian", modes="reverse").verdict is Verdict.FAIL


# what is asked, its slope, and where right checks once certified less than what passes
IN_NOISE: dict[str, tuple[Any, Any]] = {
    "three decimals": (lambda x: x.sin().round(decimals=3), torch.cos),
    "four decimals of what bends": (lambda x: (20 * x).sin().round(decimals=4), lambda x: 20 * (20 * x).cos()),
    "between two lines": (lambda x: x.sin() + 1e-4 * (1e3 * x.cos()).round(), lambda x: x.cos() - 0.1 * x.sin()),
}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("name", IN_NOISE)
def test_no_error_above_the_certificate_passes_in_noise(name: str, size: int, sign: float) -> None:
    """A value that noise blurs may be off by its error bar one way, and a claim that is held against it the other."""
    function, slope = IN_NOISE[name]
    for seed in range(6):
        x = numbers(size, seed=seed)
        right = check(custom(function, lambda s, g: g * slope(s[0])), x, seed=seed)
        if right.verdict is not Verdict.PASS:
            continue
        assert right.certificate is not None
        ((_, smallest),) = right.certificate.smallest

        def wrong(s: Any, g: torch.Tensor, error: float = 1.2 * sign * smallest) -> torch.Tensor:
            gradient = g * slope(s[0])
            gradient[0] += error * g[0]
            return gradient

        assert check(custom(function, wrong), x, seed=seed).verdict is not Verdict.PASS, (seed, smallest)


@pytest.mark.parametrize("size", [3000, 50_000])
def test_a_lone_error_of_a_large_sum_is_located_just_above_the_certificate(size: int) -> None:
    """Finer rungs confirm an accusation, and are too noisy to lead to its place."""
    x = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def squares(place: int, error: float) -> Any:
        def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
            gradient = 2 * g * s[0]
            gradient[place] += error * g
            return gradient

        return custom(lambda x: (x * x).sum(), backward)

    certificate = check(squares(0, 0.0), x).certificate
    assert certificate is not None
    error = 1.2 * max(smallest for _, smallest in certificate.smallest)
    for place in range(0, size, size // 6):
        report = check(squares(place, error), x)
        assert report.verdict is Verdict.FAIL
        assert report.findings[0].input_element == (place,)


def rounded(x: torch.Tensor, k: float) -> torch.Tensor:
    return (torch.round(k * x) / k).detach()


SAWTEETH: dict[str, tuple[Any, int, int, int]] = {
    "of 0.01": (lambda x: x % 1e-2, 30, 0, 25),
    "of 0.001": (lambda x: x % 1e-3, 30, 4, 9),
    "of rounding": (lambda x: x - rounded(x, 1e3), 20, 9, 0),
    "of a sine": (lambda x: x - rounded(x.sin(), 200.0), 20, 4, 2),
    "fractions": (lambda x: (50 * x).frac(), 30, 0, 18),
    "in every other element": (lambda x: torch.where(torch.arange(len(x)) % 2 == 0, x % 1e-3, x.sin()), 40, 3, 34),
    "that bend": (lambda x: x + 0.44 * (x * x % 7.6e-4), 3, 102, 0),
}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", SAWTEETH)
def test_no_lone_error_above_the_certificate_passes_on_a_sawtooth(name: str, sign: float) -> None:
    """What steps measure that reach over its teeth is known to a check of a wrong derivative alone, and no excuse."""
    function, size, seed, place = SAWTEETH[name]
    x = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    slope = torch.autograd.grad(function(x).sum(), x)[0]
    off = torch.zeros(size, dtype=torch.float64)

    def run() -> Any:
        return check(custom(function, lambda x, g: g * (slope + off)), x, properties="jacobian", seed=seed)

    right = run()
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    off[place] = sign * 1.2 * right.certificate.smallest[0][1]
    wrong = run()
    assert wrong.verdict is Verdict.FAIL
    assert (wrong.findings[0].input_element, wrong.findings[0].output_element) == ((place,), (place,))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("function", "at"),
    [
        (lambda x: x**2 + 0.0019 * x * (torch.floor(x / 8.6e-4) * 8.6e-4), 0.7),
        (lambda x: 0.037 * (x / 0.025).frac() * 0.025, 0.61),
        (lambda x: x.sin() + 0.026 * (x / 1.3e-5).frac() * 1.3e-5, 0.6),
    ],
)
def test_no_error_of_the_only_entry_passes_on_a_sawtooth(function: Any, at: float, sign: float) -> None:
    """There are no others to tell noise by: what short steps see clearly is in doubt, then, and no pass."""
    x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
    slope, off = torch.autograd.grad(function(x), x)[0], torch.zeros(1, dtype=torch.float64)

    def run() -> Any:
        return check(custom(function, lambda x, g: g * (slope + off)), x, properties="jacobian")

    right = run()
    assert right.verdict is Verdict.PASS
    assert right.certificate is not None
    off += sign * 1.2 * right.certificate.smallest[0][1]
    assert run().verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
