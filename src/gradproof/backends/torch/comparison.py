"""A kernel against a reference: outputs and gradients, with a float64 evaluation of the reference as the truth.

How much a kernel may differ is not guessed: the reference itself, run in the kernel's precision, differs from the same
reference in float64. A kernel may be off by a few times as much, and by a few units in the last place of the largest
value. What is further away is wrong, and the truth says which of the two it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.coordinates import read
from gradproof.backends.torch.frames import Frame
from gradproof.backends.torch.pull import pull
from gradproof.backends.torch.twin import wide
from gradproof.core.finding import Finding, Status
from gradproof.core.problem import Cost
from gradproof.core.space import Block, Space
from gradproof.core.types import Vector

# How much further from the truth than the reference a kernel may be, and how many units in the last place anyway.
_FURTHER, _UNITS = 4.0, 16.0


class Run:
    """A call on copies of its tensors, in float64 if asked: its outputs, and gradients for given cotangents."""

    def __init__(self, call: Call, *, double: bool = False) -> None:
        copies = {i: _copied(value, double) for i, value in enumerate(call.flat) if isinstance(value, torch.Tensor)}
        self._sources = [copies[i] for i in call.differentiable()]
        self.outputs = [o for o in flatten_outputs(call.with_values(copies)) if isinstance(o, torch.Tensor)]
        self.gradients: list[torch.Tensor | None] = [None] * len(self._sources)

    def pull(self, cotangents: Sequence[torch.Tensor]) -> None:
        """Fill in the gradients."""
        connected = [i for i, output in enumerate(self.outputs) if output.requires_grad]
        if connected:
            outputs = [self.outputs[i] for i in connected]
            given = [cotangents[i].to(self.outputs[i].dtype) for i in connected]
            self.gradients = list(pull(outputs, self._sources, given))


def _copied(tensor: torch.Tensor, double: bool) -> torch.Tensor:
    floating = tensor.is_floating_point() or tensor.is_complex()
    dtype = wide(tensor.dtype) if double and floating else tensor.dtype
    copy = tensor.detach().to(dtype, copy=True)
    return copy.requires_grad_(tensor.requires_grad)


def draw(outputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Random cotangents that both sides get, exact in the outputs' dtypes."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.device, output.dtype)
        for output in outputs
    ]


@dataclass(frozen=True, slots=True)
class Rival:
    """One tensor, three times: from the kernel, from the reference, and the truth if there is one."""

    block: Block
    kernel: Vector
    reference: Vector
    truth: Vector | None

    def findings(self, what: str) -> list[Finding]:
        with np.errstate(invalid="ignore"):
            truth = self.reference if self.truth is None else self.truth
            allowed = self._allowed(truth)
            off = np.abs(self.kernel - truth)
            wrong = ~((off <= allowed) | (self.kernel == truth) | (np.isnan(self.kernel) & np.isnan(truth)))
        return [self._finding(what, wrong, off, allowed, truth)] if wrong.any() else []

    def _allowed(self, truth: Vector) -> float:
        """What the kernel may be off by, the same for all elements of a tensor."""
        finite = np.isfinite(truth)
        largest = float(np.max(np.abs(truth), initial=0.0, where=finite))
        own = np.abs(self.reference - truth)
        return _FURTHER * float(np.max(own, initial=0.0, where=np.isfinite(own))) + _UNITS * self.block.eps * largest

    def _finding(self, what: str, wrong: Any, off: Vector, allowed: float, truth: Vector) -> Finding:
        worst = int(np.argmax(np.where(wrong, np.nan_to_num(off, nan=np.inf), -1.0)))
        place = Space((self.block,)).place(worst)
        kernel, reference = float(self.kernel[worst]), float(self.reference[worst])
        is_input = self.block.kind != "output"
        return Finding(
            property="compare",
            status=Status.WRONG,
            input=self.block.key if is_input else None,
            input_element=place.element if is_input else None,
            output=None if is_input else self.block.index,
            output_element=None if is_input else place.element,
            numeric=float(truth[worst]),
            analytic=kernel,
            allowed=allowed,
            wrong=int(wrong.sum()),
            total=len(wrong),
            message=(
                f"{what}{place} is {kernel:.9g} by the function and {reference:.9g} by the reference; "
                f"{int(wrong.sum())} of {len(wrong)} elements differ by more than {allowed:.3g}. {self._who(worst)}"
            ),
        )

    def _who(self, worst: int) -> str:
        if self.truth is None:
            return "The reference does not run in float64, so it was taken for the truth."
        truth = float(self.truth[worst])
        kernel, reference = abs(self.kernel[worst] - truth), abs(self.reference[worst] - truth)
        further = "the function" if not kernel <= reference else "the reference"
        distances = f"{further} is further from it (off by {kernel:.3g} and {reference:.3g})"
        return f"In float64 the reference gives {truth:.9g}: {distances}."


def truth_of(call: Call, cotangents: Sequence[torch.Tensor]) -> Run | None:
    """The reference in float64, None if it does not run there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            truth = Run(call, double=True)
            truth.pull(cotangents)
    except Exception:  # a reference for one dtype only is none in another
        return None
    return truth


def rivals(call: Call, kernel: Run, reference: Run, truth: Run | None) -> list[tuple[str, Rival]]:
    """All tensors to be compared, with a word for what they are."""
    found: list[tuple[str, Rival]] = []
    for index, (ours, theirs) in enumerate(zip(kernel.outputs, reference.outputs, strict=True)):
        if ours.is_floating_point() or ours.is_complex():
            made = Frame(ours).block("output", index, "", 0)
            exact = None if truth is None else read(truth.outputs[index])
            found.append(("", Rival(made, read(ours), read(theirs), exact)))
    names = call.names()
    if not found and not kernel.outputs:
        raise ValueError("there is nothing to compare: neither function returned a tensor")
    for number, position in enumerate(call.differentiable()):
        made = Frame(call.flat[position]).block(call.kind(position), call.origins[position], names[position], 0)
        exact = None if truth is None else _gradient(truth.gradients[number], made)
        ours, theirs = (_gradient(side.gradients[number], made) for side in (kernel, reference))
        found.append(("the gradient of ", Rival(made, ours, theirs, exact)))
    return found


def _gradient(gradient: torch.Tensor | None, of: Block) -> Vector:
    return np.zeros(of.size) if gradient is None else read(gradient)


def mismatches(kernel: Run, reference: Run) -> list[Finding]:
    """Outputs that cannot even be compared: another number of them, another shape or dtype."""
    if len(kernel.outputs) != len(reference.outputs):
        counts = f"{len(kernel.outputs)} tensors, the reference {len(reference.outputs)}"
        return [Finding(property="compare", status=Status.WRONG, message=f"The function returned {counts}.")]
    different = [
        Finding(property="compare", status=Status.WRONG, output=index, message=f"output {index} differs: {ours.dtype}.")
        for index, (ours, theirs) in enumerate(zip(kernel.outputs, reference.outputs, strict=True))
        if not ours.is_floating_point() and not ours.is_complex() and ours.shape == theirs.shape
        if ours.dtype == theirs.dtype and not torch.equal(ours, theirs)
    ]
    return different + [
        Finding(
            property="compare",
            status=Status.WRONG,
            output=index,
            message=(
                f"output {index} has shape {tuple(ours.shape)} and dtype {ours.dtype}, "
                f"that of the reference shape {tuple(theirs.shape)} and dtype {theirs.dtype}."
            ),
        )
        for index, (ours, theirs) in enumerate(zip(kernel.outputs, reference.outputs, strict=True))
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype
    ]


def compare_calls(kernel: Call, reference: Call, seed: int) -> tuple[list[Finding], Cost]:
    """What differs between a kernel and a reference, at the same inputs and for the same cotangents."""
    ours, theirs = Run(kernel), Run(reference)
    misfits = mismatches(ours, theirs)
    if misfits:
        return misfits, Cost(evaluations=2)
    cotangents = draw(theirs.outputs, seed)
    ours.pull(cotangents)
    theirs.pull(cotangents)
    truth = truth_of(reference, cotangents)
    compared = rivals(kernel, ours, theirs, truth)
    return [finding for what, rival in compared for finding in rival.findings(what)], Cost(evaluations=3, vjps=3)
