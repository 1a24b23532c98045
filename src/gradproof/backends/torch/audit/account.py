"""How much of the whole model's deviation each operation explains.

Along a direction u of all leaves and a cotangent v of all outputs, the whole deviates by <v, J_num u> - <vjp(v), u>.
At an operation, let t be how its inputs and outputs move along u (by differences of the recorded values), and g the
gradients at them in the model's own backward. Where the operation is right, <g_out, t_out> = <g_in, t_in>; the
difference is its contribution, and the contributions of all operations add up to that, to first order. Where an input
moves that no gradient goes to, something cut the graph before: what its gradient would have been times its movement is
the contribution of that cut.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from gradproof.backends.torch.audit.operation import Given, Operation, Replay
from gradproof.backends.torch.audit.run import Recording, Sides
from gradproof.backends.torch.tensors.coordinates import resolution

# A deviation of this many units of round-off, of the products that it is a sum of taken together, is one.
_SIGNIFICANT = 64.0
# What the central differences leave.
_NUMERICAL = 1e-7
# Runs of which this share of the calls is the same are made of the same operations, but for casts.
_ALIKE = 0.8


@dataclass(slots=True)
class Account:
    """The deviation of the whole along one probe, and the contributions to it by number of operation."""

    deviation: float
    significant: float
    """Deviations below this are round-off."""
    contributions: dict[int, float] = field(default_factory=dict[int, float])
    cuts: dict[int, float] = field(default_factory=dict[int, float])
    """Operations after which the graph goes no further although their outputs move, and what is lost there."""
    unknown: list[int] = field(default_factory=list[int])
    """Operations whose contribution could not be told."""
    outside: dict[int, float] = field(default_factory=dict[int, float])
    """Operations with an input that moves and that no recorded operation made, or is a plain number: what is lost."""

    def share(self, number: int) -> float | None:
        """The part of the deviation that an operation explains; None where there is none to explain."""
        if abs(self.deviation) <= self.significant:
            return None
        total = self.contributions.get(number, 0.0) + self.cuts.get(number, 0.0) + self.outside.get(number, 0.0)
        return total / self.deviation

    def stands_out(self, number: int) -> bool:
        """Whether an operation contributes more than round-off."""
        parts = (self.contributions, self.cuts, self.outside)
        return sum(abs(part.get(number, 0.0)) for part in parts) > self.significant


def coarsest(recording: Recording) -> float:
    """The widest spacing of the numbers that a run was computed with."""
    made_of = [given.value.dtype for operation in recording.operations for given in operation.outputs]
    dtypes = {*made_of, *(leaf.tensor.dtype for leaf in recording.leaves)}
    return max(resolution(dtype) for dtype in dtypes if _is_number(dtype))


def account(recording: Recording, sides: Sides, eps: float) -> Account | None:
    """The account of a recorded run; None where the model is made of other operations a step aside, or has no graph.

    `eps` is how coarse its numbers are.
    """
    backward = recording.backward
    runs = sides.run() if backward is not None else None
    if runs is None or backward is None:
        return None
    ahead, behind, step = runs
    same = _aligned(recording.calls, ahead.calls)
    if same is None or len(ahead.returned) != len(recording.cotangents):
        return None
    outputs = zip(recording.cotangents, ahead.returned, behind.returned, strict=True)
    left = [(v, _moved(a, b, step)) for v, a, b in outputs]
    right = list(zip(backward.leaves, sides.moved, strict=True))
    size = math.sqrt(sum(_size(g, t) for g, t in (*left, *right)))
    deviation = sum(_inner(g, t) for g, t in left) - sum(_inner(g, t) for g, t in right)
    made = Account(deviation, (_SIGNIFICANT * eps + _NUMERICAL) * size)
    there, back = ({operation.call: operation for operation in run.operations} for run in (ahead, behind))
    for operation in recording.operations:
        call = same.get(operation.call)
        one, other = (None, None) if call is None else (there.get(call), back.get(call))
        if one is not None and other is not None:
            _enter(made, recording, operation, (one, other, step))
        elif backward.ran(operation):
            made.unknown.append(operation.number)
    return made


def _aligned(calls: Sequence[str], others: Sequence[str]) -> dict[int, int] | None:
    """For each call of one run the same of another; in double precision some casts are left out."""
    if calls == others:
        return {k: k for k in range(len(calls))}
    matcher = difflib.SequenceMatcher(None, calls, others, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return None
    return {a + k: b + k for a, b, size in matcher.get_matching_blocks() for k in range(size)}


_Movement = tuple[Operation, Operation, float]


def _enter(made: Account, recording: Recording, operation: Operation, movement: _Movement) -> None:
    backward = recording.backward
    assert backward is not None
    if not backward.ran(operation):
        return
    ahead, behind, step = movement
    arriving = backward.arriving(operation)
    outputs = zip(arriving, ahead.outputs, behind.outputs, strict=False)
    contribution = sum(_inner(g, _moved(a, b, step)) for g, a, b in outputs)
    moved = {i: _moved(ahead.leaves[i], behind.leaves[i], step) for i, _ in operation.inputs}
    cut = [i for i, given in operation.inputs if not given.requires_grad and bool(moved[i].any())]
    handed_on = backward.handed_on(operation)
    alone = gradients_alone(operation, arriving, cut) if cut or handed_on is None else {}
    if alone is None:
        made.unknown.append(operation.number)
        return
    if handed_on is None:
        contribution -= sum(_inner(alone.get(i), moved[i]) for i in operation.tested)
    else:
        by_edge = {given.edge: i for i, given in operation.inputs if given.edge is not None}
        contribution -= sum(_inner(gradient, moved[by_edge[edge]]) for edge, gradient in handed_on.items())
    for i in cut:
        lost = _inner(alone.get(i), moved[i])
        contribution -= lost
        source = _source_of_cut(operation.leaves[i], recording.operations)
        part = made.outside if source is None else made.cuts
        number = operation.number if source is None else source
        part[number] = part.get(number, 0.0) + lost
    part = made.outside if _options_moved(ahead, behind) else made.contributions
    part[operation.number] = part.get(operation.number, 0.0) + contribution


def _options_moved(ahead: Operation, behind: Operation) -> bool:
    """Whether a plain number that went in is another one a step aside: it was read out of a tensor."""
    pairs = zip(ahead.leaves, behind.leaves, strict=False)
    return any(isinstance(a, float) and isinstance(b, float) and a != b for a, b in pairs)


def _is_number(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def gradients_alone(
    operation: Operation, arriving: Sequence[torch.Tensor | None], also: Sequence[int] = ()
) -> dict[int, torch.Tensor | None] | None:
    """What the operation, called again alone, hands on for the same gradients, by position; None: it cannot be."""
    positions = sorted({*operation.tested, *also})
    replay = Replay(operation, positions)
    inputs = replay.inputs()
    try:
        outputs = replay(*inputs)
        pairs = [(o, g) for o, g in zip(outputs, arriving, strict=False) if g is not None and o.requires_grad]
        if not pairs:
            return dict.fromkeys(positions)
        found = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
    except Exception:  # whatever it raises alone: nothing is known then
        return None
    return dict(zip(positions, found, strict=True))


def _source_of_cut(given: Given, operations: Sequence[Operation]) -> int | None:
    """The operation that a gradient reaches no more, though it would have had some to hand on."""
    waiting, seen = [given.producer], set[int | None]()
    sources: list[int] = []
    while waiting:
        number = waiting.pop()
        if number is None or number in seen:
            continue
        seen.add(number)
        operation = operations[number]
        if operation.tested:
            sources.append(number)
        else:
            waiting += [each.producer for _, each in operation.inputs]
    return max(sources, default=None)


def _moved(ahead: Given, behind: Given, step: float) -> torch.Tensor:
    a, b = ahead.value, behind.value
    dtype = torch.complex128 if a.is_complex() else torch.float64
    return (a.to(dtype) - b.to(dtype)) / (2 * step)


def _inner(gradient: torch.Tensor | None, moved: torch.Tensor) -> float:
    """The real inner product, for gradients in torch's convention."""
    return float(_products(gradient, moved).sum())


def _size(gradient: torch.Tensor | None, moved: torch.Tensor) -> float:
    """The sum of the squares of its terms."""
    return float(_products(gradient, moved).square().sum())


def _products(gradient: torch.Tensor | None, moved: torch.Tensor) -> torch.Tensor:
    if gradient is None or gradient.shape != moved.shape:
        return torch.zeros((), dtype=torch.float64)
    gradient = gradient.detach().to_dense() if gradient.layout is not torch.strided else gradient.detach()
    dtype = torch.complex128 if gradient.is_complex() or moved.is_complex() else torch.float64
    return (gradient.to(dtype).conj() * moved.to(dtype)).real
