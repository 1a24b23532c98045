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
LONG = 2**16
"""Outputs of so many numbers take longer to compute a few times than a further function takes to compile."""


class Map:
    """F, J^T v and J u of coordinates, where `inputs` and `outputs` are rows of arrays."""

    def __init__(self, function: Function, inputs: Row, outputs: Row, point: Vector) -> None:
        self.inputs, self.outputs, self.point = inputs, outputs, point
        self.transforms = Transforms(function, wide=inputs.is_wide)
        self._here = self.transforms.placed(inputs.build(point))
        self.evaluations = 0
        """How often F was asked for."""

    def at(self, coordinates: Vector) -> Vector:
        """F there."""
        self.evaluations += 1
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

    def inspection(self, value: Vector, *, has_rules: bool) -> Inspection:
        """Both derivatives, with the form of what they return; and where there are rules, the values beside them.

        These are compared with the value of the function. They are asked for with every product, since that is one
        compiled function; where outputs are long, with the first one only, since they must be computed.
        """
        always = has_rules and self.outputs.space.size < LONG
        pulled, pushed = _Beside(value, self.outputs), _Beside(value, self.outputs)

        def vjp(cotangent: Vector) -> Shown:
            asked = always or (has_rules and pulled.arrays is None)
            derived = self.transforms.pull(self._here, self._cotangents(cotangent), values=asked)
            return Shown(self.inputs, derived.products, self._gradient(derived.products), pulled.known(derived))

        def jvp(tangent: Vector) -> Shown:
            asked = always or (has_rules and pushed.arrays is None)
            derived = self.transforms.push(self._here, self.inputs.build(tangent), values=asked)
            return Shown(self.outputs, derived.products, self.outputs.read(derived.products), pushed.known(derived))

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


class _Beside:
    """The values that a mode computes on its way at the point, once they were handed out; and the function's own."""

    def __init__(self, value: Vector, outputs: Row) -> None:
        self._value, self._outputs = value, outputs
        self.arrays: tuple[Any, ...] | None = None

    def known(self, derived: Derived) -> Callable[[], Values] | None:
        """Those of the function and of the mode, as far as they are known now; where outputs are long, the first."""
        if derived.values:
            self.arrays = derived.values
        arrays = self.arrays
        return None if arrays is None else lambda: (self._value, self._outputs.read(arrays))


def _rounded_up(count: int) -> int:
    """The next power of two: batches of few lengths are compiled for few lengths."""
    return 1 << max(count - 1, 0).bit_length()


def _padded(rows: Matrix) -> Matrix:
    padded = np.zeros((_rounded_up(len(rows)), rows.shape[1]))
    padded[: len(rows)] = rows
    return padded
