"""Entries that cannot be judged because of round-off alone: longer steps see more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.investigation import Investigation
from gradproof.core.meanwhile import measured_in
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import DOUBLE, EVALUATION_ROUND_OFF, HALF_OR_LESS, NOISY_STRIDE
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.properties.property import Compare, at_once
from gradproof.results.finding import Finding

# How much longer steps are tried where round-off hides in double precision what is to be seen, in turn.
_LONGER = (NOISY_STRIDE, 2.0**5)
# Inputs up to which every entry is compared again by these.
_FEW = 2**11
# Round-off explains error bars up to this many times that of a step as long as the scale: of the second rung, fourfold.
_BLURRED = 2.0**14


def with_longer_steps(
    investigation: Investigation, options: Options, compared: Compare, stride: float = _LONGER[-1]
) -> list[Finding | Seen]:
    """What is found by steps that are so many times as long."""
    problem, scale = investigation.problem, investigation.scale
    if problem.noise is not None or problem.coarsest_eps > DOUBLE:
        scale = np.maximum(scale, problem.inputs.typical(problem.point, least=1.0))
    with measured_in(investigation, stride * scale):
        return at_once(compared(investigation, options))


def may_be_blurred(investigation: Investigation, options: Options) -> bool:
    """Whether steps are chosen here, of few inputs of what is computed in double precision, as far as is known."""
    problem, chosen = investigation.problem, options.step is None and options.precision is None
    return chosen and problem.coarsest_eps <= DOUBLE and problem.noise is None and problem.inputs.size <= _FEW


def unblurred(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> list[Finding | Seen] | None:
    """What longer steps saw, if they leave no doubt where round-off of outputs alone has left these; None: they do.

    What they see must agree with what is claimed, and is not what they step over: shorter ones were blurred by
    round-off, and by nothing else. They look at every entry: a probe would not see a lone one that is wrong among those
    that were not judged.
    """
    if not all(_is_blurred(investigation, each) for each in findings):
        return None
    by_entry = replace(options, strategy=Strategy.ENTRIES)
    longer = (with_longer_steps(investigation, by_entry, compared, stride) for stride in _LONGER)
    return next(filter(_leave_no_doubt, longer), None)


def is_in_half_precision(investigation: Investigation, options: Options) -> bool:
    """Whether outputs are of half precision or less, as far as is known."""
    return investigation.problem.outputs.coarsest_eps > HALF_OR_LESS


def undoubted(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> list[Finding | Seen] | None:
    """What longer steps saw, if they leave no doubt where nothing else was found; None: shorter ones know better."""
    if any(each.status is not Status.INCONCLUSIVE for each in findings):
        return None
    longer = with_longer_steps(investigation, options, compared, NOISY_STRIDE)
    return longer if _leave_no_doubt(longer) else None


def _leave_no_doubt(found: Sequence[Finding | Seen]) -> bool:
    return not any(isinstance(each, Finding) for each in found)


def _is_blurred(investigation: Investigation, finding: Finding) -> bool:
    """Whether all that is in doubt are entries with error bars that round-off of the outputs explains."""
    problem = investigation.problem
    noise = EVALUATION_ROUND_OFF * DOUBLE * problem.outputs.typical(problem.value)
    return (
        finding.status is Status.INCONCLUSIVE
        and bool(finding.entries)
        and all(
            entry.sides is None
            and entry.error <= _BLURRED * noise[entry.output.coordinate] / investigation.scale[entry.input.coordinate]
            for entry in finding.entries
        )
    )
