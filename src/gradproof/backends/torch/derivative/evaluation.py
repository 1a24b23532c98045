"""F at a point: of the user's own tensors, moved in place, or in double precision where they have a twin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.twin import Twin
from gradproof.backends.torch.derivative.vmap import map_rows
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.types import Matrix, Vector


class Evaluation:
    """In place: a function may read its inputs by closure, so the user's own tensors are moved and put back."""

    def __init__(self, call: Call, point: Point, outputs: Outputs) -> None:
        self._call, self._point, self._outputs = call, point, outputs

    def at(self, coordinates: Vector) -> Vector:
        """F there."""
        point, outputs = self._point, self._outputs
        try:
            if coordinates is not point.coordinates or point.stand_ins:
                point.move(coordinates)
            if point.stand_ins:
                moved = self._call.with_values(point.standing_in())
                return outputs.read(outputs.pick(moved, remark=self._remark()))
            return outputs.read(outputs.pick(self._call()))
        finally:
            point.restore()

    def visit(self, direction: Vector, steps: Iterable[float], take: Callable[[Vector], None]) -> None:
        """F at steps along a direction; see `gradproof.core.capabilities.Walk`. The inputs are put back at the end."""
        point, outputs = self._point, self._outputs
        try:
            for step in steps:
                point.step(direction, step)
                take(outputs.handed_over(outputs.pick(self._call())))
        finally:
            point.restore()

    def batched(self, rows: Matrix, run: slice, still: frozenset[int]) -> Matrix:
        """F at many points through vmap; see `gradproof.core.capabilities.Batching`."""
        moved = self._point.build_rows(rows, run, still, self._models())
        try:
            return self._outputs.read_rows(map_rows(self._run, moved, still))
        finally:
            self._point.restore()

    def _models(self) -> list[torch.Tensor]:
        return self._point.tensors

    def _run(self, *moved: torch.Tensor) -> list[torch.Tensor]:
        return self._outputs.pick(self._call.with_values(self._point.placed(moved)))

    def _remark(self) -> str:
        if not any(leaf.frame.elements is not None for leaf in self._point.stand_ins):
            return ""
        return (
            " (Without a mask, sparse inputs are moved with all their elements stored. "
            "A function of the stored values, like s.values(), is checked with masked=True.)"
        )


class WideEvaluation(Evaluation):
    """In double precision, where a low-precision call has a twin: nothing is moved in place."""

    def __init__(self, call: Call, point: Point, outputs: Outputs, twin: Twin) -> None:
        super().__init__(call, point, outputs)
        self._twin = twin

    @property
    def value(self) -> Vector:
        """F at the point itself, where the twin was tried."""
        return self._outputs.read(self._picked(self._twin.here))

    def at(self, coordinates: Vector) -> Vector:
        return self._outputs.read(self._picked(self._twin.run(coordinates)))

    def _models(self) -> list[torch.Tensor]:
        return self._twin.models

    def _run(self, *moved: torch.Tensor) -> list[torch.Tensor]:
        return self._picked(self._twin.run_with(moved))

    def _picked(self, output: Any) -> list[torch.Tensor]:
        return self._outputs.pick(output, widened=True)
