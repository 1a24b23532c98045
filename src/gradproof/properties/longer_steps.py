"""Entries that cannot be judged because of round-off alone: longer steps see more of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.meanwhile import measured_in
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import CLEAR, DOUBLE, EVALUATION_ROUND_OFF, HALF_OR_LESS, NOISY_STRIDE, UNSEEN_SHARE
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.types import Matrix, Vector
from gradproof.properties.property import Compare, Found, Pause, at_once
from gradproof.results.finding import Entry, Finding

# How much longer steps are tried where round-off hides in double precision what is to be seen, in turn.
_LONGER = (NOISY_STRIDE, 2.0**5)
# And from there on, for coordinates that are smaller than `_SMALL`, those of coordinates that are so large: beside
# outputs of order one, steps as short as a coordinate of 1e-12 see nothing.
_SMALL, _UP_TO = 2.0**-13, (2.0**-26, 2.0**-13, 1.0)
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
    """Whether steps are chosen here, of few inputs of what is computed in double precision, none of them very small."""
    return _may_be_longer(investigation, options) and not _is_small(investigation)


def may_be_small(investigation: Investigation, options: Options) -> bool:
    """The same of inputs of which some are very small."""
    return _may_be_longer(investigation, options) and _is_small(investigation)


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


def from_further(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> list[Finding | Seen] | None:
    """The same of small inputs, whose steps may be longer by far; and they may speak against what is claimed, too.

    Whatever was found, if round-off of the outputs may explain it. None: it does not, or no longer steps settle it.
    """
    if not all(_may_be_round_off(investigation, each) for each in findings):
        return None
    return _settled(investigation, options, compared)


def seen_from_further(investigation: Investigation, options: Options, compared: Compare) -> Iterator[Found]:
    """What a comparison finds; where nothing, though much of what is claimed of small inputs could hide, longer steps.

    For a certificate: without one, what could hide is a finding.
    """
    found = list[Finding | Seen]()
    for each in compared(investigation, options):
        if isinstance(each, Pause):
            yield each
        else:
            found.append(each)
    seen = [each for each in found if isinstance(each, Seen)]
    if len(seen) == len(found) and any(_hides_much(investigation, each) for each in seen):
        with suppress(BudgetExhausted):  # what was seen stands
            found = _settled(investigation, options, compared) or found
    yield from found


def _hides_much(investigation: Investigation, seen: Seen) -> bool:
    """Whether errors could hide in an input that are much of all that is claimed of it."""
    if not investigation.is_pulled:
        return False
    pairs = zip(investigation.problem.inputs.blocks, seen.smallest, strict=True)
    return any(size > UNSEEN_SHARE * largest_of(investigation.pullback[block.slice]) for block, size in pairs)


def _settled(investigation: Investigation, options: Options, compared: Compare) -> list[Finding | Seen] | None:
    """What the first longer steps saw that leave no doubt, whether claims are right or wrong; None: all do."""
    by_entry, shorter = replace(options, strategy=Strategy.ENTRIES), [investigation.scale]
    for scale in _longer_scales(investigation):
        with measured_in(investigation, scale):
            found = at_once(compared(investigation, by_entry))
            if _is_settled(investigation, found) or _are_wrong_by_all(investigation, shorter, found):
                return found
        shorter.append(scale)
    return None


def _is_settled(investigation: Investigation, found: Sequence[Finding | Seen]) -> bool:
    """Whether nothing is wrong or in doubt, and little could hide; in the end, whatever could."""
    is_last = float(investigation.scale.min()) >= 1.0
    hides = (isinstance(each, Seen) and _hides_much(investigation, each) for each in found)
    return _leave_no_doubt(found) and (is_last or not any(hides))


def _may_be_longer(investigation: Investigation, options: Options) -> bool:
    problem, chosen = investigation.problem, options.step is None and options.precision is None
    return chosen and problem.coarsest_eps <= DOUBLE and problem.noise is None and problem.inputs.size <= _FEW


def _is_small(investigation: Investigation) -> bool:
    return float(investigation.scale.min(initial=1.0)) < _SMALL


def _longer_scales(investigation: Investigation) -> Iterator[Vector]:
    """The scales of longer steps, in turn: the last are of order one where the first are far less."""
    yield from (stride * investigation.scale for stride in _LONGER)
    longest = _LONGER[-1] * investigation.scale
    yield from (np.fmax(investigation.scale, each) for each in _UP_TO if (longest < each).any())


def _are_wrong_by_all(investigation: Investigation, shorter: Sequence[Vector], found: Sequence[Finding | Seen]) -> bool:
    """Whether all that these steps find is clearly wrong, and no shorter ones have seen another slope there."""
    findings = [each for each in found if isinstance(each, Finding)]
    if not all(each.status is Status.WRONG and each.entries for each in findings):
        return False
    worst = [each.entries[0] for each in findings]
    if not all(map(_is_clear, worst)) or any(_may_be_round_off(investigation, each) for each in findings):
        return False
    return not any(_see_another(investigation, scale, entry) for scale, entry in itertools.product(shorter, worst))


def _is_clear(entry: Entry) -> bool:
    return entry.sides is None and entry.error <= CLEAR * entry.difference


def _see_another(investigation: Investigation, scale: Vector, entry: Entry) -> bool:
    """Whether steps in this scale see another slope than what an entry was measured to be."""
    with measured_in(investigation, scale):
        rows = np.array([entry.output.coordinate])
        seen = Stencil(investigation).measure([entry.input.coordinate], _as_it_is, rows)
    apart = abs(float(seen.value[0, 0]) - entry.numeric)
    return not apart <= float(seen.error[0, 0]) + entry.error


def _as_it_is(value: Matrix) -> Matrix:
    return np.full_like(value, np.inf)


def _may_be_round_off(investigation: Investigation, finding: Finding) -> bool:
    """Whether it says that something could hide, or of entries what round-off of the outputs may explain."""
    if not finding.entries:
        return finding.status is Status.INCONCLUSIVE and finding.kind == "unseen"
    return all(
        entry.sides is None and entry.difference <= _round_off(investigation, entry) for entry in finding.entries
    )


def _round_off(investigation: Investigation, entry: Entry) -> float:
    """How wide an error bar of an entry may be by round-off of the outputs alone."""
    problem, column = investigation.problem, entry.input.coordinate
    size = float(problem.outputs.typical(problem.value)[entry.output.coordinate])
    return _BLURRED * EVALUATION_ROUND_OFF * DOUBLE * size / float(investigation.scale[column])


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
    return (
        finding.status is Status.INCONCLUSIVE
        and bool(finding.entries)
        and all(entry.sides is None and entry.error <= _round_off(investigation, entry) for entry in finding.entries)
    )
