"""Two answers to the same question, element by element: where they are furthest apart, in units of what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from gradproof.backends.torch.regimes.answers import Answer
from gradproof.core.precision import MOST_ROUND_OFF, SUM_ROUND_OFF, reordered

_SHARE_OF_LARGEST = 0.1
"""The part of what an element may be off by that each element of a tensor is granted for the largest one: sums that
cancel are as inexact as their terms."""
_OWN_SPREAD = 4.0
"""How many times what eager mode itself varies by, from run to run or by rounding, is allowed."""


class Compared(NamedTuple):
    """The worst of one comparison, or what makes it impossible: `fault` says it in words then.

    `variation` names the variation of the way, `target` what was compared, `element` the place in it.
    """

    variation: str
    target: str = ""
    element: tuple[int, ...] | None = None
    expected: float | None = None
    found: float | None = None
    difference: float = 0.0
    allowed: float = 0.0
    wrong: int = 0
    total: int = 0
    fault: str = ""
    note: str = ""
    """What a reader should know of how it was run."""
    other_values: bool = False
    """Whether numbers of the outputs depart, not only derivatives."""

    @property
    def departs(self) -> bool:
        return bool(self.fault) or self.difference > self.allowed or math.isnan(self.difference)

    @property
    def excess(self) -> float:
        if self.fault:
            return math.inf
        return self.difference / self.allowed if self.allowed else math.inf if self.difference else 0.0


class Yardstick:
    """What eager mode answers, and by how much each of its numbers may be missed.

    `spread` are other answers of eager mode to what is the same question, but for round-off. `rtol` is the relative
    part of what is allowed; None: by each tensor's dtype. `dtypes` says what else an output may be made of.
    """

    def __init__(
        self,
        truth: Answer,
        labels: Sequence[str],
        point: Sequence[torch.Tensor],
        spread: Sequence[Answer] = (),
        *,
        rtol: float | None = None,
        dtypes: Sequence[torch.dtype] = (),
        any_dtype: bool = False,
    ) -> None:
        self.truth, self.labels, self._floors = truth, labels, floors(truth.gradients, point)
        self._spread, self._rtol, self._dtypes, self._any_dtype = spread, rtol, dtypes, any_dtype

    def measure(self, variation: str, got: Answer, needed: Sequence[bool] | None = None) -> Compared:
        """The worst departure in a variation; values come first, then the gradients of the leaves that need one."""
        found = list(self._all(variation, got, needed))
        other_values = any(each.departs and each.target in _outputs(got) and not each.fault for each in found)
        return max(found, key=lambda each: each.excess)._replace(other_values=other_values)

    def _all(self, variation: str, got: Answer, needed: Sequence[bool] | None) -> Iterator[Compared]:
        truth = self.truth
        if len(got.values) != len(truth.values):
            fault = f"it returns {len(got.values)} tensors in place of {len(truth.values)}"
            yield Compared(variation, "outputs", fault=fault)
            return
        for k, (value, expected) in enumerate(zip(got.values, truth.values, strict=True)):
            others = [each.values[k] for each in self._spread]
            yield self.tensors(variation, _output(k), value, expected, others)
            if needed is None and truth.connected[k] and not got.connected[k]:
                yield Compared(variation, _output(k), fault="it has no graph: no gradient goes back from it")
        flags = [True] * len(truth.gradients) if needed is None else needed
        for k, flag in enumerate(flags):
            if flag:
                others = [each.gradients[k] for each in self._spread]
                target = f"gradient of {self.labels[k]}"
                yield self.tensors(variation, target, got.gradients[k], truth.gradients[k], others, self._floors[k])

    def tensors(
        self,
        variation: str,
        target: str,
        found: torch.Tensor | None,
        expected: torch.Tensor | None,
        others: Sequence[torch.Tensor | None] = (),
        floor: float = 0.0,
    ) -> Compared:
        """One tensor against another; none is one of zeros. `floor` is allowed in any case."""
        if found is None and expected is None:
            return Compared(variation, target)
        if found is None:
            assert expected is not None
            found = torch.zeros_like(expected)
        if expected is None:
            expected = torch.zeros_like(found)
        if found.shape != expected.shape:
            return Compared(variation, target, fault=f"shape {tuple(found.shape)} in place of {tuple(expected.shape)}")
        if not self._any_dtype and found.dtype not in (expected.dtype, *self._dtypes):
            return Compared(variation, target, fault=f"{_name(found.dtype)} in place of {_name(expected.dtype)}")
        return self._numbers(variation, target, found, expected, others, floor)

    def _numbers(
        self,
        variation: str,
        target: str,
        found: torch.Tensor,
        expected: torch.Tensor,
        others: Sequence[torch.Tensor | None],
        floor: float,
    ) -> Compared:
        if not expected.numel():
            return Compared(variation, target)
        got, true = _wide(found), _wide(expected)
        rtol = self._rtol if self._rtol is not None else _rtol_of(expected.dtype)
        sizes = true.abs().nan_to_num(0.0, 0.0, 0.0)
        allowed = rtol * (sizes + _SHARE_OF_LARGEST * sizes.max()) + floor
        for other in others:
            spread = (_wide(torch.zeros_like(expected) if other is None else other) - true).abs()
            spread = spread.nan_to_num(0.0, 0.0, 0.0)
            typical = spread.square().mean().sqrt()  # a single element may have been lucky
            allowed = allowed + _OWN_SPREAD * torch.maximum(spread, typical)
        difference = (got - true).abs()
        alike = (got == true) | (got.isnan() & true.isnan())
        difference = torch.where(alike, 0.0, difference.nan_to_num(math.inf, math.inf))
        excess = torch.where(difference > 0, difference / allowed, 0.0).nan_to_num(math.inf, math.inf).reshape(-1)
        worst = int(excess.argmax())
        place = tuple(int(k) for k in torch.unravel_index(torch.tensor(worst), expected.shape))
        return Compared(
            variation,
            target,
            place,
            *_numbers(true.reshape(-1)[worst], got.reshape(-1)[worst]),
            float(difference.reshape(-1)[worst]),
            float(allowed.reshape(-1)[worst]),
            int((difference > allowed).sum()),
            expected.numel(),
        )


def _output(k: int) -> str:
    return f"output {k}"


def _outputs(answer: Answer) -> set[str]:
    return {_output(k) for k in range(len(answer.values))}


def floors(gradients: Sequence[torch.Tensor | None], point: Sequence[torch.Tensor]) -> list[float]:
    """What round-off may make of a gradient that is zero, such as that of a bias in front of batch norm.

    A gradient times its input is a change of the outputs, which can be compared: the largest of these, in units of each
    input, has the round-off that all of them share.
    """
    reaches = [_largest(leaf) or 1.0 for leaf in point]
    changes = [_largest(g) * reach for g, reach in zip(gradients, reaches, strict=True) if g is not None]
    largest = max(changes, default=0.0)
    return [round_off(leaf.dtype) * largest / reach for leaf, reach in zip(point, reaches, strict=True)]


def round_off(dtype: torch.dtype) -> float:
    """Relative to the largest of the numbers that a sum is made of."""
    return min(SUM_ROUND_OFF * torch.finfo(dtype).eps, MOST_ROUND_OFF)


def _largest(tensor: torch.Tensor) -> float:
    wide = _wide(tensor).abs().nan_to_num(0.0, 0.0, 0.0)
    return float(wide.max()) if wide.numel() else 0.0


def _numbers(expected: torch.Tensor, found: torch.Tensor) -> tuple[float, float]:
    """Two numbers to print; of complex ones the parts that differ more."""
    if not expected.is_complex():
        return float(expected), float(found)
    apart = found - expected
    imaginary = bool(apart.imag.abs() > apart.real.abs())
    return (float(expected.imag), float(found.imag)) if imaginary else (float(expected.real), float(found.real))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    return dense.detach().to(torch.complex128 if dense.is_complex() else torch.float64)


def _rtol_of(dtype: torch.dtype) -> float:
    """What another order of operations may change; numbers that are counted must be the same."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    return reordered(torch.finfo(dtype).eps)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
