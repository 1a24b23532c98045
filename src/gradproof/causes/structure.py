"""The claim is the truth, put in another order: transposed, flipped, shifted, swapped, of another point.

If the claim for v is the true gradient for Qv, put in the order P, then <claim(v), P u> = <Q v, J u> for every u. With
J u known, a guess of P and Q costs nothing to test, and nothing but a true guess passes with random u and v.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from gradproof.causes.evidence import SUM, Evidence
from gradproof.core.norm import norm
from gradproof.core.precision import CONFIDENCE
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.types import Vector

Turn = Callable[[Vector], Vector]

_SCAN = "analytic runs along axis {axis} the other way round: a cumulative sum or a scan that is not reversed"
# Outputs whose claims are looked at for that.
_SCANNED = 2
# How many indices share something, as heads of queries share those of keys.
_GROUPS = (2, 3, 4, 8)


def reordered(evidence: Evidence) -> Iterator[str]:
    """Every guess that holds, the simplest first."""
    yield from _independent(evidence)
    if evidence.along(evidence.direction) is None:
        return
    for text, turn in _of_output(evidence):
        if evidence.agrees(turned=turn):
            yield text
    for text, turn in _of_input(evidence):
        if evidence.agrees(moved=turn(evidence.direction)):
            yield text
    for text, forth, back in _of_both(evidence):
        if evidence.agrees(turned=forth, moved=back(evidence.direction)):
            yield text
    yield from _unmasked(evidence)
    yield from _swapped(evidence)
    yield from _shifted(evidence)


def _independent(evidence: Evidence) -> Iterator[str]:
    """A claim that is the same whatever the cotangent."""
    if evidence.mode is not Mode.REVERSE or len(evidence.cotangents) < 2:
        return
    first, *others = (evidence.claimed(cotangent) for cotangent in evidence.cotangents)
    if first.any() and np.isfinite(first).all() and all(np.array_equal(first, other) for other in others):
        yield f"analytic does not depend on {evidence.problem.words.cotangent}: it is not multiplied by it"


def _unmasked(evidence: Evidence) -> Iterator[str]:
    """A claim that is right for the cotangent without what belongs to zeros of the output."""
    kept = evidence.problem.value[evidence.output.slice] != 0
    if kept.all() or not kept.any():
        return
    if evidence.agrees(pulled=lambda cotangent: np.where(kept, cotangent, 0.0)):
        name = evidence.problem.words.cotangent
        yield f"analytic is right if {name} is set to 0 where the output is 0: a mask is not applied"


def _is_plain(block: Block) -> bool:
    return block.elements is None and bool(block.shape)


def _as_array(block: Block, vector: Vector) -> Vector:
    return vector.reshape(*block.shape, block.parts)


def _flipped(block: Block, axes: tuple[int, ...]) -> Turn:
    return lambda vector: np.flip(_as_array(block, vector), axes).reshape(-1)


def _halved(block: Block, axis: int) -> Turn:
    return lambda vector: np.roll(_as_array(block, vector), block.shape[axis] // 2, axis).reshape(-1)


def _transposed(block: Block, first: int, second: int) -> Turn:
    return lambda vector: np.ascontiguousarray(np.swapaxes(_as_array(block, vector), first, second)).reshape(-1)


def _conjugated(block: Block) -> Turn:
    def turn(vector: Vector) -> Vector:
        turned = vector.copy()
        turned[1::2] *= -1.0
        return turned

    return turn


def _turns(block: Block) -> Iterator[tuple[str, Turn]]:
    """Ways to put the numbers of a block in another order that undo themselves."""
    if not _is_plain(block):
        return
    axes = [axis for axis, size in enumerate(block.shape) if size > 1]
    for first, second in itertools.combinations(axes, 2):
        if block.shape[first] == block.shape[second]:
            yield f"transposed (axes {first} and {second} swapped)", _transposed(block, first, second)
    for axis in axes:
        yield f"flipped along axis {axis}", _flipped(block, (axis,))
    for axis in axes:
        if block.shape[axis] % 2 == 0 and block.shape[axis] > 2:
            yield f"with the two halves of axis {axis} swapped", _halved(block, axis)
    if len(axes) > 1:
        yield f"flipped along axes {axes[-2]} and {axes[-1]} (a kernel)", _flipped(block, (axes[-2], axes[-1]))
    if block.parts == 2:
        yield "conjugated", _conjugated(block)


def _of_input(evidence: Evidence) -> Iterator[tuple[str, Turn]]:
    for word, turn in _turns(evidence.input):
        hint = ": a conjugate is missing or one too many" if word == "conjugated" else ""
        yield f"analytic is numeric {word}, for {evidence.input.label}{hint}", turn


def _of_output(evidence: Evidence) -> Iterator[tuple[str, Turn]]:
    block, name = evidence.output, evidence.problem.words.cotangent
    if not _is_plain(block):
        return
    for word, turn in _turns(block):
        hint = " (or a reduction over the wrong axis)" if word.startswith("transposed") else ""
        yield f"analytic is what {name} would give if it were {word}{hint}", turn
    yield f"analytic is what {name} would give if it were all ones: it is not multiplied by it", np.ones_like
    for axis, size in enumerate(block.shape):
        if size < 2:
            continue
        for word, kept in _kept(size):
            text = f"analytic counts only {word} of axis {axis} of {block.label}: the others are not added up"
            yield text, _masked(block, axis, kept)
        mean = f"analytic is what {name} would give if it were replaced by its mean along axis {axis}"
        yield mean, _averaged(block, axis, 1.0 / size)
        total = f"analytic is what {name} would give if it were replaced by its sum along axis {axis}"
        yield total, _averaged(block, axis, 1.0)


def _kept(size: int) -> Iterator[tuple[str, slice]]:
    yield "the first index", slice(0, 1)
    yield "the last index", slice(size - 1, size)
    for tile in (2, 4, 8, 16, 32, 64, 128, 256):
        rest = size % tile
        if rest and size > tile:
            yield f"the first {size - rest} of {size} indices (whole tiles of {tile})", slice(0, size - rest)
    if size > 2:
        yield "all but the last index", slice(0, size - 1)
        yield "all but the first index", slice(1, size)
    for group in _GROUPS:
        if size % group == 0 and size > group:
            yield f"the first of every {group} indices", slice(0, None, group)
            yield f"the last of every {group} indices", slice(group - 1, None, group)


def _masked(block: Block, axis: int, kept: slice) -> Turn:
    def turn(vector: Vector) -> Vector:
        array = np.moveaxis(np.zeros((*block.shape, block.parts)), axis, 0)
        array[kept] = np.moveaxis(_as_array(block, vector), axis, 0)[kept]
        return np.ascontiguousarray(np.moveaxis(array, 0, axis)).reshape(-1)

    return turn


def _averaged(block: Block, axis: int, factor: float) -> Turn:
    def turn(vector: Vector) -> Vector:
        array = _as_array(block, vector)
        return np.broadcast_to(factor * array.sum(axis=axis, keepdims=True), array.shape).reshape(-1)

    return turn


def _of_both(evidence: Evidence) -> Iterator[tuple[str, Turn, Turn]]:
    """Both reversed along one axis: what a cumulative sum must be, and is not."""
    output, input_ = evidence.output, evidence.input
    if not _is_plain(output) or not _is_plain(input_) or output.shape != input_.shape:
        return
    elementwise = _is_elementwise(evidence)
    for axis, size in enumerate(input_.shape):
        if size > 2:
            scan = _SCAN.format(axis=axis)
            mirrored = f"analytic is right for what it is multiplied with flipped along axis {axis}"
            if elementwise or _runs(evidence, axis):
                yield mirrored if elementwise else scan, _flipped(output, (axis,)), _flipped(input_, (axis,))
    if output.parts == input_.parts == 2:
        text = "analytic is the conjugate of what it should be, on both sides: a conjugate is missing or one too many"
        yield text, _conjugated(output), _conjugated(input_)


def _is_elementwise(evidence: Evidence) -> bool:
    """Whether no element that was measured moves an output but its own."""
    moved = np.zeros(evidence.output.size, dtype=np.bool_)
    for column in evidence.measured.tolist():
        moved[:] = evidence.column(column) != 0
        at = column - evidence.input.start
        moved[at - at % evidence.input.parts : at - at % evidence.input.parts + evidence.input.parts] = False
        if moved.any():
            return False
    return True


def scanned(evidence: Evidence) -> Iterator[str]:
    """The claim takes from the outputs before an index, where the truth takes from those after it, or vice versa."""
    output, input_ = evidence.output, evidence.input
    if evidence.mode is not Mode.REVERSE or not (_is_plain(output) and _is_plain(input_)):
        return
    if output.shape != input_.shape or output.parts != input_.parts:
        return
    for axis, size in enumerate(input_.shape):
        way = _runs(evidence, axis) if size > 2 else 0
        if way and all(_claims_from(evidence, axis, column) == way for column in evidence.measured[:_SCANNED].tolist()):
            yield _SCAN.format(axis=axis)


def _claims_from(evidence: Evidence, axis: int, column: int) -> int:
    """Whether the claim for one output is of all elements from its index on (1), or up to it (-1); 0: of others."""
    size, at = evidence.input.shape[axis], [int(k[0]) for k in evidence.positions(np.array([column], dtype=np.intp))]
    at[axis] = size // 2
    unit = np.zeros((*evidence.output.shape, evidence.output.parts))
    unit[(*at, 0)] = 1.0
    claims = np.abs(evidence.claimed(unit.reshape(-1))).reshape(unit.shape).max(axis=-1)
    line = claims[tuple(slice(None) if k == axis else place for k, place in enumerate(at))]
    moved, places = line > 1e-9 * float(claims.max(initial=0.0)), np.arange(size)
    return int(np.array_equal(moved, places >= at[axis])) - int(np.array_equal(moved, places <= at[axis]))


def _runs(evidence: Evidence, axis: int) -> int:
    """Whether an element moves all outputs from its index on along the axis, and none before (1), or vice versa (-1).

    0: it does neither.
    """
    size, parts = evidence.input.shape[axis], evidence.input.parts
    onward = backward = True
    inner = 0
    for column in evidence.measured.tolist():
        at = [int(index[0]) for index in evidence.positions(np.array([column], dtype=np.intp))]
        entries = np.abs(evidence.column(column)).reshape(*evidence.output.shape, -1).max(axis=-1)
        line = entries[tuple(slice(None) if k == axis else place for k, place in enumerate(at))]
        moved = line > 1e-7 * float(entries.max(initial=0.0))
        places = np.arange(size)
        onward &= bool(np.array_equal(moved, places >= at[axis]))
        backward &= bool(np.array_equal(moved, places <= at[axis]))
        inner += parts if 0 < at[axis] < size - 1 else 0
    return int(onward) - int(backward) if inner else 0


def _swapped(evidence: Evidence) -> Iterator[str]:
    """The gradient of another input of the same shape, in place of its own."""
    own, known = evidence.input, evidence.along(evidence.direction)
    if evidence.mode is not Mode.REVERSE or known is None or not known[0].any():
        return
    for other in evidence.others:
        alike = other.shape == own.shape and other.parts == own.parts and other.elements is own.elements is None
        if not alike or not all(_is_that_of(evidence, other, cotangent, known) for cotangent in evidence.cotangents):
            continue
        theirs = Evidence(evidence.investigation, evidence.mode, evidence.output, other, evidence.allowance)
        back = theirs.along(theirs.direction)
        if back is not None and all(_is_that_of(theirs, own, cotangent, back) for cotangent in evidence.cotangents):
            yield f"the gradients of {own.label} and {other.label} are swapped: each has that of the other"


def _is_that_of(evidence: Evidence, other: Block, cotangent: Vector, known: tuple[Vector, Vector]) -> bool:
    """Whether the claim for another input is the truth for this one."""
    value, error = known
    whole = evidence.widened(cotangent, evidence.output, evidence.problem.outputs.size)
    claim = float(evidence.pulled(whole)[other.slice] @ evidence.direction)
    size = norm(cotangent * value)
    allowed = CONFIDENCE * norm(cotangent * error) + SUM * size
    return 0.0 < size < math.inf and allowed <= 1e-3 * size and abs(claim - float(cotangent @ value)) <= allowed


def _shifted(evidence: Evidence) -> Iterator[str]:
    """By one place along an axis. What leaves at the end, or comes in there, is not asked about."""
    block = evidence.input
    if not _is_plain(block) or (evidence.allowance.left < 4 and not evidence.is_small):
        return
    axes = [axis for axis, size in enumerate(block.shape) if size > 4]
    if not axes:
        return
    inner = np.zeros((*block.shape, block.parts))
    middle = tuple(slice(2, -2) if axis in axes else slice(None) for axis in range(len(block.shape)))
    inner[middle] = _as_array(block, evidence.direction)[middle]
    direction = inner.reshape(-1)
    for axis in axes:
        for by in (1, -1):
            moved = np.roll(inner, by, axis).reshape(-1)
            if evidence.agrees(moved=moved, direction=direction) and not evidence.agrees(direction=direction):
                yield (
                    f"analytic is numeric shifted by {by:+d} along axis {axis} of {block.label}: an index is off by one"
                )


def transposed_jacobian(evidence: Evidence) -> Iterator[str]:
    """The claim is J v in place of its transpose times v: known for v = u, of which J u was measured."""
    output, input_, known = evidence.output, evidence.input, evidence.along(evidence.direction)
    if output.size != input_.size or output.size < 2 or known is None:
        return
    value, error = known
    if not np.isfinite(value).all() or evidence.agrees():
        return
    for cotangent in evidence.cotangents:
        claim, size = evidence.claimed_sum(evidence.direction, cotangent), norm(cotangent * value)
        allowed = CONFIDENCE * norm(cotangent * error) + SUM * size
        if not abs(claim - float(cotangent @ value)) <= allowed <= 1e-3 * size:
            return
    name = evidence.problem.words.cotangent
    yield (
        f"analytic is the transpose of numeric, as the square matrix of {output.label} by {input_.label}: "
        f"the Jacobian itself, not its transpose, is applied to {name}"
    )


# Other inputs that are set to ones and zeros.
_LEFT_OUT = 2
# Evaluations that are kept for the question whether another input is right.
_FOR_OTHERS = 4


def of_another_point(evidence: Evidence) -> Iterator[str]:
    """The claim is right for inputs that are not those of the call: the output for the input, another transposed."""
    for text, point in _points(evidence):
        if not np.array_equal(point, evidence.problem.point) and evidence.allowance.left >= 2 + _FOR_OTHERS:
            at = evidence.along(evidence.direction, point)
            if at is not None and evidence.agrees(at=at) and _is_asked_there(evidence, point):
                yield text


def left_out(evidence: Evidence) -> Iterator[str]:
    """The claim is right if another input is all ones, or zeros: it is not multiplied by it, or nothing is added."""
    point = evidence.problem.point
    for block in evidence.others[:_LEFT_OUT]:
        for value, words in ((1.0, "all ones: it is not multiplied by it somewhere"), (0.0, "0: it is left out")):
            there = point.copy()
            there[block.slice] = value
            if evidence.allowance.left < 2 + _FOR_OTHERS or np.array_equal(there, point):
                continue
            at = evidence.along(evidence.direction, there)
            if at is not None and evidence.agrees(at=at):
                yield f"analytic is right if {block.label} is {words}"


def _is_asked_there(evidence: Evidence, point: Vector) -> bool:
    """Whether no other input of which the point has other values is right where it is, and wrong there.

    Two inputs that are swapped are so for both: else it is a coincidence, of which functions with squares have many.
    """
    for block in evidence.others:
        if np.array_equal(point[block.slice], evidence.problem.point[block.slice]):
            continue
        if np.array_equal(point[evidence.input.slice], evidence.problem.point[evidence.input.slice]):
            continue
        other = Evidence(evidence.investigation, evidence.mode, evidence.output, block, evidence.allowance)
        there = other.along(other.direction, point)
        if there is None or (not other.agrees(at=there) and other.agrees()):
            return False
    return True


def _points(evidence: Evidence) -> Iterator[tuple[str, Vector]]:
    problem, own, output = evidence.problem, evidence.input, evidence.output

    def with_block(block: Block, values: Vector) -> Vector:
        point = problem.point.copy()
        point[block.slice] = values
        return point

    if own.shape == output.shape and own.parts == output.parts and own.elements is output.elements is None:
        text = f"analytic is the derivative at {output.label} in place of {own.label}"
        yield f"{text}: the saved output is used for the input", with_block(own, problem.value[output.slice])
    for block in [*evidence.others, own]:
        for word, turn in _turns(block):
            text = f"analytic is right for {block.label} {word}: it is used so, and should not be (or the other way)"
            yield text, with_block(block, turn(problem.point[block.slice]))
    for first, second in itertools.combinations([own, *evidence.others], 2):
        plain = first.elements is second.elements is None
        if plain and first.shape == second.shape and first.parts == second.parts:
            point = with_block(first, problem.point[second.slice])
            point[second.slice] = problem.point[first.slice]
            yield f"analytic is right for {first.label} and {second.label} swapped", point
