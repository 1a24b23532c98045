"""The claim is the truth, put in another order: transposed, flipped, shifted, swapped.

If the claim for v is the true gradient for Qv, put in the order P, then <claim(v), P u> = <Q v, J u> for every u. With
J u known, a guess of P and Q costs nothing to test, and nothing but a true guess passes with random u and v.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause
from gradproof.causes.evidence import SUM, Evidence
from gradproof.causes.turns import (
    Turn,
    as_array,
    averaged,
    conjugated,
    flipped,
    is_plain,
    masked,
    rotated,
    some_indices,
    turns,
)
from gradproof.core.norm import norm
from gradproof.core.precision import CONFIDENCE
from gradproof.core.problem import Mode
from gradproof.core.space import Block
from gradproof.core.types import Vector

_SCAN = "analytic runs along axis {axis} the other way round: a cumulative sum or a scan that is {way}reversed"
_SCANNED = 2  # outputs whose claims are looked at for that


def reordered(evidence: Evidence) -> Iterator[Cause]:
    """Every guess that holds, the simplest first."""
    yield from _independent(evidence)
    if not evidence.is_seen():
        return
    for text, turn in _of_output(evidence):
        if evidence.agrees(turned=turn):
            yield Cause(text)
    yield from _dropped(evidence)
    for text, turn in _of_input(evidence):
        if evidence.agrees(moved=turn(evidence.direction)):
            yield Cause(text)
    for text, forth, back in _of_both(evidence):
        if evidence.agrees(turned=forth, moved=back(evidence.direction)):
            yield Cause(text)
    yield from _unmasked(evidence)
    yield from _swapped(evidence)
    yield from _shifted(evidence)


def _independent(evidence: Evidence) -> Iterator[Cause]:
    """A claim that is the same whatever it is asked for."""
    if evidence.mode is Mode.REVERSE:
        first, *others = (evidence.claimed(cotangent) for cotangent in evidence.cotangents)
    else:
        direction = evidence.direction
        first, *others = (evidence.pushed(each) for each in (direction, -direction, np.roll(direction, 1)))
    same = bool(others) and all(np.array_equal(first, other) for other in others)
    if same and first.any() and np.isfinite(first).all():
        yield Cause(f"analytic does not depend on {evidence.probe}: it is not multiplied by it")


def _unmasked(evidence: Evidence) -> Iterator[Cause]:
    """A claim that is right for the cotangent without what belongs to zeros of the output."""
    kept = evidence.problem.value[evidence.output.slice] != 0
    if kept.all() or not kept.any():
        return
    if evidence.agrees(pulled=lambda cotangent: np.where(kept, cotangent, 0.0)):
        name = evidence.probe if evidence.mode is Mode.REVERSE else "it"
        yield Cause(f"analytic is right if {name} is set to 0 where the output is 0: a mask is not applied")


def _turned(evidence: Evidence, block: Block, word: str) -> str:
    """What was turned: what is given to the derivative (the output's side in reverse mode), or what it returns."""
    given = evidence.output if evidence.mode is Mode.REVERSE else evidence.input
    if block is given:
        return f"analytic is what {evidence.probe} would give if it were {word}"
    return f"analytic is numeric {word}, for {block.label}"


def _of_input(evidence: Evidence) -> Iterator[tuple[str, Turn]]:
    for word, turn in turns(evidence.input):
        hint = ": a conjugate is missing or one too many" if word == "conjugated" else ""
        yield f"{_turned(evidence, evidence.input, word)}{hint}", turn


def _of_output(evidence: Evidence) -> Iterator[tuple[str, Turn]]:
    block, reverse = evidence.output, evidence.mode is Mode.REVERSE
    if not is_plain(block):
        return
    for word, turn in turns(block):
        hint = " (or a reduction over the wrong axis)" if word.startswith("transposed") else ""
        yield f"{_turned(evidence, block, word)}{hint}", turn
    if block.parts == 2:
        for word, sign in (("i", 1.0), ("-i", -1.0)):
            text = _turned(evidence, block, f"multiplied by {word}")
            turn = rotated(sign if reverse else -sign)
            yield f"{text}: the imaginary part is taken for the real one, or a factor i is lost", turn
    if reverse:
        yield f"{_turned(evidence, block, 'all ones')}: it is not multiplied by it", np.ones_like
    for axis, size in enumerate(block.shape):
        if size > 1:
            mean, total = (_turned(evidence, block, f"replaced by its {w} along axis {axis}") for w in ("mean", "sum"))
            yield mean, averaged(block, axis, 1.0 / size)
            yield total, averaged(block, axis, 1.0)


def _dropped(evidence: Evidence) -> Iterator[Cause]:
    """Some indices of the output are right, and nothing at all is claimed of the others."""
    block = evidence.output
    for axis, size in enumerate(block.shape) if is_plain(block) else ():
        for word, indices in some_indices(size) if size > 1 else ():
            kept = masked(block, axis, indices)
            if evidence.agrees(turned=kept) and _is_nothing(evidence, kept):
                of = f"{word} of axis {axis} of {block.label}"
                told = f"counts only {of}: the others are not added up"
                yield Cause(f"analytic {told if evidence.mode is Mode.REVERSE else f'is 0 but for {of}'}")


def _is_nothing(evidence: Evidence, kept: Turn) -> bool:
    """Whether the claim for what is not kept is exactly 0."""
    if evidence.mode is not Mode.REVERSE:
        claim = evidence.pushed(evidence.direction)
        return not (claim - kept(claim)).any()
    return not any(evidence.claimed(cotangent - kept(cotangent)).any() for cotangent in evidence.cotangents)


def _of_both(evidence: Evidence) -> Iterator[tuple[str, Turn, Turn]]:
    """Both reversed along one axis: what a cumulative sum must be, and is not."""
    output, input_ = evidence.output, evidence.input
    if not is_plain(output) or not is_plain(input_) or output.shape != input_.shape:
        return
    elementwise = _is_elementwise(evidence)
    for axis, size in enumerate(input_.shape):
        if size > 2:
            scan = _SCAN.format(axis=axis, way="not " if evidence.mode is Mode.REVERSE else "")
            mirrored = f"analytic is right for what it is multiplied with flipped along axis {axis}"
            if elementwise or _runs(evidence, axis):
                yield mirrored if elementwise else scan, flipped(output, (axis,)), flipped(input_, (axis,))
    if output.parts == input_.parts == 2:
        text = "analytic is the conjugate of what it should be, on both sides: a conjugate is missing or one too many"
        yield text, conjugated(output), conjugated(input_)


def _is_elementwise(evidence: Evidence) -> bool:
    """Whether no element that was measured moves an output but its own, and one output is claimed to read one."""
    moved = np.zeros(evidence.output.size, dtype=np.bool_)
    for column in evidence.measured.tolist():
        moved[:] = evidence.column(column) != 0
        at = column - evidence.input.start
        moved[at - at % evidence.input.parts : at - at % evidence.input.parts + evidence.input.parts] = False
        if moved.any():
            return False
    if evidence.mode is not Mode.REVERSE or not len(evidence.measured):
        return False
    unit = np.zeros((*evidence.output.shape, evidence.output.parts))
    unit[(*(size // 2 for size in evidence.output.shape), 0)] = 1.0
    return int(np.count_nonzero(evidence.claimed(unit.reshape(-1)))) <= evidence.input.parts


def scanned(evidence: Evidence) -> Iterator[Cause]:
    """The claim takes from the outputs before an index, where the truth takes from those after it, or vice versa."""
    output, input_ = evidence.output, evidence.input
    if evidence.mode is not Mode.REVERSE or not (is_plain(output) and is_plain(input_)):
        return
    if output.shape != input_.shape or output.parts != input_.parts:
        return
    for axis, size in enumerate(input_.shape):
        way = _runs(evidence, axis) if size > 2 else 0
        if way and all(_claims_from(evidence, axis, column) == way for column in evidence.measured[:_SCANNED].tolist()):
            yield Cause(_SCAN.format(axis=axis, way="not "))


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


def _swapped(evidence: Evidence) -> Iterator[Cause]:
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
            yield Cause(f"the gradients of {own.label} and {other.label} are swapped: each has that of the other")


def _is_that_of(evidence: Evidence, other: Block, cotangent: Vector, known: tuple[Vector, Vector]) -> bool:
    """Whether the claim for another input is the truth for this one."""
    value, error = known
    whole = evidence.widened(cotangent, evidence.output, evidence.problem.outputs.size)
    claim = float(evidence.pulled(whole)[other.slice] @ evidence.direction)
    size = norm(cotangent * value)
    allowed = CONFIDENCE * norm(cotangent * error) + SUM * size
    return 0.0 < size < math.inf and allowed <= 1e-3 * size and abs(claim - float(cotangent @ value)) <= allowed


def _shifted(evidence: Evidence) -> Iterator[Cause]:
    """By one place along an axis. What leaves at the end, or comes in there, is not asked about."""
    block = evidence.input
    if not is_plain(block) or (evidence.allowance.left < 4 and not evidence.is_small):
        return
    axes = [axis for axis, size in enumerate(block.shape) if size > 4]
    if not axes:
        return
    inner = np.zeros((*block.shape, block.parts))
    middle = tuple(slice(2, -2) if axis in axes else slice(None) for axis in range(len(block.shape)))
    inner[middle] = as_array(block, evidence.direction)[middle]
    direction = inner.reshape(-1)
    for axis in axes:
        for by in (1, -1):
            moved = np.roll(inner, by, axis).reshape(-1)
            if evidence.agrees(moved=moved, direction=direction) and not evidence.agrees(direction=direction):
                yield Cause(
                    f"analytic is numeric shifted by {by:+d} along axis {axis} of {block.label}: an index is off by one"
                )


def transposed_jacobian(evidence: Evidence) -> Iterator[Cause]:
    """The claim is J v in place of its transpose times v: known for v = u, of which J u was measured."""
    output, input_, known = evidence.output, evidence.input, evidence.along(evidence.direction)
    if output.size != input_.size or output.size < 2 or known is None:
        return
    value, error = known
    if not np.isfinite(value).all() or not evidence.is_seen():
        return
    for cotangent in evidence.cotangents:
        claim, size = evidence.claimed_sum(evidence.direction, cotangent), norm(cotangent * value)
        allowed = CONFIDENCE * norm(cotangent * error) + SUM * size
        if not abs(claim - float(cotangent @ value)) <= allowed <= 1e-3 * size:
            return
    reverse = f"the Jacobian itself, not its transpose, is applied to {evidence.problem.words.cotangent}"
    forward = f"the transpose of the Jacobian, not the Jacobian itself, is applied to {evidence.problem.words.tangent}"
    told = reverse if evidence.mode is Mode.REVERSE else forward
    if evidence.both_modes:
        told = "the Jacobian and its transpose are exchanged"
    yield Cause(
        f"analytic is the transpose of numeric, as the square matrix of {output.label} by {input_.label}: {told}"
    )
