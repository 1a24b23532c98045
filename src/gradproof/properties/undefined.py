"""A cotangent or tangent that is not there (None) counts as zeros."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import same, worst_difference
from gradproof.core.capabilities import Omission
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Apply, Mode
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.results.finding import Finding

# Patterns tried of a space's blocks, besides all together.
_MOST = 8


class _Direction(NamedTuple):
    """A derivative applied to a probe, as a whole (`defined`) and where some of its blocks are absent."""

    mode: Mode
    space: Space
    probe: Vector
    defined: Apply
    without: Callable[[Vector, frozenset[int]], Vector]
    hint: str


def undefined(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Leave out each cotangent in turn and all together; in forward mode, each tangent."""
    for direction in _directions(investigation, options):
        with_all = direction.mode is Mode.REVERSE
        for absent in _patterns(len(direction.space.blocks), with_all=with_all):
            yield from _try(direction, absent, options.nondet_tol)


def _directions(investigation: Investigation, options: Options) -> Iterator[_Direction]:
    problem, omission, hint = investigation.problem, investigation.asks(Omission), investigation.problem.words.omitted
    if Mode.REVERSE in options.modes and omission.vjp is not None:
        apply, without = investigation.vjp, investigation.vjp_without
        yield _Direction(Mode.REVERSE, problem.outputs, investigation.cotangent, apply, without, hint)
    if Mode.FORWARD in options.modes and omission.jvp is not None:
        apply, without = investigation.jvp, investigation.jvp_without
        yield _Direction(Mode.FORWARD, problem.inputs, investigation.tangent, apply, without, hint)


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
        yield _finding(direction, absent, f"it raised {type(error).__name__}: {error}", error)
        return
    if all_absent and not got.any():
        return
    want = np.zeros_like(got) if all_absent else direction.defined(probe)
    if not same(want, got, space.coarsest_eps, slack):
        worst = worst_difference(want, got)
        differs = f"the result differs from the one with zeros ({got[worst]:.9g} instead of {want[worst]:.9g})."
        yield _finding(direction, absent, differs)


def _finding(direction: _Direction, absent: frozenset[int], what: str, cause: Exception | None = None) -> Finding:
    probe = "cotangent" if direction.mode is Mode.REVERSE else "tangent"
    return Finding(
        property="undefined",
        mode=direction.mode,
        status=Status.WRONG,
        headline=(
            f"In {direction.mode}, a {probe} that is left out does not count as zeros: "
            f"with none for {_names(direction.space, absent)} {what}"
        ),
        hint=direction.hint,
        cause=cause,
    )


def _zeroed(probe: Vector, space: Space, absent: frozenset[int]) -> Vector:
    zeroed = probe.copy()
    for i in absent:
        zeroed[space.blocks[i].slice] = 0.0
    return zeroed


def _names(space: Space, which: frozenset[int]) -> str:
    return ", ".join(space.blocks[i].label for i in sorted(which))
