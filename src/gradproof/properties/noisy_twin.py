"""A low-precision Jacobian whose twin is noisy itself: the noise is the twin's, the round-off that of low precision.

The cross-entropy of confident samples is 1e-11, and float64 computes it with round-off of 1e-14: that is noise, which
steps must reach over. Its gradient in float32 is what is left of the 1 in a softmax, and has no right digit. What steps
see with the noise known is to be compared with the float64 derivative, which has these digits; what float32 makes of
that is seen by asking both, as ever.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Problem
from gradproof.core.seen import Note, Seen
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.core.wide import widened
from gradproof.properties.by_twin import by_twin, sorted_out
from gradproof.properties.property import Examine, Pause
from gradproof.results.finding import Finding


def by_noisy_twin(
    investigation: Investigation, options: Options, compared: Examine
) -> Iterator[Finding | Seen | Note | Pause]:
    """What is `compared` of the low-precision derivative; where that is in doubt, and less so of the twin's, of both.

    The noise that is known is that of the twin.
    """
    problem, scale = investigation.problem, investigation.scale
    findings, seen = yield from sorted_out(compared(investigation, options))
    if _doubt(findings):
        low = Investigation(replace(investigation.made, evaluations=0), investigation.seed, investigation.cost)
        again = yield from _of_both(low, problem, options, compared)
        if again is not None and _doubt(again[0]) < _doubt(findings):
            investigation.take_as(problem, scale=scale)  # whatever was made of it meanwhile
            findings, seen = again
    yield from (*seen, *findings)


def _of_both(
    low: Investigation, noisy: Problem, options: Options, compared: Examine
) -> Generator[Pause, None, tuple[list[Finding], list[Seen | Note]] | None]:
    """What is found of the twin with its noise, and then of both; None: there is none, or no budget for that."""
    try:
        wide = low.once(widened)
        if wide is None:
            return None
        wide.take_as(_as_noisy_as(wide.problem, noisy))
        return (yield from sorted_out(by_twin(low, options, compared)))
    except BudgetExhausted:  # what was found stands
        return None


def _as_noisy_as(wide: Problem, noisy: Problem) -> Problem:
    """The twin, which is the function that another Problem evaluates, with the noise that is known of that."""
    blocks = zip(wide.outputs.blocks, noisy.outputs.blocks, strict=True)
    outputs = Space(tuple(replace(block, eps=max(block.eps, other.eps)) for block, other in blocks))
    return replace(wide, outputs=outputs, noise=noisy.noise)


def _doubt(findings: Iterable[Finding]) -> int:
    """How bad the worst of them is; a mere kink is nothing."""
    return max((each.status.rank for each in findings if each.status is not Status.KINK), default=0)
