"""A cotangent or tangent that is not there (None) counts as zeros."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import largest_of, same, within, worst_difference
from gradproof.core.capabilities import MemoryLayout, Omission
from gradproof.core.flags import some
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.precision import DERIVATIVE_ROUND_OFF
from gradproof.core.problem import Apply, Mode
from gradproof.core.space import Space, alike
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.words import Words
from gradproof.properties.changing import Change, changing
from gradproof.properties.layout import misread
from gradproof.properties.trials import beside_omissions
from gradproof.results.finding import Finding

# Patterns tried of a space's blocks, besides all together.
_MOST = 8


class _Direction(NamedTuple):
    """A derivative applied to a probe: to all of it (`whole`), to others (`defined`), and where blocks are absent."""

    mode: Mode
    space: Space
    answered: Space
    probe: Vector
    whole: Callable[[], Vector]
    defined: Apply
    without: Callable[[Vector, frozenset[int]], Vector]
    arranged: Callable[[Vector, frozenset[int]], Vector]
    """`without`, with what is given in a memory layout that is asked about so."""
    misread: Callable[[], Iterator[Finding]]
    """What differs by that layout alone."""
    words: Words


def undefined(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Leave out each cotangent in turn and all together; in forward mode, each tangent."""
    for direction in _directions(investigation, options):
        yield from _each(direction, options)
        yield from _all_together(direction, options)


def _all_together(direction: _Direction, options: Options) -> Iterator[Finding]:
    """Without any cotangent the answer is zero. (Without any tangent nothing is asked.)"""
    if direction.mode is not Mode.REVERSE:
        return
    everything, slack = frozenset(range(len(direction.space.blocks))), options.nondet_tol
    nothing = alike(len(direction.probe), 0.0)
    try:
        got = direction.without(nothing, everything)
    except Exception as error:
        yield _raised(direction, everything, error)
        return
    looked_at = got[:1] if got.strides == (0,) else got  # zeros that are alike
    if some(looked_at) and not same(np.zeros_like(got), got, direction.space.coarsest_eps, slack):
        if np.isnan(got).any() and same(direction.defined(nothing.copy()), got, direction.space.coarsest_eps, slack):
            if "linearity" not in options.properties:  # which reports that zeros give no numbers either
                yield _numberless(direction, got, options)
            return
        yield _differs(direction, everything, np.zeros_like(got), got)


def _each(direction: _Direction, options: Options) -> Iterator[Finding]:
    """Each block absent in turn: together the answers are so many times that to the whole probe, which is known.

    One by one they are compared with zeros in its place only if they are not, and in contiguous memory. The probes have
    weights, so that what is no multiple of a probe does not cancel.
    """
    left_out = patterns(len(direction.space.blocks))
    answers, raised = _answers(direction, left_out, direction.arranged)
    if not raised and _add_up(direction, answers, options.nondet_tol):
        return
    if direction.arranged != direction.without:
        yield from direction.misread()
        answers, raised = _answers(direction, left_out, direction.without)
    yield from raised
    if raised or not _add_up(direction, answers, options.nondet_tol):
        for number, got in answers.items():
            yield from _compared(direction, number, left_out[number], got, options)


def _answers(
    direction: _Direction, left_out: tuple[frozenset[int], ...], ask: Callable[[Vector, frozenset[int]], Vector]
) -> tuple[dict[int, Vector], list[Finding]]:
    """The answers by the number of what is left out, and what raised instead."""
    answers, raised = dict[int, Vector](), list[Finding]()
    for number, absent in enumerate(left_out):
        try:
            answers[number] = ask(_question(direction, number, absent), absent)
        except Exception as error:
            raised.append(_raised(direction, absent, error))
    return answers, raised


def _add_up(direction: _Direction, answers: dict[int, Vector], slack: float) -> bool:
    """Whether the answers are, in sum, what they must be but for round-off."""
    if not answers:
        return True
    with np.errstate(all="ignore"):
        weighted = [answer / _weight(number) for number, answer in answers.items()]
        total, whole = np.sum(weighted, axis=0), (len(answers) - 1.0) * direction.whole()
        if not (np.isfinite(total).all() and np.isfinite(whole).all()):
            return False
        largest = max(largest_of(each) for each in weighted)
    lost = DERIVATIVE_ROUND_OFF * direction.space.coarsest_eps * largest
    return within(total, whole, lost + slack)


def _weight(number: int) -> float:
    """A power of two, which rounds nothing, and stays within the range of half precision."""
    return 2.0**-number


def _question(direction: _Direction, number: int, absent: frozenset[int]) -> Vector:
    return _weight(number) * _zeroed(direction.probe, direction.space, absent)


def _compared(
    direction: _Direction, number: int, absent: frozenset[int], got: Vector, options: Options
) -> Iterator[Finding]:
    """With zeros in place of what is absent; a derivative that answers otherwise when asked again just changes."""
    question, slack = _question(direction, number, absent), options.nondet_tol
    want = direction.defined(question)
    if same(want, got, direction.space.coarsest_eps, slack):
        return
    again = Change(got, direction.without(question, absent)), Change(want, direction.defined(question))
    for change in again:
        if not same(*change, direction.space.coarsest_eps, slack):
            yield changing(direction.answered, change, options, direction.words)
            return
    yield _differs(direction, absent, want, got)


def _directions(investigation: Investigation, options: Options) -> Iterator[_Direction]:
    problem, omission = investigation.problem, investigation.asks(Omission)
    if Mode.REVERSE in options.modes and omission.vjp is not None:
        layout, without = beside_omissions(investigation, options), investigation.vjp_without
        yield _Direction(
            Mode.REVERSE,
            problem.outputs,
            problem.inputs,
            investigation.cotangent,
            lambda: investigation.pullback,
            investigation.vjp,
            without,
            without if layout is MemoryLayout.CONTIGUOUS else functools.partial(without, layout=layout),
            functools.partial(misread, investigation, options, layout),
            problem.words,
        )
    if Mode.FORWARD in options.modes and omission.jvp is not None:
        yield _Direction(
            Mode.FORWARD,
            problem.inputs,
            problem.outputs,
            investigation.tangent,
            lambda: investigation.pushforward,
            investigation.jvp,
            investigation.jvp_without,
            investigation.jvp_without,
            lambda: iter(()),
            problem.words,
        )


@functools.lru_cache(maxsize=64)
def patterns(count: int) -> tuple[frozenset[int], ...]:
    """Which of so many blocks are left out together: each in turn; where there are many, several at a time."""
    parts = np.array_split(np.arange(count), min(count, _MOST)) if count > 1 else []
    return tuple(frozenset[int](part.tolist()) for part in parts)


def _raised(direction: _Direction, absent: frozenset[int], error: Exception) -> Finding:
    return _finding(direction, absent, f"it raised {type(error).__name__}: {error}", error)


def _differs(direction: _Direction, absent: frozenset[int], want: Vector, got: Vector) -> Finding:
    worst = worst_difference(want, got)
    told = f"the result differs from the one with zeros ({got[worst]:.9g} instead of {want[worst]:.9g})."
    return _finding(direction, absent, told)


def _numberless(direction: _Direction, got: Vector, options: Options) -> Finding:
    """That a derivative is NaN whether it gets zeros or nothing; what is asked besides says what is wrong."""
    place = direction.answered.place(int(np.flatnonzero(np.isnan(got))[0]))
    return Finding(
        property="undefined",
        kind="no number",
        mode=direction.mode,
        status=Status.INCONCLUSIVE,
        headline=(
            f"In {direction.mode}, what is left out cannot be told from zeros: "
            f"the gradient of {place} is NaN for both, and should be 0."
        ),
        hint=""
        if "jacobian" in options.properties
        else "ask for `linearity` or `jacobian` too: they say what is wrong",
    )


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
        hint=direction.words.omitted,
        cause=cause,
    )


def _zeroed(probe: Vector, space: Space, absent: frozenset[int]) -> Vector:
    zeroed = probe.copy()
    for i in absent:
        zeroed[space.blocks[i].slice] = 0.0
    return zeroed


def _names(space: Space, which: frozenset[int]) -> str:
    return ", ".join(space.blocks[i].label for i in sorted(which))
