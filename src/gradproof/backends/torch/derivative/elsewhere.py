"""The derivative at another point: the tensors are moved, the function is called and differentiated there."""

from __future__ import annotations

from gradproof.backends.calls import Call
from gradproof.backends.torch.derivative.forward import Forward
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.types import Vector


class Elsewhere:
    """The vjp and the jvp of a call where its tensors are moved in place; they are put back."""

    def __init__(self, call: Call, point: Point, outputs: Outputs, forward: Forward) -> None:
        self._call, self._point, self._outputs, self._forward = call, point, outputs, forward

    def vjp(self, coordinates: Vector, cotangent: Vector) -> Vector:
        """J^T v there."""
        point, outputs = self._point, self._outputs
        try:
            point.move(coordinates)
            picked = zip(outputs.pick(self._call()), outputs.build(cotangent), strict=True)
            flowing = [(output, v) for output, v in picked if output.requires_grad]
            return point.gather(pull([output for output, _ in flowing], point.tensors, [v for _, v in flowing]))
        finally:
            point.restore()

    def jvp(self, coordinates: Vector, tangent: Vector) -> Vector:
        """J u there."""
        try:
            self._point.move(coordinates)
            return self._forward.jvp(tangent)
        finally:
            self._point.restore()
