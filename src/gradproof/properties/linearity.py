"""The derivative is a linear map: of zero it gives zero, of a multiple the multiple, of a sum the sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.compare import close, forgiven, is_sum, largest_of, worst_difference
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem, Trials
from gradproof.core.space import Space
from gradproof.core.types import Vector
from gradproof.properties.trials import RowSum, constant, scales, trials

# Noise in a backward may be this much larger than it was seen to be.
_NOISE = 32.0
_HINT = "a backward must not take the absolute value of grad_output, square it, clamp it or branch on it"
_FORWARD_HINT = "forward mode must not take the absolute value of a tangent, square it, clamp it or branch on it"


def linearity(problem: Problem, options: Options) -> Iterator[Finding]:
    """vjp(0) = 0, vjp(a v) = a vjp(v) for negative, large and small a, vjp(v + w) = vjp(v) + vjp(w); so for jvp."""
    if not problem.has_graph:
        return
    if Mode.REVERSE in options.modes and not _is_beyond_doubt(trials(problem, options)):
        yield from _take_apart(problem, options)
    if Mode.FORWARD in options.modes:
        yield from _pushforward(problem, options)


def _is_beyond_doubt(made: Trials) -> bool:
    """Equal to the last bit in the first trial leaves no room for an offset, and all must agree."""
    return made.exact and made.agree


def _take_apart(problem: Problem, options: Options) -> Iterator[Finding]:
    """The first law that a vjp breaks: one is enough, and others follow from it."""
    v, slack = problem.cotangent, forgiven(problem, options, problem.pullback)
    zero = problem.vjp(np.zeros_like(v))
    if zero.any():  # NaN counts
        yield _not_zero(problem, zero)
    if zero.any() or trials(problem, options).agree:
        return
    first = problem.vjp(v)
    if not close(first, problem.pullback, problem, slack):
        return  # not even the same: that is for `determinism` to report
    slack += _NOISE * float(np.max(np.abs(first - problem.pullback), initial=0.0, where=np.isfinite(first)))
    for factor in (-1.0, *scales(problem)):
        got = problem.vjp(factor * v)
        with np.errstate(over="ignore"):
            want = factor * first
        if not close(want, got, problem, abs(factor) * slack):
            law = f"{factor:g} times the grad_output must give {factor:g} times the gradient"
            yield _broken(problem.inputs, want, got, law, _HINT)
            return
    c = constant(problem)
    got, other = problem.vjp(v + c), problem.vjp(c)
    want = first + other
    if not is_sum(got, want, max(largest_of(first), largest_of(other)), problem, 2.0 * slack):
        yield _broken(
            problem.inputs, want, got, "the sum of two grad_outputs must give the sum of the gradients", _HINT
        )
    elif problem.rows is not None:
        yield from _against_rows(problem, RowSum(v, problem.rows, problem, options), first)


def _against_rows(problem: Problem, sum_: RowSum, gradient: Vector) -> Iterator[Finding]:
    """A backward may take one element of grad_output at a time for something else than many."""
    if not sum_.equals(gradient, 1.0):
        law = "many elements of grad_output together must give the sum of what each gives by itself"
        yield _broken(problem.inputs, sum_.expected, gradient, law, _HINT)


def _pushforward(problem: Problem, options: Options) -> Iterator[Finding]:
    u, pushed = problem.tangent, problem.pushforward
    large, _ = scales(problem)
    got, want = problem.jvp(-large * u), -large * pushed
    slack = options.nondet_tol
    if not close(want, got, problem, large * slack) and close(problem.jvp(u), pushed, problem, slack):
        law = f"{-large:g} times the tangent must give {-large:g} times the tangent of the output"
        yield _broken(problem.outputs, want, got, law, _FORWARD_HINT)


def _not_zero(problem: Problem, gradient: Vector) -> Finding:
    worst = worst_difference(gradient, np.zeros_like(gradient))
    place = problem.inputs.place(worst)
    return Finding(
        property="linearity",
        status=Status.WRONG,
        input=place.block.key,
        input_element=place.element,
        analytic=float(gradient[worst]),
        numeric=0.0,
        message=(
            "backward not multiplied by grad_output: with a grad_output of zeros, "
            f"the gradient of {place} is {gradient[worst]:.9g} instead of 0."
        ),
    )


def _broken(space: Space, want: Vector, got: Vector, law: str, hint: str) -> Finding:
    worst = worst_difference(want, got)
    place = space.place(worst)
    reverse = place.block.kind != "output"
    who, what = ("backward", "grad_output") if reverse else ("forward mode", "the tangent")
    return Finding(
        property="linearity",
        status=Status.WRONG,
        input=place.block.key if reverse else None,
        input_element=place.element if reverse else None,
        output=None if reverse else place.block.index,
        output_element=None if reverse else place.element,
        analytic=float(got[worst]),
        numeric=float(want[worst]),
        message=(
            f"{who} is not linear in {what}: {law}, "
            f"but for {place} that is {got[worst]:.9g} instead of {want[worst]:.9g}."
        ),
        hint=hint,
    )
