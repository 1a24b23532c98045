"""A Jacobian that nothing but long segments can see: kernels of one low precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.capabilities import Elsewhere
from gradproof.core.integral import Course, Outcome, follow, is_staircase
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE, MISS, default_rtol
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.results.finding import Finding

# Inputs that are looked at each by itself.
_EACH = 16


def can_integrate(investigation: Investigation) -> bool:
    """Whether `by_integral` can be asked: in low precision, where the derivative can be asked for at other points."""
    problem = investigation.problem
    return (
        problem.connected
        and problem.coarsest_eps > DOUBLE
        and problem.vjp is not None
        and problem.capability(Elsewhere) is not None
    )


def by_integral(investigation: Investigation, options: Options) -> Iterator[Finding | Seen]:
    """What reverse mode adds up to along segments, input by input, against what the function does along them.

    It sees a common factor, and all that a sum over an input shows. What a lone entry could hide is what it saw.
    """
    problem = investigation.problem
    blocks = [block for block in problem.inputs.blocks if block.size]
    rtol = float(default_rtol(np.array([problem.coarsest_eps]))[0]) if options.rtol is None else options.rtol
    blind: list[Block] = []
    lone = problem.outputs.size == 1
    for block in blocks if len(blocks) <= _EACH else ():
        outcome, findings = None, list[Finding]()
        for is_aimed in (True, False) if lone else (True,):
            outcome = _confirmed(investigation, block.slice, is_aimed)
            if outcome is not None and outcome.accuses and _matters(outcome, rtol, options):
                findings += _accusation(investigation, outcome, block)
        if findings:
            yield min(findings, key=lambda finding: -finding.status.rank)
        elif outcome is None or not outcome.balance.tells:
            blind.append(block)
    outcome = follow(investigation, Course(slice(0, problem.inputs.size), 11, is_aimed=False))
    if outcome is not None:
        yield _seen(investigation, outcome)
    if blind:
        yield _unseen(blind)


def _confirmed(investigation: Investigation, block: slice, is_aimed: bool) -> Outcome | None:
    """What segments say; an accusation is beyond doubt only if segments along another direction say the same."""
    outcome = follow(investigation, Course(block, 3, is_aimed))
    if outcome is None or not outcome.surely:
        return outcome
    again = follow(investigation, Course(block, 7, is_aimed))
    return outcome if again is not None and again.surely else replace(outcome, surely=False)


def _matters(outcome: Outcome, rtol: float, options: Options) -> bool:
    """Whether a residual is more than the tolerances of the entries in it could add up to."""
    made = outcome.balance
    absolute = (options.atol or 0.0) * 2.0 * norm(made.cotangent) * norm(made.segment.half)
    return abs(made.residual) > rtol * max(abs(made.changed), abs(made.claimed)) + absolute


def _accusation(investigation: Investigation, outcome: Outcome, block: Block) -> Iterator[Finding]:
    made = outcome.balance
    if made.is_zero and is_staircase(investigation, block.slice):
        return  # zero between its steps
    words = investigation.problem.words
    factor = outcome.factor
    yield Finding(
        property="jacobian",
        kind="integral",
        mode=Mode.REVERSE,
        status=Status.WRONG if outcome.surely else Status.INCONCLUSIVE,
        input=block.key,
        headline=(
            f"Moved along a segment, {block.label} changes the outputs by {made.changed:.6g} in sum, but "
            f"{words.reverse} adds up to {made.claimed:.6g} along it; round-off explains {made.bar:.2g}."
        ),
        hint=_hint(factor, is_zero=made.is_zero),
        numeric=made.changed,
        analytic=made.claimed,
        error=made.bar,
        located=True,
    )


def _hint(factor: float, *, is_zero: bool) -> str:
    if is_zero:
        return "it is 0 all along: a gradient is lost (None, zeros, detached or not stored)"
    if not math.isfinite(factor):
        return ""
    return f"it is {factor:.3g} times what it should be, taken as a whole"


def _seen(investigation: Investigation, outcome: Outcome) -> Seen:
    """What a lone entry would have been noticed of, where it is off all along the segment."""
    made = outcome.balance
    gap = (made.bar + abs(made.residual)) / 2.0
    sizes = np.abs(made.segment.half)
    least = (float(sizes[block.slice].min(initial=math.inf)) for block in investigation.problem.inputs.blocks)
    return Seen(tuple(gap / size if size else math.inf for size in least), MISS)


def _unseen(blind: list[Block]) -> Finding:
    names = ", ".join(block.label for block in blind)
    return Finding(
        property="jacobian",
        kind="unseen",
        mode=Mode.REVERSE,
        status=Status.INCONCLUSIVE,
        headline=(
            f"The Jacobian could not be judged with respect to {names}: in this precision round-off hides even a "
            "common factor of 10 %."
        ),
        hint="check the function in float64, or give it a float64 variant to be compared with",
    )
