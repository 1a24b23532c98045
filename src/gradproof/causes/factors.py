"""The claim is the truth times something: a number, a number for each index, an array at hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from gradproof.causes.arrays import base_arrays, called, cotangent_over, reductions, simple_functions
from gradproof.causes.cause import Cause, Scope
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples, samples
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Mode
from gradproof.core.rounding import FORMATS, rounded_to
from gradproof.core.space import Block
from gradproof.core.swallowed import SWALLOWED
from gradproof.core.types import Flags, Vector

# Elements that an array must fit, besides the one that its own factor is made from.
_LEAST = 3
FAMILIAR = {-1.0: "the sign is wrong", 2.0: "a factor 2 too many", 0.5: "a factor 2 is missing"}
# Ratios so near to one that they come from a solver that stops early, or from low precision; and those that may.
_VERY_NEAR, _NEAR = 1e-4, 5e-3
# A correlation with something at hand is a structure, which round-off has not.
_STRUCTURE = 0.7


def zero(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The claim is zero where the truth is not."""
    wrong = found.take(found.wrong)
    if not len(wrong) or not (wrong.claim == 0).all():
        return
    lost = evidence.problem.words.lost if evidence.mode is Mode.REVERSE else f"{evidence.probe} is not used, or lost"
    if not found.right.any() and not _is_claimed(evidence):
        yield Cause(f"analytic is 0 for all of {evidence.input.label} that was sampled: {lost}", Scope.PART)
    else:
        text = f"analytic is 0 on all {len(wrong)} wrong elements that were sampled: not written, or {lost}"
        yield Cause(text, Scope.UNWRITTEN)


def _is_claimed(evidence: Evidence) -> bool:
    """Whether anything but zero is claimed of any element of the input, sampled or not."""
    if evidence.mode is not Mode.REVERSE:
        return False
    return any(evidence.claimed(cotangent).any() for cotangent in evidence.cotangents)


def unmoved(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The claim is not zero where the element moves nothing at all, and right elsewhere."""
    wrong = found.take(found.wrong)
    still = [not (np.abs(evidence.column(c)) > evidence.round_off(c)).any() for c in wrong.columns.tolist()]
    if len(wrong) > 1 and all(still) and np.isfinite(wrong.claim).all():
        text = f"analytic is not 0 on all {len(wrong)} wrong elements that were sampled, which move no output"
        what = "the gradient" if evidence.mode is Mode.REVERSE else evidence.probe
        moved = float((np.abs(wrong.claim) * evidence.investigation.scale[wrong.columns]).max())
        if moved < evidence.problem.coarsest_eps**SWALLOWED:
            most = float(np.abs(wrong.claim).max())
            yield Cause(f"{text}; of these {most:.2g} is claimed at most, which round-off inside may hide", Scope.PART)
            return
        yield Cause(f"{text}: perhaps a mask is not applied to {what}, or it is written to other places", Scope.PART)


def inverted(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Of all that was sampled, the claim is zero exactly where the truth is not."""
    lost, made_up = found.claim == 0, np.abs(found.truth) <= found.bar
    every = len(found) > 2 and bool((found.wrong & (lost ^ made_up)).all())
    if every and lost.any() and made_up.any():
        yield Cause("analytic is 0 where numeric is not, and not 0 where numeric is: a condition or a mask is inverted")


def another_mask(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Of what is wrong, one of claim and truth is zero, each of them somewhere; all else is right."""
    lost, made_up = found.wrong & (found.claim == 0), found.wrong & (np.abs(found.truth) <= found.bar)
    both = lost.any() and made_up.any() and int(found.wrong.sum()) > _LEAST
    if not both or not ((lost ^ made_up) == found.wrong).all() or found.wrong.all():
        return
    yield Cause(
        "analytic is 0 at some elements where numeric is not, not 0 at others where numeric is, and right elsewhere: "
        "another mask than that of the function (drawn again, or of other values), or other elements are selected"
    )


def conjugate(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The imaginary parts have the wrong sign, and the real parts are right."""
    wrong = found.take(found.wrong)
    if evidence.input.parts != 2 or not len(wrong) or not found.right.any():
        return
    imaginary = (found.columns - evidence.input.start) % 2 == 1
    real_is_right = not (found.wrong & ~imaginary).any() and (found.right & ~imaginary).any()
    if real_is_right and not (found.right & imaginary).any() and close(wrong.claim, -wrong.truth, wrong.bar).all():
        text = f"analytic is the conjugate of numeric, for {evidence.input.label}"
        yield Cause(f"{text}: a conjugate is missing or one too many", Scope.PART)


def constant(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """One factor for all that is wrong."""
    wrong = found.take(found.wrong)
    if not len(wrong) or not np.isfinite(wrong.claim).all() or not wrong.truth.all():
        return
    factor = float(np.median(wrong.claim / wrong.truth))
    if (
        factor == 0
        or f"{factor:.4g}" == "1"
        or not all(_holds(factor, samples(evidence, cotangent)) for cotangent in evidence.cotangents)
    ):
        return
    known = any(math.isclose(factor, each, rel_tol=1e-6) for each in FAMILIAR)
    tests = _tests(evidence, wrong)
    if tests > 1 or (known and evidence.input.size * evidence.output.size < 4):
        whole = found.wrong.all() and (len(found) < 2 or evidence.agrees(turned=lambda cotangent: factor * cotangent))
        everywhere = "" if whole else f" on all {len(wrong)} wrong elements that were sampled"
        yield Cause(f"analytic ≈ {factor:.4g} × numeric{everywhere}: {named(factor, evidence)}", Scope.PART)


def rounded(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The claim is the truth, rounded to fewer bits than the input has."""
    bits = None
    if evidence.mode is Mode.REVERSE and evidence.problem.coarsest_eps <= DOUBLE:
        bits = rounded_to(evidence.claimed(evidence.cotangents[0]))
    telling = found.take(found.telling)
    if bits is not None and close(telling.claim, telling.truth, telling.bar, 2.0**-bits).all():
        text = f"analytic is numeric rounded to {bits} bits ({FORMATS[bits]})"
        yield Cause(f"{text}: a lower precision inside, or what is returned is of one", Scope.PART)


def _holds(factor: float, found: Samples) -> bool:
    """Whether one factor explains all that is wrong for a cotangent."""
    wrong = found.take(found.wrong)
    return bool(close(wrong.claim, factor * wrong.truth, wrong.bar * (1.0 + abs(factor))).all())


def _tests(evidence: Evidence, wrong: Samples) -> int:
    """How many numbers a factor was compared with: for each element one for each cotangent, if it moves so many."""
    moved = [np.count_nonzero(evidence.column(column)) for column in wrong.columns.tolist()]
    return sum(min(int(count), len(evidence.cotangents)) for count in moved)


def named(factor: float, evidence: Evidence) -> str:
    """What a factor is called: a sign, a number that authors forget; and a size that it is too, perhaps by chance."""
    for value, words in FAMILIAR.items():
        if math.isclose(factor, value, rel_tol=1e-5):
            return words
    counted = _counted(factor, _sizes(evidence))
    if counted:
        return f"a constant factor {_fraction(factor)}, which is also {counted}".replace(" ,", ",")
    output = float(evidence.problem.value[evidence.output.start])
    if evidence.output.size == 1 and output and math.isclose(factor * output, 1.0, rel_tol=1e-5):
        return "1 / the output: it is not multiplied by it"
    if evidence.output.size == 1 and math.isclose(factor, output, rel_tol=1e-5):
        return "the output: it is multiplied by it once too often"
    return f"a constant factor {_fraction(factor)}".rstrip()


def _fraction(factor: float) -> str:
    """A number as a simple fraction; nothing where it is none."""
    fraction = Fraction(factor).limit_denominator(12)
    return str(fraction) if math.isclose(float(fraction), factor, rel_tol=1e-6) else ""


def _sizes(evidence: Evidence) -> dict[int, str]:
    """Sizes of axes, and products of them, with their names; the simplest name for each."""
    blocks = [evidence.input, evidence.output, *evidence.others[:4]]
    sizes = {
        size: f"the size of axis {axis} of {b.label}" for b in blocks for axis, size in reversed([*enumerate(b.shape)])
    }
    for block in reversed(blocks):
        elements = math.prod(block.shape)
        sizes.setdefault(elements, f"the number of elements of {block.label}")
        for axis, size in enumerate(block.shape):
            if size:
                sizes.setdefault(elements // size, f"the number of elements of {block.label} but for axis {axis}")
    return {size: name for size, name in sizes.items() if size > 1}


def _counted(factor: float, sizes: dict[int, str]) -> str:
    for size, name in sorted(sizes.items()):
        if math.isclose(factor * size, 1.0, rel_tol=1e-5):
            return f"1 / {name} (a mean in place of a sum?)"
        if math.isclose(factor, size, rel_tol=1e-5):
            return f"{name} (a sum in place of a mean, or an axis summed twice?)"
        if size > 2 and math.isclose(factor * (size - 1), size, rel_tol=1e-7):
            return f"n/(n - 1) of {name}, {size}"
        if size > 2 and math.isclose(factor * size, size - 1, rel_tol=1e-7):
            return f"(n - 1)/n of {name}, {size}"
        if math.isclose(factor * math.sqrt(size), 1.0, rel_tol=1e-6):
            return f"1/sqrt({size}), of {name}"
        if math.isclose(factor, math.sqrt(size), rel_tol=1e-6):
            return f"sqrt({size}), of {name}"
    return ""


def by_size(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """A factor for each index of one axis, of two sizes that are mixed up."""
    return (Cause(text + swapped) for text, swapped in _by_index(evidence, found) if swapped)


def by_index(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """A factor for each index of one axis."""
    return (Cause(text + swapped) for text, swapped in _by_index(evidence, found))


def _by_index(evidence: Evidence, found: Samples) -> Iterator[tuple[str, str]]:
    """The same in words, and those of two sizes that are mixed up, if they are."""
    telling = found.take(found.telling)
    if not len(telling) or not np.isfinite(telling.claim).all() or not telling.truth.all():
        return
    ratio, bar = telling.claim / telling.truth, telling.bar / np.abs(telling.truth)
    if sum(size > 1 for size in evidence.input.shape) < 2:  # every element has a factor of its own
        return
    for axis, index in enumerate(evidence.positions(telling.columns)):
        values, which, counts = np.unique(index, return_inverse=True, return_counts=True)
        if len(values) < 2 or (counts < 2).any() or len(ratio) - len(values) < 4:
            continue
        typical = np.array([np.median(ratio[which == k]) for k in range(len(values))])
        if not close(ratio, typical[which], bar).all() or np.ptp(typical) <= 1e-4 * np.abs(typical).max():
            continue
        told = ", ".join(
            f"{factor:.4g} at index {k}" for k, factor in zip(values.tolist(), typical.tolist(), strict=True)
        )
        yield f"analytic ≈ numeric × a factor for each index of axis {axis}: {told}", _quotient(evidence, typical)


def _quotient(evidence: Evidence, factors: Vector) -> str:
    """Whether factors are quotients of two sizes: then these are mixed up."""
    blocks: list[Block] = [evidence.input, evidence.output, *evidence.others]
    sizes = sorted({size for block in blocks for size in block.shape if size > 1})
    for first in sizes:
        for second in sizes:
            for low, high in ((first, second), (first - 1, second - 1)):
                if first >= second or low < 1:
                    continue
                ratios = np.array([1.0, low / high, high / low])
                if close(factors[:, None], ratios[None, :], 0.0, 1e-6).any(axis=1).all():
                    return f": quotients of the sizes {first} and {second}, which are swapped (height and width?)"
    return ""


def near_one(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """All ratios near one, none right: a tolerance, a low precision inside, or a lost term that is as small.

    Derivatives at the point do not tell these apart, so that all of them are said.
    """
    telling = found.take(found.telling)
    if len(telling) < 6 or not telling.truth.all() or not np.isfinite(telling.claim).all():
        return
    ratio = telling.claim / telling.truth
    off = ratio - 1.0
    far = float(np.abs(off).max())
    if found.wrong[found.telling].mean() <= 0.8 or not np.ptp(off) > 0 or far > _NEAR:
        return
    if any(abs(each.analytic - each.numeric) > _NEAR * abs(each.numeric) for each in evidence.entries):
        return  # what is near are sums, of which some outputs are small
    if far <= _VERY_NEAR or _is_scattered(evidence, telling, off, cotangent):
        bound = _VERY_NEAR if far <= _VERY_NEAR else _NEAR
        of = "" if evidence.output.size == 1 else "in sums over the outputs, "
        yield Cause(
            f"{of}analytic is within {100 * bound:g}% of numeric wherever it was sampled, and nearly nowhere the same: "
            "a solver that stops early (set rtol), a lower precision inside, or a small term that is missing (a "
            "ripple, a correction)?"
        )


def _is_scattered(evidence: Evidence, telling: Samples, off: Vector, cotangent: Vector) -> bool:
    """Whether deviations lie to both sides, and follow nothing at hand: no array, no index, not the truth."""
    if min((off > 0).mean(), (off < 0).mean()) < 0.2:
        return False
    inside = telling.columns - evidence.input.start
    over = cotangent_over(evidence, cotangent)
    arrays = [array[inside] for _, array in base_arrays(evidence)]
    arrays += [telling.truth, *([] if over is None else [over[inside]]), *evidence.positions(telling.columns)]
    for array in arrays:
        with np.errstate(all="ignore"):
            for values in (array, np.abs(array), 1.0 / telling.truth):
                for deviation in (off, off * telling.truth):
                    found = np.corrcoef(values.astype(np.float64), deviation)[0, 1]
                    if abs(found) > _STRUCTURE:
                        return False
    return True


def by_array(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A factor that is an array at hand, up to a number; where it is 1, an element is right."""
    wrong = found.take(found.telling)
    if len(wrong) < _LEAST + 1 or not np.isfinite(wrong.claim).all() or not (wrong.claim != 0).all():
        return
    with np.errstate(all="ignore"):
        ratio, bar = wrong.truth / wrong.claim, wrong.bar / np.abs(wrong.claim)
    inside = wrong.columns - evidence.input.start
    for loose, arrays in ((1e-5, simple_functions(evidence)), (1e-3, reductions(evidence))):
        for name, array in arrays:
            for word, values in (
                (f"a factor {name} were missing", array),
                (f"{name} were a factor too many", _inverse(array)),
            ):
                factor = _proportional(ratio, values[inside], bar, loose)
                if factor is not None:
                    yield Cause(f"as if {word}{_up_to(factor)}")
    over = cotangent_over(evidence, cotangent)
    if over is not None and (factor := _proportional(ratio, over[inside], bar, 1e-5)) is not None:
        yield Cause(f"as if {evidence.probe} were missing as a factor{_up_to(factor)}")


def by_modulus(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A factor that is a power of the modulus of a complex input, up to a number."""
    telling = found.take(found.telling & (found.claim != 0) & (found.truth != 0))
    if evidence.input.parts != 2 or len(telling) < _LEAST + 1 or not np.isfinite(telling.claim).all():
        return
    first = evidence.input.start + (telling.columns - evidence.input.start) // 2 * 2
    modulus = np.hypot(evidence.problem.point[first], evidence.problem.point[first + 1])
    ratio, bar = telling.truth / telling.claim, telling.bar / np.abs(telling.claim)
    for name, power in (("|x|", 1.0), ("|x|²", 2.0)):
        for words, values in (
            (f"{name} were a factor too many (it is not divided by it)", modulus**-power),
            (f"a factor {name} were missing", modulus**power),
        ):
            factor = _proportional(ratio, values, bar, 1e-5)
            if factor is not None:
                yield Cause(f"as if {words}{_up_to(factor)}")


def by_phase(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A factor of modulus one, another for each complex element: what is not conjugated."""
    if evidence.input.parts != 2:
        return
    real = (found.columns - evidence.input.start) % 2 == 0
    pairs = [k for k in np.flatnonzero(real[:-1]).tolist() if found.columns[k + 1] == found.columns[k] + 1]
    first = np.array([k for k in pairs if found.wrong[k] or found.wrong[k + 1]], dtype=np.intp)
    if len(first) < _LEAST + 1 or not np.isfinite(found.claim).all():
        return
    truth, claim = (each[first] + 1j * each[first + 1] for each in (found.truth, found.claim))
    bar = np.maximum(found.bar[first], found.bar[first + 1])
    if not truth.all() or not close(np.abs(claim), np.abs(truth), bar).all():
        return
    turn, blur = claim / truth, 1e-5 + bar / np.abs(truth)
    if (np.abs(turn - turn[0]) <= 1e-3).all():
        return
    inside = (found.columns[first] - evidence.input.start) // 2
    for name, array in _complex_arrays(evidence):
        phase = array[inside] / np.conj(array[inside])
        if any((np.abs(turn - each) <= blur).all() for each in (phase, np.conj(phase))):
            yield Cause(
                f"analytic has the modulus of numeric and another phase, by that of {name}²: {name} is not conjugated "
                "where it should be, or it is where it should not"
            )
    yield Cause(
        "analytic has the modulus of numeric and another phase, at every element that was sampled: a factor is not "
        "conjugated, or one too many is"
    )


def _complex_arrays(evidence: Evidence) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs and the output, as complex numbers, where they have the shape of the input."""
    own, problem = evidence.input, evidence.problem
    for name, block, values in (
        (called(own, "x"), own, problem.point[own.slice]),
        ("the output", evidence.output, problem.value[evidence.output.slice]),
        *((called(other), other, problem.point[other.slice]) for other in evidence.others),
    ):
        numbers = values[::2] + 1j * values[1::2] if block.parts == 2 and block.shape == own.shape else np.zeros(1)
        if numbers.all():
            yield name, numbers


def _inverse(array: Vector) -> Vector:
    with np.errstate(all="ignore"):
        return 1.0 / array


def _proportional(ratio: Vector, array: Vector, bar: Vector, tolerance: float) -> float | None:
    """The number that ratio / array is everywhere, if it is one and the array varies; None: it is none."""
    if not np.isfinite(array).all() or not array.all():
        return None
    if np.ptp(array) <= 1e-2 * np.abs(array).max():
        return None
    quotient = ratio / array
    factor = float(np.median(quotient))
    fits: Flags = close(quotient, np.full_like(quotient, factor), bar / np.abs(array), tolerance)
    return factor if factor and fits.all() else None


def _up_to(factor: float) -> str:
    return "" if abs(factor - 1.0) < 1e-3 else f" (times {factor:.4g})"
