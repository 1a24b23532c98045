"""The derivative is a linear map: of zero it gives zero, of a multiple the multiple, of a sum the sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import close, is_sum, largest_of, worst_difference
from gradproof.core.capabilities import is_pushed_once
from gradproof.core.investigation import Investigation
from gradproof.core.nearer import sum_vanishes
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE, ENTRY_ROUND_OFF, least_spacing
from gradproof.core.problem import Mode, Problem
from gradproof.core.rounding import FORMATS, rounded_to
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.properties.allowance import allowed_difference, explains, zero_gradient
from gradproof.properties.changing import Change, changing
from gradproof.properties.determinism import changed
from gradproof.properties.opposite import is_measured, opposite
from gradproof.properties.trials import RowSum, Trials, constant, is_multiple, scales, trials
from gradproof.results.finding import Finding

# Noise in a vjp may be this much larger than it was seen to be.
_NOISE = 32.0
# Roundings that may add up in a law, where what a rule gives is rounded.
_ROUNDINGS = 4.0

_ALWAYS_NAN = "the gradient is NaN whatever {} is: look for 0/0, 0·inf, or a NaN that it is multiplied by"
_NAN_OF_ZEROS = "the gradient is NaN for zeros: {} is multiplied by an infinity, or divided by its own size"


def linearity(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """vjp(0) = 0, vjp(a v) = a vjp(v) for negative, large and small a, vjp(v + w) = vjp(v) + vjp(w); so for jvp."""
    if Mode.REVERSE in options.modes and not _is_beyond_doubt(investigation.once(trials, options)):
        yield from _take_apart(investigation, options)
    if Mode.FORWARD in options.modes and not is_measured(investigation, options):
        yield from _pushforward(investigation, options)


def _is_beyond_doubt(made: Trials) -> bool:
    """Equal to the last bit in the first trial leaves no room for an offset, and all must agree."""
    return made.exact and made.agree


def _take_apart(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The first law that a vjp breaks: one is enough, and others follow from it."""
    problem, words = investigation.problem, investigation.problem.words
    v, slack = investigation.cotangent, allowed_difference(investigation, options, investigation.pullback)
    zero = investigation.vjp(np.zeros_like(v))
    if zero.any():  # NaN counts
        yield _not_zero(investigation, zero)
    if zero.any() or investigation.once(trials, options).agree:
        return
    first = investigation.vjp(v)
    if not close(first, investigation.pullback, problem, slack) or investigation.once(changed, options) is not None:
        return  # not even the same: that is for `determinism` to report
    slack += _NOISE * float(np.max(np.abs(first - investigation.pullback), initial=0.0, where=np.isfinite(first)))
    least = ENTRY_ROUND_OFF * least_spacing(problem.coarsest_eps)
    for factor in (-1.0, *scales(problem)):
        got = investigation.vjp(factor * v)
        with np.errstate(over="ignore"):
            want = factor * first
        if not close(want, got, problem, abs(factor) * slack + least):
            law = f"{factor:g} times {words.cotangent} must give {factor:g} times the gradient"
            if not explains(investigation, Mode.REVERSE, [(factor, v), (-1.0, factor * v)], want - got):
                yield _broken(problem, _Law(law, want, got), first)
                return
    c = constant(investigation)
    slack = 2.0 * slack + zero_gradient(investigation, c)
    got, other = investigation.vjp(v + c), investigation.vjp(c)
    with np.errstate(over="ignore"):
        want = first + other
    adds_up = is_sum(got, want, max(largest_of(first), largest_of(other)), problem, slack)
    parts = [(1.0, v), (1.0, c), (-1.0, v + c)]
    if not adds_up and not explains(investigation, Mode.REVERSE, parts, want - got):
        law = f"the sum of two values of {words.cotangent} must give the sum of the gradients"
        yield _broken(problem, _Law(law, want, got), first)
    elif investigation.rows is not None:
        yield from _against_rows(investigation, RowSum(v, investigation.rows, investigation, options), first)


def _against_rows(investigation: Investigation, sum_: RowSum, gradient: Vector) -> Iterator[Finding]:
    """A vjp may take one element of a cotangent at a time for something else than many."""
    # what rounds in the rows does so about as much in their sum
    off = sum_.expected - gradient
    if not sum_.equals(gradient, 1.0) and not (
        explains(investigation, Mode.REVERSE, [(2.0, sum_.cotangent)], off)
        or sum_vanishes(investigation, Mode.REVERSE, sum_.law, off)
    ):
        problem, words = investigation.problem, investigation.problem.words
        law = f"many elements of {words.cotangent} together must give the sum of what each gives by itself"
        yield _broken(problem, _Law(law, sum_.expected, gradient), gradient)


def _pushforward(investigation: Investigation, options: Options) -> Iterator[Finding]:
    problem, words = investigation.problem, investigation.problem.words
    u = investigation.tangent
    # what was pushed as a multiple says nothing of the tangent itself
    pushed = investigation.jvp(u) if is_pushed_once(investigation.problem) else investigation.pushforward
    large, _ = scales(problem)
    asked = investigation.once(opposite)
    same = asked.tangent is u or np.array_equal(asked.tangent, u)
    got = asked.coordinates if same else investigation.jvp(-large * u)
    if is_multiple(got, -large, pushed):  # nearly always
        return
    with np.errstate(over="ignore"):
        want = -large * pushed
    slack = options.nondet_tol
    if close(want, got, problem, large * slack):
        return
    again = Change(pushed, investigation.jvp(u)), Change(got, investigation.jvp(-large * u))
    changes = [change for change in again if not close(*change, problem, slack)]
    if changes:
        yield changing(problem.outputs, changes[0], options, words)
    elif not explains(investigation, Mode.FORWARD, [(large, u), (1.0, -large * u)], want - got):
        law = f"{-large:g} times {words.tangent} must give {-large:g} times the tangent of the output"
        yield _broken(problem, _Law(law, want, got, Mode.FORWARD), pushed)


def _not_zero(investigation: Investigation, gradient: Vector) -> Finding:
    problem, words = investigation.problem, investigation.problem.words
    worst = worst_difference(gradient, np.zeros_like(gradient))
    place = problem.inputs.place(worst)
    hint = f"every term of the gradient must be multiplied by {words.cotangent}"
    if np.isnan(gradient[worst]):
        always = np.isnan(investigation.pullback[worst])
        hint = _ALWAYS_NAN.format(words.cotangent) if always else _NAN_OF_ZEROS.format(words.cotangent)
    return Finding(
        property="linearity",
        kind="zero",
        mode=Mode.REVERSE,
        status=Status.WRONG,
        input=place.block.key,
        input_element=place.element,
        analytic=float(gradient[worst]),
        numeric=0.0,
        headline=(
            f"{words.reverse} is not linear in {words.cotangent}: for zeros, "
            f"the gradient of {place} is {gradient[worst]:.9g} instead of 0."
        ),
        hint=hint,
    )


class _Law(NamedTuple):
    """What must be the same, and is not; in words."""

    said: str
    want: Vector
    got: Vector
    mode: Mode = Mode.REVERSE


def _broken(problem: Problem, law: _Law, plain: Vector) -> Finding:
    """The finding of a broken law. `plain` is what the rule gives for a probe of ordinary size."""
    want, got, reverse, words = law.want, law.got, law.mode is Mode.REVERSE, problem.words
    worst = worst_difference(want, got)
    place = (problem.inputs if reverse else problem.outputs).place(worst)
    rule, probe, bits = words.rule(reverse), words.probe(reverse), _rounded(problem, law, plain)
    said, hint = f"{rule} is not linear in {probe}", words.nonlinear.format(probe=probe)
    if bits:
        said = f"what {rule} gives is rounded to {bits} bits ({FORMATS[bits]})"
        hint = f"compute in the precision of the inputs: a cast to {FORMATS[bits]} is on the way"
    return Finding(
        property="linearity",
        kind="law",
        mode=law.mode,
        status=Status.WRONG,
        input=place.block.key if reverse else None,
        input_element=place.element if reverse else None,
        output=None if reverse else place.block.index,
        output_element=None if reverse else place.element,
        analytic=float(got[worst]),
        numeric=float(want[worst]),
        headline=(f"{said}: {law.said}, but for {place} that is {got[worst]:.9g} instead of {want[worst]:.9g}."),
        hint=hint,
    )


def _rounded(problem: Problem, law: _Law, plain: Vector) -> int:
    """The bits that a rule rounds to, where these are fewer than the dtype has and explain the difference."""
    bits = rounded_to(plain) if problem.coarsest_eps <= DOUBLE else None
    if bits is None or not np.isfinite(law.want).all():
        return 0
    slack = _ROUNDINGS * (2.0**-bits * float(np.abs(law.want).max()) + least_spacing(2.0 ** (1 - bits)))
    return bits if float(np.abs(law.got - law.want).max()) <= slack else 0
