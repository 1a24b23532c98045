"""Entries that are called wrong and are so small that round-off explains them: looked at nearer to zero first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.capabilities import Elsewhere, is_stateless
from gradproof.core.drowned import drowns, fades, is_buried, look_at, noise_of_order_one, stays_still
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.precision import SINGLE
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.types import Vector
from gradproof.properties.allowance import round_off_of
from gradproof.properties.property import Compare, Found, at_once
from gradproof.properties.unexplained import left_in_doubt
from gradproof.results.finding import Entry, Finding

# Entries that are looked at, each of another pair.
_TRIED = 2


def still_by_round_off(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> Iterable[Found] | None:
    """Nothing, if all that is wrong is what the framework's own operations claim of outputs that do not move at all.

    And that by no more than round-off of numbers of order one: of a layer norm of one element, its weight. Of an output
    that moves with other elements of the input, that is not so: there what it moves by is seen.
    """
    if investigation.problem.coarsest_eps > SINGLE or not is_stateless(investigation.problem):
        return None
    entries = [entry for each in findings for entry in each.entries]
    if any(each.status is not Status.WRONG or not each.entries for each in findings):
        return None
    if any(entry.numeric != 0 or not _is_small(investigation, entry) for entry in entries):
        return None
    pairs = {(each.output.block.start, each.input.block.start): each for each in entries}.values()
    still = (stays_still(investigation, each.output.block.slice, each.input.block.slice) for each in pairs)
    return [] if all(still) else None


def in_round_off(
    investigation: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
) -> Iterable[Found] | None:
    """What is found once the noise of numbers of order one is known; None: it does not explain all that is wrong."""
    noise = _noise_of_all(investigation, findings)
    if noise is None:
        return None
    investigation.take_as(replace(investigation.problem, noise=noise))
    again = at_once(compared(investigation, options))
    is_excused = not any(isinstance(each, Finding) for each in again)
    return [*again, *left_in_doubt(investigation, options, findings)] if is_excused else again


def _noise_of_all(investigation: Investigation, findings: Sequence[Finding]) -> Vector | None:
    """The noise of the outputs, if round-off of numbers of order one is all that is wrong."""
    problem = investigation.problem
    if problem.coarsest_eps > SINGLE or problem.capability(Elsewhere) is None:
        return None
    wrong = [entry for each in findings for entry in each.entries if entry.status is Status.WRONG]
    if not wrong or not all(_is_small(investigation, entry) for entry in wrong):
        return None
    noise = Stencil(investigation).noise.copy()
    for entry in wrong:
        run = entry.output.block.slice
        noise[run] = np.fmax(noise[run], noise_of_order_one(problem, entry.input.coordinate))
    if problem.noise is not None and not (noise > problem.noise).any():
        return None  # it is known to be as noisy, and that explains nothing
    worst = [each.entries[0] for each in findings if each.entries and each.entries[0].status is Status.WRONG][:_TRIED]
    return noise if all(_drowns(investigation, entry) for entry in worst) else None


def _drowns(investigation: Investigation, entry: Entry) -> bool:
    """Whether one entry does. Where longer steps see a slope at the point, that is asked first.

    If the ladder and the claim both have its digits, neither is all round-off; one may be the slope of what round-off
    inside has left of the function. If the ladder alone has them, round-off of the derivative must explain the claim;
    unless all operations are the framework's own, which have no branch for such points that could be wrong. If the
    claim alone has them, the ladder's steps lie between two lines of a grid.
    """
    row, column = entry.output.coordinate, entry.input.coordinate
    here, is_own = look_at(investigation, row, column), is_stateless(investigation.problem)
    is_shown = here.shows(entry.analytic)
    needs_reason = here.is_seen and (here.shows(entry.numeric) if is_shown else not is_own)
    if needs_reason and entry.difference > round_off_of(investigation, row, column):
        return is_own and is_shown and fades(investigation, row, column, entry.difference / abs(here.fine))
    if not drowns(investigation, row, column, here):
        return False
    # what stands still in the finer numbers of a twin does so: round-off of the derivative must explain the claim
    in_twin = investigation.problem.evaluates_in is not None and not here.is_seen
    return not in_twin or entry.difference <= round_off_of(investigation, row, column)


def _is_small(investigation: Investigation, entry: Entry) -> bool:
    return entry.sides is None and is_buried(investigation, entry.input.coordinate, entry.difference)
