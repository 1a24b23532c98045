"""The transforms of `torch.func`: vjp, jvp, vmap and jacrev of the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gradproof.backends.torch.regimes.answers import Answer, dense, draw_cotangents, drawn_like
from gradproof.backends.torch.regimes.comparing import Compared, Yardstick, floors, round_off
from gradproof.backends.torch.regimes.regime import NotApplicableError, Point, Regime
from gradproof.backends.torch.regimes.subject import leaves_at
from gradproof.core.precision import CONFIDENCE, reordered

_ROWS = 64
"""Up to this many output elements each has a row of its own in what jacrev computes; more are mixed into as many."""
_ALONE = 8
"""Up to this many inputs are batched alone."""


def vjp(regime: Regime) -> Iterator[Compared]:
    """`torch.func.vjp`, by the same cotangents."""
    yield _connected(regime).measure("", _pulled(regime, regime.point))


def _pulled(regime: Regime, point: Sequence[torch.Tensor]) -> Answer:
    def act() -> tuple[torch.Tensor, ...]:
        return _value_and_gradients(regime, point)

    return _split(regime, regime.run(act))


def _value_and_gradients(regime: Regime, leaves: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    made: Any = torch.func.vjp(regime.connected, *leaves)
    values, pull = made
    return *values, *pull(regime.connected_cotangents)


def _split(regime: Regime, tensors: Sequence[torch.Tensor]) -> Answer:
    """Values of the connected outputs first, gradients behind them."""
    count = sum(regime.truth.connected)
    values = tuple(tensors[:count])
    return Answer(values, (True,) * count, tuple(tensors[count:]))


def _connected(regime: Regime, truth: Answer | None = None) -> Yardstick:
    """What eager mode answers, without the outputs that have no graph."""
    truth = regime.truth if truth is None else truth
    values = tuple(value for value, has in zip(truth.values, regime.truth.connected, strict=True) if has)
    return regime.by(Answer(values, (True,) * len(values), truth.gradients))


def jvp(regime: Regime) -> Iterator[Compared]:
    """`torch.func.jvp` against eager mode's backward: each element of J u is what its row of the Jacobian gives.

    Up to `_ROWS` elements are asked for one by one. Of more, sums with random signs are, and halved where they depart.
    """
    directions = [drawn_like(leaf, regime.generator) for leaf in regime.point]

    def act() -> tuple[torch.Tensor, ...]:
        pushed: Any = torch.func.jvp(regime.connected, tuple(regime.point), tuple(directions))
        values, tangents = pushed
        return *values, *tangents

    found = regime.run(act)
    count = len(found) // 2
    plain = _connected(regime)
    yield plain.measure("", Answer(tuple(found[:count]), (True,) * count, plain.truth.gradients))
    yield from _tangents(regime, directions, found[count:])


def _tangents(regime: Regime, directions: Point, tangents: Sequence[torch.Tensor]) -> Iterator[Compared]:
    leaves = leaves_at(regime.point)
    values = regime.run(lambda: regime.connected(*leaves))
    for k, (value, tangent) in enumerate(zip(values, tangents, strict=True)):
        target = f"tangent of output {[i for i, has in enumerate(regime.truth.connected) if has][k]}"
        if tangent.shape != value.shape or tangent.dtype != value.dtype:
            yield regime.yardstick.tensors("", target, tangent, value.detach())
            continue
        rows = _Rows(value, leaves, directions)
        few = rows.size <= _ROWS
        asked = range(rows.size) if few else rows.suspects(_real(tangent), regime.generator) or [0]
        expected = _real(tangent).clone()
        for row in asked:
            expected[row] = rows.along(row)
        shown = torch.view_as_complex(expected.reshape(*value.shape, 2)) if value.is_complex() else expected
        shown = shown.reshape(value.shape).to(value.dtype)
        floor = round_off(value.dtype) * float(value.detach().abs().max())
        yield regime.yardstick.tensors("", target, tangent, shown, floor=floor)


class _Rows:
    """Rows of the Jacobian of one output, by eager mode's backward, applied to a direction."""

    def __init__(self, value: torch.Tensor, leaves: Sequence[torch.Tensor], directions: Point) -> None:
        self._value, self._leaves, self._directions = value, leaves, directions
        self.size = _real(value.detach()).numel()

    def along(self, row: int) -> float:
        unit = torch.zeros(self.size, dtype=torch.float64)
        unit[row] = 1.0
        return self.sum(unit)

    def sum(self, weights: torch.Tensor) -> float:
        """The sum of the elements of J u with weights, by one vjp."""
        real = weights.to(device=self._value.device)
        if self._value.is_complex():
            cotangent = torch.view_as_complex(real.reshape(*self._value.shape, 2).contiguous())
        else:
            cotangent = real.reshape(self._value.shape)
        gradients: Any = torch.autograd.grad(
            self._value, self._leaves, cotangent.to(self._value.dtype), retain_graph=True, allow_unused=True
        )
        return sum(
            float((_real(g.detach()) * _real(u)).sum())
            for g, u in zip(map(dense, gradients), self._directions, strict=True)
            if g is not None
        )

    def suspects(self, tangent: torch.Tensor, generator: torch.Generator) -> list[int]:
        """An element where a tangent departs, found by halving sums with random signs; nothing where none does."""
        unit = reordered(torch.finfo(self._value.dtype).eps) * float(tangent.abs().max())
        signs = torch.where(torch.rand(self.size, generator=generator) < 0.5, -1.0, 1.0).to(torch.float64)
        waiting, found = [(0, self.size)], list[int]()
        while waiting and not found:
            low, high = waiting.pop()
            weights = torch.zeros_like(signs)
            weights[low:high] = signs[low:high]
            apart = abs(float((weights * tangent).sum()) - self.sum(weights))
            if apart <= CONFIDENCE * unit * math.sqrt(high - low):
                continue
            if high - low == 1:
                found.append(low)
            else:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
        return found


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """The real coordinates of a tensor, flat, in double precision."""
    parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return parts.reshape(-1).to(torch.float64)


def jacrev(regime: Regime) -> Iterator[Compared]:
    """`torch.func.jacrev` against one eager backward for each row."""
    size = sum(_real(v).numel() for v in regime.connected_cotangents)
    mixing = None
    if size > _ROWS:
        mixing = drawn_like(torch.empty(_ROWS, size, dtype=torch.float64), regime.generator) / math.sqrt(size)

    def vector(*leaves: torch.Tensor) -> torch.Tensor:
        parts = [torch.view_as_real(v) if v.is_complex() else v for v in regime.connected(*leaves)]
        flat = torch.cat([part.reshape(-1) for part in parts])
        return flat if mixing is None else mixing.to(device=flat.device, dtype=flat.dtype) @ flat

    def twice(*leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = vector(*leaves)
        return value, value.detach()

    every = tuple(range(len(regime.point)))
    made: Any = torch.func.jacrev(twice, argnums=every, has_aux=True)
    jacobian: Any
    jacobian, value = regime.run(lambda: made(*regime.point))
    leaves = leaves_at(regime.point)
    (flat,) = regime.run(lambda: (vector(*leaves),))
    compared = regime.yardstick.tensors("", "outputs", value, flat.detach())
    yield compared._replace(other_values=compared.departs)
    rows: list[Any] = [
        torch.autograd.grad(flat[k], leaves, retain_graph=True, allow_unused=True) for k in range(len(flat))
    ]
    variation = "" if mixing is None else f"{_ROWS} mixtures of the {size} outputs"
    expected = [
        torch.stack([torch.zeros_like(leaf) if (part := dense(row[k])) is None else part for row in rows])
        for k, leaf in enumerate(leaves)
    ]
    for k, floor in enumerate(floors(expected, regime.point)):
        target = f"Jacobian with respect to {regime.subject.labels[k]}"
        yield regime.yardstick.tensors(variation, target, jacobian[k], expected[k], floor=floor)


def vmap(regime: Regime) -> Iterator[Compared]:
    """`torch.func.vmap` over three points against a loop: all inputs batched, each alone, along the last axis.

    Values and gradients; then the gradients of each sample, which are `vmap` over `vjp`.
    """
    if not regime.others:
        raise NotApplicableError("the function cannot be called at points nearby, so there is no batch")
    points = [regime.point, *(point for point, _ in regime.others)]
    count = len(regime.point)
    yield _batched(regime, points, "every input batched", [0] * count)
    if count > 1:
        for k in range(min(count, _ALONE)):
            dims = [0 if i == k else None for i in range(count)]
            yield _batched(regime, points, f"only {regime.subject.labels[k]} batched", dims)
    if any(leaf.dim() for leaf in regime.point):
        yield _batched(regime, points, "batched along the last axis", [leaf.dim() for leaf in regime.point])
    yield _samples(regime, points)


def _batched(regime: Regime, points: Sequence[Point], variation: str, dims: Sequence[int | None]) -> Compared:
    slices = [[point[k] if dim is not None else regime.point[k] for k, dim in enumerate(dims)] for point in points]
    cotangents = [draw_cotangents(regime.cotangents, regime.generator) for _ in slices]
    truths = [regime.eager(each, v) for each, v in zip(slices, cotangents, strict=True)]
    given = [
        torch.stack([each[k] for each in slices], dim) if dim is not None else regime.point[k]
        for k, dim in enumerate(dims)
    ]
    mapped: Callable[..., Any] = torch.func.vmap(regime.subject, in_dims=tuple(dims), randomness="same")
    got = regime.ask(mapped, leaves_at(given), [torch.stack(each) for each in zip(*cotangents, strict=True)])
    values = tuple(torch.stack(each) for each in zip(*(truth.values for truth in truths), strict=True))
    expected = Answer(values, truths[0].connected, tuple(_gathered(truths, k, dim) for k, dim in enumerate(dims)))
    return regime.by(expected).measure(variation, got)


def _gathered(truths: Sequence[Answer], k: int, dim: int | None) -> torch.Tensor | None:
    """The gradient of a batched leaf, or of one that all samples share."""
    parts = [gradient for truth in truths if (gradient := truth.gradients[k]) is not None]
    if not parts:
        return None
    return torch.stack(parts, dim) if dim is not None else torch.stack(parts).sum(0)


def _samples(regime: Regime, points: Sequence[Point]) -> Compared:
    """The gradient of each sample, by `vmap` over `vjp`."""
    truths = [regime.eager(point) for point in points]

    def sample(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _value_and_gradients(regime, leaves)

    stacked = [torch.stack(each) for each in zip(*points, strict=True)]
    found = regime.run(lambda: torch.func.vmap(sample, randomness="same")(*stacked))
    values = tuple(torch.stack(each) for each in zip(*(truth.values for truth in truths), strict=True))
    gradients = tuple(_gathered(truths, k, 0) for k in range(len(regime.point)))
    expected = Answer(values, regime.truth.connected, gradients)
    return _connected(regime, expected).measure("gradients of each sample", _split(regime, found))
