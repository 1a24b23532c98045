"""Functions with their derivatives, right and wrong, and what a check must say of them: data, for every backend.

Functions and rules are written once, with the module of array functions as their first argument (`xp`: NumPy, torch,
jax.numpy, ...), in what all of these have. A backend that wants to run them brings an `Adapter`: see
`gradproof.testing`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradproof.results.report import Verdict

Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a report must say. None and nothing: whatever it likes."""

    verdict: Verdict = Verdict.PASS
    properties: tuple[str, ...] = ()
    """One of these must have the first finding."""
    input: int | None = None
    input_element: tuple[int, ...] | None = None
    cause: str = ""
    """Part of the hint."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function of arrays, what claims to be its derivative, a point, and what a check must say.

    `function(xp, *inputs)` is an array, `vjp(xp, v, *inputs)` a tuple with a gradient for each input, in the convention
    dL/da + i dL/db, `jvp(xp, tangents, *inputs)` the derivative along a tuple of tangents.
    """

    name: str
    function: Rule
    inputs: tuple[NDArray[Any], ...]
    vjp: Rule | None = None
    jvp: Rule | None = None
    expected: Expected = Expected()
    needs: frozenset[str] = frozenset()
    """Features of a backend: "complex", and "state" for rules that change from call to call."""

    def __str__(self) -> str:
        return self.name


def _numbers(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).uniform(0.5, 1.5, size=shape)


def _mask(xp: Any, like: Any, *element: int) -> Any:
    """1 in one element, 0 elsewhere."""
    mask = np.zeros(tuple(like.shape))
    mask[element] = 1.0
    return xp.asarray(mask)


# functions, each with its right rules


def _cube(xp: Any, x: Any) -> Any:
    return x * x * x


def _cube_vjp(xp: Any, v: Any, x: Any) -> Any:
    return (3.0 * x * x * v,)


def _cube_jvp(xp: Any, tangents: Any, x: Any) -> Any:
    return 3.0 * x * x * tangents[0]


def _energy(xp: Any, x: Any) -> Any:
    return (xp.exp(x) * x).sum()


def _energy_vjp(xp: Any, v: Any, x: Any) -> Any:
    return (v * xp.exp(x) * (1.0 + x),)


def _energy_jvp(xp: Any, tangents: Any, x: Any) -> Any:
    return (xp.exp(x) * (1.0 + x) * tangents[0]).sum()


def _linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    return x @ weight + bias


def _linear_vjp(xp: Any, v: Any, x: Any, weight: Any, bias: Any) -> Any:
    return v @ weight.T, x.T @ v, v.sum(0)


def _linear_jvp(xp: Any, tangents: Any, x: Any, weight: Any, bias: Any) -> Any:
    return tangents[0] @ weight + x @ tangents[1] + tangents[2]


def _softmax(xp: Any, x: Any) -> Any:
    weights = xp.exp(x)
    return weights / weights.sum(-1, keepdims=True)


def _softmax_vjp(xp: Any, v: Any, x: Any) -> Any:
    y = _softmax(xp, x)
    return (y * (v - (v * y).sum(-1, keepdims=True)),)


def _softmax_jvp(xp: Any, tangents: Any, x: Any) -> Any:
    y = _softmax(xp, x)
    return y * (tangents[0] - (tangents[0] * y).sum(-1, keepdims=True))


def _ramp(xp: Any, x: Any) -> Any:
    return x * (x > 0)


def _ramp_vjp(xp: Any, v: Any, x: Any) -> Any:
    return (v * (x > 0),)


def _ramp_jvp(xp: Any, tangents: Any, x: Any) -> Any:
    return tangents[0] * (x > 0)


def _square_vjp(xp: Any, v: Any, z: Any) -> Any:
    return (2.0 * xp.conj(z) * v,)


def _square_jvp(xp: Any, tangents: Any, z: Any) -> Any:
    return 2.0 * z * tangents[0]


_CALLS = itertools.count()


def _restless_vjp(xp: Any, v: Any, x: Any) -> Any:
    return (3.0 * x * x * v * (1.0 + 1e-3 * (next(_CALLS) % 7)),)


def _raising_vjp(xp: Any, v: Any, x: Any) -> Any:
    raise RuntimeError("planted")


_X, _W, _B, _S = _numbers(4, 3), _numbers(3, 2, seed=1), _numbers(2, seed=2), _numbers(3, 3, seed=3)
_Z = _numbers(4) * np.exp(1j * np.arange(4.0))
_AT_KINK = np.array([0.7, 0.0, -0.4])

CUBE = Scenario("cube", _cube, (_X,), _cube_vjp, _cube_jvp)
ENERGY = Scenario("one number", _energy, (_X,), _energy_vjp, _energy_jvp)
LINEAR = Scenario("three inputs", _linear, (_X, _W, _B), _linear_vjp, _linear_jvp)
SOFTMAX = Scenario("dense Jacobian", _softmax, (_S,), _softmax_vjp, _softmax_jvp)
COMPLEX = Scenario("complex", lambda xp, z: z * z, (_Z,), _square_vjp, _square_jvp, needs=frozenset({"complex"}))


def _wrong(
    scenario: Scenario,
    mistake: str,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    *,
    needs: tuple[str, ...] = (),
    properties: tuple[str, ...] = ("jacobian",),
    **expected: Any,
) -> Scenario:
    return replace(
        scenario,
        name=f"{scenario.name}: {mistake}",
        vjp=vjp,
        jvp=jvp,
        expected=Expected(Verdict.FAIL, properties, **expected),
        needs=scenario.needs | frozenset(needs),
    )


_RIGHT = (
    CUBE,
    ENERGY,
    LINEAR,
    SOFTMAX,
    COMPLEX,
    Scenario("a valid subgradient at a kink", _ramp, (_AT_KINK,), _ramp_vjp, _ramp_jvp),
    Scenario("many elements", _cube, (_numbers(50, 40),), _cube_vjp, _cube_jvp),
)

_WRONG = (
    _wrong(
        CUBE,
        "a factor",
        lambda xp, v, x: (2.0 * x * x * v,),
        lambda xp, tangents, x: 2.0 * x * x * tangents[0],
        input=0,
        cause="0.6667 × numeric",
    ),
    _wrong(
        CUBE,
        "the sign",
        lambda xp, v, x: (-3.0 * x * x * v,),
        lambda xp, tangents, x: -3.0 * x * x * tangents[0],
        input=0,
        cause="the sign is wrong",
    ),
    _wrong(
        CUBE,
        "one element, by 1e-5",
        lambda xp, v, x: (3.0 * x * x * v * (1.0 + 1e-5 * _mask(xp, x, 2, 1)),),
        lambda xp, tangents, x: 3.0 * x * x * tangents[0] * (1.0 + 1e-5 * _mask(xp, x, 2, 1)),
        input=0,
        input_element=(2, 1),
    ),
    _wrong(
        replace(CUBE, name="many elements", inputs=(_numbers(50, 40),)),
        "one of them",
        lambda xp, v, x: (3.0 * x * x * v * (1.0 + 1e-4 * _mask(xp, x, 31, 7)),),
        lambda xp, tangents, x: 3.0 * x * x * tangents[0] * (1.0 + 1e-4 * _mask(xp, x, 31, 7)),
        input=0,
        input_element=(31, 7),
    ),
    _wrong(CUBE, "not multiplied by the cotangent", lambda xp, v, x: (3.0 * x * x,), properties=()),
    _wrong(CUBE, "not linear", lambda xp, v, x: (3.0 * x * x * xp.abs(v),), properties=()),
    _wrong(ENERGY, "a term is missing", lambda xp, v, x: (v * xp.exp(x) * x,), input=0),
    _wrong(
        LINEAR,
        "a mean in place of a sum",
        lambda xp, v, x, weight, bias: (v @ weight.T, x.T @ v, v.mean(0)),
        input=2,
        cause="a mean in place of a sum",
    ),
    _wrong(
        LINEAR,
        "a gradient is lost",
        lambda xp, v, x, weight, bias: (v @ weight.T, 0.0 * (x.T @ v), v.sum(0)),
        lambda xp, tangents, x, weight, bias: tangents[0] @ weight + tangents[2],
        input=1,
        cause="analytic is 0",
    ),
    _wrong(
        SOFTMAX,
        "the coupling is missing",
        lambda xp, v, x: (_softmax(xp, x) * v,),
        lambda xp, tangents, x: _softmax(xp, x) * tangents[0],
        input=0,
    ),
    _wrong(
        COMPLEX,
        "a missing conjugate",
        lambda xp, v, z: (2.0 * z * v,),
        lambda xp, tangents, z: 2.0 * xp.conj(z) * tangents[0],
        input=0,
    ),
    _wrong(CUBE, "changes from call to call", _restless_vjp, needs=("state",), properties=("determinism", "jacobian")),
    _wrong(CUBE, "raises", _raising_vjp, properties=()),
    Scenario(
        "beyond a kink",
        _ramp,
        (_AT_KINK,),
        lambda xp, v, x: (v * (x > 0) + 2.0 * v * _mask(xp, x, 1),),
        lambda xp, tangents, x: tangents[0] * (x > 0) + 2.0 * tangents[0] * _mask(xp, x, 1),
        Expected(Verdict.FAIL, ("jacobian",), 0, (1,)),
    ),
)

SCENARIOS: tuple[Scenario, ...] = _RIGHT + _WRONG
"""Right ones first. A report of a right one passes; of a wrong one it fails, with the place where that is known."""
