"""A cotangent or tangent that is not there (None) counts as zeros."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from gradproof.core.compare import same
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Space
from gradproof.core.types import Vector

_REVERSE = "Expected backward function to handle undefined output grads: "
_FORWARD = "Expected forward AD to treat an undefined tangent as zeros: "
# Patterns tried of a space's blocks, besides all together.
_MOST = 8


def undefined(problem: Problem, options: Options) -> Iterator[Finding]:
    """Leave out each cotangent in turn and all together; in forward mode, each tangent."""
    if not problem.has_graph:
        return
    slack = options.nondet_tol
    if Mode.REVERSE in options.modes:
        patterns = _patterns(len(problem.outputs.blocks), with_all=True)
        yield from _try(
            problem.outputs, patterns, problem.cotangent, problem.vjp, problem.vjp_undefined, _REVERSE, slack
        )
    if Mode.FORWARD in options.modes:
        patterns = _patterns(len(problem.inputs.blocks), with_all=False)
        yield from _try(problem.inputs, patterns, problem.tangent, problem.jvp, problem.jvp_undefined, _FORWARD, slack)


@functools.lru_cache(maxsize=64)
def _patterns(count: int, *, with_all: bool) -> list[frozenset[int]]:
    """Each block in turn; where there are many, several at a time."""
    parts = np.array_split(np.arange(count), min(count, _MOST)) if count > 1 else []
    some = [frozenset(part.tolist()) for part in parts]
    return [*some, frozenset(range(count))] if with_all else some


def _try(
    space: Space,
    patterns: list[frozenset[int]],
    probe: Vector,
    defined: Callable[[Vector], Vector],
    absent_from: Callable[[Vector, frozenset[int]], Vector],
    headline: str,
    slack: float,
) -> Iterator[Finding]:
    for absent in patterns:
        zeroed = probe.copy()
        for i in absent:
            zeroed[space.blocks[i].slice] = 0.0
        try:
            got = absent_from(zeroed, absent)
        except Exception as error:
            yield Finding(
                property="undefined",
                status=Status.WRONG,
                message=f"{headline}with none for {_names(space, absent)} it raised {type(error).__name__}: {error}",
                hint="treat None as zeros, or leave materialising the zeros to autograd",
                cause=error,
            )
            continue
        if len(absent) == len(space.blocks) and not got.any():
            continue
        want = defined(zeroed) if len(absent) < len(space.blocks) else np.zeros_like(got)
        if not same(want, got, space.coarsest_eps, slack):
            with np.errstate(invalid="ignore"):
                worst = int(np.argmax(np.nan_to_num(np.abs(got - want), nan=np.inf)))
            yield Finding(
                property="undefined",
                status=Status.WRONG,
                message=(
                    f"{headline}with none for {_names(space, absent)} the result differs from the one with zeros "
                    f"({got[worst]:.9g} instead of {want[worst]:.9g})."
                ),
            )


def _names(space: Space, which: frozenset[int]) -> str:
    return ", ".join(space.blocks[i].label for i in sorted(which))
