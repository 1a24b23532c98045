"""The gradient does not depend on how the memory of the cotangent is arranged."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.compare import close, forgiven, worst_difference
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Layout, Mode, Problem
from gradproof.core.types import Vector
from gradproof.properties.trials import constant, trials

_HINT = (
    "grad_output need not be contiguous (y.sum().backward() makes one of stride 0): "
    "respect its strides, or call .contiguous() first"
)


def layout(problem: Problem, options: Options) -> Iterator[Finding]:
    """The same vjp for cotangents that are expanded, sliced, transposed or channels last."""
    if not problem.has_graph or Mode.REVERSE not in options.modes or trials(problem, options).agree:
        return
    for arrangement in sorted(problem.layouts, key=list(Layout).index):
        yield from _misread(problem, options, arrangement)


def _misread(problem: Problem, options: Options, arrangement: Layout) -> Iterator[Finding]:
    cotangent = constant(problem) if arrangement is Layout.EXPANDED else problem.cotangent
    want = problem.vjp(cotangent)
    try:
        got = problem.vjp_in(cotangent, arrangement)
    except Exception as error:
        yield Finding(
            property="layout",
            status=Status.WRONG,
            message=f"With a grad_output that is {arrangement.value}, backward raised {_name(error)}.",
            hint=_HINT,
            cause=error,
        )
        return
    slack = forgiven(problem, options, want)
    # if the same question has another answer in contiguous memory too, that is for `determinism` to report
    if not close(want, got, problem, slack) and close(want, problem.vjp(cotangent), problem, slack):
        yield _finding(problem, arrangement, want, got)


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _finding(problem: Problem, arrangement: Layout, want: Vector, got: Vector) -> Finding:
    worst = worst_difference(want, got)
    place = problem.inputs.place(worst)
    return Finding(
        property="layout",
        status=Status.WRONG,
        input=place.block.key,
        input_element=place.element,
        analytic=float(got[worst]),
        numeric=float(want[worst]),
        message=(
            f"backward depends on the memory layout of grad_output: with one that is {arrangement.value}, the gradient "
            f"of {place} is {got[worst]:.9g}; with the same values in contiguous memory it is {want[worst]:.9g}."
        ),
        hint=_HINT,
    )
