"""The gradient does not depend on how the memory of the cotangent is arranged."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.agreement import close, worst_difference
from gradproof.core.capabilities import MemoryLayout
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.properties.allowance import allowed_difference, explains_difference
from gradproof.properties.trials import constant, trials
from gradproof.results.finding import Finding


def layout(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The same vjp for cotangents that are expanded, sliced, transposed or channels last."""
    if not investigation.once(trials, options).agree:
        for arrangement in sorted(investigation.memory_layouts, key=list(MemoryLayout).index):
            yield from misread(investigation, options, arrangement)


def misread(investigation: Investigation, options: Options, arrangement: MemoryLayout) -> Iterator[Finding]:
    """What differs if cotangents lie in memory in this way."""
    problem, words = investigation.problem, investigation.problem.words
    expanded = arrangement is MemoryLayout.EXPANDED
    cotangent = constant(investigation) if expanded else investigation.cotangent
    want = investigation.vjp(cotangent)
    try:
        got = investigation.vjp_in(cotangent, arrangement)
    except Exception as error:
        yield Finding(
            property="layout",
            kind=arrangement.name.lower(),
            status=Status.WRONG,
            headline=(
                f"{words.reverse} depends on the memory layout of {words.cotangent}: with one that is "
                f"{arrangement.value}, it raised {type(error).__name__}: {error}"
            ),
            hint=words.memory_layout,
            cause=error,
        )
        return
    slack = allowed_difference(investigation, options, want)
    # if the same question has another answer in contiguous memory too, that is for `determinism` to report
    if close(want, got, problem, slack) or not close(want, investigation.vjp(cotangent), problem, slack):
        return
    if not explains_difference(investigation, Mode.REVERSE, cotangent, got - want):
        yield _finding(investigation, arrangement, want, got)


def _finding(investigation: Investigation, arrangement: MemoryLayout, want: Vector, got: Vector) -> Finding:
    words = investigation.problem.words
    worst = worst_difference(want, got)
    place = investigation.problem.inputs.place(worst)
    return Finding(
        property="layout",
        kind=arrangement.name.lower(),
        status=Status.WRONG,
        input=place.block.key,
        input_element=place.element,
        analytic=float(got[worst]),
        numeric=float(want[worst]),
        headline=(
            f"{words.reverse} depends on the memory layout of {words.cotangent}: with one that is {arrangement.value}, "
            f"the gradient of {place} is {got[worst]:.9g}; with the same values in contiguous memory it is "
            f"{want[worst]:.9g}."
        ),
        hint=words.memory_layout,
    )
