"""What a call may change besides what it returns: constant arrays, random states. Put back after each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from gradproof.backends.calls import flatten_outputs
from gradproof.backends.numpy.arrays import Array
from gradproof.backends.random_states import HostGenerators

_GENERATORS = (np.random.Generator, np.random.RandomState)


class Surroundings:
    """Constant arguments and random states as they were when this was made.

    Each call sees them so: a function that draws random numbers draws the same ones each time.
    """

    def __init__(self, constants: Mapping[str, Any]) -> None:
        """`constants` are arguments that are not under test, by what reports call them."""
        self._host = HostGenerators()
        leaves = [(label, leaf) for label, value in constants.items() for leaf in flatten_outputs(value, (np.ndarray,))]
        self._arrays = [(label, leaf, leaf.copy()) for label, leaf in leaves if _is_numeric(leaf)]
        self._generators = [(leaf, _state_of(leaf)) for _, leaf in leaves if isinstance(leaf, _GENERATORS)]

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        overwritten: list[str] | None = None,
    ) -> Any:
        """What the function returns; constants and random states are put back, also if it raises.

        The labels of the constants that it wrote to are added to `overwritten`.
        """
        try:
            return function(*arguments, **keywords)
        finally:
            if overwritten is not None:
                overwritten += dict.fromkeys(label for label, array, kept in self._arrays if not _same(array, kept))
            self.put_back()

    def put_back(self) -> None:
        self._host.rewind()
        for generator, state in self._generators:
            _rewind(generator, state)
        for _, array, kept in self._arrays:
            if not _same(array, kept):
                array[...] = kept


def _state_of(generator: Any) -> Any:
    """All of it; a copy."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def _rewind(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and cast(Array, value).dtype.kind in "biufc"
