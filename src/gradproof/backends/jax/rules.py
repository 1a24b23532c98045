"""What a function is made of, as far as its trace tells: rules that take symbolic zeros, random numbers, its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.core.precision import DOUBLE

_RULES = ("custom_vjp", "custom_jvp")
_RANDOM = ("random_", "threefry", "rng_")
# Steps of which the trace does not tell what they do to numbers, or that are about their digits.
_OPAQUE = ("callback", "custom_call", "ffi", "pallas", "infeed", "reduce_precision", "bitcast", "nextafter")
_CONVERTS = "convert_element_type"


class Ingredients:
    """Of a function that was traced; of any other, nothing is known, and everything is possible."""

    def __init__(self, traced: Any, *arguments: Any) -> None:
        self._found: list[Any] | None
        try:
            self._found = list(_equations(_trace(traced, *arguments).jaxpr))
        except Exception:  # it cannot be traced, which is said elsewhere
            self._found = None

    @property
    def are_known(self) -> bool:
        """Whether the function was traced."""
        return self._found is not None

    @property
    def takes_symbolic_zeros(self) -> bool:
        """Whether a rule with symbolic_zeros=True is among them."""
        return self._found is None or any(equation.params.get("symbolic_zeros") for equation in self._found)

    @property
    def has_rules(self) -> bool:
        """Whether somebody's custom_jvp or custom_vjp is among them: then the value may be another when derived."""
        return self._found is None or any(equation.primitive.name.startswith(_RULES) for equation in self._found)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers by PRNG keys."""
        return self._found is None or any(equation.primitive.name.startswith(_RANDOM) for equation in self._found)

    def are_those_of(self, wide: Ingredients, eps: float) -> bool:
        """Whether another is this function in double precision: the same steps, none of which rounds to a lower one.

        `eps` is the precision of this one, to which constants are the same. What a trace does not tell is no.
        """
        if self._found is None or wide._found is None or self.draws:
            return False
        if any(map(_rounds, wide._found)) or any(map(_is_opaque, wide._found)):
            return False
        here, there = ([_Step.of(each) for each in found if not _widens(each)] for found in (self._found, wide._found))
        return len(here) == len(there) and all(one.is_like(two, eps) for one, two in zip(here, there, strict=True))


class _Step(NamedTuple):
    """One equation of a trace, whatever its precision: its name, the shapes that it gives, and the numbers in it."""

    name: str
    shapes: tuple[Any, ...]
    numbers: tuple[Any, ...]

    @staticmethod
    def of(equation: Any) -> _Step:
        shapes = tuple(getattr(each.aval, "shape", None) for each in equation.outvars)
        return _Step(
            equation.primitive.name, shapes, tuple(each.val for each in equation.invars if hasattr(each, "val"))
        )

    def is_like(self, other: _Step, eps: float) -> bool:
        if self[:2] != other[:2] or len(self.numbers) != len(other.numbers):
            return False
        pairs = zip(self.numbers, other.numbers, strict=True)
        return all(np.allclose(one, two, rtol=eps, atol=0.0, equal_nan=True) for one, two in pairs)


def _rounds(equation: Any) -> bool:
    """Whether an equation gives numbers of a lower precision than double."""
    dtypes = [getattr(each.aval, "dtype", None) for each in equation.outvars]
    floating = [dtype for dtype in dtypes if dtype is not None and jnp.issubdtype(dtype, jnp.inexact)]
    return any(float(jnp.finfo(dtype).eps) > DOUBLE for dtype in floating)


def _is_opaque(equation: Any) -> bool:
    return any(name in equation.primitive.name for name in _OPAQUE)


def _widens(equation: Any) -> bool:
    """Whether an equation converts to numbers that are not integers: in another precision there may be none."""
    return equation.primitive.name == _CONVERTS and bool(jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.inexact))


def _trace(jitted: Any, *arguments: Any) -> Any:
    """The trace that calls with such arguments have in common; before JAX 0.4.31 another one like it."""
    trace: Any = getattr(jitted, "trace", None)
    return jax.make_jaxpr(jitted)(*arguments) if trace is None else trace(*arguments).jaxpr


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Those of a jaxpr and of all that are inside of it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                found = getattr(inner, "jaxpr", inner)
                if hasattr(found, "eqns"):
                    yield from _equations(found)
