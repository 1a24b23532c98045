"""A few vjps that ask many questions at once.

Each of these cotangents differs from the shared one in several respects: sign, scale, layout. With a right backward the
answers follow from one another, so one comparison settles all questions; only if it fails are they asked one by one.

    pullback = vjp(v)          the answer that everybody shares
    vjp(-s v), transposed      negation, a large scale, repeatability, memory in another order, writes to it
    vjp(t c), expanded         a small scale, memory of stride 0; c is the same for all elements
    vjp(v + c), sliced         additivity: it must be the sum; memory with gaps and an offset; c is chosen such that a
                               zero is among them

Where every row of the Jacobian is known, what each vjp must give is known too, and the shared answer need not be there:

    vjp(-s p), transposed or   as above; p is v, or has magnitudes that are powers of two, which round nothing
    sliced
    vjp(p), each other layout  memory in another order, or with gaps and an offset
    vjp(t c), expanded         as above

Scales are powers of two, so that in the first of them even the last bit must agree. Where another order of memory is
another order of summation, it need not, and then it is asked in contiguous memory.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from gradproof.core.compare import close, forgiven, is_sum, largest_of, looseness, within
from gradproof.core.lazy import lazy
from gradproof.core.options import Options
from gradproof.core.problem import Layout, Problem, Trials
from gradproof.core.types import Matrix, Vector

_HALF = 2.0**-12
# How many powers of two take turns: a prime, so that few shapes have the same ones in another order of memory.
_POWERS = 7
# Layouts with memory between or beside the elements, or in another order, those first.
_ARRANGED = (Layout.TRANSPOSED, Layout.CHANNELS_LAST, Layout.SLICED)


def trials(problem: Problem, options: Options) -> Trials:
    """The trials of a problem, made once, with as many differences as the options ask questions."""
    if problem.trials is None:
        try:
            if problem.rows is None or problem.outputs.size == 1:  # the only row is the shared answer
                problem.trials = _with_probe(problem, options)
            else:
                problem.trials = _with_rows(problem, problem.rows, options)
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


def _with_rows(problem: Problem, rows: Matrix, options: Options) -> Trials:
    """Every vjp is a sum of known rows: is it, in any layout, for any scale, and each time?"""
    (large, small), layouts = _asked(problem, options)
    arranged = [layout for layout in _ARRANGED if layout in layouts] or [Layout.CONTIGUOUS]
    probe = RowSum(problem.cotangent if problem.is_pulled else _powers(problem), rows, problem, options)
    same = RowSum(-constant(problem), rows, problem, options)  # of the other sign than the first cotangent begins with
    watched = problem.watched_vjp(-large * probe.cotangent, arranged[0])
    first = _Answer(probe, -large, watched.gradient)
    answers = [_Answer(probe, 1.0, problem.vjp_in(probe.cotangent, layout)) for layout in arranged[1:]]
    answers += [_Answer(same, small, problem.vjp_in(small * same.cotangent, _if_possible(Layout.EXPANDED, layouts)))]
    if problem.is_pulled:
        answers.append(_Answer(probe, 1.0, problem.pullback))
    exact = first.is_exact
    agree = (exact or first.is_right) and all(answer.is_right for answer in answers)
    exact = exact or (problem.is_pulled and first.repeats(answers[-1]))
    return Trials(exact or (agree and _is_repeatable(problem, large)), agree, watched.overwritten)


def _powers(problem: Problem) -> Vector:
    """The shared cotangent with other magnitudes, powers of two: times a row, they round nothing."""
    return np.copysign(_magnitudes(problem.outputs.size), problem.cotangent)


@functools.lru_cache(maxsize=64)
def _magnitudes(size: int) -> Vector:
    magnitudes = np.exp2(np.arange(size) % _POWERS - 1.0)
    magnitudes.flags.writeable = False
    return magnitudes


class RowSum:
    """The gradient for a cotangent, from the rows of the Jacobian."""

    def __init__(self, cotangent: Vector, rows: Matrix, problem: Problem, options: Options) -> None:
        self.cotangent, self._rows, self._problem, self._options = cotangent, rows, problem, options

    @lazy
    def expected(self) -> Vector:
        with np.errstate(all="ignore"):
            return self.cotangent @ self._rows

    def equals(self, gradient: Vector, factor: float) -> bool:
        """Whether a gradient is this but for round-off and noise, found with `factor` times the cotangent."""
        if (gradient == self.expected).all() or close(gradient, self.expected, self._problem):  # nearly always
            return True
        return within(gradient, self.expected, self._slack + self._options.nondet_tol / factor)

    @lazy
    def _slack(self) -> Vector:
        weights = np.abs(self.cotangent)
        with np.errstate(all="ignore"):
            largest = largest_of(weights @ np.abs(self._rows))  # which counts where they cancel
        noise = self._options.nondet_tol * float(weights.sum())
        return noise + forgiven(self._problem, self._options, self.expected) + looseness(self._problem) * largest


class _Answer(NamedTuple):
    """The gradient for a multiple of a cotangent."""

    sum: RowSum
    factor: float
    gradient: Vector

    @property
    def is_exact(self) -> bool:
        """Whether this is the sum of the rows to the last bit, as where each input has one row that is not zero."""
        return _is_multiple(self.gradient, self.factor, self.sum.expected)

    @property
    def is_right(self) -> bool:
        return self.sum.equals(self.gradient / self.factor, abs(self.factor))

    def repeats(self, other: _Answer) -> bool:
        """Whether the other is the same multiple of this as the cotangents are, to the last bit."""
        return _is_multiple(self.gradient, self.factor / other.factor, other.gradient)


def _with_probe(problem: Problem, options: Options) -> Trials:
    """All that is known is the answer to the shared cotangent."""
    (large, small), layouts = _asked(problem, options)
    v, pullback = problem.cotangent, problem.pullback
    first = _if_possible(Layout.TRANSPOSED, layouts)
    watched = problem.watched_vjp(-large * v, first)
    exact = _is_multiple(watched.gradient, -large, pullback)
    agree = exact or close(watched.gradient / -large, pullback, problem, forgiven(problem, options, pullback))
    if agree and not exact and first is not Layout.CONTIGUOUS:
        exact = _is_repeatable(problem, large)
    if agree and len(v) > 1:
        c = constant(problem)
        expanded = problem.vjp_in(small * c, _if_possible(Layout.EXPANDED, layouts))
        parts, slack = (pullback, expanded / small), options.nondet_tol / small + forgiven(problem, options, pullback)
        largest = max(map(largest_of, parts))
        for layout in layouts & {Layout.SLICED, Layout.CHANNELS_LAST} or {Layout.CONTIGUOUS}:
            agree &= is_sum(problem.vjp_in(v + c, layout), parts[0] + parts[1], largest, problem, slack)
    return Trials(exact, agree, watched.overwritten)


def _asked(problem: Problem, options: Options) -> tuple[tuple[float, float], frozenset[Layout]]:
    """The scales and the layouts that the wanted properties ask about."""
    factors = scales(problem) if "linearity" in options.properties else (-1.0, 1.0)
    return factors, problem.layouts if "layout" in options.properties and problem.outputs.size > 1 else frozenset()


def _is_repeatable(problem: Problem, large: float) -> bool:
    """Whether contiguous memory gives the same again, to the last bit."""
    return _is_multiple(problem.vjp(-large * problem.cotangent), -large, problem.pullback)


def _is_multiple(gradient: Vector, factor: float, of: Vector) -> bool:
    """Whether it is, to the last bit; the factor is a power of two."""
    return bool((gradient / factor == of).all())


def _if_possible(layout: Layout, layouts: frozenset[Layout]) -> Layout:
    return layout if layout in layouts else Layout.CONTIGUOUS
