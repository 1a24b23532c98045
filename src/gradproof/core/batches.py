"""Batches, trusted only after a witness.

A batched call answers many questions at once, but not always rightly: a function may read its inputs by closure, an
operator may have a wrong batching rule. So with the first batch goes one question whose answer is known from a plain
call. If the batch gets it wrong, or cannot run, everything goes through the plain loop.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradproof.core.agreement import largest_of, within, worst_difference
from gradproof.core.flags import every
from gradproof.core.precision import BATCH_FLAW, BATCH_ROUND_OFF
from gradproof.core.space import Space
from gradproof.core.types import Matrix, Vector


@dataclass(frozen=True, slots=True)
class BatchFlaw:
    """Why a batched derivative cannot be had, or is not what a loop gives."""

    reason: str
    cause: Exception | None = None
    size: float = math.inf
    """How far the batch is off, relative to the largest value of a block; infinite where it could not run."""
    off: Vector | None = None
    """How far, element by element."""


class Ways(NamedTuple):
    """How one kind of question is answered: row by row (`loop`) or all at once (`batched`).

    `witness` gives a question that concerns every coordinate, with its plain answer.
    """

    loop: Callable[[Matrix], Matrix]
    batched: Callable[[Matrix], Matrix]
    witness: Callable[[], tuple[Vector, Vector]]


@dataclass(slots=True)
class Trust:
    """Whether one kind of question may be answered in batches. `target` is the space of the answers.

    What `may_change` is asked once more, if it seems to be wrong: another answer then is no flaw of batches.
    """

    target: Space
    may_change: bool = False
    _usable: bool | None = None
    _flaw: BatchFlaw | None = None
    changed: tuple[Vector, Vector] | None = None
    """Two answers to the witness, if a batch gave one once and the other, which is right, when asked again."""

    @property
    def is_given(self) -> bool:
        """Whether questions are answered in batches by now."""
        return bool(self._usable)

    def answer(self, rows: Matrix, ways: Ways) -> Matrix:
        """The answers to all rows, by a batch if that can be relied on."""
        if self._usable:
            return ways.batched(rows)
        answers = self._try(rows, ways) if self._usable is None else None
        return ways.loop(rows) if answers is None else answers

    def flaw(self, ways: Ways, round_off: float = 0.0) -> BatchFlaw | None:
        """What is wrong with batching, None if nothing is, or no more than a relative `round_off`."""
        if self._usable is None:
            self._try(np.zeros((1, len(ways.witness()[0]))), ways)
        return None if self._flaw is None or self._flaw.size <= round_off else self._flaw

    def _try(self, rows: Matrix, ways: Ways) -> Matrix | None:
        """The answers to the rows if the witness among them is answered rightly."""
        question, plain = ways.witness()
        asked = np.concatenate((rows, question[None, :]))
        self._usable = False
        try:
            answers = ways.batched(asked)
        except Exception as error:
            self._flaw = BatchFlaw(f"the batch could not run ({type(error).__name__}: {error})", error)
            return None
        self._usable = self._near(answers[-1], plain, BATCH_ROUND_OFF)
        if not (self._usable or self._near(answers[-1], plain, BATCH_FLAW / self.target.coarsest_eps)):
            worst = worst_difference(answers[-1], plain)
            again = self._once_more(asked, ways) if self.may_change else None
            if again is not None and self._near(again[-1], plain, BATCH_ROUND_OFF):
                self._usable, self.changed = True, (plain, answers[-1])
                return again[:-1]
            self._flaw = BatchFlaw(
                f"the batched result differs from a plain one at {self.target.place(worst)} "
                f"({answers[-1][worst]:.9g} instead of {plain[worst]:.9g})",
                size=self._distance(answers[-1], plain),
                off=answers[-1] - plain,
            )
        return answers[:-1] if self._usable else None

    @staticmethod
    def _once_more(asked: Matrix, ways: Ways) -> Matrix | None:
        """The same batch; None where it cannot run again."""
        with contextlib.suppress(Exception):
            return ways.batched(asked)
        return None

    def _near(self, batched: Vector, plain: Vector, reach: float) -> bool:
        if every(batched == plain):
            return True
        for block in self.target.blocks:
            part = plain[block.slice]
            if not within(batched[block.slice], part, reach * block.eps * largest_of(part)):
                return False
        return True

    def _distance(self, batched: Vector, plain: Vector) -> float:
        """How far they are apart, relative to the largest value of each block; infinite where one is not finite."""
        pairs = [(batched[block.slice], plain[block.slice]) for block in self.target.blocks]
        with np.errstate(all="ignore"):
            return max(
                float(np.nan_to_num(np.abs(a - b) / largest_of(b), nan=math.inf).max()) for a, b in pairs if len(b)
            )
