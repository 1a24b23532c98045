"""A Jacobian that nothing but long segments can see: kernels of one low precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.capabilities import Elsewhere
from gradproof.core.draws import random_probe
from gradproof.core.integral import Course, Outcome, follow, has_jumps, is_staircase
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import DOUBLE, HALF_OR_LESS, MISS, UNSEEN_SHARE, WIDEST_BAR, default_rtol
from gradproof.core.problem import Mode
from gradproof.core.repeated import Repeated, by_value, is_suspicious, repeat
from gradproof.core.seen import Seen
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.types import Flags
from gradproof.properties.property import Compare, Pause
from gradproof.results.finding import Finding

# A common factor is wrong if it is off by more than so many times what a single entry may be.
_SEVERAL = 2.0
# The part of a gradient that is most of it.
_MOST = 0.5
# Inputs that are looked at each by itself; what further ones do is not seen.
_EACH = 64


def can_integrate(investigation: Investigation) -> bool:
    """Whether `by_integral` can be asked: in low precision, where the derivative can be asked for at other points."""
    problem = investigation.problem
    return (
        problem.connected
        and problem.coarsest_eps > DOUBLE
        and problem.vjp is not None
        and problem.capability(Elsewhere) is not None
    )


def by_integral(
    investigation: Investigation, options: Options, compared: Compare, told: frozenset[int] = frozenset()
) -> Iterator[Finding | Seen]:
    """What reverse mode adds up to along segments, input by input, against what the function does along them.

    It sees a common factor, and all that a sum over an input shows; then what is claimed to be zero, by itself. What a
    lone entry could hide is what it saw. Where that is too much, every entry is compared, if there are not too many.
    Blocks of which short steps have `told` as much, by their numbers, are not looked at again.
    """
    problem = investigation.problem
    if all(number in told or not block.size for number, block in enumerate(problem.inputs.blocks)):
        return
    rtol = float(default_rtol(np.array([problem.coarsest_eps]))[0]) if options.rtol is None else options.rtol
    blocks = [block for number, block in enumerate(problem.inputs.blocks) if block.size and number not in told]
    outcomes: list[tuple[Block, Outcome | None]] = []
    accused: set[int] = set()
    for block in blocks[:_EACH]:
        outcome, findings = _of_block(investigation, options, block, rtol)
        if findings:
            accused.add(block.start)
            yield min(findings, key=lambda finding: -finding.status.rank)
        else:
            outcomes.append((block, outcome))
    largest = max((outcome.balance.size for _, outcome in outcomes if outcome is not None), default=0.0)
    zeros = _Zeros(investigation, [block for block in blocks if block.start not in accused], UNSEEN_SHARE * largest)
    yield from zeros.findings(rtol, options)
    outcome = follow(investigation, Course(slice(0, problem.inputs.size), 11, is_aimed=False))
    if outcome is not None:
        yield _seen(investigation, outcome)
    if options.strategy is not Strategy.PROBES:  # every entry was compared
        return
    blind = [*_blind(outcomes, UNSEEN_SHARE * largest), *blocks[_EACH:]]
    hidden = zeros.hidden
    if (blind or hidden) and not accused and _is_affordable(investigation, options):
        seen = _Entries(investigation, options, compared)
        yield from seen.found
        blind, hidden = seen.without(blind), seen.without(hidden)
    if blind:
        yield _unseen(blind, "round-off hides even a common factor of 10 %")
    if hidden:
        yield _unseen(hidden, "whether elements whose gradient is 0 matter is hidden by round-off")


def _of_block(
    investigation: Investigation, options: Options, block: Block, rtol: float
) -> tuple[Outcome | None, list[Finding]]:
    """What segments say of one input, and what they accuse."""
    problem = investigation.problem
    outcome, findings = None, list[Finding]()
    for is_aimed in (True, False) if problem.outputs.size == 1 else (True,):
        outcome = _confirmed(investigation, block.slice, is_aimed)
        if outcome is not None and outcome.accuses and _matters(outcome, rtol, options):
            findings += _accusation(investigation, outcome, block, block.slice)
    if not findings and problem.coarsest_eps > HALF_OR_LESS:
        if outcome is None or not outcome.balance.tells:
            repeated = repeat(investigation, block.slice)
            findings += _by_repetition(investigation, repeated, block, block.slice, rtol, options)
        findings += [] if findings else _by_parts(investigation, block, rtol, options)
    return outcome, findings


def _by_parts(investigation: Investigation, block: Block, rtol: float, options: Options) -> Iterator[Finding]:
    """The same of parts of an input, by the size of its numbers; the first that is wrong."""
    for part in by_value(investigation.problem.point, block):
        if is_suspicious(investigation, part, _SEVERAL * rtol):
            found = [*_by_repetition(investigation, repeat(investigation, part), block, part, rtol, options)]
            if found:
                yield found[0]
                return


def _by_repetition(
    investigation: Investigation,
    repeated: Repeated | None,
    block: Block,
    moved: slice | Flags,
    rtol: float,
    options: Options,
) -> Iterator[Finding]:
    """An accusation by the mean of many segments: of a common factor, beyond what tolerances could add up to."""
    if repeated is None or abs(repeated.mean) <= repeated.bar + _SEVERAL * rtol:
        return
    made = repeated.first
    if not _matters(Outcome(made, accuses=True, surely=True), rtol, options) or made.is_zero:
        return
    if has_jumps(investigation, made.segment):
        return
    yield Finding(
        property="jacobian",
        kind="integral",
        mode=Mode.REVERSE,
        status=Status.WRONG,
        input=block.key,
        headline=(
            f"Moved along several segments, {_by_range(investigation, block, moved)} changes the outputs by another "
            f"sum than {investigation.problem.words.reverse} adds up to: the latter is {1.0 + repeated.mean:.3g} ± "
            f"{repeated.bar:.2g} times the former (along the first, {made.claimed:.6g} instead of {made.changed:.6g})."
        ),
        hint=_hint(1.0 + repeated.mean, is_zero=False),
        numeric=made.changed,
        analytic=made.claimed,
        error=repeated.bar * abs(made.changed),
        located=True,
    )


def _is_affordable(investigation: Investigation, options: Options) -> bool:
    """Whether every entry may be compared."""
    n, m = investigation.problem.inputs.size, investigation.problem.outputs.size
    return n <= options.affordable_columns and n * m <= options.affordable_entries


class _Entries:
    """Every entry by itself, and what that showed: an input is seen if most of its gradient is well above round-off."""

    def __init__(self, investigation: Investigation, options: Options, compared: Compare) -> None:
        asked = replace(options, strategy=Strategy.ENTRIES, modes=(Mode.REVERSE,), certify=True)
        made = [each for each in compared(investigation, asked) if not isinstance(each, Pause)]
        self.found = [each for each in made if options.certify or isinstance(each, Finding)]
        rows, stencil = investigation.rows, Stencil(investigation)
        self._seen: set[int] = set()
        if rows is not None:
            with np.errstate(all="ignore"):
                clear = np.abs(rows) / np.multiply.outer(stencil.noise, stencil.unresolvable)
            size = np.where(np.isfinite(rows), np.abs(rows), 0.0)
            visible = np.where(WIDEST_BAR * clear > 1.0, size, 0.0)
            blocks = [block.slice for block in investigation.problem.inputs.blocks]
            self._seen = {run.start for run in blocks if visible[:, run].sum() > _MOST * size[:, run].sum()}

    def without(self, blind: list[Block]) -> list[Block]:
        """Those of some inputs that are not seen by that either; none, where findings say so of their entries."""
        doubtful = any(isinstance(each, Finding) and each.status is not Status.KINK for each in self.found)
        return [] if doubtful else [block for block in blind if block.start not in self._seen]


def _blind(outcomes: list[tuple[Block, Outcome | None]], negligible: float) -> list[Block]:
    """The inputs of which a tenth would not be noticed, unless that is negligible beside what others do."""
    return [
        block
        for block, outcome in outcomes
        if outcome is None or not (outcome.balance.tells or outcome.balance.bar <= negligible)
    ]


class _Zeros:
    """The elements whose gradient is zero, in inputs where not all are: a lost row, neuron or bias looks like that.

    Moved by themselves, nothing is claimed in which the change could drown.
    """

    def __init__(self, investigation: Investigation, blocks: list[Block], negligible: float) -> None:
        """`negligible`: a change that is small beside what the inputs do."""
        self._investigation, self._cotangent, self._negligible = investigation, investigation.cotangent, negligible
        if self._cotangent.all():
            claimed = investigation.pullback
        else:  # an output that a probe left out has no say in it either
            self._cotangent = random_probe(investigation.problem.outputs.size, investigation.seed)
            claimed = investigation.vjp(self._cotangent)
        self._claimed = claimed
        self._of = {block: _within(block, claimed == 0.0) for block in blocks}
        self._of = {block: zero for block, zero in self._of.items() if 0 < zero.sum() < block.size}
        self.hidden: list[Block] = []
        """The inputs of which it could not be seen whether these elements matter."""

    def findings(self, rtol: float, options: Options) -> Iterator[Finding]:
        """All of them together; each input by itself only if that accuses or does not see enough."""
        if not self._of:
            return
        together = follow(self._investigation, Course(np.any([*self._of.values()], axis=0), 13, is_aimed=True))
        if (
            together is not None
            and not together.accuses
            and all(self._is_seen(*each, together) for each in self._of.items())
        ):
            return
        for block, zero in [*self._of.items()][:_EACH]:
            outcome = _confirmed(self._investigation, zero, is_aimed=True)
            if outcome is not None and outcome.accuses and _matters(outcome, rtol, options):
                yield from _accusation(self._investigation, outcome, block, zero)
            elif outcome is None or not self._is_seen(block, zero, outcome):
                self.hidden.append(block)

    def _is_seen(self, block: Block, zero: Flags, outcome: Outcome) -> bool:
        """Whether they would have been noticed, were their gradients like the others of the input."""
        made = outcome.balance
        if len(self._investigation.problem.inputs.blocks) > 1 and made.bar <= self._negligible:
            return True
        typical = norm(self._claimed[block.slice]) / math.sqrt(block.size - int(zero.sum()))
        weight = norm(made.cotangent) / (norm(self._cotangent) or 1.0)
        return made.bar <= 2.0 * weight * typical * norm(made.segment.half[zero])


def _within(block: Block, flags: Flags) -> Flags:
    """The flags of one block's coordinates; none of all others."""
    own = np.zeros_like(flags)
    own[block.slice] = flags[block.slice]
    return own


def _confirmed(investigation: Investigation, moved: slice | Flags, is_aimed: bool) -> Outcome | None:
    """What segments say; an accusation is beyond doubt only if segments along another direction say the same."""
    outcome = follow(investigation, Course(moved, 3, is_aimed))
    if outcome is None or not outcome.surely:
        return outcome
    again = follow(investigation, Course(moved, 7, is_aimed))
    return outcome if again is not None and again.surely else replace(outcome, surely=False)


def _matters(outcome: Outcome, rtol: float, options: Options) -> bool:
    """Whether a residual is more than the tolerances of the entries in it could add up to."""
    made = outcome.balance
    absolute = (options.atol or 0.0) * 2.0 * norm(made.cotangent) * norm(made.segment.half)
    return abs(made.residual) > rtol * max(abs(made.changed), abs(made.claimed)) + absolute


def _accusation(
    investigation: Investigation, outcome: Outcome, block: Block, moved: slice | Flags
) -> Iterator[Finding]:
    made = outcome.balance
    if made.is_zero and is_staircase(investigation, moved):
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
            f"Moved along a segment, {_named(block, moved)} changes the outputs by {made.changed:.6g} in sum, but "
            f"{words.reverse} adds up to {made.claimed:.6g} along it; round-off explains {made.bar:.2g}."
        ),
        hint=_hint(factor, is_zero=made.is_zero),
        numeric=made.changed,
        analytic=made.claimed,
        error=made.bar,
        located=True,
    )


def _by_range(investigation: Investigation, block: Block, moved: slice | Flags) -> str:
    if isinstance(moved, slice):
        return block.label
    numbers = investigation.problem.point[moved]
    return f"{block.label}, in its {len(numbers)} elements from {numbers.min():.4g} to {numbers.max():.4g},"


def _named(block: Block, moved: slice | Flags) -> str:
    if isinstance(moved, slice):
        return block.label
    return f"{block.label}, in its {int(moved.sum())} elements with a gradient of 0,"


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


def _unseen(blind: list[Block], why: str) -> Finding:
    names = ", ".join(block.label for block in blind)
    return Finding(
        property="jacobian",
        kind="unseen",
        mode=Mode.REVERSE,
        status=Status.INCONCLUSIVE,
        headline=f"The Jacobian could not be judged with respect to {names}: in this precision {why}.",
        hint="check the function in float64, or give it a float64 variant to be compared with",
    )
