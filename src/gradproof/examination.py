"""Each property in its turn: what it finds, and what becomes of it when it pauses, raises or runs out of budget."""

from __future__ import annotations

import functools
import math
import os
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from gradproof.core.company import is_wrong_by_long_steps, sticks_out
from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.noise import learn_noise
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import CLEAR, DOUBLE, NOISY_SHARE, SLIGHT, WIDEST_JUMP
from gradproof.core.problem import MisshapenGradientError, Mode, OutputChangedError
from gradproof.core.rounding import rounded_to
from gradproof.core.seen import Note, Seen
from gradproof.core.space import rms
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.wide import widened
from gradproof.properties.by_twin import has_twin
from gradproof.properties.property import Pause, Property
from gradproof.properties.unexplained import left_in_doubt
from gradproof.results.finding import Entry, Finding

# An error that is seen clearly leaves no room for noise, unless a long step, on this rung, has a slope nearer to
# what is claimed than this part of it. A function that stands still may be between steps of any format: those of
# numbers of eight bits are seen by longer ones to both sides, and the others by one to one side. Over a short one, on
# the last of these rungs, what is computed in single precision or less stands still. Where the function bends much over
# a long step, a nearer one is still longer than what round-off of a number inside, 1 + erf(x), makes of it.
_LONG, _LONGER, _LIKE, _SHORT, _NEARER = 4, 1, 0.3, 28, 12
# So far from what is claimed, as a part of the error, a slope to one side alone tells enough.
_CLEARLY = 0.6
# Zero is the derivative between the steps of a staircase: there an error bar must be narrower, as a part of the error.
_SHARP = 1e-3
# A law is broken beyond what any noise that is looked for breaks it by, if it is so by this part of the larger side.
_BROKEN = 0.5
# Entries that show one factor, and by how much their sizes differ at least: they have nothing else in common.
_SEVERAL, _UNLIKE = 2, 1e-3

# Where code lies that is not the user's own. An environment may use packages of another one, so folders have names too.
_HERE, _INSTALLED = os.path.dirname(__file__), tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
_PACKAGES = ("site-packages", "dist-packages")

_Progress = tuple[Iterator[Finding | Seen | Note | Pause], list[Finding | Seen | Note]]
"""A property that paused, and what it has found so far."""


def examined(
    investigation: Investigation, options: Options, asked: Sequence[tuple[str, Property]]
) -> Iterator[list[Finding | Seen | Note]]:
    """What each property finds; an exception of user code is a finding too.

    A property that pauses goes on after all others. What noise of the function may explain is examined again, with that
    noise known.
    """
    waiting: deque[tuple[str, Property, _Progress | None]] = deque([(name, each, None) for name, each in asked])
    settled = False  # whether something is wrong that no noise explains: then none is looked for any more
    while waiting:
        name, each, progress = waiting.popleft()
        found = progress[1] if progress else []
        try:
            going_on = progress[0] if progress else iter(each.examine(investigation, options))
            if _until_pause(going_on, found, is_last=not waiting):
                waiting.append((name, each, (going_on, found)))
                continue
            if found and each.depends_on_noise and options.precision is None and not settled:
                settled = _are_clear(investigation, _doubts(found))
                found = found if settled else _with_noise_known(investigation, options, each, found)
        except BudgetExhausted as ended:
            found.append(_exhausted(name, str(ended), investigation.cost.option))
        except Exception as error:
            misshapen = isinstance(error, MisshapenGradientError)
            yield [*found, _refused(error) if misshapen else raised(name, error)]
            waiting = deque(one for one in waiting if one[2] is not None)  # an accusation is not forgotten
            continue
        yield found


def _with_noise_known(
    investigation: Investigation, options: Options, asked: Property, found: list[Finding | Seen | Note]
) -> list[Finding | Seen | Note]:
    """What a property finds when the noise is known that may explain what it found so far."""
    while _learn_noise(investigation, options, found):
        again = [item for item in asked.examine(investigation, options) if not isinstance(item, Pause)]
        if _worst(again) > _worst(found) and not (
            has_twin(investigation) or _are_lone(investigation, _doubts(again))
        ):  # it was no noise
            investigation.take_as(investigation.made)
            return found
        doubted = [] if _doubts(again) else left_in_doubt(investigation, options, found)
        if doubted:
            return [*again, *doubted]
        found = again
    return found


def _until_pause(
    examined: Iterator[Finding | Seen | Note | Pause], found: list[Finding | Seen | Note], *, is_last: bool
) -> bool:
    """Add what a property finds; whether it paused. The last one has nobody to wait for."""
    for item in examined:
        if not isinstance(item, Pause):
            found.append(item)
        elif not is_last:
            return True
    return False


def _learn_noise(investigation: Investigation, options: Options, found: Sequence[Finding | Seen | Note]) -> bool:
    """Where something is about to be reported that noise may explain, measure it; whether the function is noisy.

    Noise does not explain a lone entry among others that agree.
    """
    doubts = _doubts(found)
    if _are_clear(investigation, doubts):
        return False
    if doubts and all(map(functools.partial(_is_lone, investigation), doubts)):
        return False
    slight = all(map(_is_slight, doubts)) and not _are_few(doubts, options) and not all(map(_is_scaled, doubts))
    slight = slight and not _are_rounded(investigation, doubts)
    lone = functools.cache(functools.partial(_are_lone, investigation, doubts))
    return bool(doubts) and learn_noise(investigation, slight=slight, unless=lone)


def _are_clear(investigation: Investigation, doubts: Sequence[Finding]) -> bool:
    """Whether all that is in doubt is wrong by far more than noise could be, without measuring any.

    The numerical values come from steps of several sizes, and their error bars say how far these differ. A function
    made of steps has another slope between them than from further away, where it may be that which is claimed: one long
    step looks for that, and a longer one too where it stands still.
    """
    laws = [doubt for doubt in doubts if not doubt.entries]
    worst = [doubt.entries[0] for doubt in doubts if doubt.entries]
    if any(doubt.status is not Status.WRONG or doubt.kind == "precision" for doubt in doubts):
        return False
    if not all(_is_broken(investigation, law) for law in laws) or not all(map(_is_far, worst)):
        return False
    finite = [entry for entry in worst if math.isfinite(entry.analytic)]
    if not finite:  # no noise makes a claim of no number
        return bool(doubts)
    wide = investigation.once(widened) if investigation.problem.coarsest_eps > DOUBLE else investigation
    if wide is None:
        return False
    entry = _moving_first(doubts, finite)
    return (entry.numeric == 0 and _is_not_odd(investigation)) or _is_wrong_from_afar(wide, entry)


def _moving_first(doubts: Sequence[Finding], worst: Sequence[Entry]) -> Entry:
    """The entry that long steps look at: one along which the function moves, if some such entry is far off, too."""
    entries = (entry for doubt in doubts for entry in doubt.entries if math.isfinite(entry.analytic))
    return next((entry for entry in entries if entry.numeric and _is_far(entry)), worst[0])


def _is_wrong_from_afar(investigation: Investigation, entry: Entry) -> bool:
    """Whether an entry is not what is claimed of it by long steps, either."""
    stencil, column, output = Stencil(investigation), entry.input.coordinate, entry.output.coordinate
    if not entry.numeric and _stands_still(stencil, entry):
        return False
    nearer, slope = (
        float(stencil.finely(np.array([column]), rung, np.array([output]))[0][0, 0]) for rung in (_NEARER, _LONG)
    )
    if not _is_unlike(entry, nearer):
        return False
    if not entry.numeric:
        longer = 2.0**-_LONGER
        return _is_unlike(entry, slope) and _is_unlike(entry, stencil.slope(column, output, longer))
    if _is_unlike(entry, slope, _CLEARLY):  # what the function bends by to one side does not make up for that
        return True
    return _is_unlike(entry, stencil.slope(column, output, 2.0**-_LONG))


def _stands_still(stencil: Stencil, entry: Entry) -> bool:
    """Whether most of an output that moves over a long step does not move over a short one: it is on a coarse grid."""
    problem, block = stencil.problem, entry.input.block
    direction = np.zeros_like(problem.point)
    direction[block.slice] = (stencil.investigation.draw(problem.inputs.size) * stencil.scale)[block.slice]
    run = problem.outputs.block_at(entry.output.coordinate).slice
    points = problem.point + np.multiply.outer([2.0**-_LONG, 2.0**-_SHORT], direction)
    long, short = (stencil.attempt(points)[:, run] != problem.value[run]).sum(axis=1).tolist()
    return 2 * short < long


def _is_unlike(entry: Entry, slope: float, part: float = _LIKE) -> bool:
    """Whether a slope is another than what is claimed of an entry, in units of what that is off by."""
    return abs(slope - entry.analytic) > part * entry.difference


def _is_not_odd(investigation: Investigation) -> bool:
    """Whether the vjp of the opposite cotangent is not the opposite, by far: no noise of the function explains that."""
    if not investigation.is_pulled:
        return False
    given, opposite = investigation.pullback, investigation.vjp(-investigation.cotangent)
    return not norm(given + opposite) <= _BROKEN * norm(given)


def _is_broken(investigation: Investigation, finding: Finding) -> bool:
    """Whether a law does not hold, by far: what must be the same differs by half, or is no number.

    Not where that is little beside other numbers: of half precision inside, sums that cancel and numbers that are
    smaller than its range leave nothing.
    """
    sides = finding.analytic, finding.numeric
    if None in sides:
        return False
    got, want = (float(side) for side in sides if side is not None)
    off, usual = abs(got - want), rms(np.abs(investigation.pullback)) if investigation.is_pulled else 0.0
    return math.isfinite(want) and not off <= _BROKEN * max(abs(got), abs(want)) and not off <= CLEAR * usual


def _is_far(entry: Entry) -> bool:
    """Whether an entry is off by far more than its error bar and than what solvers stop at.

    At a kink, from what lies between its sides.
    """
    if not math.isfinite(entry.analytic):
        return math.isfinite(entry.numeric) and math.isfinite(entry.error)
    left, right = entry.sides or (entry.numeric, entry.numeric)
    beyond = max(min(left, right) - entry.analytic, entry.analytic - max(left, right))
    sharp = CLEAR if entry.analytic else _SHARP
    return beyond > SLIGHT * max(abs(left), abs(right)) and entry.error <= sharp * beyond


def _are_rounded(investigation: Investigation, doubts: Sequence[Finding]) -> bool:
    """Whether the derivative gives numbers of fewer bits than the function does: then no solver explains them."""
    problem = investigation.problem
    if problem.vjp is None or problem.coarsest_eps > DOUBLE:
        return False
    inputs = [doubt.entries[0].input.block for doubt in doubts if doubt.entries]
    return rounded_to(problem.value) is None and all(
        rounded_to(investigation.pullback[block.slice]) is not None for block in inputs
    )


def _is_scaled(finding: Finding) -> bool:
    """Whether entries of different sizes are all off by one factor, beyond what solvers stop at.

    A solver that stops early is off by one factor only where it is linear, and then its values are by the same.
    """
    entries = finding.entries
    if len(entries) < _SEVERAL or not all(entry.numeric for entry in entries):
        return False
    factors = [entry.analytic / entry.numeric for entry in entries]
    blur = 2.0 * max((entry.error + entry.tolerance) / abs(entry.numeric) for entry in entries)
    sizes = [abs(entry.numeric) for entry in entries]
    apart = max(factors) - min(factors)
    return max(sizes) > (1.0 + _UNLIKE) * min(sizes) and apart <= blur < abs(factors[0] - 1.0) - WIDEST_JUMP


def _are_few(doubts: Sequence[Finding], options: Options) -> bool:
    """Whether a search came to its end with so few wrong entries that no solver explains them: all others agree."""
    searched = all(doubt.located and doubt.entries for doubt in doubts)
    return searched and all(
        sum(each.doubtful for each in doubts) < options.worst
        and doubt.doubtful <= (1.0 - NOISY_SHARE) * doubt.entries[0].output.block.size
        for doubt in doubts
    )


def _doubts(found: Sequence[Finding | Seen | Note]) -> list[Finding]:
    return [each for each in found if isinstance(each, Finding) and (each.status in _DOUBTS or _is_odd_kink(each))]


def _are_lone(investigation: Investigation, doubts: list[Finding]) -> bool:
    """Whether all that is in doubt is a wrong entry, or one for each mode, that sticks out among others."""
    return all(_sticks_out(investigation, doubt) for doubt in doubts)


def _is_lone(investigation: Investigation, finding: Finding) -> bool:
    """Whether a search has found nothing but one wrong entry, which is wrong by longer steps, too."""
    if not finding.lone or finding.mode is None:
        return False
    worst = finding.entries[0]
    return is_wrong_by_long_steps(investigation, finding.mode, (worst.output, worst.input), worst.difference)


def _sticks_out(investigation: Investigation, finding: Finding) -> bool:
    """Whether a finding is of one wrong element, with others beside it that agree far more closely."""
    places = {(entry.output.block, entry.output.element, entry.input.element) for entry in finding.entries}
    if finding.status is not Status.WRONG or finding.doubtful > len(finding.entries) or len(places) != 1:
        return False
    worst = finding.entries[0]
    assert finding.mode is not None, "an entry is of a mode"
    return sticks_out(investigation, finding.mode, (worst.output, worst.input), worst.numeric, worst.difference)


def _worst(found: Sequence[Finding | Seen | Note]) -> int:
    return max([each.status.rank for each in found if isinstance(each, Finding)], default=0)


_DOUBTS = (Status.WRONG, Status.INCONCLUSIVE)


def _is_odd_kink(finding: Finding) -> bool:
    """Whether a derivative at a kink is neither that of a side nor the mean of both: so it is between noisy values."""
    if finding.status is not Status.KINK:
        return False
    for entry in finding.entries:
        left, right = entry.sides or (entry.analytic, entry.analytic)
        nearest = min(abs(entry.analytic - value) for value in (left, right, (left + right) / 2.0))
        if nearest > SLIGHT * abs(right - left):
            return True
    return False


def _is_slight(finding: Finding) -> bool:
    """Whether a finding is of differences that are small next to what differs."""
    pairs = [(entry.numeric, entry.analytic) for entry in finding.entries] or [(finding.numeric, finding.analytic)]
    return all(
        numeric is not None and analytic is not None and abs(analytic - numeric) <= SLIGHT * abs(numeric)
        for numeric, analytic in pairs
    )


def raised(name: str, error: Exception) -> Finding:
    """The finding for an exception in user code."""
    if isinstance(error, OutputChangedError):
        headline = f"Nothing can be compared: {error}"
    else:
        headline = f"While `{name}` was checked, user code raised {type(error).__name__}: {error}"
    return Finding(property=name, status=Status.RAISED, headline=headline, hint=_raised_at(error), cause=error)


def _raised_at(error: Exception) -> str:
    """The line that raised, or called what did: the innermost one of no installed package, if there is one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
    own = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f"raised at line {own[-1].lineno} of {own[-1].filename}, in {own[-1].name}" if own else ""


def _is_installed(filename: str) -> bool:
    return filename.startswith(_INSTALLED) or any(folder in filename.split(os.sep) for folder in _PACKAGES)


def _refused(error: MisshapenGradientError) -> Finding:
    """The finding for a gradient that the framework itself does not take."""
    return Finding(
        property="metadata",
        kind=error.aspect,
        mode=Mode.REVERSE,
        status=Status.WRONG,
        headline=f"A gradient has another {error.aspect}: {error}.",
        cause=error,
    )


def _exhausted(name: str, reason: str, option: str) -> Finding:
    return Finding(
        property=name,
        status=Status.INCONCLUSIVE,
        headline=f"{reason or 'The budget was used up'} before the property `{name}` was checked.",
        hint="" if reason else f"raise {option}, or check fewer inputs at a time",
    )
