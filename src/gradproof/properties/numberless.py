"""Claims that are no finite numbers where the function is finite: what is said of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.core.problem import Problem
from gradproof.core.suspects import Judged
from gradproof.core.types import Indices


@dataclass(frozen=True, slots=True)
class Numberless:
    """Which of some entries are claimed to be no finite numbers, though the output is finite."""

    which: Indices
    word: str
    """What they are claimed to be."""

    @staticmethod
    def among(problem: Problem, judged: Judged, group: Indices) -> Numberless | None:
        """Those of a group, by their numbers; None: there are none."""
        suspects = judged.suspects
        claims = suspects.analytic[group]
        here = ~np.isfinite(claims) & np.isfinite(problem.value[suspects.rows[group]])
        if not here.any():
            return None
        not_a_number = np.isnan(claims[here])
        word = "NaN" if not_a_number.all() else "NaN or infinite" if not_a_number.any() else "infinite"
        return Numberless(group[here], word)

    def headed(self, headline: str) -> str:
        """A headline that says so."""
        return f"{headline}: {self.word} where the function is finite"

    def verb(self, count: int, of: int, otherwise: str) -> str:
        """What is said of so many entries, of which `count` are such."""
        return f"are {self.word}" if count == of else f"{otherwise}, {count} of them {self.word}"
