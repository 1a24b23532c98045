"""The same forward twice gives the same values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.agreement import same, worst_difference
from gradproof.core.capabilities import MemoryWatch, Original, Repeated
from gradproof.core.directions import is_long
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.wide import widened
from gradproof.properties.opposite import is_measured, opposite, pushed_once
from gradproof.results.finding import Finding


def repeatability(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Evaluate again: differences beyond round-off mean that no numerical derivative can be trusted."""
    problem = investigation.problem
    original = problem.capability(Original)
    if original is None:
        value, again = problem.value, _called_again(investigation, options)
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


def _called_again(investigation: Investigation, options: Options) -> Vector:
    """The values of a second call: one that was made to find a twin, or for it, is one; so is one for a jvp.

    What was made in another precision acquits, but accuses nobody: what the function itself gives again is what counts.
    """
    problem, repeated = investigation.problem, investigation.problem.capability(Repeated)
    wide = investigation.once(widened) if problem.evaluates_in is not None else None
    if wide is not None:
        return wide.problem.value
    if repeated is not None and same(problem.value, repeated.value, investigation.made.outputs.coarsest_eps):
        return repeated.value  # else it may be so by the higher precision that it was made in
    pushed = _pushed(investigation, options)
    if pushed is not None and np.array_equal(pushed, problem.value):
        return problem.value  # the same. Else a rule may have computed them: what the function itself returns counts
    return investigation.evaluate(problem.point)


def _pushed(investigation: Investigation, options: Options) -> Vector | None:
    """The values of a jvp that is asked for anyway; None where it has none, or raises, which is for others to report.

    Of one output, trials count on an evaluation in between. Where one tangent is enough it was pushed at first, and is
    taken for a second call only where another one takes long.
    """
    problem = investigation.problem
    if Mode.FORWARD not in options.modes or problem.evaluates_in is not None or problem.outputs.size == 1:
        return None
    try:
        if is_measured(investigation, options):
            return pushed_once(investigation) if is_long(problem) else None
        return investigation.once(opposite).value if "linearity" in options.properties else None
    except Exception:
        return None


def _hint(problem: Problem) -> str:
    watch = problem.capability(MemoryWatch)
    if watch is not None and watch.overwritten_inputs:
        return f"it overwrites {', '.join(watch.overwritten_inputs)}: {problem.words.input_overwritten}"
    return "fix the seed inside the function, or switch randomness (dropout, sampling) off"
