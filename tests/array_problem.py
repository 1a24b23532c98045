"""A Problem of NumPy functions, for tests of the core and the properties: whatever it should claim can be said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.problem import BatchFlaw, Cost, Form, Layout, Mode, OutputChangedError, Problem, Pulled
from gradproof.core.space import Block, Space

DOUBLE, SINGLE, HALF, BRAIN = 2.0**-52, 2.0**-23, 2.0**-10, 2.0**-7
"""The relative spacing of float64, float32, float16 and bfloat16."""


@dataclass(frozen=True)
class Part:
    """What a test says of one block; the rest is counted."""

    shape: tuple[int, ...]
    parts: int = 1
    eps: float = DOUBLE
    name: str = ""


def space(kind: str, *parts: Part) -> Space:
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        start = blocks[-1].stop if blocks else 0
        blocks.append(Block(kind, index, part.name, part.shape, part.parts, start, part.eps))
    return Space(tuple(blocks))


class ArrayProblem(Problem):
    """F, and what claims to be its derivative: a matrix, or functions that answer as they like.

    `vjp` and `jvp` default to the matrix `jacobian`; `flaws` says what batching suffers from;
    `misshapen` lists the numbers of the blocks whose gradients and tangents have another form than they should;
    `overwritten` and `aliased` say what the function wrote to and whose memory gradients share.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        point: Any,
        jacobian: Any = None,
        *,
        inputs: Sequence[Part] = (),
        outputs: Sequence[Part] = (),
        vjp: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        vjp_undefined: Callable[..., Any] | None = None,
        jvp_undefined: Callable[..., Any] | None = None,
        flaws: Mapping[Mode, BatchFlaw] | None = None,
        misshapen: Sequence[tuple[int, Form, Form]] = (),
        vjp_in: Callable[..., Any] | None = None,
        layouts: Sequence[Layout] = (),
        overwritten: Sequence[str] = (),
        aliased: Sequence[tuple[int, str]] = (),
        has_graph: bool = True,
        seed: int = 0,
    ) -> None:
        self.function = function
        self.point = np.atleast_1d(np.asarray(point, dtype=np.float64))
        self.cost, self.seed, self.has_graph = Cost(), seed, has_graph
        self.value = self._call(self.point)
        self.inputs = space("input", *(inputs or [Part(self.point.shape)]))
        self.outputs = space("output", *(outputs or [Part(self.value.shape)]))
        assert (self.inputs.size, self.outputs.size) == (self.point.size, self.value.size)
        matrix = np.asarray(0.0 if jacobian is None else jacobian, dtype=float)
        matrix = np.broadcast_to(matrix, (self.value.size, self.point.size))
        self._vjp = vjp or (lambda v: matrix[v != 0].T @ v[v != 0])  # a NaN elsewhere is not asked for
        self._jvp = jvp or (lambda u: matrix[:, u != 0] @ u[u != 0])
        self._vjp_undefined = vjp_undefined or (lambda v, absent: self._vjp(v))
        self._jvp_undefined = jvp_undefined or (lambda u, absent: self._jvp(u))
        self._vjp_in = vjp_in or (lambda v, layout: self._vjp(v))
        self._layouts, self._overwritten, self._aliased = frozenset(layouts), tuple(overwritten), list(aliased)
        self._flaws, self._misshapen = dict(flaws or {}), list(misshapen)

    def _call(self, point: Any) -> Any:
        self.cost.evaluations += 1
        return np.atleast_1d(np.asarray(self.function(point.copy()), dtype=np.float64))

    def evaluate(self, point: Any) -> Any:
        value = self._call(point)
        if value.shape != self.value.shape:
            raise OutputChangedError(f"{value.shape} instead of {self.value.shape}")
        return value

    def vjp(self, cotangent: Any) -> Any:
        self.cost.pull()
        return np.asarray(self._vjp(cotangent), dtype=np.float64)

    def jvp(self, tangent: Any) -> Any:
        self.cost.push()
        return np.asarray(self._jvp(tangent), dtype=np.float64)

    def vjp_undefined(self, cotangent: Any, absent: frozenset[int]) -> Any:
        return np.asarray(self._vjp_undefined(cotangent, absent), dtype=np.float64)

    def jvp_undefined(self, tangent: Any, absent: frozenset[int]) -> Any:
        return np.asarray(self._jvp_undefined(tangent, absent), dtype=np.float64)

    @property
    def layouts(self) -> frozenset[Layout]:
        return self._layouts

    def vjp_in(self, cotangent: Any, layout: Layout) -> Any:
        return self._pulled(cotangent, layout).gradient

    def watched_vjp(self, cotangent: Any, layout: Layout) -> Pulled:
        return self._pulled(cotangent, layout)

    def _pulled(self, cotangent: Any, layout: Layout) -> Pulled:
        """`vjp_in` of the test may return a gradient, or a gradient and what it overwrote."""
        self.cost.pull()
        pulled = self._vjp_in(cotangent, layout)
        gradient, overwritten = pulled if isinstance(pulled, tuple) else (pulled, ())
        return Pulled(np.asarray(gradient, dtype=np.float64), overwritten)

    def overwritten_inputs(self) -> tuple[str, ...]:
        return self._overwritten

    def aliased_gradients(self) -> list[tuple[Block, str]]:
        return [(self.inputs.blocks[i], what) for i, what in self._aliased]

    def batch_flaw(self, mode: Mode) -> BatchFlaw | None:
        return self._flaws.get(mode)

    def misshapen_gradients(self) -> list[tuple[Block, Form, Form]]:
        return [(self.inputs.blocks[i], want, got) for i, want, got in self._misshapen]

    def misshapen_tangents(self) -> list[tuple[Block, Form, Form]]:
        return [(self.outputs.blocks[i], want, got) for i, want, got in self._misshapen]
