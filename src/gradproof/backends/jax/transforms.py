"""A function of arrays and what is asked of it: F, J^T v, J u, parts of both, and batches.

All go through what `compiled.py` has of the function. A function that cannot be traced (it branches on values, or keeps
things in Python) is called as it is, and `notes` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.backends.jax.arrays import in_double, is_double
from gradproof.backends.jax.compiled import Derived, Forward, Reverse, Run, compiled, pulled, pushed
from gradproof.backends.jax.rules import Ingredients

Arrays = Sequence[Any]

_NOT_TRACED = "{what} cannot be traced by jax.jit ({why})"
_AS_IT_IS = "{why}: it was run as it is, not compiled"


class Function(NamedTuple):
    """A function of arrays: as it may be traced, and as it is called outside of a trace; with its constants.

    `reverse` and `forward` are what claims to be its derivative: JAX's own, or somebody's. Functions of one `key` have
    the same trace; None: nothing is known of that.
    """

    traced: Run
    plain: Run
    constants: tuple[Any, ...]
    reverse: Reverse = pulled
    forward: Forward = pushed
    key: Hashable = None


class _Way:
    """One transformation: compiled, or plain once that has worked where compiling did not."""

    def __init__(
        self, what: str, compiled: Callable[..., Any], plain: Callable[..., Any], *, compiles: bool | None = None
    ) -> None:
        """`compiles`: whether it does, where that is known."""
        self._what, self._compiled, self._plain = what, compiled, plain
        self._is_compiled = compiles
        self.note = ""

    def __call__(self, *arguments: Any) -> Any:
        if self._is_compiled is False:
            return self._plain(*_as_arrays(arguments))
        try:
            answer = self._compiled(*arguments)
        except Exception as error:
            if self._is_compiled:
                raise
            answer = self._plain(*_as_arrays(arguments))  # what this raises is what the user would see
            self.give_up(_NOT_TRACED.format(what=self._what, why=_first_line(error)))
            return answer
        self._is_compiled = True
        return answer

    def give_up(self, why: str) -> None:
        """From now on, plain."""
        self._is_compiled = False
        self.note = _AS_IT_IS.format(why=why)


class Transforms:
    """What is asked of a function, with arrays for answers; in double precision if it is `wide`."""

    def __init__(self, function: Function, *, wide: bool = False) -> None:
        self.function, self._wide = function, wide
        self._compiled = compiled(function.traced, function.key)
        self._evaluate = _Way("the function", self._compiled.run, function.plain)
        self._products: dict[tuple[str, bool], _Way] = {}

    def _product(self, what: str, rule: Callable[..., Derived], values: bool) -> _Way:
        """The way to a vjp or a jvp. It is made when it is asked for: that takes a third of a millisecond."""
        key = what, values
        if key not in self._products:
            jitted, plain = self._compiled.product(rule, values=values), _bound(rule, self.function.plain)
            self._products[key] = _Way(what, jitted, plain, compiles=None if self.compiles else False)
        return self._products[key]

    def ingredients(self, moved: Arrays) -> Ingredients:
        """What the function is made of."""
        with self._around():
            return Ingredients(self._compiled.run, tuple(moved), self.function.constants)

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be compiled, and why."""
        if self._evaluate.note:
            return (self._evaluate.note,)
        return tuple(dict.fromkeys(way.note for way in self._products.values() if way.note))

    @property
    def compiles(self) -> bool:
        """Whether the function is compiled, as far as that is known."""
        return not self._evaluate.note

    def give_up(self, why: str) -> None:
        """The function is to be called as it is."""
        for way in (self._evaluate, *self._products.values()):
            way.give_up(why)

    def _around(self) -> AbstractContextManager[Any]:
        return in_double() if self._wide and not is_double() else nullcontext()

    def placed(self, arrays: Arrays) -> tuple[Any, ...]:
        """The same as arrays of JAX's own: they are handed over many times."""
        with self._around():
            return _as_arrays(tuple(arrays))

    def evaluate(self, moved: Arrays) -> Arrays:
        """F there."""
        with self._around():
            return _done(self._evaluate(tuple(moved), self.function.constants))

    def pull(self, moved: Arrays, cotangents: Arrays, *, values: bool = False) -> Derived:
        """J^T v there, with the values beside it if they are asked for."""
        pull = self._product("the vjp", self.function.reverse, values)
        with self._around():
            return _derived(pull(tuple(moved), self.function.constants, tuple(cotangents)))

    def push(self, moved: Arrays, tangents: Arrays, *, values: bool = False) -> Derived:
        """J u there, with the values beside it if they are asked for."""
        push = self._product("the jvp", self.function.forward, values)
        with self._around():
            return _derived(push(tuple(moved), self.function.constants, tuple(tangents)))

    # with some cotangents or tangents left out

    def pull_without(self, moved: Arrays, cotangents: Arrays, absent: frozenset[int]) -> Arrays:
        """J^T v, where nothing but the other outputs is asked for: rules get symbolic zeros for those."""
        kept = [i for i in range(len(cotangents)) if i not in absent]

        def run(arrays: Any, constants: Any) -> tuple[Any, ...]:
            outputs = self._run(arrays, constants)
            return tuple(outputs[i] for i in kept)

        with self._around():
            arrays, given = _as_arrays((tuple(moved), tuple(cotangents[i] for i in kept)))
            return _done(self.function.reverse(run, arrays, self.function.constants, given).products)

    def push_without(self, moved: Arrays, tangents: Arrays, absent: frozenset[int]) -> Arrays:
        """J u, where the inputs in `absent` are constants: rules get symbolic zeros for those."""
        kept = [i for i in range(len(tangents)) if i not in absent]

        def run(arrays: Any, constants: Any) -> tuple[Any, ...]:
            by_place = dict(zip(kept, arrays, strict=True))
            return self._run(tuple(by_place.get(i, value) for i, value in enumerate(whole)), constants)

        with self._around():
            (whole,) = _as_arrays((tuple(moved),))
            given = _as_arrays(tuple(tangents[i] for i in kept))
            return _done(self.function.forward(run, [whole[i] for i in kept], self.function.constants, given).products)

    @property
    def _run(self) -> Run:
        return self._compiled.run if self.compiles else self.function.plain

    # batches

    def evaluate_rows(self, moved: Arrays, still: frozenset[int]) -> Arrays:
        """F of batches; the arrays in `still` are single."""
        axes = tuple(None if k in still else 0 for k in range(len(moved)))
        with self._around():
            return _done(self._compiled.rows(axes)(tuple(moved), self.function.constants))

    def pull_rows(self, moved: Arrays, cotangents: Arrays) -> Arrays:
        """J^T v for batches of cotangents."""
        return self._product_rows(self.function.reverse, moved, cotangents)

    def push_rows(self, moved: Arrays, tangents: Arrays) -> Arrays:
        """J u for batches of tangents."""
        return self._product_rows(self.function.forward, moved, tangents)

    def _product_rows(self, rule: Callable[..., Derived], moved: Arrays, given: Arrays) -> Arrays:
        run = self._compiled.product_rows(rule)
        with self._around():
            return _done(run(tuple(moved), self.function.constants, tuple(given)))


def _bound(rule: Callable[..., Any], run: Run) -> Callable[..., Any]:
    return lambda *given: rule(run, *given)


def _derived(answer: Derived) -> Derived:
    """The products, once they are there; values are left where they are, since few look at them."""
    return answer._replace(products=_done(answer.products))


def _as_arrays(arguments: Any) -> Any:
    """Copies as arrays of JAX's own: user code outside of a trace may index, update and keep them."""
    return jax.tree.map(jnp.array, arguments)


def _done(answer: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The answer, once it is there."""
    return tuple(np.asarray(each) for each in answer)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
