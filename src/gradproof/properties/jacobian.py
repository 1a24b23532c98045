"""The numerical Jacobian equals the analytic one, in reverse and in forward mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation
from gradproof.core.noise import finds_noise, is_made_of_steps
from gradproof.core.options import Options, Strategy
from gradproof.core.precision import HALF_OR_LESS, NOISY_STRIDE
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode, Problem
from gradproof.core.seen import Seen
from gradproof.core.space import Block, Space
from gradproof.core.status import Status
from gradproof.core.suspects import Judged
from gradproof.core.types import Indices
from gradproof.core.words import Words
from gradproof.results.diagnosis import Evidence, diagnose
from gradproof.results.finding import Entry, Finding, Spots

_HEADLINES = {
    Mode.REVERSE: "Jacobian mismatch for {output} with respect to {input}",
    Mode.FORWARD: "Jacobian mismatch in forward mode for {output} with respect to {input}",
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
_BETWEEN_STEPS = (
    "\n  The function is a staircase with steps of {eps:.2g}, relative to its values, as rounding inside makes: zero, "
    "which is\n  claimed everywhere, is its derivative between the steps, but not the slope behind them."
)
_SAY_WHICH = 'say precision="float64" if the steps are meant; else a gradient is lost, as behind a detached cast'
_STATUSES = tuple(Status)


def jacobian(investigation: Investigation, options: Options) -> list[Finding | Seen]:
    """Numeric against analytic, for each mode; one finding for each pair of an output and an input at fault.

    A gradient that is zero for all of an input is the derivative between two steps of a staircase too: whether there is
    one is looked at before it passes.
    """
    if investigation.problem is investigation.made or options.precision is not None:
        found = list(_compared(investigation, options))
        if options.precision is not None or not _may_be_between_steps(investigation, found):
            return found
    found = _in_noise(investigation, options)
    return [told for each in found for told in _between_steps(investigation, each)]


def _may_be_between_steps(investigation: Investigation, found: Sequence[Finding | Seen]) -> bool:
    """Whether nothing but zeros is claimed of some input, which seems right, of a function that is a staircase."""
    if any(isinstance(each, Finding) for each in found):
        return False
    zero = any(_is_zero(investigation, block) for block in investigation.problem.inputs.blocks)
    return zero and finds_noise(investigation)


def _in_noise(investigation: Investigation, options: Options) -> list[Finding | Seen]:
    """The comparison of a function that was seen to be noisy.

    Where half precision or less hides all that is to be seen, longer steps may settle it; what they do not, shorter
    ones know better.
    """
    found = list(_compared(investigation, options))
    status = {each.status for each in found if isinstance(each, Finding)}
    if status == {Status.INCONCLUSIVE} and investigation.problem.outputs.coarsest_eps > HALF_OR_LESS:
        longer = _with_longer_steps(investigation, options)
        return found if any(isinstance(each, Finding) for each in longer) else longer
    return found


def _with_longer_steps(investigation: Investigation, options: Options) -> list[Finding | Seen]:
    problem, scale = investigation.problem, investigation.scale
    investigation.scale = NOISY_STRIDE * np.maximum(scale, problem.inputs.typical(problem.point, least=1.0))
    try:
        return list(_compared(investigation, options))
    finally:
        investigation.scale = scale


def _is_zero(investigation: Investigation, input_: Block) -> bool:
    """Whether the gradient of all outputs is zero for all of an input, as far as it is known."""
    if not input_.size:
        return False
    if investigation.rows is not None:
        return not investigation.rows[:, input_.slice].any()
    return investigation.is_pulled and not investigation.pullback[input_.slice].any()


def _is_zero_in(investigation: Investigation, mode: Mode, output: Block, input_: Block) -> bool:
    """Whether the derivative of an output is zero for all of an input."""
    if mode is Mode.FORWARD:
        tangent = np.zeros_like(investigation.tangent)
        tangent[input_.slice] = investigation.tangent[input_.slice]
        return not investigation.jvp(tangent)[output.slice].any()
    if investigation.rows is not None:
        return not investigation.rows[output.slice, input_.slice].any()
    cotangent = np.zeros_like(investigation.cotangent)
    cotangent[output.slice] = investigation.cotangent[output.slice]
    return not investigation.vjp(cotangent)[input_.slice].any()


def _between_steps(investigation: Investigation, found: Finding | Seen) -> Iterator[Finding | Seen]:
    """What is said of a staircase whose derivative is claimed to be zero everywhere: that is true between its steps.

    So it passes if the function is made of steps, and cannot be judged if they look like those of a number format.
    """
    if not isinstance(found, Finding) or found.mode is None or not found.entries:
        yield found
        return
    output, input_ = found.entries[0].output.block, found.entries[0].input.block
    if not _is_zero_in(investigation, found.mode, output, input_):
        yield found
    elif not is_made_of_steps(investigation.problem, output):
        text = _BETWEEN_STEPS.format(eps=output.eps)
        yield replace(found, status=Status.INCONCLUSIVE, headline=found.headline + text, hint=_SAY_WHICH)


def _compared(investigation: Investigation, options: Options) -> Iterator[Finding | Seen]:
    problem = investigation.problem
    if options.strategy is Strategy.PROBES and options.step is None and problem.inputs.size and problem.outputs.size:
        yield from _by_probes(investigation, options)
    else:
        compared = every_entry(investigation, options, options.modes)
        if compared.seen is not None:
            yield compared.seen
        for judged in compared.judged:
            yield from describe(problem, options, judged, "jacobian", _HEADLINES[judged.mode])


def _by_probes(investigation: Investigation, options: Options) -> Iterator[Finding | Seen]:
    prober = Prober(investigation, options)
    for mode in options.modes:
        outcome = prober.run(mode)
        if outcome.seen is not None:
            yield outcome.seen
        for judged in outcome.judged:
            yield from describe(investigation.problem, options, judged, "jacobian", _HEADLINES[mode])
        if outcome.nonlinear:
            yield _nonlinear(mode, investigation.problem.words)
        doubts = [("unseen", doubt) for doubt in outcome.unseen] + [("", doubt) for doubt in outcome.unexplained]
        for kind, doubt in doubts:
            yield Finding(
                property="jacobian",
                kind=kind,
                mode=mode,
                status=Status.INCONCLUSIVE,
                headline=f"The Jacobian could not be judged in {mode}: {doubt}.",
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
    """The findings of a judged, worst pair first."""
    suspects, status = judged.suspects, judged.status
    guilty = np.flatnonzero(status > Status.RIGHT.rank)
    guilty = guilty[np.lexsort((-suspects.excess[guilty], -status[guilty]))]
    output_of = _block_numbers(problem.outputs)[suspects.rows[guilty]]
    input_of = _block_numbers(problem.inputs)[suspects.columns[guilty]]
    kinks = status[guilty] == Status.KINK.rank
    for kink, output, input_ in dict.fromkeys(zip(kinks.tolist(), output_of.tolist(), input_of.tolist(), strict=True)):
        group = guilty[(kinks == kink) & (output_of == output) & (input_of == input_)]
        entries = tuple(_entry(problem, judged, int(k)) for k in group[: options.worst])
        hint = "" if kink else _not_finite(problem, judged, group) or _hint(entries, judged, group)
        finding = _finding(entries, judged, len(group), _KINK_HEADLINES[judged.mode] if kink else headline)
        finding = replace(finding, property=name, hint=hint, spots=_spots(judged, entries[0], group, options))
        yield _lone_kink(finding) if kink and _is_lone(problem) else finding


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


def _finding(entries: tuple[Entry, ...], judged: Judged, wrong: int, headline: str) -> Finding:
    worst = entries[0]
    output, input_ = worst.output.block, worst.input.block
    total = output.size * input_.size
    count = f"{'at least ' if judged.located else ''}{wrong} of {total} entries {_VERBS[worst.status]}"
    return Finding(
        property="jacobian",
        mode=judged.mode,
        status=worst.status,
        headline=f"{headline.format(output=output.label, input=input_.label)},\n  {count}; the worst:",
        entries=entries,
        wrong=wrong,
        total=total,
        located=judged.located,
    ).at(worst)


def _not_finite(problem: Problem, judged: Judged, group: Indices) -> str:
    values = problem.value[judged.suspects.rows[group]]
    if np.isfinite(values).all():
        return ""
    worst = int(judged.suspects.rows[group][~np.isfinite(values)][0])
    place, value = problem.outputs.place(worst), problem.value[worst]
    return f"{place} is {value} at this point: move the inputs to where the function has a value"


def _hint(entries: tuple[Entry, ...], judged: Judged, group: Indices) -> str:
    suspects, worst = judged.suspects, entries[0]
    off = np.abs(suspects.analytic[group] - suspects.numeric[group]) > suspects.tolerance[group]
    group = group[(judged.status[group] == Status.WRONG.rank) & off]
    if not len(group):
        return ""
    return diagnose(
        Evidence(
            worst.output.block,
            worst.input.block,
            suspects.rows[group],
            suspects.columns[group],
            suspects.numeric[group],
            suspects.analytic[group],
        )
    )


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
