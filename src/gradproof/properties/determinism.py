"""The same question to the derivative twice gets the same answer.

Every vjp of a check must agree with every other. Where one did not follow from the others, the questions asked so far
are asked again literally: a backward that then answers otherwise changes from call to call, whatever laws it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.agreement import close
from gradproof.core.capabilities import Omission, is_stateless
from gradproof.core.draws import basis
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Apply, Mode, Problem
from gradproof.core.space import Space
from gradproof.core.types import Vector
from gradproof.core.words import Words
from gradproof.properties.changing import Change, changing
from gradproof.properties.trials import trials
from gradproof.properties.undefined import patterns
from gradproof.results.finding import Finding

# For a certificate, and of every entry, so many vjps are asked that a change at every seventh call shows. Otherwise a
# question is asked again this often, at most, where a check without it, and without a glance, takes so many calls for
# each. Never with more numbers than these.
_SEVENTH, _OFTEN, _CALLS, ASKED_AGAIN = 8, 5, 48, 2**16
# Rows of the Jacobian that are asked for again, where they do not add up to what other vjps gave.
_ROWS_AGAIN = 64


def determinism(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Unless a trial has shown it already, apply the vjp twice; where there is none, the jvp."""
    problem, words = investigation.problem, investigation.problem.words
    if Mode.REVERSE in options.modes:
        made = investigation.once(trials, options)
        found = (
            ()
            if made.exact
            else tuple(_twice(investigation.vjp, investigation.cotangent, problem.inputs, options, words))
        )
        if not found:
            change = _in_batches(investigation, options) or (
                next(_often(investigation, options), None) if made.agree else investigation.once(changed, options)
            )
            found = () if change is None else (changing(problem.inputs, change, options, words),)
        yield from found
    elif problem.vjp is None:
        yield from _twice(investigation.jvp, investigation.tangent, problem.outputs, options, words)


def changed(investigation: Investigation, options: Options) -> Change | None:
    """The first question asked so far that another call answers otherwise, beyond round-off and noise.

    Asked through `Investigation.once`, and only where answers do not follow from one another.
    """
    return next(_again(investigation, options), None)


def _again(investigation: Investigation, options: Options) -> Iterator[Change]:
    problem = investigation.problem
    before = investigation.pullback if investigation.is_pulled else None
    if before is not None:
        yield from _unlike(before, investigation.vjp(investigation.cotangent), investigation, options)
    for cotangent, layout, answer in investigation.once(trials, options).questions:
        yield from _unlike(answer, investigation.vjp_in(cotangent, layout), investigation, options)
    if investigation.rows is not None and problem.outputs.size > 1:
        rows = investigation.rows[:_ROWS_AGAIN]
        again = investigation.vjp_many(basis(slice(0, len(rows)), problem.outputs.size))
        for row, other in zip(rows, again, strict=True):
            yield from _unlike(row, other, investigation, options)


def _in_batches(investigation: Investigation, options: Options) -> Change | None:
    """What a batch of rows answered otherwise once."""
    answers = investigation.vjp_changed
    return None if answers is None else next(_unlike(*answers, investigation, options), None)


def _often(investigation: Investigation, options: Options) -> Iterator[Change]:
    """A few questions once more, though all answers agree: a backward may change at every so many calls only."""
    problem, cost = investigation.problem, investigation.cost
    if is_stateless(problem):
        return
    by_entry = options.strategy is Strategy.ENTRIES
    rows = investigation.rows if problem.outputs.size > 1 else None
    in_one_call = len(rows) - 1 if by_entry and rows is not None and investigation.pulls_in_batches else 0
    asked = cost.vjps - in_one_call + _still_to_come(problem, options)
    missing = _SEVENTH - asked if options.certify or by_entry else 0
    evaluations = max(cost.evaluations, 4 * problem.inputs.size if by_entry else 0)  # a glance saves two rungs
    times = max(missing, min(_OFTEN, (evaluations + cost.vjps) // _CALLS))
    times = times if problem.inputs.size + problem.outputs.size <= ASKED_AGAIN else 0
    for k in range(times):
        if rows is None:
            before, cotangent = investigation.pullback, investigation.cotangent
        else:
            output = k % len(rows)
            before, cotangent = rows[output], basis(slice(output, output + 1), len(rows))[0]
        yield from _unlike(before, investigation.vjp(cotangent), investigation, options)


def _still_to_come(problem: Problem, options: Options) -> int:
    """The vjps that `undefined` asks and compares with others."""
    asked = "undefined" in options.properties and problem.capability(Omission) is not None
    return len(patterns(len(problem.outputs.blocks))) if asked else 0


def _unlike(before: Vector, after: Vector, investigation: Investigation, options: Options) -> Iterator[Change]:
    """Nothing, where they differ by no more than sums in another order do, as atomic operations take them."""
    if not close(before, after, investigation.problem, options.nondet_tol):
        yield Change(before, after)


def _twice(apply: Apply, question: Vector, space: Space, options: Options, words: Words) -> Iterator[Finding]:
    """Differences beyond `nondet_tol` are a finding."""
    first, second = apply(question), apply(question)
    if (first == second).all():
        return
    with np.errstate(invalid="ignore"):
        noise = np.abs(first - second)
        unlike = ~((noise <= options.nondet_tol) | (first == second) | (np.isnan(first) & np.isnan(second)))
    if unlike.any():
        yield changing(space, Change(np.where(unlike, first, 0.0), np.where(unlike, second, 0.0)), options, words)
