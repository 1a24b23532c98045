"""A function of arrays and what JAX makes of it: J^T v, J u, parts of both, and batches. Each is compiled once.

The function itself is traced once: JAX differentiates and batches what that trace recorded. A function that cannot be
traced (it branches on values, or keeps things in Python) is called as it is, and `notes` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.backends.jax.arrays import in_double

Arrays = Sequence[Any]
Run = Callable[[Any, Any], tuple[Any, ...]]
"""Arrays under test and constants in, the outputs that count out."""
Reverse = Callable[[Run, Any, Any, Any], tuple[Any, ...]]
"""J^T v of a function at some arrays, with some constants, for some cotangents in JAX's convention."""
Forward = Callable[[Run, Any, Any, Any], tuple[Any, ...]]

_NOT_TRACED = "{what} cannot be traced by jax.jit ({why})"
_AS_IT_IS = "{why}: it was run as it is, not compiled"


def pulled(run: Run, moved: Any, constants: Any, cotangents: Any) -> tuple[Any, ...]:
    """J^T v by reverse mode."""
    return jax.vjp(lambda *arrays: run(arrays, constants), *moved)[1](tuple(cotangents))


def pushed(run: Run, moved: Any, constants: Any, tangents: Any) -> tuple[Any, ...]:
    """J u by forward mode."""
    return jax.jvp(lambda *arrays: run(arrays, constants), tuple(moved), tuple(tangents))[1]


def value_pulled(run: Run, moved: Any, constants: Any) -> tuple[Any, ...]:
    """F, as reverse mode computes it on its way: the fwd of a custom_vjp has its own."""
    return jax.vjp(lambda *arrays: run(arrays, constants), *moved)[0]


def value_pushed(run: Run, moved: Any, constants: Any) -> tuple[Any, ...]:
    """F, as forward mode computes it: so has the rule of a custom_jvp."""
    tangents = tuple(map(jnp.zeros_like, moved))
    return jax.jvp(lambda *arrays: run(arrays, constants), tuple(moved), tangents)[0]


class Function(NamedTuple):
    """A function of arrays: as it may be traced, and as it is called outside of a trace; with its constants.

    `reverse` and `forward` are what claims to be its derivative: JAX's own, or somebody's.
    """

    traced: Run
    plain: Run
    constants: tuple[Any, ...]
    reverse: Reverse = pulled
    forward: Forward = pushed


class _Way:
    """One transformation: compiled, or plain once that has worked where compiling did not."""

    def __init__(self, what: str, compiled: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self._what, self._compiled, self._plain = what, compiled, plain
        self._is_compiled: bool | None = None
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
        traced, plain = jax.jit(function.traced), function.plain
        self._traced = traced
        reverse, forward = function.reverse, function.forward
        self._evaluate = _Way("the function", traced, plain)
        self._pull = _Way("the vjp", jax.jit(lambda *given: reverse(traced, *given)), _bound(reverse, plain))
        self._push = _Way("the jvp", jax.jit(lambda *given: forward(traced, *given)), _bound(forward, plain))
        self._batches: dict[Any, Callable[..., Any]] = {}

    @property
    def traced(self) -> Run:
        """The function as the one that is traced once."""
        return self._traced

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be compiled, and why."""
        if self._evaluate.note:
            return (self._evaluate.note,)
        return tuple(filter(None, (self._pull.note, self._push.note)))

    @property
    def compiles(self) -> bool:
        """Whether the function is compiled, as far as that is known."""
        return not self._evaluate.note

    def give_up(self, why: str) -> None:
        """The function is to be called as it is."""
        for way in (self._evaluate, self._pull, self._push):
            way.give_up(why)

    def _around(self) -> AbstractContextManager[Any]:
        return in_double() if self._wide else nullcontext()

    def placed(self, arrays: Arrays) -> tuple[Any, ...]:
        """The same as arrays of JAX's own: they are handed over many times."""
        with self._around():
            return _as_arrays(tuple(arrays))

    def evaluate(self, moved: Arrays) -> Arrays:
        """F there."""
        with self._around():
            return _done(self._evaluate(tuple(moved), self.function.constants))

    def pull(self, moved: Arrays, cotangents: Arrays) -> Arrays:
        """J^T v there."""
        with self._around():
            return _done(self._pull(tuple(moved), self.function.constants, tuple(cotangents)))

    def push(self, moved: Arrays, tangents: Arrays) -> Arrays:
        """J u there."""
        with self._around():
            return _done(self._push(tuple(moved), self.function.constants, tuple(tangents)))

    def value_by(self, way: Callable[..., tuple[Any, ...]], moved: Arrays) -> Arrays:
        """F there, as a mode computes it on its way."""
        with self._around():
            return _done(way(self._run, _as_arrays(tuple(moved)), self.function.constants))

    # with some cotangents or tangents left out

    def pull_without(self, moved: Arrays, cotangents: Arrays, absent: frozenset[int]) -> Arrays:
        """J^T v, where nothing but the other outputs is asked for: rules get symbolic zeros for those."""
        kept = [i for i in range(len(cotangents)) if i not in absent]

        def run(arrays: Any, constants: Any) -> tuple[Any, ...]:
            outputs = self._run(arrays, constants)
            return tuple(outputs[i] for i in kept)

        with self._around():
            arrays, given = _as_arrays((tuple(moved), tuple(cotangents[i] for i in kept)))
            return _done(self.function.reverse(run, arrays, self.function.constants, given))

    def push_without(self, moved: Arrays, tangents: Arrays, absent: frozenset[int]) -> Arrays:
        """J u, where the inputs in `absent` are constants: rules get symbolic zeros for those."""
        kept = [i for i in range(len(tangents)) if i not in absent]

        def run(arrays: Any, constants: Any) -> tuple[Any, ...]:
            by_place = dict(zip(kept, arrays, strict=True))
            return self._run(tuple(by_place.get(i, value) for i, value in enumerate(whole)), constants)

        with self._around():
            (whole,) = _as_arrays((tuple(moved),))
            given = _as_arrays(tuple(tangents[i] for i in kept))
            return _done(self.function.forward(run, [whole[i] for i in kept], self.function.constants, given))

    @property
    def _run(self) -> Run:
        return self._traced if self.compiles else self.function.plain

    # batches

    def evaluate_rows(self, moved: Arrays, still: frozenset[int]) -> Arrays:
        """F of batches; the arrays in `still` are single."""
        axes = tuple(None if k in still else 0 for k in range(len(moved)))
        return self._batched(still, self._traced, (axes, None), tuple(moved), self.function.constants)

    def pull_rows(self, moved: Arrays, cotangents: Arrays) -> Arrays:
        """J^T v for batches of cotangents."""
        run = _bound(self.function.reverse, self._traced)
        return self._batched("pull", run, _LAST, tuple(moved), self.function.constants, tuple(cotangents))

    def push_rows(self, moved: Arrays, tangents: Arrays) -> Arrays:
        """J u for batches of tangents."""
        run = _bound(self.function.forward, self._traced)
        return self._batched("push", run, _LAST, tuple(moved), self.function.constants, tuple(tangents))

    def _batched(self, key: Any, run: Callable[..., Any], axes: tuple[Any, ...], *arguments: Any) -> Arrays:
        if key not in self._batches:
            self._batches[key] = jax.jit(jax.vmap(run, in_axes=axes))
        with self._around():
            return _done(self._batches[key](*arguments))


_LAST = (None, None, 0)
"""The axes of a batch of cotangents or tangents, at one point with the same constants."""


def _bound(rule: Callable[..., Any], run: Run) -> Callable[..., Any]:
    return lambda *given: rule(run, *given)


def _as_arrays(arguments: Any) -> Any:
    """Copies as arrays of JAX's own: user code outside of a trace may index, update and keep them."""
    return jax.tree.map(jnp.array, arguments)


def _done(answer: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The answer, once it is there."""
    return tuple(np.asarray(each) for each in answer)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
