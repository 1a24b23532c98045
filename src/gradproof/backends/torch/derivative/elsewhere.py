"""The derivative at another point: the tensors are moved, the function is called and differentiated there."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradproof.backends.calls import Call
from gradproof.backends.torch.derivative.forward import Forward
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.round_off import RandomRounding, prepare
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.capabilities import RoundOff
from gradproof.core.types import Vector


class Elsewhere:
    """The vjp and the jvp of a call where its tensors are moved in place; they are put back."""

    def __init__(self, call: Call, point: Point, outputs: Outputs, forward: Forward) -> None:
        self._call, self._point, self._outputs, self._forward = call, point, outputs, forward

    def vjp(self, coordinates: Vector, cotangent: Vector) -> Vector:
        """J^T v there."""
        return self._vjp(coordinates, cotangent, nullcontext())

    def jvp(self, coordinates: Vector, tangent: Vector) -> Vector:
        """J u there."""
        return self._jvp(coordinates, tangent, nullcontext())

    @property
    def round_off(self) -> RoundOff:
        """The same of a call in double precision, with each step rounded."""
        return RoundOff(
            lambda point, eps, seed: self._value(point, _rounding(eps, seed)),
            lambda point, cotangent, eps, seed: self._vjp(point, cotangent, _rounding(eps, seed)),
            lambda point, tangent, eps, seed: self._jvp(point, tangent, _rounding(eps, seed)),
        )

    def _value(self, coordinates: Vector, around: AbstractContextManager[Any]) -> Vector:
        point, outputs = self._point, self._outputs
        try:
            point.move(coordinates)
            with around:
                made = outputs.pick(self._call())
            return outputs.read(made)
        finally:
            point.restore()

    def _vjp(self, coordinates: Vector, cotangent: Vector, around: AbstractContextManager[Any]) -> Vector:
        """`around` the calls only: what moves the point is none of the function's."""
        point, outputs = self._point, self._outputs
        try:
            point.move(coordinates)
            built = outputs.build(cotangent)
            with around:
                picked = zip(outputs.pick(self._call()), built, strict=True)
                flowing = [(output, v) for output, v in picked if output.requires_grad]
                pulled = pull([output for output, _ in flowing], point.tensors, [v for _, v in flowing])
            return point.gather(pulled)
        finally:
            point.restore()

    def _jvp(self, coordinates: Vector, tangent: Vector, around: AbstractContextManager[Any]) -> Vector:
        try:
            self._point.move(coordinates)
            with around:
                return self._forward.jvp(tangent)
        finally:
            self._point.restore()


def _rounding(eps: float, seed: int) -> RandomRounding:
    prepare()
    return RandomRounding(eps, seed)
