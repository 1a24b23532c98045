"""One rank's part of the map: its own tensors, moved in place, and its own graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.backends.calls import Call
from gradproof.backends.torch.distributed.conventions import Holding, Key
from gradproof.backends.torch.distributed.dtensors import output_holdings
from gradproof.backends.torch.distributed.whole import WholeReverse
from gradproof.backends.torch.problem import Made, first_order
from gradproof.core.capabilities import Twin
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Problem
from gradproof.core.space import Block
from gradproof.core.types import Vector

GIVEN, TWIN = "given", "twin"
"""The two Problems a rank may have: the call itself, and the same in double precision."""


@dataclass(frozen=True)
class Share:
    """What the others must know of one rank's part."""

    inputs: tuple[Block, ...]
    outputs: tuple[Block, ...]
    point: Vector
    value: Vector
    connected: bool
    evaluates_in: float | None
    evaluations: int
    holdings: dict[Key, Holding]
    """What is known without a declaration: of distributed tensors."""


@dataclass(frozen=True)
class TwinShare:
    """The same of its twin."""

    share: Share
    value: Vector
    inside: float


class Local:
    """Answers requests about this rank's part. Made of a call whose state is kept safe."""

    def __init__(self, call: Call, holdings: dict[Key, Holding]) -> None:
        self._call, self._holdings = call, holdings
        self._made: Made | None = None
        self._problems: dict[str, Problem] = {}

    def answer(self, kind: str, *arguments: Any) -> Any:
        """The answer to a request: the name of a method, and its arguments."""
        return getattr(self, kind)(*arguments)

    def is_low(self) -> bool:
        """Whether any tensor under test has a lower precision than double. Calls nothing."""
        return any(_resolution(self._call.flat[i]) > DOUBLE for i in self._call.differentiable())

    def begin(self, twin: bool) -> Share:
        """Call the function; `twin`: and see whether it runs in double precision too."""
        self._made = first_order(self._call, backward=WholeReverse, twin=twin)
        self._problems[GIVEN] = self._made.problem
        holdings = {**self._holdings, **output_holdings(self._call.function, self._made.outputs.space.blocks)}
        return _share(self._made.problem, holdings)

    def twin(self) -> TwinShare | None:
        """The same in double precision, if there is such a Problem."""
        found = self._problems[GIVEN].capability(Twin)
        twinned = None if found is None else found.make()
        if twinned is None:
            return None
        self._problems[TWIN] = twinned.problem
        return TwinShare(_share(twinned.problem, {}), twinned.value, twinned.inside)

    def evaluate(self, which: str, point: Vector) -> Vector:
        return self._problems[which].evaluate(point)

    def vjp(self, which: str, cotangent: Vector) -> Vector:
        pulled = self._problems[which].vjp
        assert pulled is not None
        return pulled(cotangent)

    def jvp(self, which: str, tangent: Vector) -> Vector:
        pushed = self._problems[which].jvp
        assert pushed is not None
        return pushed(tangent)

    def restore(self) -> None:
        """Put the tensors back, and let go of graphs."""
        if self._made is not None:
            self._made.point.restore()
        self._made = None
        self._problems.clear()


def _share(problem: Problem, holdings: dict[Key, Holding]) -> Share:
    return Share(
        inputs=problem.inputs.blocks,
        outputs=problem.outputs.blocks,
        point=np.array(problem.point),
        value=np.array(problem.value),
        connected=problem.connected,
        evaluates_in=problem.evaluates_in,
        evaluations=problem.evaluations,
        holdings=holdings,
    )


def _resolution(tensor: Any) -> float:
    import torch

    return float(torch.finfo(tensor.dtype).eps)
