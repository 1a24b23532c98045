"""What JAX compiles of a function: itself, J^T v and J u, and batches of these. Each is made when it is asked for.

The function is traced once: JAX differentiates and batches what that trace recorded.

Of a function that the user has compiled with `jax.jit`, JAX keeps the trace for as long as the function lives, with the
rules of its derivatives. What is compiled of such a function is kept here too, so that the next check of it, at another
point or with another seed, compiles nothing. Any other function is traced anew for every check: what it reads besides
its arguments may have changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax

Run = Callable[[Any, Any], tuple[Any, ...]]
"""Arrays under test and constants in, the outputs that count out."""


class Derived(NamedTuple):
    """What a mode gives of a function: J^T v or J u, and beside it the values that were computed on the way.

    The fwd of a custom_vjp and the rule of a custom_jvp have values of their own. None are there where nobody asks.
    """

    values: tuple[Any, ...]
    products: tuple[Any, ...]


Reverse = Callable[[Run, Any, Any, Any], Derived]
"""J^T v of a function at some arrays, with some constants, for some cotangents in JAX's convention."""
Forward = Callable[[Run, Any, Any, Any], Derived]

_KEPT = 32
"""Of so many functions, those checked last, what was compiled is kept."""


def pulled(run: Run, moved: Any, constants: Any, cotangents: Any) -> Derived:
    """J^T v by reverse mode."""
    values, pull = jax.vjp(lambda *arrays: run(arrays, constants), *moved)
    return Derived(values, pull(tuple(cotangents)))


def pushed(run: Run, moved: Any, constants: Any, tangents: Any) -> Derived:
    """J u by forward mode."""
    return Derived(*jax.jvp(lambda *arrays: run(arrays, constants), tuple(moved), tuple(tangents)))


class Compiled:
    """The compiled functions, which share one trace."""

    def __init__(self, traced: Run) -> None:
        self.run: Any = jax.jit(traced)
        self._made: dict[Hashable, Any] = {}

    def product(self, rule: Reverse | Forward, *, values: bool) -> Any:
        """J^T v or J u by a rule; with the values beside it, if they are asked for."""
        traced = self.run

        def run(*given: Any) -> Derived:
            derived = rule(traced, *given)
            return derived if values else derived._replace(values=())  # what is not returned is not computed

        return self._jitted((rule, values), lambda: run)

    def product_rows(self, rule: Reverse | Forward) -> Any:
        """The same for a batch of cotangents or tangents, at one point."""
        traced = self.run
        return self._jitted(rule, lambda: jax.vmap(lambda *given: rule(traced, *given).products, (None, None, 0)))

    def rows(self, axes: tuple[int | None, ...]) -> Any:
        """F of batches, where an axis is given."""
        return self._jitted(axes, lambda: jax.vmap(self.run, in_axes=(axes, None)))

    def _jitted(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = jax.jit(make())
        return self._made[key]


class _Recipe:
    """How to make what is compiled; the same as another of the same key."""

    def __init__(self, traced: Run, key: Hashable) -> None:
        self.traced, self.key = traced, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recipe) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def compiled(traced: Run, key: Hashable = None) -> Compiled:
    """What is compiled of a function: that of an earlier one, if this has the same key."""
    if key is None:
        return Compiled(traced)
    try:
        return _kept(_Recipe(traced, key))
    except (TypeError, ValueError):  # what somebody's own containers hold cannot be hashed, or not be compared
        return Compiled(traced)


@functools.lru_cache(maxsize=_KEPT)
def _kept(recipe: _Recipe) -> Compiled:
    return Compiled(recipe.traced)
