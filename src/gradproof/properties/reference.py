"""A function against a reference: outputs and gradients, with the reference in higher precision as the truth.

How much a function may differ is not guessed: the reference itself, run in the function's precision, differs from the
same reference in float64. The function may be off by a few times as much, and by a few units in the last place of the
largest value. What is further away is wrong, and the truth says which of the two it is. Whoever knows better says so
with `atol`, `rtol`, or the precision that the function is computed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import largest_of
from gradproof.core.capabilities import MemoryWatch, Reference
from gradproof.core.formats import SPACINGS
from gradproof.core.investigation import Investigation
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE
from gradproof.core.space import Block, Space
from gradproof.core.status import Status
from gradproof.core.types import Flags, Vector
from gradproof.properties.mutation import overwriting
from gradproof.results.finding import Finding

# How much further from the truth than the reference a function may be, and how many units in the last place anyway: one
# number, the common factor of many, in which single round-offs cancel, and many as a whole.
_FURTHER, _UNITS, _COMMON, _TOGETHER = 4.0, 8.0, 2.0, 1.0
# What a reference in double precision is off by itself, at least, in the same units: nothing is there to tell.
_OWN = 1.0
# Precisions that functions compute in, whatever their arrays hold.
_INSIDE = ("float32", "tfloat32", "bfloat16")


def reference(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Every output, and every gradient for the shared cotangent; then what the function wrote to meanwhile."""
    known = investigation.asks(Reference)
    investigation.cost.evaluate(known.evaluations)
    investigation.cost.pull(known.vjps)
    for output, what in known.misfits:
        yield Finding(property="compare", status=Status.WRONG, output=output, headline=what)
    if known.misfits:
        return
    problem, cotangent, truth = investigation.problem, investigation.cotangent, known.truth
    allowance = _Allowance(options.atol, options.rtol or 0.0, options.precision or 0.0)
    values = None if truth is None else truth.value
    yield from _Rivals(problem.outputs, problem.value, known.side.value, values, allowance).findings("")
    if problem.connected:
        pulled = investigation.pullback
        investigation.cost.pull(1 if truth is None else 2)
        gradients = known.side.vjp(cotangent), None if truth is None else truth.vjp(cotangent)
        yield from _Rivals(problem.inputs, pulled, *gradients, allowance).findings("the gradient of ")
    watch = problem.capability(MemoryWatch)
    if watch is not None:
        yield from overwriting(watch.overwritten_inputs, watch.consumed(), problem.words)


class _Allowance(NamedTuple):
    """What the user said of how far a function may be off; `atol` None: that is derived."""

    atol: float | None
    rtol: float
    precision: float


@dataclass(frozen=True, slots=True)
class _Rivals:
    """The same numbers three times: from the function, from the reference, and the truth if there is one."""

    space: Space
    function: Vector
    reference: Vector
    truth: Vector | None
    allowance: _Allowance

    def findings(self, what: str) -> Iterator[Finding]:
        """One for each block that differs; `what` is a word for what the numbers are."""
        for block in self.space.blocks:
            truth = None if self.truth is None else self.truth[block.slice]
            rival = _Rival(block, self.function[block.slice], self.reference[block.slice], truth, self.allowance)
            yield from rival.findings(what)


@dataclass(frozen=True, slots=True)
class _Rival:
    """One block of them."""

    block: Block
    function: Vector
    reference: Vector
    truth: Vector | None
    allowance: _Allowance

    def findings(self, what: str) -> Iterator[Finding]:
        truth = self.reference if self.truth is None else self.truth
        with np.errstate(invalid="ignore"):
            allowed = self._allowed(truth)
            off = np.abs(self.function - truth)
            wrong = ~((off <= allowed) | (self.function == truth) | (np.isnan(self.function) & np.isnan(truth)))
        if wrong.any():
            yield self._finding(what, wrong, off, allowed)
        elif self.allowance.atol is None and not self.allowance.rtol:
            yield from self._in_all(what, truth)

    def _in_all(self, what: str, truth: Vector) -> Iterator[Finding]:
        """A block may be off by what each number of it is excused, and no round-off explains for all of them.

        By a common factor, or by too much altogether: a term that is missing is small beside the largest number.
        """
        known = np.isfinite(truth) & np.isfinite(self.function) & np.isfinite(self.reference)
        right, size = truth[known], norm(truth[known])
        if not 0 < size * size < np.inf:
            return
        off = self.function[known] - right
        theirs, factor = norm(self.reference[known] - right) / size, float(off @ right) / size**2
        if self._eps <= DOUBLE:  # the reference is no better than the function, though it is its own truth
            theirs = max(theirs, _OWN * self._eps)
        whole, where = f"{what}{self.block.label}", np.where(known, np.abs(truth), -1.0)
        explained = _FURTHER * theirs + self._units(_COMMON, right) * self._eps
        if abs(factor) > explained:
            told = f"{whole} is {1 + factor:.4g} times what the reference gives, in all: round-off explains"
            yield self._of_all("factor", int(np.argmax(where)), explained, f"{told} {explained:.2g}.", known)
            return
        explained = _FURTHER * theirs + self._units(_TOGETHER, right) * self._eps
        if norm(off) / size > explained:
            told = f"{whole} is off by {norm(off) / size:.2g} of its length, in all, where the reference is off by"
            worst = int(np.argmax(np.where(known, np.abs(self.function - truth), -1.0)))
            yield self._of_all(
                "length", worst, explained, f"{told} {theirs:.2g}: that explains {explained:.2g}.", known
            )

    def _of_all(self, kind: str, worst: int, explained: float, headline: str, known: Flags) -> Finding:
        truth = self.reference if self.truth is None else self.truth
        return self._placed(worst, explained * abs(float(truth[worst])), int(known.sum()), headline, kind=kind)

    def _units(self, of_many: float, right: Vector) -> float:
        """How many units in the last place such numbers may be off by together: of few, each counts."""
        few = float(np.linalg.norm(right, 4)) ** 2 / float(right @ right)
        return of_many + (_UNITS - of_many) * few

    @property
    def _eps(self) -> float:
        """The precision that a function computes in."""
        return max(self.block.eps, self.allowance.precision)

    def _allowed(self, truth: Vector) -> Vector:
        """What each element of the function may be off by."""
        allowed = np.full(len(truth), self._absolute(truth))
        return allowed + self.allowance.rtol * np.abs(truth) if self.allowance.rtol else allowed

    def _absolute(self, truth: Vector) -> float:
        """The part of it that is the same for all elements of a block."""
        if self.allowance.atol is not None:
            return self.allowance.atol
        return _FURTHER * largest_of(self.reference - truth) + _UNITS * self._eps * largest_of(truth)

    def _finding(self, what: str, wrong: Flags, off: Vector, allowances: Vector) -> Finding:
        worst = int(np.argmax(np.where(wrong, np.nan_to_num(off, nan=np.inf), -1.0)))
        allowed, count = float(allowances[worst]), int(wrong.sum())
        place = Space((self.block,)).place(self.block.start + worst)
        function, reference = float(self.function[worst]), float(self.reference[worst])
        headline = (
            f"{what}{place} is {function:.9g} by the function and {reference:.9g} by the reference; "
            f"{count} of {len(wrong)} elements differ by more than {allowed:.3g}. {self._who(worst)}"
        )
        return self._placed(worst, allowed, count, headline, hint=self._hint(float(off[worst])))

    def _hint(self, off: float) -> str:
        """Whether a lower precision inside would explain a difference; it is for the user to know."""
        if self.allowance.atol is not None or self.allowance.rtol:
            return ""
        size = largest_of(self.reference if self.truth is None else self.truth)
        coarser = (name for name in _INSIDE if SPACINGS[name] > self._eps)
        name = next((name for name in coarser if off <= _FURTHER * SPACINGS[name] * size), "")
        said = f"if the function or the reference computes in {name} inside, say so: precision={name!r}"
        return f"this is no more than {name} rounds; {said}" if name else ""

    def _placed(
        self, worst: int, allowed: float, wrong: int, headline: str, *, kind: str = "", hint: str = ""
    ) -> Finding:
        """The finding with the numbers of its worst element."""
        place = Space((self.block,)).place(self.block.start + worst)
        is_input = self.block.kind != "output"
        return Finding(
            property="compare",
            kind=kind,
            status=Status.WRONG,
            input=self.block.key if is_input else None,
            input_element=place.element if is_input else None,
            output=None if is_input else self.block.index,
            output_element=None if is_input else place.element,
            numeric=float((self.reference if self.truth is None else self.truth)[worst]),
            analytic=float(self.function[worst]),
            allowed=allowed,
            wrong=wrong,
            total=self.block.size,
            headline=headline,
            hint=hint,
        )

    def _who(self, worst: int) -> str:
        if self.truth is None:
            return "The reference does not run in float64, so it was taken for the truth."
        truth = float(self.truth[worst])
        function, reference = abs(self.function[worst] - truth), abs(self.reference[worst] - truth)
        further = "the function" if not function <= reference else "the reference"
        distances = f"{further} is further from it (off by {function:.3g} and {reference:.3g})"
        return f"In float64 the reference gives {truth:.9g}: {distances}."
