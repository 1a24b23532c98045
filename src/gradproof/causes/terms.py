"""The claim is the truth less a term: one that is the same along axes, is an array at hand, or a sum of such."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradproof.causes.arrays import base_arrays, called, cotangent_over, probabilities, simple_functions
from gradproof.causes.cause import Cause, Scope
from gradproof.causes.evidence import Evidence, close, coefficients, solved
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Numbers that must be left to test a fit with, after its coefficients are found.
_LEFT = 3
# How closely a fit must agree, relative to the differences.
_FIT = 1e-5


def product_rule(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """Of x·h(x), only one of the two factors was differentiated."""
    over, arrays = cotangent_over(evidence, cotangent), dict(base_arrays(evidence))
    telling = found.take(found.telling)
    if over is None or "the output" not in arrays or len(telling) < _LEFT + 1:
        return
    inside, x = telling.columns - evidence.input.start, called(evidence.input, "x")
    with np.errstate(all="ignore"):
        other = over[inside] * arrays["the output"][inside] / arrays[x][inside]
    if not np.isfinite(other).all() or np.ptp(other / over[inside]) < 1e-3 * np.abs(other / over[inside]).max():
        return
    if close(telling.claim, other, telling.bar).all():
        yield Cause(
            f"analytic is the output / {x}, times {evidence.probe}: of {x}·h({x}) only the first "
            f"factor is differentiated, the term {x}·h'({x}) is missing"
        )
    elif close(telling.truth - telling.claim, other, telling.bar).all():
        yield Cause(f"the term h({x}) = output / {x} of the derivative of {x}·h({x}) is missing")


def of_array(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A term that is an array at hand, up to a number."""
    if int(found.telling.sum()) < _LEFT + 1 or not np.isfinite(found.claim).all():
        return
    missing, inside = found.truth - found.claim, found.columns - evidence.input.start
    one = float(cotangent[0]) if evidence.output.size == 1 else 1.0
    over, name = cotangent_over(evidence, cotangent), evidence.probe
    bar = found.bar + _FIT * float(np.abs(missing).max())

    def fits(array: Vector) -> tuple[float, str] | None:
        """The factor of an array, and of what it is said."""
        used, lacks = array[found.telling], missing[found.telling]
        if not np.isfinite(used).all() or not used.any():
            return None
        factor = float(lacks @ used / (used @ used))
        with np.errstate(invalid="ignore"):
            holds = np.abs(missing - factor * array) <= bar
        return (factor, _of_whom(found, holds)) if factor and holds[found.telling].all() else None

    if evidence.output.size == 1 and (fit := fits(np.ones(len(inside)))) is not None:
        where = fit[1] or " at all elements that were sampled"
        yield Cause(f"analytic ≈ numeric {-fit[0] / cotangent[0]:+.4g}{where}: a constant is added or missing")
    if over is not None and (fit := fits(over[inside])) is not None:
        yield _missing(f"{_times(fit[0])}{name}", fit[1])
    for text, array in simple_functions(evidence):
        values = array[inside]
        if np.ptp(values[found.telling]) <= 1e-2 * np.abs(values[found.telling]).max():
            continue
        if (fit := fits(values)) is not None:
            yield _missing(f"{_times(fit[0] / one)}{text}", fit[1])
        if over is not None and (fit := fits(values * over[inside])) is not None:
            yield _missing(f"{_times(fit[0])}{text}·{name}", fit[1])


def _of_whom(found: Samples, holds: Flags) -> str:
    """Nothing where something holds for all that was sampled, also where claim and truth are 0; else for how many."""
    return "" if holds.all() else f" at {int(holds.sum())} of {len(found)} sampled elements"


def of_arrays(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A term that is a sum of multiples of inputs and the output, as those of squares have."""
    telling = found.take(found.telling)
    arrays, inside = list(base_arrays(evidence)), telling.columns - evidence.input.start
    if len(arrays) < 2 or not np.isfinite(telling.claim).all():
        return
    missing = telling.truth - telling.claim
    bar = telling.bar + _FIT * float(np.abs(missing).max(initial=0.0))
    everywhere = found.columns - evidence.input.start
    for over, name in _weights(evidence, cotangent):
        design = np.stack([array[inside] * over[inside] for _, array in arrays], axis=1)
        factors, rank = coefficients(design, missing)
        if rank < len(arrays) or len(missing) < rank + _LEFT or (np.abs(missing - design @ factors) > bar).any():
            continue
        least = 1e-4 * float(np.abs(factors).max())
        parts = [(float(f"{f:.4g}"), text) for f, (text, _) in zip(factors.tolist(), arrays, strict=True)]
        told = [f"{_times(factor)}{text}" for factor, text in parts if abs(factor) > least]
        if len(told) > 1:
            every = np.stack([array[everywhere] * over[everywhere] for _, array in arrays], axis=1) @ factors
            holds = np.abs(found.truth - found.claim - every) <= found.bar + float(bar.max())
            yield _missing(f"({' + '.join(told).replace('+ -', '- ')}){name}", _of_whom(found, holds))


def _weights(evidence: Evidence, cotangent: Vector) -> Iterator[tuple[Vector, str]]:
    """The cotangent over the input, where it fits, also where an axis of the input was reduced; and what to call it."""
    own, output, name = evidence.input, evidence.output, f"·{evidence.probe}"
    if output.elements is not None or output.parts != 1:
        return
    if evidence.mode is not Mode.REVERSE and own.size != output.size:  # a jvp sums this up
        return
    shapes = [(*own.shape[:axis], 1, *own.shape[axis + 1 :]) for axis in range(len(own.shape))]
    for shape in (own.shape, *shapes):
        reduced = tuple(size for size in shape if size > 1)
        if reduced == tuple(size for size in output.shape if size > 1):
            yield np.broadcast_to(cotangent.reshape(shape), own.shape).reshape(-1), name
    if output.size == 1:
        yield np.full(own.size, float(cotangent[0])), name


def _times(factor: float) -> str:
    return "" if abs(factor - 1.0) < 1e-4 else "-" if abs(factor + 1.0) < 1e-4 else f"{factor:.4g}·"


def along_axes(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A term that is an array at hand times something that is the same along axes: a sum or a mean over these."""
    telling = found.take(found.telling)
    places = evidence.positions(telling.columns)
    if not np.isfinite(telling.claim).all() or not len(places) or len(telling) < _LEFT + 2:
        return
    lines = _Lines(places, telling.truth - telling.claim, telling.bar)
    inside = telling.columns - evidence.input.start
    factors = [("", np.ones(len(inside))), *((name, array[inside]) for name, array in _at_hand(evidence))]
    # what is missing is missing everywhere: one element that is right, or that moves nothing, disproves it
    spoiled = telling.wrong & (np.abs(telling.truth) > telling.bar)
    # and where the truth itself is so, what is missing is so whatever it comes from
    truth = replace(lines, missing=telling.truth)
    for name, array in factors:
        if array.any() and spoiled[array != 0].all():
            fits = (axes for axes in _sets(len(places)) if lines.fit((axes, array)) and not truth.fit((axes, array)))
            for axes in fits:
                if _holds_on_a_line(evidence, telling, cotangent, axes, name):
                    yield _same_along(name, axes, lines)
    if spoiled.all():
        yield from _of_two_terms(evidence, (lines, truth), inside, factors)


def _at_hand(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    return itertools.chain(base_arrays(evidence), probabilities(evidence))


def _holds_on_a_line(evidence: Evidence, telling: Samples, cotangent: Vector, axes: tuple[int, ...], name: str) -> bool:
    """Whether all elements of one line along the axes, sampled or not, lack the same times the array, in their sum."""
    if evidence.input.parts > 1:  # a complex element has two coordinates, which such a sum does not tell apart
        return False
    array = dict(_at_hand(evidence)).get(name, np.ones(evidence.input.size))
    largest = int(np.argmax(np.where(telling.wrong, np.abs(telling.truth - telling.claim), 0.0)))
    inside = telling.columns - evidence.input.start
    everywhere = evidence.positions(evidence.elements())
    on_line = np.ones(len(everywhere[0]), dtype=np.bool_)
    for axis, index in enumerate(everywhere):
        if axis not in axes:
            on_line &= index == evidence.positions(telling.columns)[axis][largest]
    direction = np.where(on_line, evidence.direction, 0.0) if len(axes) < len(everywhere) else evidence.direction
    seen = evidence.missing(cotangent, direction) if array[inside[largest]] else None
    if seen is None:
        return False
    each = (telling.truth - telling.claim)[largest] / array[inside[largest]] * array * direction
    slack = seen[1] + 1e-4 * float(np.linalg.norm(each)) + telling.bar[largest] * float(np.abs(direction).sum())
    return abs(seen[0] - float(each.sum())) <= slack


def _of_two_terms(
    evidence: Evidence, known: tuple[_Lines, _Lines], inside: Indices, factors: Sequence[tuple[str, Vector]]
) -> Iterator[Cause]:
    """The same of the sum of two, where one of them is not enough."""
    lines, truth = known
    places = lines.places
    x = evidence.problem.point[evidence.input.slice][inside]
    own = called(evidence.input, "x")
    for axes in _sets(len(places)):
        one, two = (axes, np.ones(len(x))), (axes, x)
        if lines.fit(one, two) and not lines.fit(one) and not lines.fit(two) and not truth.fit(one, two):
            term = f"({own} - its mean)·(a sum or a mean along {_named(axes)})"
            yield _missing(term, f": numeric - analytic is a·{own} + b there")
    for name, array in factors:
        for first, second in itertools.combinations(range(len(places)), 2):
            one, two = ((first,), array), ((second,), array)
            if lines.fit(one, two) and not lines.fit(one) and not lines.fit(two) and not truth.fit(one, two):
                term = f"{name}·(a sum)" if name else "a sum"
                yield Cause(
                    f"numeric - analytic is {term} along axis {first} and one along axis {second}: a reduction over "
                    f"the wrong one of axes {first} and {second}",
                    Scope.TERM,
                )


@dataclass(frozen=True, slots=True)
class _Lines:
    """What is missing at sampled places, to be explained by what is the same along lines."""

    places: Sequence[Indices]
    missing: Vector
    bar: Vector

    def fit(self, *parts: tuple[tuple[int, ...], Vector]) -> bool:
        """Whether each part, values times something that is the same along its axes, add up to what is missing."""
        design = np.concatenate([_groups(self.places, axes, values) for axes, values in parts], axis=1)
        return _fits(design, self.missing, self.bar)


def _sets(count: int) -> Iterator[tuple[int, ...]]:
    """Sets of axes, the largest first: what is the same along more of them says more."""
    for size in range(count, 0, -1):
        yield from itertools.combinations(range(count), size)


def _groups(places: Sequence[Indices], axes: tuple[int, ...], values: Vector) -> Matrix:
    """A column for each place along the other axes, with the values of its elements."""
    rest = [place for axis, place in enumerate(places) if axis not in axes]
    if not rest:
        return values[:, None].copy()
    _, which = np.unique(np.stack(rest, axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    design = np.zeros((len(values), int(which.max()) + 1))
    design[np.arange(len(values)), which] = values
    return design


def _fits(design: Matrix, missing: Vector, bar: Vector) -> bool:
    """Whether what is missing is a sum of the columns, with numbers left to tell, on lines of two elements or more."""
    if not np.isfinite(design).all():
        return False
    given, left = solved(design, missing)
    size = float(np.abs(missing).max())
    if left < _LEFT or not size or left < len(missing) // 4:
        return False
    return bool((np.abs(missing - given) <= bar + _FIT * size).all())


def _missing(term: str, told: str = "") -> Cause:
    too_many = f", or {term[1:]} one too many" if term.startswith("-") and not term[1].isdigit() else ""
    return Cause(f"as if the term {term} were missing{too_many}{told}", Scope.TERM)


def _same_along(name: str, axes: tuple[int, ...], lines: _Lines) -> Cause:
    along = "all axes" if len(axes) == len(lines.places) > 1 else _named(axes)
    if name:
        return _missing(f"{name}·(a mean or a sum along {along})")
    text = f"numeric - analytic is the same all along {along}: as if a mean or a sum over it were missing"
    return Cause(text, Scope.TERM)


def _named(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {' and '.join(map(str, axes))}"


def same_claim(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The claim is the same all along an axis, and the truth is not."""
    telling = found.take(found.telling)
    places = evidence.positions(telling.columns)
    if len(telling) < _LEFT + 2 or not np.isfinite(telling.claim).all() or not telling.claim.all():
        return
    if not telling.wrong.all() or not (np.abs(telling.truth) > telling.bar).all():
        return
    ones = np.ones(len(telling))
    for axes in _sets(len(places)):
        design = _groups(places, axes, ones)
        if _fits(design, telling.claim, telling.bar) and not _fits(design, telling.truth, telling.bar):
            yield Cause(f"analytic is the same all along {_named(axes)}, numeric is not: summed or averaged over it?")
            return
