"""Slow and fast mode are two ways of asking one judge: they give the same verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from array_problem import Part, investigation
from hypothesis import given, settings
from hypothesis import strategies as st

import gradproof.torch
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.jacobian import jacobian
from gradproof.results.finding import Finding


class Multiply(torch.autograd.Function):
    """z -> c z, with a backward for another factor."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, factor: complex, claimed: complex) -> torch.Tensor:
        ctx.claimed = claimed
        return factor * z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * complex(ctx.claimed).conjugate(), None, None


def multiplied(count: int, factor: complex, claimed: complex) -> tuple[Any, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(count, dtype=torch.complex128, generator=generator).requires_grad_()
    return lambda z: Multiply.apply(z, factor, claimed), z


@pytest.mark.parametrize("count", [30, 3000])
@pytest.mark.parametrize(
    ("error", "passes"), [(1e-2j, True), (1e-2, True), (2.0j, False), (2.0, False), (0.9 + 0.9j, False)]
)
def test_a_complex_entry_is_judged_by_its_modulus_in_both_modes(count: int, error: complex, passes: bool) -> None:
    """The tolerance is 1e-3 of the modulus, 1e3: an imaginary part off by 1e-2 is right, small as it is itself."""
    func, z = multiplied(count, 1e3 + 1e-3j, 1e3 + 1e-3j + error)
    for fast_mode in (False, True):
        assert gradproof.torch.gradcheck(func, (z,), raise_exception=False, fast_mode=fast_mode) is passes, fast_mode


TOLERANCE = {"atol": 1e-5, "rtol": 1e-3}
FUNCTIONS = {
    "sin": (np.sin, np.cos),
    "square": (np.square, lambda z: 2 * z),
    "exp": (np.exp, np.exp),
    "reciprocal": (np.reciprocal, lambda z: -1 / z**2),
}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, bool | None]:
    """w @ f(z), real or complex, with errors of a few entries; whether it is right (None: too close to say)."""
    name, parts = draw(st.sampled_from(sorted(FUNCTIONS))), draw(st.sampled_from([1, 2]))
    function, slope = FUNCTIONS[name]
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    z = rng.uniform(0.6, 1.6, width) + (1j * rng.uniform(-1, 1, width) if parts == 2 else 0)
    w = rng.uniform(0.5, 2.0, (height, width)) * 10.0 ** draw(st.integers(-2, 3))
    w = w * np.exp(1j * rng.uniform(0, 6, (height, width))) if parts == 2 else w
    matrix = w * slope(z)
    sizes = draw(st.lists(st.sampled_from([0.0, 0.2, 5.0, 100.0]), min_size=1, max_size=3))
    claimed = matrix.copy()
    for size in sizes:
        row, column = rng.integers(height), rng.integers(width)
        turn = np.exp(1j * rng.uniform(0, 6)) if parts == 2 else rng.choice([-1.0, 1.0])
        claimed[row, column] = matrix[row, column] + size * turn * (1e-5 + 1e-3 * abs(matrix[row, column]))
    excess = np.abs(claimed - matrix) / (1e-5 + 1e-3 * np.abs(matrix))
    shape = (Part((width,), parts), Part((height,), parts))

    def pulled(v: Any) -> Any:
        return _flat(_shaped(v, parts) @ claimed.conj()) if parts == 2 else v @ claimed

    made = {
        "function": lambda x: _flat(w @ function(_shaped(x, parts))),
        "point": _flat(z),
        "vjp": pulled,
        "jvp": lambda u: _flat(claimed @ _shaped(u, parts)),
        "inputs": [shape[0]],
        "outputs": [shape[1]],
    }
    return made, bool(excess.max() <= 1.0)


def _flat(z: Any) -> Any:
    return np.ascontiguousarray(z).view(np.float64)


def _shaped(x: Any, parts: int) -> Any:
    return np.ascontiguousarray(x).view(np.complex128) if parts == 2 else x


def verdict(made: dict[str, Any], mode: Mode, **options: Any) -> bool:
    """Whether nothing is wrong."""
    asked = investigation(
        made["function"], made["point"], **{k: v for k, v in made.items() if k not in ("function", "point")}
    )
    with np.errstate(all="ignore"):  # as the engine does
        found = list(jacobian(asked, Options(modes=(mode,), **TOLERANCE, **options)))
    findings = [finding for finding in found if isinstance(finding, Finding)]
    assert not any(finding.status is Status.INCONCLUSIVE for finding in findings)
    return not findings


@given(problems(), st.sampled_from(Mode))
@settings(max_examples=300, deadline=None)
def test_every_entry_probes_and_halving_give_one_verdict(problem: tuple[Any, bool], mode: Mode) -> None:
    made, right = problem
    assert verdict(made, mode, strategy=Strategy.ENTRIES) is right
    assert verdict(made, mode, strategy=Strategy.PROBES) is right
    assert verdict(made, mode, strategy=Strategy.PROBES, affordable_columns=0) is right
