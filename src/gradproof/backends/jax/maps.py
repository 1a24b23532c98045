"""A JAX function at a point in coordinates: what a Problem is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradproof.backends.jax.arrays import Row
from gradproof.backends.jax.compiled import Derived
from gradproof.backends.jax.inspection import Shown, Values
from gradproof.backends.jax.transforms import Function, Transforms
from gradproof.core.capabilities import Batching, Elsewhere, Inspection, Omission
from gradproof.core.types import Matrix, Vector

LEAST_EVALUATIONS, LEAST_PRODUCTS = 512, 256
"""From how many evaluations, and from how many vjps or jvps on, a batch is started: it must be compiled first, in the
time of about this many plain calls (measured with sin of ten numbers)."""


class Map:
    """F, J^T v and J u of coordinates, where `inputs` and `outputs` are rows of arrays."""

    def __init__(self, function: Function, inputs: Row, outputs: Row, point: Vector) -> None:
        self.inputs, self.outputs, self.point = inputs, outputs, point
        self.transforms = Transforms(function, wide=inputs.is_wide)
        self._here = self.transforms.placed(inputs.build(point))

    def at(self, coordinates: Vector) -> Vector:
        """F there."""
        return self.outputs.read(self.transforms.evaluate(self.inputs.build(coordinates)))

    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v at the point."""
        return self._pulled(self._here, cotangent)

    def jvp(self, tangent: Vector) -> Vector:
        """J u at the point."""
        return self._pushed(self._here, tangent)

    def _pulled(self, arrays: tuple[Any, ...], cotangent: Vector) -> Vector:
        return self._gradient(self.transforms.pull(arrays, self._cotangents(cotangent)).products)

    def _pushed(self, arrays: tuple[Any, ...], tangent: Vector) -> Vector:
        return self.outputs.read(self.transforms.push(arrays, self.inputs.build(tangent)).products)

    def _cotangents(self, cotangent: Vector) -> tuple[Any, ...]:
        return self.outputs.build(self.outputs.conjugated(cotangent))

    def _gradient(self, arrays: Any) -> Vector:
        return self.inputs.conjugated(self.inputs.read(arrays))

    # capabilities

    def elsewhere(self) -> Elsewhere:
        """Both derivatives at other points."""

        def vjp(coordinates: Vector, cotangent: Vector) -> Vector:
            return self._pulled(self.inputs.build(coordinates), cotangent)

        def jvp(coordinates: Vector, tangent: Vector) -> Vector:
            return self._pushed(self.inputs.build(coordinates), tangent)

        return Elsewhere(vjp, jvp)

    def inspection(self, value: Vector) -> Inspection:
        """Both derivatives, with the form of what they return; and the values beside them, to compare with this one."""

        def beside(derived: Derived) -> Callable[[], Values] | None:
            return (lambda: (value, self.outputs.read(derived.values))) if derived.values else None

        def vjp(cotangent: Vector) -> Shown:
            derived = self.transforms.pull(self._here, self._cotangents(cotangent))
            return Shown(self.inputs, derived.products, self._gradient(derived.products), beside(derived))

        def jvp(tangent: Vector) -> Shown:
            derived = self.transforms.push(self._here, self.inputs.build(tangent))
            return Shown(self.outputs, derived.products, self.outputs.read(derived.products), beside(derived))

        return Inspection(vjp, jvp)

    def omission(self) -> Omission:
        """Both derivatives where something is left out."""

        def vjp(cotangent: Vector, absent: frozenset[int]) -> Vector:
            return self._gradient(self.transforms.pull_without(self._here, self._cotangents(cotangent), absent))

        def jvp(tangent: Vector, absent: frozenset[int]) -> Vector:
            return self.outputs.read(self.transforms.push_without(self._here, self.inputs.build(tangent), absent))

        return Omission(vjp, jvp)

    def batching(self) -> Batching:
        """All three for many rows at a time."""
        evaluate = self._evaluate_rows if self.transforms.compiles else None
        return Batching(evaluate, self._vjps, self._jvps, LEAST_EVALUATIONS, LEAST_PRODUCTS)

    def _evaluate_rows(self, rows: Matrix, run: slice, still: frozenset[int]) -> Matrix:
        points = np.empty((_rounded_up(len(rows)), self.inputs.space.size))
        points[:] = self.point
        points[: len(rows), run] = rows
        batches = self.inputs.build_rows(points)
        moved = [self._here[k] if k in still else batch for k, batch in enumerate(batches)]
        return self.outputs.read_rows(self.transforms.evaluate_rows(moved, still), len(rows))

    def _vjps(self, rows: Matrix) -> Matrix:
        cotangents = self.outputs.build_rows(self.outputs.conjugated(_padded(rows)))
        answers = self.transforms.pull_rows(self._here, cotangents)
        return self.inputs.conjugated(self.inputs.read_rows(answers, len(rows)))

    def _jvps(self, rows: Matrix) -> Matrix:
        tangents = self.inputs.build_rows(_padded(rows))
        return self.outputs.read_rows(self.transforms.push_rows(self._here, tangents), len(rows))


def _rounded_up(count: int) -> int:
    """The next power of two: batches of few lengths are compiled for few lengths."""
    return 1 << max(count - 1, 0).bit_length()


def _padded(rows: Matrix) -> Matrix:
    padded = np.zeros((_rounded_up(len(rows)), rows.shape[1]))
    padded[: len(rows)] = rows
    return padded
