"""What a function is made of, as far as its trace tells: rules that take symbolic zeros, random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

_RULES = ("custom_vjp", "custom_jvp")
_RANDOM = ("random_", "threefry", "rng_")


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
