"""Forward mode: J u by a call with dual tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch.autograd import forward_ad

from gradproof.backends.calls import Call
from gradproof.backends.torch import private
from gradproof.backends.torch.derivative.gradients import Tangents, in_kind
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.derivative.vmap import push_rows
from gradproof.backends.torch.memory.watch import hand_written
from gradproof.backends.torch.tensors.coordinates import build_batch
from gradproof.backends.torch.tensors.point import Point
from gradproof.core.types import Matrix, Vector

_ALL_THERE: frozenset[int] = frozenset()


class Forward:
    """The tangents of the outputs for tangents of the tensors under test."""

    def __init__(self, call: Call, point: Point, outputs: Outputs) -> None:
        self._call, self._point, self._outputs = call, point, outputs
        self.primals_need_grad = False
        """Whether the function is given inputs that require a gradient, because it takes gradients itself.

        `availability` finds out; where it is not asked, they require none.
        """

    @property
    def exists(self) -> bool:
        """Whether there are tangents: torch has dual tensors of strided memory only, each moving by itself."""
        return self._point.batches and not self._point.moves_together

    @property
    def has_hand_written(self) -> bool:
        """Whether the graph has nodes that are not PyTorch's own."""
        return bool(hand_written(self._outputs.tensors))

    def inspect(self, tangent: Vector) -> Tangents:
        """The output tangents, to be looked at."""
        unpacked = self._unpacked(self._built(tangent, _ALL_THERE))
        tangents, primals = [each.tangent for each in unpacked], [each.primal for each in unpacked]
        del unpacked  # then a tangent that nobody else holds need not be copied
        return Tangents(self._outputs, tangents, primals)

    def jvp(self, tangent: Vector) -> Vector:
        """J u."""
        return self.inspect(tangent).coordinates

    def without(self, tangent: Vector, absent: frozenset[int]) -> Vector:
        """J u, where some inputs carry no tangent at all."""
        return Tangents(self._outputs, self._push(self._built(tangent, absent))).coordinates

    def batched(self, tangents: Matrix) -> Matrix:
        """J u for many tangents, one row each, through vmap."""
        stacked = [build_batch(tangents[:, leaf.block.slice], leaf.tensor) for leaf in self._point.leaves]
        return self._outputs.read_rows(push_rows(self._push_dense, stacked))

    def _push_dense(self, *tangents: torch.Tensor) -> list[torch.Tensor]:
        pairs = zip(self._outputs.tensors, self._push(tangents), strict=True)
        return [torch.zeros_like(o) if t is None else in_kind(t, o) for o, t in pairs]

    def _built(self, tangent: Vector, absent: frozenset[int]) -> list[torch.Tensor | None]:
        return [
            None if i in absent else leaf.frame.build(tangent[leaf.block.slice])
            for i, leaf in enumerate(self._point.leaves)
        ]

    def _push(self, tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The outputs' tangents, None where there is none."""
        return [each.tangent for each in self._unpacked(tangents)]

    def _unpacked(self, tangents: Sequence[torch.Tensor | None]) -> list[forward_ad.UnpackedDualTensor]:
        """The outputs with their tangents."""
        _load()
        try:
            with forward_ad.dual_level():
                outputs = self._outputs.pick(self._call.with_values(self._point.placed(self._duals(tangents))))
                return [forward_ad.unpack_dual(output) for output in outputs]
        finally:
            self._point.restore()

    def _duals(self, tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        primals = [tensor.detach().requires_grad_(self.primals_need_grad) for tensor in self._point.tensors]
        return [p if t is None else forward_ad.make_dual(p, t) for p, t in zip(primals, tangents, strict=True)]


_load = functools.cache(private.load_forward_mode)
