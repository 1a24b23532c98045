"""The right formula with the wrong one of input and output put in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from gradproof.causes.arrays import base_arrays, called, cotangent_over, simple_functions, spread
from gradproof.causes.cause import Cause
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.types import Vector

_FORMULAS: tuple[tuple[str, Callable[[Vector], Vector]], ...] = (
    ("1 - {}²", lambda a: 1.0 - a**2),
    ("{}·(1 - {})", lambda a: a * (1.0 - a)),
    ("{}", lambda a: a),
    ("1 / (2·{})", lambda a: 0.5 / a),
    ("-{}²", lambda a: -(a**2)),
    ("1 + {}²", lambda a: 1.0 + a**2),
    ("1 - exp(-{})", lambda a: 1.0 - np.exp(-a)),
    ("2·{}", lambda a: 2.0 * a),
    ("cos({})", np.cos),
    ("1 / {}", lambda a: 1.0 / a),
)


def input_for_output(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """The truth is a formula of the output, and the claim the same one of the input; or the other way round."""
    over, arrays = cotangent_over(evidence, cotangent), dict(base_arrays(evidence))
    wrong = found.take(found.telling)
    if over is None or "the output" not in arrays or len(wrong) < 4:
        return
    inside = wrong.columns - evidence.input.start
    x, y, v = arrays[called(evidence.input, "x")][inside], arrays["the output"][inside], over[inside]
    own = called(evidence.input, "x")
    ways = (
        (y, x, own, "y", f"{own} is used for the saved output"),
        (x, y, "y", own, "the saved output is used for the input"),
    )
    with np.errstate(all="ignore"):
        for text, formula in _FORMULAS:
            for right, other, used, meant, words in ways:
                holds = close(wrong.truth, v * formula(right), wrong.bar, 1e-6).all()
                if holds and close(wrong.claim, v * formula(other), wrong.bar, 1e-6).all():
                    told = f"analytic is {text.format(used, used)} times {evidence.probe}"
                    yield Cause(f"{told}, numeric the same of {meant}: {words}")


def of_claim(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """What the claim is, where it is a simple function of something at hand times the cotangent, and the truth not."""
    over, name = cotangent_over(evidence, cotangent), evidence.probe
    telling = found.take(found.telling)
    if over is None or len(telling) < 4 or not np.isfinite(telling.claim).all():
        return
    inside = telling.columns - evidence.input.start
    if close(telling.claim, over[inside], telling.bar, 1e-6).all():
        yield Cause(
            f"analytic is {name} itself, as that of an identity: what else the function does with it is missing"
        )
    with np.errstate(all="ignore"):
        for text, array in simple_functions(evidence):
            values = array[inside]
            if not np.isfinite(values).all() or np.ptp(values) <= 1e-2 * np.abs(values).max():
                continue
            if close(telling.claim, over[inside] * values, telling.bar, 1e-6).all():
                told = f"analytic is {text}·{name}, and numeric is not"
                yield Cause(f"{told}: another argument, a factor or a term belongs there")


def summed(evidence: Evidence) -> Iterator[Cause]:
    """What the claim is, where it is the cotangent times something at hand, summed to the shape of the input."""
    own, output, problem = evidence.input, evidence.output, evidence.problem
    if evidence.mode is not Mode.REVERSE or own.parts != 1 or output.parts != 1 or evidence.agrees():
        return
    axes = _reduced(own, output)
    if not axes:
        return
    arrays = [(called(block), spread(block, problem.point[block.slice], output)) for block in evidence.others]
    arrays.append(("the output", problem.value[output.slice]))
    along = f"{'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))}"
    for name, array in arrays:
        if array is not None and all(_is_sum(evidence, v, array, axes) for v in evidence.cotangents):
            told = f"analytic is {problem.words.cotangent}·{name}, summed over {along} of {output.label}"
            yield Cause(
                f"{told}, and numeric is not: another array than {name} belongs there (a normalised or a saved one?)"
            )


def _reduced(own: Block, output: Block) -> tuple[int, ...]:
    """The axes of the output that an input which is laid over it has not."""
    if own.elements is not None or output.elements is not None or own.size >= output.size:
        return ()
    shape = (1,) * (len(output.shape) - len(own.shape)) + own.shape
    if len(shape) != len(output.shape) or any(
        size not in (1, out) for size, out in zip(shape, output.shape, strict=True)
    ):
        return ()
    return tuple(axis for axis, (size, out) in enumerate(zip(shape, output.shape, strict=True)) if size != out)


def _is_sum(evidence: Evidence, cotangent: Vector, array: Vector, axes: tuple[int, ...]) -> bool:
    with np.errstate(all="ignore"):
        total = (cotangent * array).reshape(evidence.output.shape).sum(axis=axes).reshape(-1)
    claim = evidence.claimed(cotangent)
    return bool(total.any()) and bool(close(claim, total, 1e-9 * float(np.abs(claim).max())).all())


def summed_term(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """What is missing is the cotangent times something at hand, up to a number, summed to the shape of the input."""
    own, output, problem = evidence.input, evidence.output, evidence.problem
    telling = found.take(found.telling)
    axes = _summed_over(own, output) if evidence.mode is Mode.REVERSE else ()
    if not axes or len(telling) < 3 or not np.isfinite(telling.claim).all():
        return
    missing, inside = telling.truth - telling.claim, telling.columns - own.start
    bar = telling.bar + 1e-5 * float(np.abs(missing).max())
    arrays = [("", np.ones(output.size)), ("the output·", problem.value[output.slice])]
    for block in evidence.others:
        laid = spread(block, problem.point[block.slice], output)
        arrays += [] if laid is None else [(f"{called(block)}·", laid)]
    for name, array in arrays:
        term = (cotangent * array).reshape(output.shape).sum(axis=axes).reshape(-1)[inside]
        factor = float(missing @ term / (term @ term)) if term.any() else 0.0
        if abs(factor) > 1e-9 and (np.abs(missing - factor * term) <= bar).all():
            along = f"{'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))} of {output.label}"
            number = f"{factor:.4g}·".replace("-1·", "-").removeprefix("1·") if abs(factor) == 1 else f"{factor:.4g}·"
            yield Cause(f"as if the term {number}{name}{evidence.probe}, summed over {along}, were missing")


def _summed_over(own: Block, output: Block) -> tuple[int, ...]:
    """The axes of the output that the input has not, where it has the others in their order."""
    if own.parts != 1 or output.parts != 1 or own.elements is not None or output.elements is not None:
        return ()
    count = len(output.shape)
    for axes in (axes for size in range(1, count) for axes in itertools.combinations(range(count), size)):
        if tuple(n for axis, n in enumerate(output.shape) if axis not in axes) == own.shape:
            return axes
    return ()


def beside(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """The claim has a factor from the place beside the one that the truth has it from."""
    telling = found.take(found.telling & (found.claim != 0) & (found.truth != 0))
    if len(telling) < 4 or not np.isfinite(telling.claim).all():
        return
    ratio, bar = telling.claim / telling.truth, telling.bar / np.abs(telling.truth)
    places, shape = evidence.positions(telling.columns), evidence.input.shape
    for (name, array), axis, step in itertools.product(base_arrays(evidence), range(len(places)), (-1, 1)):
        there = [index + step * (k == axis) for k, index in enumerate(places)]
        inside = (there[axis] >= 0) & (there[axis] < shape[axis])
        laid = array.reshape(shape)
        used, meant = (laid[tuple(index[inside] for index in each)] for each in (places, there))
        if len(used) < 4 or not meant.all() or close(used, meant, 0.0, 1e-3).all():
            continue
        if close(ratio[inside], used / meant, bar[inside]).all():
            where = "before" if step < 0 else "after"
            yield Cause(
                f"analytic has {name} at an element's own index where numeric has it one {where} along axis {axis}: an "
                "index is off by one"
            )


def along_another_axis(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """A factor with one number for each index of an axis is laid along another axis."""
    telling = found.take(found.telling & (found.claim != 0) & (found.truth != 0))
    places = evidence.positions(telling.columns)
    if len(telling) < 4 or not np.isfinite(telling.claim).all():
        return
    ratio, bar = telling.claim / telling.truth, telling.bar / np.abs(telling.truth)
    for block in evidence.others:
        if block.parts != 1 or block.elements is not None or len(block.shape) != 1:
            continue
        values = evidence.problem.point[block.slice]
        for used, meant in itertools.permutations(range(len(places)), 2):
            if not evidence.input.shape[used] == evidence.input.shape[meant] == block.size or not values.all():
                continue
            if close(ratio, values[places[used]] / values[places[meant]], bar, 1e-5).all():
                told = f"analytic has {called(block)} along axis {used}, numeric along axis {meant}"
                yield Cause(f"{told}: it is laid out wrongly")
