"""The call under test: its arguments, which of them are differentiated, and how functions are called with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradproof.backends.calls import Arrays, parameter_names
from gradproof.backends.numpy.arrays import Like, as_numbers, join, split
from gradproof.backends.numpy.bounds import Box, read_bounds
from gradproof.backends.numpy.surroundings import Surroundings
from gradproof.core.problem import NothingToCheckError
from gradproof.core.space import Space
from gradproof.core.types import Indices, Vector


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


_ARRAYS = Arrays((np.ndarray,), callable, "{}{}".format, _itself)
"""For the names of parameters: nothing else is asked of it."""


class Setting:
    """Arguments of a call, some of them under test. Every function is called with new arrays, never with the user's."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        wrt: Sequence[str | int] | None,
        bounds: Any,
    ) -> None:
        self._arguments, self._keywords = tuple(arguments), dict(keywords)
        self._names = _names(function, len(self._arguments))
        self.tested = self._chosen(wrt)
        arrays = [as_numbers(self._arguments[k], self.label(k)) for k in self.tested]
        free = self._bounded(arrays, bounds)
        self.likes: list[Like] = []
        for k, array, moves in zip(self.tested, arrays, free, strict=True):
            start = self.likes[-1].block.stop if self.likes else 0
            number = not isinstance(self._arguments[k], np.ndarray | list | tuple)
            made = Like.of(array.copy(), "input", k, self._names[k], start, moves)
            self.likes.append(Like(made.array, made.block, made.free, is_number=number and not array.shape))
        self.space = Space(tuple(like.block for like in self.likes))
        self.point = join([like.read(like.array) for like in self.likes])
        self.box = self._box(bounds)
        constants = {self.label(k): value for k, value in enumerate(self._arguments) if k not in self.tested}
        self.constants = constants | {f"`{name}`": value for name, value in self._keywords.items()}
        self._surroundings = Surroundings(self.constants)

    def label(self, position: int) -> str:
        name = self._names[position]
        return f"input {position}" + (f" `{name}`" if name else "")

    @property
    def is_real(self) -> bool:
        """Whether all that is differentiated is real and in double precision."""
        return all(like.array.dtype == np.float64 for like in self.likes)

    @property
    def fixed(self) -> list[str]:
        """What the bounds do not let move, in words."""
        held = [(like, like.array.size - len(like.free)) for like in self.likes if like.free is not None]
        return [f"{count} elements of {like.block.label} (their bounds are equal)" for like, count in held if count]

    def call(
        self,
        function: Callable[..., Any],
        point: Vector,
        *further: Any,
        dtype: Any = None,
        overwritten: list[str] | None = None,
    ) -> Any:
        """`function(x, *further, *args)` at a point; the arrays that it wrote to are added to `overwritten`."""
        parts = split(self.likes, point)
        arrays = [like.write(part, dtype=dtype) for like, part in zip(self.likes, parts, strict=True)]
        return self.call_with(function, arrays, *further, overwritten=overwritten)

    def call_with(
        self, function: Callable[..., Any], arrays: Sequence[Any], *further: Any, overwritten: list[str] | None = None
    ) -> Any:
        """The same with these arrays in place of the inputs under test."""
        arguments = list(self._arguments)
        for k, array in zip(self.tested, arrays, strict=True):
            arguments[k] = array
        kept = [np.copy(array) for array in arrays] if overwritten is not None else []
        first, *rest = arguments
        value = self._surroundings.run(function, (first, *further, *rest), self._keywords, overwritten)
        for k, array, before in zip(self.tested, arrays, kept, strict=False):
            if overwritten is not None and not np.array_equal(array, before, equal_nan=True):
                overwritten.append(self.label(k))
        return value

    def put_back(self) -> None:
        self._surroundings.put_back()

    def _chosen(self, wrt: Sequence[str | int] | None) -> tuple[int, ...]:
        if not self._arguments:
            raise NothingToCheckError("there is nothing to check: the function has no arguments")
        if wrt is None:
            return (0,)
        chosen: set[int] = set()
        for wanted in wrt:
            found = [k for k, name in enumerate(self._names) if wanted == name or (wanted == k and wanted is not True)]
            if not found:
                known = ", ".join(self.label(k) for k in range(len(self._arguments)))
                raise ValueError(f"wrt={wanted!r} selects nothing; the arguments are {known}")
            chosen.update(found)
        return tuple(sorted(chosen))

    def _bounded(self, arrays: Sequence[Any], bounds: Any) -> list[Indices | None]:
        """Of each array, the elements that its bounds let move; None: all."""
        if bounds is None:
            return [None] * len(arrays)
        if len(arrays) != 1 or arrays[0].dtype.kind == "c":
            raise ValueError("bounds are those of one real array: differentiate with respect to one at a time (wrt=)")
        array = arrays[0]
        lower, upper = read_bounds(bounds, array.size)
        flat = array.reshape(-1)
        if (bad := np.flatnonzero((flat < lower) | (flat > upper))).size:
            k = int(bad[0])
            raise ValueError(f"x is outside its bounds: element {k} is {flat[k]}, not in [{lower[k]}, {upper[k]}]")
        free = np.flatnonzero(lower < upper)
        if not len(free):
            raise NothingToCheckError("there is nothing to check: the bounds of every element are equal")
        return [None if len(free) == array.size else free]

    def _box(self, bounds: Any) -> Box | None:
        if bounds is None:
            return None
        lower, upper = read_bounds(bounds, self.likes[0].array.size)
        free = slice(None) if self.likes[0].free is None else self.likes[0].free
        return Box(lower[free], upper[free], self.point)


def _names(function: Callable[..., Any], count: int) -> list[str]:
    names = [*parameter_names(function, _ARRAYS)[:count]]
    return names + [""] * (count - len(names))
