"""A cotangent or tangent that is not there (None) counts as zeros."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gradproof.core.compare import same, worst_difference
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Space
from gradproof.core.types import Vector

# Patterns tried of a space's blocks, besides all together.
_MOST = 8


class _Direction(NamedTuple):
    """A derivative applied to a probe, as a whole (`defined`) and where some of its blocks are absent."""

    space: Space
    probe: Vector
    defined: Callable[[Vector], Vector]
    without: Callable[[Vector, frozenset[int]], Vector]
    headline: str


def undefined(problem: Problem, options: Options) -> Iterator[Finding]:
    """Leave out each cotangent in turn and all together; in forward mode, each tangent."""
    if not problem.has_graph:
        return
    if Mode.REVERSE in options.modes:
        headline = "Expected backward function to handle undefined output grads: "
        reverse = _Direction(problem.outputs, problem.cotangent, problem.vjp, problem.vjp_undefined, headline)
        for absent in _patterns(len(problem.outputs.blocks), with_all=True):
            yield from _try(reverse, absent, options.nondet_tol)
    if Mode.FORWARD in options.modes:
        headline = "Expected forward AD to treat an undefined tangent as zeros: "
        forward = _Direction(problem.inputs, problem.tangent, problem.jvp, problem.jvp_undefined, headline)
        for absent in _patterns(len(problem.inputs.blocks), with_all=False):
            yield from _try(forward, absent, options.nondet_tol)


@functools.lru_cache(maxsize=64)
def _patterns(count: int, *, with_all: bool) -> tuple[frozenset[int], ...]:
    """Each block in turn; where there are many, several at a time."""
    parts = np.array_split(np.arange(count), min(count, _MOST)) if count > 1 else []
    some = tuple(frozenset[int](part.tolist()) for part in parts)
    return (*some, frozenset(range(count))) if with_all else some


def _try(direction: _Direction, absent: frozenset[int], slack: float) -> Iterator[Finding]:
    space, all_absent = direction.space, len(absent) == len(direction.space.blocks)
    probe = _zeroed(direction.probe, space, absent)
    try:
        got = direction.without(probe, absent)
    except Exception as error:
        yield Finding(
            property="undefined",
            status=Status.WRONG,
            message=(
                f"{direction.headline}with none for {_names(space, absent)} it raised {type(error).__name__}: {error}"
            ),
            hint="treat None as zeros, or leave materialising the zeros to autograd",
            cause=error,
        )
        return
    if all_absent and not got.any():
        return
    want = np.zeros_like(got) if all_absent else direction.defined(probe)
    if not same(want, got, space.coarsest_eps, slack):
        worst = worst_difference(want, got)
        yield Finding(
            property="undefined",
            status=Status.WRONG,
            message=(
                f"{direction.headline}with none for {_names(space, absent)} the result differs from the one with zeros "
                f"({got[worst]:.9g} instead of {want[worst]:.9g})."
            ),
        )


def _zeroed(probe: Vector, space: Space, absent: frozenset[int]) -> Vector:
    zeroed = probe.copy()
    for i in absent:
        zeroed[space.blocks[i].slice] = 0.0
    return zeroed


def _names(space: Space, which: frozenset[int]) -> str:
    return ", ".join(space.blocks[i].label for i in sorted(which))
