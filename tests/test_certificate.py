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
