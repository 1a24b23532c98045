"""A few vjps that ask many questions at once.

Each of these cotangents differs from the shared one in several respects: sign, scale, layout. With a right backward the
answers follow from one another, so one comparison settles all questions; only if it fails are they asked one by one.

    pullback = vjp(v)          the answer that everybody shares
    vjp(-s v), transposed      negation, a large scale, repeatability, memory in another order, writes to it
    vjp(t c), expanded         a small scale, memory of stride 0; c is the same for all elements
    vjp(v + c), sliced         additivity: it must be the sum; memory with gaps and an offset; c is chosen such that a
                               zero is among them

Scales are powers of two, so that in the first of them even the last bit must agree. Where another order of memory is
another order of summation, it need not, and the first is asked once more in contiguous memory.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.compare import close, forgiven, is_sum
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
        return problem.watched_vjp(problem.cotangent, Layout.CONTIGUOUS).overwritten
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
    first, expected = _if_possible(Layout.TRANSPOSED, layouts), -large * pullback
    watched = problem.watched_vjp(-large * v, first)
    exact = bool((watched.gradient == expected).all())
    agree = exact or close(watched.gradient, expected, problem, large * forgiven(problem, options))
    if agree and not exact and first is not Layout.CONTIGUOUS:
        exact = bool((problem.vjp(-large * v) == expected).all())
    if agree and len(v) > 1:
        c = constant(problem)
        expanded = problem.vjp_in(small * c, _if_possible(Layout.EXPANDED, layouts))
        parts, slack = (pullback, expanded / small), options.nondet_tol / small + forgiven(problem, options)
        for layout in layouts & {Layout.SLICED, Layout.CHANNELS_LAST} or {Layout.CONTIGUOUS}:
            agree &= is_sum(problem.vjp_in(v + c, layout), parts, problem, slack)
    return Trials(exact, agree, watched.overwritten)


def _if_possible(layout: Layout, layouts: frozenset[Layout]) -> Layout:
    return layout if layout in layouts else Layout.CONTIGUOUS
