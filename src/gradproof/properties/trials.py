"""A few vjps that ask many questions at once.

Each of these cotangents differs from the shared one in several respects: sign, scale, layout. With a right backward the
answers follow from one another, so one comparison settles all questions; only if it fails are they asked one by one.

    pullback = vjp(v)          the answer that everybody shares
    vjp(-s v), transposed      negation, a large scale, repeatability, memory in another order, writes to it
    vjp(t c), expanded         a small scale, memory of stride 0; c is the same for all elements. Of one output only,
                               c is -v: the same question again, where all others had an evaluation between them
    vjp(v + c), sliced         additivity: it must be the sum; memory with gaps and an offset; c is chosen such that a
                               zero is among them

Where every row of the Jacobian is known, what each vjp must give is known too, and the shared answer need not be there:

    vjp(-s p), transposed or   as above; p is v, or has magnitudes that are powers of two, which round nothing
    sliced
    vjp(p), each other layout  memory in another order, or with gaps and an offset
    vjp(t c), expanded         as above

Scales are powers of two, so that in the first of them even the last bit must agree. Where another order of memory is
another order of summation, it need not, and then it is asked in contiguous memory. Of several outputs, memory with the
channels last is asked about by `undefined`, which gives each of them while another is left out.

Trials that do not agree are remembered with their answers: asked again literally, they tell a backward that changes
from call to call from one that breaks a law.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import adds_up, close, is_sum, largest_of, leaves_range, within
from gradproof.core.capabilities import MemoryLayout, MemoryLayouts, is_stateless
from gradproof.core.flags import every
from gradproof.core.investigation import Investigation
from gradproof.core.norm import parts
from gradproof.core.options import Options
from gradproof.core.precision import HALF_OR_LESS, NARROW, reordered
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import alike
from gradproof.core.types import Matrix, Vector
from gradproof.properties.allowance import allowed_difference, zero_gradient

# How many powers of two take turns: a prime, so that few shapes have the same ones in another order of memory.
_POWERS = 7
# Elements of a cotangent that are asked for one at a time, where the sum of all may be round-off.
_SINGLY = 16
# Layouts with memory between or beside the elements, or in another order, those first.
_ARRANGED = (MemoryLayout.TRANSPOSED, MemoryLayout.CHANNELS_LAST, MemoryLayout.SLICED)


class Question(NamedTuple):
    """A cotangent in a memory layout, and what the vjp answered."""

    cotangent: Vector
    layout: MemoryLayout
    answer: Vector


class Trials(NamedTuple):
    """How the trials went."""

    exact: bool
    """The vjp was seen to repeat itself to the last bit, in contiguous memory too."""
    agree: bool
    """All gave the expected but for round-off."""
    overwritten: tuple[str, ...]
    """What was written to meanwhile."""
    questions: tuple[Question, ...] = ()
    """What was asked, with its answers, if they do not agree."""
    last: Question | None = None
    """The last of these questions, if they agree and it is another one than the shared."""


def trials(investigation: Investigation, options: Options) -> Trials:
    """The trials, with as many differences as the options ask questions. Asked through `Investigation.once`."""
    try:
        if investigation.rows is None or investigation.problem.outputs.size == 1:  # the only row is the shared answer
            return _with_probe(investigation, options)
        return _with_rows(investigation, investigation.rows, options)
    except Exception:  # an exception in a trial is reported by the property that asks about it alone
        return Trials(exact=False, agree=False, overwritten=_overwritten(investigation))


def _overwritten(investigation: Investigation) -> tuple[str, ...]:
    """What the plainest vjp writes to: it does not stumble over a layout, as writing to expanded memory does."""
    try:
        return investigation.watched_vjp(investigation.cotangent, MemoryLayout.CONTIGUOUS).overwritten
    except Exception:  # the property that asks for this vjp reports it
        return ()


def scales(problem: Problem) -> tuple[float, float]:
    """A large and a small scale, both powers of two, that leave room within the range of the dtype.

    Where noise was measured, another dtype inside may have the range of half precision.
    """
    if NARROW in [block.eps for block in (*problem.inputs.blocks, *problem.outputs.blocks)]:
        return 1.0, 0.5
    narrow = problem.coarsest_eps > HALF_OR_LESS or problem.noise is not None
    return (2.0**2, 2.0**-4) if narrow else (2.0**10, 2.0**-20)


def constant(investigation: Investigation) -> Vector:
    """A cotangent that is the same in all elements of a block, and takes the first of the shared one to zero."""
    blocks = investigation.problem.outputs.blocks
    if len(blocks) == 1 and blocks[0].size:
        return alike(blocks[0].size, -float(investigation.cotangent[0]) or 1.0)
    cotangent = np.empty(investigation.problem.outputs.size)
    for block in blocks:
        if block.size:
            cotangent[block.slice] = -investigation.cotangent[block.start] or 1.0
    return cotangent


def _with_rows(investigation: Investigation, rows: Matrix, options: Options) -> Trials:
    """Every vjp is a sum of known rows: is it, in any layout, for any scale, and each time?"""
    (large, small), layouts = _asked(investigation, options)
    arranged = [layout for layout in _ARRANGED if layout in layouts] or [MemoryLayout.CONTIGUOUS]
    cotangent = investigation.cotangent if investigation.is_pulled else _powers(investigation)
    probe = RowSum(cotangent, rows, investigation, options)
    # of the other sign than the first cotangent begins with
    same = RowSum(-constant(investigation), rows, investigation, options)
    opposite = -large * probe.cotangent
    watched = investigation.watched_vjp(opposite, arranged[0])
    asked = [Question(opposite, arranged[0], watched.gradient)]
    first = _Answer(probe, -large, watched.gradient)
    answers = [_Answer(probe, 1.0, _ask(investigation, probe.cotangent, layout, asked)) for layout in arranged[1:]]
    expanded = _if_possible(MemoryLayout.EXPANDED, layouts)
    answers += [_Answer(same, small, _ask(investigation, small * same.cotangent, expanded, asked))]
    if investigation.is_pulled:
        answers.append(_Answer(probe, 1.0, investigation.pullback))
    exact = first.is_exact
    agree = (exact or first.is_right) and all(answer.is_right for answer in answers)
    exact = exact or (investigation.is_pulled and first.repeats(answers[-1]))
    exact = exact or (agree and _is_repeatable(investigation, large))
    return Trials(exact, agree, watched.overwritten, () if agree else tuple(asked))


def _ask(investigation: Investigation, cotangent: Vector, layout: MemoryLayout, asked: list[Question]) -> Vector:
    """The vjp, which is added to what was asked."""
    asked.append(Question(cotangent, layout, investigation.vjp_in(cotangent, layout)))
    return asked[-1].answer


def _powers(investigation: Investigation) -> Vector:
    """The shared cotangent with other magnitudes, powers of two: times a row, they round nothing."""
    return np.copysign(_magnitudes(investigation.problem.outputs.size), investigation.cotangent)


@functools.lru_cache(maxsize=64)
def _magnitudes(size: int) -> Vector:
    magnitudes = np.exp2(np.arange(size) % _POWERS - 1.0)
    magnitudes.flags.writeable = False
    return magnitudes


class RowSum:
    """The gradient for a cotangent, from the rows of the Jacobian."""

    def __init__(self, cotangent: Vector, rows: Matrix, investigation: Investigation, options: Options) -> None:
        self.cotangent, self._rows, self._investigation, self._options = cotangent, rows, investigation, options
        self.expected: Vector = cotangent @ rows

    def equals(self, gradient: Vector, factor: float) -> bool:
        """Whether a gradient is this but for round-off and noise, found with `factor` times the cotangent."""
        if close(gradient, self.expected, self._investigation.problem):
            return True  # nearly always
        inside = ~leaves_range(gradient, self.expected, self._investigation.problem)
        slack = self._slack + self._options.nondet_tol / factor
        return within(np.where(inside, gradient, 0.0), np.where(inside, self.expected, 0.0), slack)

    @property
    def law(self) -> list[tuple[float, Vector]]:
        """Questions that add up to nothing: the cotangent, less some of its elements, less the others together."""
        v = self.cotangent
        some = np.argsort(-np.abs(v) * np.abs(self._rows).max(axis=1), kind="stable")[:_SINGLY]
        singly = np.zeros((len(some), len(v)))
        singly[np.arange(len(some)), some] = v[some]
        return [(1.0, v), *((-1.0, each) for each in singly), (-1.0, v - singly.sum(axis=0))]

    @functools.cached_property
    def _slack(self) -> Vector:
        weights = np.abs(self.cotangent)
        largest = largest_of(weights @ np.abs(self._rows))  # which counts where they cancel
        noise = self._options.nondet_tol * float(weights.sum())
        lost = reordered(self._investigation.problem.coarsest_eps) * largest
        return noise + lost + allowed_difference(self._investigation, self._options, self.expected)


class _Answer(NamedTuple):
    """The gradient for a multiple of a cotangent."""

    sum: RowSum
    factor: float
    gradient: Vector

    @property
    def is_exact(self) -> bool:
        """Whether this is the sum of the rows to the last bit, as where each input has one row that is not zero."""
        return is_multiple(self.gradient, self.factor, self.sum.expected)

    @property
    def is_right(self) -> bool:
        return self.sum.equals(self.gradient / self.factor, abs(self.factor))

    def repeats(self, other: _Answer) -> bool:
        """Whether the other is the same multiple of this as the cotangents are, to the last bit."""
        return is_multiple(self.gradient, self.factor / other.factor, other.gradient)


def _with_probe(investigation: Investigation, options: Options) -> Trials:
    """All that is known is the answer to the shared cotangent."""
    (large, small), layouts = _asked(investigation, options)
    v, pullback = investigation.cotangent, investigation.pullback
    first = _if_possible(MemoryLayout.TRANSPOSED, layouts)
    opposite = -large * v
    watched = investigation.watched_vjp(opposite, first)
    asked = [Question(opposite, first, watched.gradient)]
    exact = is_multiple(watched.gradient, -large, pullback)
    problem = investigation.problem
    agree = exact or close(
        watched.gradient / -large, pullback, problem, allowed_difference(investigation, options, pullback)
    )
    if agree and not exact and first is not MemoryLayout.CONTIGUOUS:
        exact = _is_repeatable(investigation, large)
    if agree and (len(v) > 1 or (investigation.has_moved_on and not is_stateless(problem))):
        c = constant(investigation)
        other = _ask(investigation, _times(small, c), _if_possible(MemoryLayout.EXPANDED, layouts), asked)
        answers = [_ask(investigation, v + c, layout, asked) for layout in _for_sums(layouts)] if len(v) > 1 else []
        if not answers or not all(adds_up(answer, pullback, other, small, problem) for answer in answers):
            # seldom: parts may cancel, and noise is allowed
            other = other / small
            expected = [(answer, pullback + other) for answer in answers] or [(-other, pullback)]
            slack = allowed_difference(investigation, options, pullback) + options.nondet_tol / small
            slack += zero_gradient(investigation, c)  # the shared cotangent may weigh little what this one does not
            largest = max(largest_of(pullback), largest_of(other)) if answers else 0.0
            agree = all(is_sum(*pair, largest, problem, slack) for pair in expected)
            exact = exact and not answers  # a backward that takes turns repeats itself at every other call
    last = asked[-1] if agree and len(v) > 1 else None
    return Trials(exact, agree, watched.overwritten, () if agree else tuple(asked), last)


def _times(factor: float, values: Vector) -> Vector:
    """The product; of numbers that are `alike`, one is computed."""
    return alike(len(values), factor * float(values[0])) if values.strides == (0,) else factor * values


def _for_sums(layouts: frozenset[MemoryLayout]) -> frozenset[MemoryLayout]:
    """The layouts in which sums are asked for."""
    return layouts & {MemoryLayout.SLICED, MemoryLayout.CHANNELS_LAST} or frozenset({MemoryLayout.CONTIGUOUS})


def _asked(investigation: Investigation, options: Options) -> tuple[tuple[float, float], frozenset[MemoryLayout]]:
    """The scales and the layouts that the wanted properties ask about."""
    factors = scales(investigation.problem) if "linearity" in options.properties else (-1.0, 1.0)
    arranged = "layout" in options.properties and investigation.problem.outputs.size > 1
    elsewhere = {beside_omissions(investigation, options)}
    return factors, investigation.memory_layouts - elsewhere if arranged else frozenset()


def beside_omissions(investigation: Investigation, options: Options) -> MemoryLayout:
    """How cotangents lie in memory where others are left out: so one layout costs no vjp of its own."""
    layouts = investigation.problem.capability(MemoryLayouts)
    asked = Mode.REVERSE in options.modes and {"layout", "undefined"} <= options.properties
    if layouts is None or layouts.without is None or not asked or len(investigation.problem.outputs.blocks) < 2:
        return MemoryLayout.CONTIGUOUS
    return MemoryLayout.CHANNELS_LAST if MemoryLayout.CHANNELS_LAST in layouts.possible else MemoryLayout.CONTIGUOUS


def _is_repeatable(investigation: Investigation, large: float) -> bool:
    """Whether contiguous memory gives the same again, to the last bit."""
    return is_multiple(investigation.vjp(-large * investigation.cotangent), -large, investigation.pullback)


def is_multiple(gradient: Vector, factor: float, of: Vector) -> bool:
    """Whether it is, to the last bit; the factor is a power of two."""
    return all(every(gradient[part] / factor == of[part]) for part in parts(len(of)))


def _if_possible(layout: MemoryLayout, layouts: frozenset[MemoryLayout]) -> MemoryLayout:
    return layout if layout in layouts else MemoryLayout.CONTIGUOUS
