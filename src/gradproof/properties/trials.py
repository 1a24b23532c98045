"""A few vjps that ask many questions at once.

Each of these cotangents differs from the shared one in several respects: sign, scale, layout. With a right backward the
answers follow from one another, so one comparison settles all questions; only if it fails are they asked one by one.

    pullback = vjp(v)          the answer that everybody shares
    vjp(-s v), sliced          negation, a large scale, memory with gaps and an offset, repeatability, mutation
    vjp(t c), expanded         a small scale, memory of stride 0; c is the same for all elements
    vjp(v + c), transposed     additivity: it must be the sum; c is chosen such that a zero is among them

Scales are powers of two, so that even the last bit must agree.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.compare import close
from gradproof.core.options import Options
from gradproof.core.problem import Layout, Problem, Trials
from gradproof.core.types import Vector

_HALF = 2.0**-12


def trials(problem: Problem, options: Options) -> Trials:
    """The trials of a problem, made once, with as many differences as the options ask questions."""
    if problem.trials is None:
        try:
            problem.trials = _make(problem, options)
        except Exception:  # an exception in a trial is reported by the property that asks about it alone
            problem.trials = Trials(exact=False, agree=False, overwritten=_overwritten(problem))
    return problem.trials


def _overwritten(problem: Problem) -> tuple[str, ...]:
    """What the plainest vjp writes to: it does not stumble over a layout, as writing to expanded memory does."""
    try:
        return problem.vjp_in(problem.cotangent, Layout.CONTIGUOUS).overwritten
    except Exception:  # the property that asks for this vjp reports it
        return ()


def scales(problem: Problem) -> tuple[float, float]:
    """A large and a small scale, both powers of two, that leave room within the range of the dtype."""
    narrow = max(problem.inputs.coarsest_eps, problem.outputs.coarsest_eps) > _HALF
    return (2.0**2, 2.0**-4) if narrow else (2.0**10, 2.0**-20)


def constant(problem: Problem) -> Vector:
    """A cotangent that is the same in all elements of a block, and takes the first of the shared one to zero."""
    cotangent = np.empty(problem.outputs.size)
    for block in problem.outputs.blocks:
        if block.size:
            cotangent[block.slice] = -problem.cotangent[block.start] or 1.0
    return cotangent


def _make(problem: Problem, options: Options) -> Trials:
    layouts = problem.layouts if "layout" in options.properties else frozenset[Layout]()
    large, small = scales(problem) if "linearity" in options.properties else (-1.0, 1.0)
    v, pullback = problem.cotangent, problem.pullback
    sliced = problem.vjp_in(-large * v, _if_possible(Layout.SLICED, layouts))
    expected = -large * pullback
    exact = bool((sliced.gradient == expected).all())
    agree = exact or close(sliced.gradient, expected, problem, large * options.nondet_tol)
    overwritten = sliced.overwritten
    if agree and len(v) > 1:
        c = constant(problem)
        expanded = problem.vjp_in(small * c, _if_possible(Layout.EXPANDED, layouts))
        rest = [layout for layout in (Layout.CHANNELS_LAST, Layout.TRANSPOSED) if layout in layouts]
        for layout in rest or [Layout.CONTIGUOUS]:
            total = problem.vjp_in(v + c, layout)
            agree &= close(total.gradient, pullback + expanded.gradient / small, problem, options.nondet_tol / small)
            overwritten += total.overwritten
        overwritten += expanded.overwritten
    return Trials(exact, agree, tuple(dict.fromkeys(overwritten)))


def _if_possible(layout: Layout, layouts: frozenset[Layout]) -> Layout:
    return layout if layout in layouts else Layout.CONTIGUOUS
