"""The claim is right for other inputs than those of the call: the output for the input, swapped ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause
from gradproof.causes.evidence import Evidence
from gradproof.causes.turns import averaged, is_plain, turns
from gradproof.core.space import Block
from gradproof.core.types import Vector

# Other inputs that are set to ones and zeros.
_LEFT_OUT = 2
# Evaluations that are kept for the question whether another input is right.
_FOR_OTHERS = 4


def of_another_point(evidence: Evidence) -> Iterator[Cause]:
    """The claim is right for inputs that are not those of the call: the output for the input, another transposed."""
    if not evidence.is_seen():
        return
    for text, point in _points(evidence):
        if not np.array_equal(point, evidence.problem.point) and evidence.allowance.left >= 2 + _FOR_OTHERS:
            at = evidence.along(evidence.direction, point)
            if at is not None and evidence.agrees(at=at) and _is_asked_there(evidence, point):
                yield Cause(text)


def left_out(evidence: Evidence) -> Iterator[Cause]:
    """The claim is right if another input is all ones, or zeros: it is not multiplied by it, or nothing is added."""
    point = evidence.problem.point
    for block in evidence.others[:_LEFT_OUT] if evidence.is_seen() else []:
        for value, words in ((1.0, "all ones: it is not multiplied by it somewhere"), (0.0, "0: it is left out")):
            there = point.copy()
            there[block.slice] = value
            if evidence.allowance.left < 2 + _FOR_OTHERS or np.array_equal(there, point):
                continue
            at = evidence.along(evidence.direction, there)
            if at is not None and evidence.agrees(at=at):
                yield Cause(f"analytic is right if {block.label} is {words}")


def summed(evidence: Evidence) -> Iterator[Cause]:
    """The claim is right if another input has its sum or its mean along an axis everywhere: summed too early."""
    for block in evidence.others[:_LEFT_OUT] if evidence.is_seen() else []:
        if not is_plain(block) or block.parts != 1:
            continue
        for axis, size in enumerate(block.shape):
            for word, factor in (("sum", 1.0), ("mean", 1.0 / max(1, size))):
                if size < 2 or evidence.allowance.left < 2 + _FOR_OTHERS:
                    continue
                there = evidence.problem.point.copy()
                there[block.slice] = averaged(block, axis, factor)(there[block.slice])
                at = evidence.along(evidence.direction, there)
                if at is not None and evidence.agrees(at=at):
                    yield Cause(
                        f"analytic is right if every number of {block.label} is its {word} along axis {axis}: it is "
                        "summed there before it is multiplied"
                    )


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
        for word, turn in turns(block):
            text = f"analytic is right for {block.label} {word}: it is used so, and should not be (or the other way)"
            yield text, with_block(block, turn(problem.point[block.slice]))
    for first, second in itertools.combinations([own, *evidence.others], 2):
        plain = first.elements is second.elements is None
        if plain and first.shape == second.shape and first.parts == second.parts:
            point = with_block(first, problem.point[second.slice])
            point[second.slice] = problem.point[first.slice]
            yield f"analytic is right for {first.label} and {second.label} swapped", point
