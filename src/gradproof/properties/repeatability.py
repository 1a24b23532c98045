"""The same forward twice gives the same values."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.agreement import same, worst_difference
from gradproof.core.capabilities import MemoryWatch, Original
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Problem
from gradproof.core.status import Status
from gradproof.core.wide import widened
from gradproof.results.finding import Finding


def repeatability(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Evaluate again: differences beyond round-off mean that no numerical derivative can be trusted."""
    problem = investigation.problem
    original = problem.capability(Original)
    if original is None:
        wide = investigation.once(widened) if problem.evaluates_in is not None else None
        # of a twin, the function was called twice already
        value, again = problem.value, investigation.evaluate(problem.point) if wide is None else wide.problem.value
    else:
        investigation.cost.evaluate()
        value, again = original.value, original.evaluate(problem.point)
    if not same(value, again, investigation.made.outputs.coarsest_eps):
        worst = worst_difference(again, value)
        place = problem.outputs.place(worst)
        yield Finding(
            property="repeatability",
            status=Status.WRONG,
            output=place.block.index,
            output_element=place.element,
            headline=(
                "The function is not deterministic: called twice with the same inputs, "
                f"{place} was {value[worst]:.9g}, then {again[worst]:.9g}. "
                "No numerical derivative can be trusted."
            ),
            hint=_hint(problem),
        )


def _hint(problem: Problem) -> str:
    watch = problem.capability(MemoryWatch)
    if watch is not None and watch.overwritten_inputs:
        return f"it overwrites {', '.join(watch.overwritten_inputs)}: {problem.words.input_overwritten}"
    return "fix the seed inside the function, or switch randomness (dropout, sampling) off"
