"""The numerical Jacobian equals the analytic one, in reverse and in forward mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.diagnose import Evidence, diagnose
from gradproof.core.entries import Comparison, compare_entries
from gradproof.core.finding import Entry, Finding, Spots, Status
from gradproof.core.options import Options, Strategy
from gradproof.core.probing import Prober
from gradproof.core.problem import Mode, Problem
from gradproof.core.space import Space
from gradproof.core.types import Indices

_HEADLINES = {
    Mode.REVERSE: "Jacobian mismatch for {output} with respect to {input}",
    Mode.FORWARD: "Jacobian computed with forward mode mismatch for {output} with respect to {input}",
}
_PROBES = {Mode.REVERSE: "grad_output", Mode.FORWARD: "the tangent"}
_NONLINEAR = {
    Mode.REVERSE: f"backward is not linear in {_PROBES[Mode.REVERSE]}",
    Mode.FORWARD: f"the jvp is not linear in {_PROBES[Mode.FORWARD]}",
}
_KINK_HEADLINE = "The function has no derivative here, for {output} with respect to {input}: a kink or a jump"
_VERBS = {
    Status.WRONG: "differ",
    Status.INCONCLUSIVE: "cannot be judged (error bar wider than the tolerance)",
    Status.KINK: "are valid subgradients",
}
_STATUSES = tuple(Status)


def jacobian(problem: Problem, options: Options) -> Iterator[Finding]:
    """Numeric against analytic, for each mode; one finding for each pair of an output and an input at fault."""
    if not problem.has_graph:
        return
    if options.strategy is Strategy.PROBES and options.step is None and problem.inputs.size and problem.outputs.size:
        yield from _by_probes(problem, options)
    else:
        for comparison in compare_entries(problem, options, options.modes):
            yield from describe(problem, options, comparison, "jacobian", _HEADLINES[comparison.mode])


def _by_probes(problem: Problem, options: Options) -> Iterator[Finding]:
    prober = Prober(problem, options)
    for mode in options.modes:
        outcome = prober.run(mode)
        if outcome.certificate is not None:
            problem.certificate = outcome.certificate | problem.certificate
        for comparison in outcome.comparisons:
            yield from describe(problem, options, comparison, "jacobian", _HEADLINES[mode])
        if outcome.nonlinear:
            yield Finding(
                property="jacobian",
                status=Status.WRONG,
                message=f"Every entry of the Jacobian is right, but their sum is not, in {mode}: {_NONLINEAR[mode]}.",
                hint=f"it must not take the absolute value of {_PROBES[mode]}, square it, clamp it or branch on it",
            )
        for doubt in outcome.unseen:
            yield Finding(
                property="jacobian",
                status=Status.INCONCLUSIVE,
                message=f"The Jacobian could not be judged in {mode}: {doubt}.",
            )


def describe(problem: Problem, options: Options, comparison: Comparison, name: str, headline: str) -> Iterator[Finding]:
    """The findings of a comparison, worst pair first."""
    suspects, status = comparison.suspects, comparison.status
    guilty = np.flatnonzero(status > Status.RIGHT.rank)
    guilty = guilty[np.lexsort((-suspects.excess[guilty], -status[guilty]))]
    output_of = _block_numbers(problem.outputs)[suspects.rows[guilty]]
    input_of = _block_numbers(problem.inputs)[suspects.columns[guilty]]
    kinks = status[guilty] == Status.KINK.rank
    for kink, output, input_ in dict.fromkeys(zip(kinks.tolist(), output_of.tolist(), input_of.tolist(), strict=True)):
        group = guilty[(kinks == kink) & (output_of == output) & (input_of == input_)]
        entries = tuple(_entry(problem, comparison, int(k)) for k in group[: options.worst])
        hint = "" if kink else _not_finite(problem, comparison, group) or _hint(entries, comparison, group)
        count = f"{'at least ' if comparison.located else ''}{len(group)}"
        finding = _finding(entries, len(group), count, name, _KINK_HEADLINE if kink else headline, hint)
        spots = Spots(suspects.rows[group], suspects.columns[group], suspects.excess[group])
        yield replace(finding, located=comparison.located, spots=spots if options.certify else None)


def _block_numbers(space: Space) -> Indices:
    """For each coordinate, which block it is in."""
    sizes = [block.size for block in space.blocks]
    return np.repeat(np.arange(len(sizes)), sizes)


def _finding(entries: tuple[Entry, ...], wrong: int, count: str, name: str, headline: str, hint: str) -> Finding:
    worst = entries[0]
    output, input_ = worst.output.block, worst.input.block
    total = output.size * input_.size
    lines = [
        headline.format(output=output.label, input=input_.label) + ",",
        f"  {count} of {total} entries {_VERBS[worst.status]}; the worst:",
    ]
    lines += [f"    {entry}" for entry in entries]
    return Finding(
        property=name,
        status=worst.status,
        message="\n".join(lines),
        hint=hint,
        entries=entries,
        wrong=wrong,
        total=total,
    ).at(worst)


def _not_finite(problem: Problem, comparison: Comparison, group: Indices) -> str:
    values = problem.value[comparison.suspects.rows[group]]
    if np.isfinite(values).all():
        return ""
    worst = int(comparison.suspects.rows[group][~np.isfinite(values)][0])
    place, value = problem.outputs.place(worst), problem.value[worst]
    return f"{place} is {value} at this point: move the inputs to where the function has a value"


def _hint(entries: tuple[Entry, ...], comparison: Comparison, group: Indices) -> str:
    suspects, worst = comparison.suspects, entries[0]
    off = np.abs(suspects.analytic[group] - suspects.numeric[group]) > suspects.tolerance[group]
    group = group[(comparison.status[group] == Status.WRONG.rank) & off]
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


def _entry(problem: Problem, comparison: Comparison, k: int) -> Entry:
    suspects = comparison.suspects
    return Entry(
        output=problem.outputs.place(int(suspects.rows[k])),
        input=problem.inputs.place(int(suspects.columns[k])),
        numeric=float(suspects.numeric[k]),
        error=float(comparison.error[k]),
        analytic=float(suspects.analytic[k]),
        tolerance=float(suspects.tolerance[k]),
        status=_STATUSES[int(comparison.status[k])],
        sides=comparison.sides.get(k),
    )
