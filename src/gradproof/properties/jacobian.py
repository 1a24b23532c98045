"""The numerical Jacobian equals the analytic one, in reverse and in forward mode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.accusation import Accusation, Outcome
from gradproof.core.afar import lost_slopes
from gradproof.core.capabilities import Pattern, StandIn
from gradproof.core.entries import every_entry, length_of
from gradproof.core.glance import acquits, glance
from gradproof.core.investigation import Investigation
from gradproof.core.long_glance import acquits_many
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import DOUBLE, HALF_OR_LESS, MISS, SINGLE
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode, Problem
from gradproof.core.seen import Note, Seen
from gradproof.core.space import Block, Space
from gradproof.core.status import Status
from gradproof.core.suspects import Judged
from gradproof.core.types import Indices, Vector
from gradproof.core.words import Words
from gradproof.properties.allowance import halves_add_up
from gradproof.properties.by_integral import by_integral, can_integrate
from gradproof.properties.by_twin import by_twin, has_twin
from gradproof.properties.in_noise import in_noise
from gradproof.properties.longer_steps import may_be_small, seen_from_further
from gradproof.properties.noisy_twin import by_noisy_twin
from gradproof.properties.numberless import Numberless
from gradproof.properties.property import Found, Pause
from gradproof.properties.second_look import looked_twice
from gradproof.properties.second_looks import AT_WHAT_IS_WRONG
from gradproof.results.finding import MISMATCH, UNJUDGED, Entry, Finding, Spots

_HEADLINES = {
    Mode.REVERSE: MISMATCH + " for {output} with respect to {input}",
    Mode.FORWARD: MISMATCH + " in forward mode for {output} with respect to {input}",
}
_UNJUDGED_HEADLINES = {
    Mode.REVERSE: UNJUDGED + " for {output} with respect to {input}",
    Mode.FORWARD: UNJUDGED + " in forward mode for {output} with respect to {input}",
}
_KINK_HEADLINES = {
    Mode.REVERSE: "The function has no derivative here, for {output} with respect to {input}: a kink or a jump",
    Mode.FORWARD: "The same kink or jump in forward mode, for {output} with respect to {input}",
}
_LONE_KINK = "  This is the only entry there is: no derivative was verified, and that is no pass."
_VERBS = {
    Status.WRONG: "differ",
    Status.INCONCLUSIVE: "cannot be judged (error bar wider than the tolerance)",
    Status.KINK: "are valid subgradients",
}
_UNSETTLED = (
    "cannot be judged (difference quotients settle at no step that\n  round-off leaves: the function varies, or is "
    "noisy, over less than that)"
)
_VALUELESS = "cannot be judged (the output is no finite number here)"
_NUMBERLESS = "are claimed to be no finite numbers (nor is the output here)"
_STATUSES = tuple(Status)
# Entries that are missing from a pattern, named at most.
_NAMED = 4


def jacobian(investigation: Investigation, options: Options) -> Iterator[Finding | Seen | Note | Pause]:
    """Numeric against analytic, for each mode; one finding for each pair of an output and an input at fault.

    In low precision through the twin, where there is one; else with long segments where shorter steps see nothing. So
    where a low precision inside was measured.
    """
    stands_in = investigation.problem.capability(StandIn)
    for found in _judged(investigation, options):
        if stands_in is not None and isinstance(found, Seen):
            yield found & Seen(stands_in.smallest, MISS)
        else:
            yield found


def _judged(investigation: Investigation, options: Options) -> Iterator[Finding | Seen | Note | Pause]:
    problem, made = investigation.problem, investigation.made
    if options.step is None and problem.coarsest_eps > DOUBLE:
        if problem is made:
            return _in_low_precision(investigation, options)
        if problem.noise is not None and made.coarsest_eps > DOUBLE:
            return by_noisy_twin(investigation, options, _in_noise)  # or there is none
        if has_twin(investigation):
            return by_twin(investigation, options, _compared)
    return _in_noise(investigation, options)


def _in_noise(investigation: Investigation, options: Options) -> Iterator[Finding | Seen | Note | Pause]:
    return in_noise(investigation, options, _compared, _lost)


def _in_low_precision(investigation: Investigation, options: Options) -> Iterator[Finding | Seen | Note | Pause]:
    if has_twin(investigation) and (yield from by_twin(investigation, options, _compared, may_differ=True)):
        return
    held: list[Finding] = []
    doubtful, told = False, frozenset[int]()
    for found in in_noise(investigation, options, _compared, _lost):
        if isinstance(found, Seen) and investigation.problem.coarsest_eps <= SINGLE:  # bars of half tell too little
            told |= frozenset(found.told)
        if isinstance(found, Finding) and found.mode is Mode.REVERSE and _is_unexplained(found):
            held.append(found)  # segments may see what short steps accuse without reason
            continue
        doubtful |= isinstance(found, Finding) and found.status is not Status.KINK  # which says nothing of the others
        yield found
    # bars of single entries hide a fifth of them in half precision
    summed = options.strategy is Strategy.PROBES or investigation.problem.coarsest_eps > HALF_OR_LESS
    if Mode.REVERSE in options.modes and summed and not doubtful and can_integrate(investigation):
        told = frozenset[int]() if held else told
        for found in by_integral(investigation, options, _compared, told):
            doubtful |= isinstance(found, Finding)
            yield found
        held = held if doubtful else []
    yield from held


def _is_unexplained(finding: Finding) -> bool:
    """Whether something accuses, and all that it leads to is right, or cannot be judged by short steps at all."""
    unsettled = all(math.isinf(entry.error) for entry in finding.entries)
    return finding.status is Status.INCONCLUSIVE and unsettled and not finding.kind


def _compared(investigation: Investigation, options: Options) -> Iterator[Found]:
    """The comparison; and once more where its steps were blind, to what it calls wrong or to all that is claimed."""
    if options.certify and may_be_small(investigation, options):
        return seen_from_further(investigation, options, _seen)
    return _seen(investigation, options)


def _seen(investigation: Investigation, options: Options) -> Iterator[Found]:
    return looked_twice(investigation, options, _asked, AT_WHAT_IS_WRONG)


def _asked(investigation: Investigation, options: Options) -> Iterator[Found]:
    problem = investigation.problem
    if options.strategy is Strategy.PROBES and options.step is None and problem.inputs.size and problem.outputs.size:
        yield from _by_probes(investigation, options)
    else:
        if investigation.cost.is_limited:
            yield Pause()  # every column costs evaluations: what a few vjps tell comes first
        if acquits(investigation, options, length_of(problem, options)):  # nearly all small checks
            return
        compared = every_entry(investigation, options, options.modes)
        if compared.seen is not None:
            yield compared.seen
        for judged in compared.judged:
            yield from describe(problem, options, judged, "jacobian", _HEADLINES[judged.mode])
        yield from (_doubt(options.modes[0], "unseen", doubt) for doubt in compared.unseen)


def _by_probes(investigation: Investigation, options: Options) -> Iterator[Found]:
    glanced = glance(investigation, options)
    if (glanced is not None and glanced.settles) or acquits_many(investigation, options):  # nearly all right ones
        return
    prober = Prober(investigation, options, glanced)
    for mode in options.modes:
        for found in prober.steps(mode):
            if not isinstance(found, Accusation):
                yield from _told(investigation, options, mode, _with_accused(prober, mode, found))
            elif investigation.cost.is_limited:
                yield Pause()


def _with_accused(prober: Prober, mode: Mode, outcome: Outcome) -> Outcome:
    """What a mode came to; where nothing is wrong, with what another look accuses."""
    if outcome.unlocated or any(each.is_wrong for each in outcome.judged):
        return outcome
    accused = prober.judge_accused(mode)
    return outcome if accused is None else replace(outcome, judged=[*outcome.judged, accused])


def _told(investigation: Investigation, options: Options, mode: Mode, outcome: Outcome) -> Iterator[Finding | Seen]:
    """What a mode came to, as findings."""
    if outcome.seen is not None:
        yield outcome.seen
    for judged in outcome.judged:
        yield from describe(investigation.problem, options, judged, "jacobian", _HEADLINES[mode])
    yield from (_unlocated(mode, accusation, investigation.cost.option) for accusation in outcome.unlocated)
    yield from (_drowned(mode, accusation) for accusation in outcome.drowned)
    if outcome.nonlinear and not halves_add_up(investigation, mode):
        yield _nonlinear(mode, investigation.problem.words)
    yield from (_doubt(mode, "unseen", doubt) for doubt in outcome.unseen)
    yield from (_doubt(mode, "", doubt) for doubt in outcome.unexplained)


def _lost(investigation: Investigation, options: Options, zero: list[Block], change: Vector) -> Iterator[Finding]:
    """What only long steps find of inputs of which nothing but zeros is claimed."""
    found = lost_slopes(investigation, options, zero, change)
    for judged in found.judged:
        yield from describe(investigation.problem, options, judged, "jacobian", _HEADLINES[judged.mode])
    yield from (_doubt(Mode.REVERSE, "unseen", doubt) for doubt in found.doubts)


def _doubt(mode: Mode, kind: str, doubt: str) -> Finding:
    return Finding(
        property="jacobian",
        kind=kind,
        mode=mode,
        status=Status.INCONCLUSIVE,
        headline=f"{UNJUDGED} in {mode}: {doubt}.",
    )


def _unlocated(mode: Mode, accusation: str, option: str) -> Finding:
    return Finding(
        property="jacobian",
        kind="unlocated",
        mode=mode,
        status=Status.WRONG,
        headline=f"{MISMATCH} in {mode}, place not settled: {accusation}; then the budget was used up.",
        hint=f"raise {option} to find the wrong entries",
    )


def _drowned(mode: Mode, accusation: str) -> Finding:
    """What noise may explain; who examines looks again, with the noise known."""
    return Finding(
        property="jacobian",
        kind="drowned",
        mode=mode,
        status=Status.INCONCLUSIVE,
        headline=f"{UNJUDGED} in {mode}: {accusation}, and single entries drown in noise.",
    )


def _nonlinear(mode: Mode, words: Words) -> Finding:
    reverse = mode is Mode.REVERSE
    return Finding(
        property="jacobian",
        kind="nonlinear",
        mode=mode,
        status=Status.WRONG,
        headline=(
            f"Every entry of the Jacobian is right, but their sum is not, in {mode}: "
            f"{words.rule(reverse)} is not linear in {words.probe(reverse)}."
        ),
        hint=words.nonlinear.format(probe=words.probe(reverse)),
    )


def describe(problem: Problem, options: Options, judged: Judged, name: str, headline: str) -> Iterator[Finding]:
    """The findings of a judged, worst pair first; `headline` is that of what is wrong.

    Entries that cannot be judged beside wrong ones of their pair are only counted.
    """
    suspects, status = judged.suspects, judged.status
    guilty = np.flatnonzero(status > Status.RIGHT.rank)
    guilty = guilty[np.lexsort((-suspects.excess[guilty], -status[guilty]))]
    output_of = _block_numbers(problem.outputs)[suspects.rows[guilty]]
    input_of = _block_numbers(problem.inputs)[suspects.columns[guilty]]
    kinks = status[guilty] == Status.KINK.rank
    for kink, output, input_ in dict.fromkeys(zip(kinks.tolist(), output_of.tolist(), input_of.tolist(), strict=True)):
        group = guilty[(kinks == kink) & (output_of == output) & (input_of == input_)]
        alike = group[status[group] == status[group[0]]]
        entries = tuple(_entry(problem, judged, int(k)) for k in alike[: options.worst])
        hint = "" if kink else _not_finite(problem, judged, alike) or _not_in_pattern(problem, judged, alike)
        counts = _elements(judged, entries[0], alike), _elements(judged, entries[0], group)
        said, verb = _headline(entries[0].status, judged.mode, headline), _verb(entries[0])
        claims = Numberless.among(problem, judged, alike)
        if claims is not None and entries[0].status is Status.WRONG:
            verb = claims.verb(_elements(judged, entries[0], claims.which), counts[0], verb)
            said = claims.headed(said)
        finding = _finding(problem.words, judged, entries, counts, (said, verb))
        finding = replace(finding, property=name, hint=hint, spots=_spots(judged, entries[0], alike, options))
        yield _lone_kink(finding) if kink and _is_lone(problem) else finding


def _headline(status: Status, mode: Mode, of_wrong: str) -> str:
    """What is said of entries of a status."""
    if status is Status.INCONCLUSIVE:
        return _UNJUDGED_HEADLINES[mode]
    return _KINK_HEADLINES[mode] if status is Status.KINK else of_wrong


def _verb(worst: Entry) -> str:
    """What entries of the worst one's status do."""
    if worst.status is Status.INCONCLUSIVE and math.isinf(worst.error):
        return _UNSETTLED
    if worst.status is Status.INCONCLUSIVE and math.isnan(worst.error):
        return _VALUELESS
    if worst.status is Status.WRONG and math.isnan(worst.numeric):
        return _NUMBERLESS
    return _VERBS[worst.status]


def _is_lone(problem: Problem) -> bool:
    """Whether the Jacobian has one entry only."""
    return problem.inputs.size * problem.outputs.size == 1


def _lone_kink(finding: Finding) -> Finding:
    """Where the only entry there is lies on a kink, nothing was verified."""
    return replace(finding, status=Status.INCONCLUSIVE, kind="lone kink", headline=f"{finding.headline}\n{_LONE_KINK}")


def _spots(judged: Judged, worst: Entry, group: Indices, options: Options) -> Spots | None:
    if not options.certify:
        return None
    suspects = judged.suspects
    rows, columns, excess = suspects.rows[group], suspects.columns[group], suspects.excess[group]
    return Spots.of(worst.output.block, worst.input.block, rows, columns, excess)


def _block_numbers(space: Space) -> Indices:
    """For each coordinate, which block it is in."""
    sizes = [block.size for block in space.blocks]
    return np.repeat(np.arange(len(sizes)), sizes)


def _elements(judged: Judged, worst: Entry, group: Indices) -> int:
    """How many entries these are, both parts of a complex element counted as one."""
    output, input_ = worst.output.block, worst.input.block
    if output.parts == input_.parts == 1:
        return len(group)
    rows = (judged.suspects.rows[group] - output.start) // output.parts
    columns = (judged.suspects.columns[group] - input_.start) // input_.parts
    return len(np.unique(rows * (input_.size // input_.parts) + columns))


def _where(words: Words, entry: Entry) -> str:
    """Where an entry stands in the matrix that its author wrote: ` is row 3, column 5 of jac`."""
    if not words.entry:
        return ""
    return f" is {words.entry.format(row=_index(entry.output.element), column=_index(entry.input.element))}"


def _index(element: tuple[int, ...]) -> str:
    return str(element[0] if len(element) == 1 else list(element) if element else 0)


def _finding(
    words: Words, judged: Judged, entries: tuple[Entry, ...], counts: tuple[int, int], told: tuple[str, str]
) -> Finding:
    """`counts`: of entries of the worst one's status, and of all that are doubtful; `told`: a headline, and a verb."""
    worst, (wrong, doubtful), (headline, verb) = entries[0], counts, told
    output, input_ = worst.output.block, worst.input.block
    total = (output.size // output.parts) * (input_.size // input_.parts)
    count = f"{'at least ' if judged.located else ''}{wrong} of {total} entries {verb}"
    count += f", and {doubtful - wrong} more cannot be judged" if doubtful > wrong else ""
    where = _where(words, worst)
    by = ", by difference / allowed" if worst.status is Status.WRONG and math.isfinite(worst.difference) else ""
    return Finding(
        property="jacobian",
        mode=judged.mode,
        status=worst.status,
        headline=f"{headline.format(output=output.label, input=input_.label)},\n  {count}; the worst{where}{by}:",
        entries=entries,
        wrong=wrong,
        unjudged=doubtful - wrong,
        total=total,
        located=judged.located,
        lone=judged.lone,
    ).at(worst)


def _not_finite(problem: Problem, judged: Judged, group: Indices) -> str:
    values = problem.value[judged.suspects.rows[group]]
    if np.isfinite(values).all():
        return ""
    worst = int(judged.suspects.rows[group][~np.isfinite(values)][0])
    place, value = problem.outputs.place(worst), problem.value[worst]
    return f"{place} is {value} at this point: move the inputs to where the function has a value"


def _not_in_pattern(problem: Problem, judged: Judged, group: Indices) -> str:
    """What a sparse derivative does not store, of what is wrong."""
    pattern, suspects = problem.capability(Pattern), judged.suspects
    wrong = group[judged.status[group] == Status.WRONG.rank]
    if pattern is None or not len(wrong):
        return ""
    absent = wrong[~pattern.stores(suspects.rows[wrong], suspects.columns[wrong])]
    return _not_stored(pattern.name, suspects.rows[absent], suspects.columns[absent], len(wrong)) if len(absent) else ""


def _not_stored(name: str, rows: Indices, columns: Indices, wrong: int) -> str:
    """That entries are missing from the pattern of a sparse derivative, and which."""
    places = [f"row {i}, column {j}" for i, j in zip(rows[:_NAMED].tolist(), columns[:_NAMED].tolist(), strict=True)]
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    count = "it is" if wrong == 1 else f"{len(rows)} of {wrong} wrong entries are"
    return f"{count} missing from the sparsity pattern of {name}: {'; '.join(places)}{more}"


def _entry(problem: Problem, judged: Judged, k: int) -> Entry:
    suspects = judged.suspects
    return Entry(
        output=problem.outputs.place(int(suspects.rows[k])),
        input=problem.inputs.place(int(suspects.columns[k])),
        numeric=float(suspects.numeric[k]),
        error=float(judged.error[k]),
        analytic=float(suspects.analytic[k]),
        tolerance=float(suspects.tolerance[k]),
        status=_STATUSES[int(judged.status[k])],
        sides=judged.sides.get(k),
    )
