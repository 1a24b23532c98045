"""The measurements behind the pictures of a report: the function and the ladder through its worst entries.

Made only for a check that does not pass. They use what was evaluated already, and little more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.ladder import relative_steps
from gradproof.core.problem import OutputChangedError
from gradproof.core.stencil import Stencil
from gradproof.results.exhibits import Exhibit, Rung
from gradproof.results.finding import Entry, Finding

# Entries shown at most, and how far a slice reaches in units of the coordinate's scale.
_MOST, _REACH = 6, 0.5
# Points of a slice on each side.
_POINTS = 4
# Evaluations that all pictures together may take beyond those that are known.
_FURTHER = 20


def measure_exhibits(investigation: Investigation, findings: Sequence[Finding]) -> tuple[Exhibit, ...]:
    """The worst entries of the findings, as long as the budget and the allowance for pictures last."""
    cost, stencil = investigation.cost, Stencil(investigation)
    allowance = cost.evaluations + _FURTHER
    made: list[Exhibit] = []
    for entry in _worst(findings):
        rungs = relative_steps(float(stencil.eps[entry.input.coordinate]), brief=True)
        further = 2 * _POINTS + 2 * len(rungs)
        if cost.evaluations + further > allowance:
            break
        try:
            made.append(_measure(stencil, entry))
        except (BudgetExhausted, OutputChangedError):
            break
    return tuple(made)


def _worst(findings: Sequence[Finding]) -> list[Entry]:
    """The worst entry of each finding, then the second of each, and so on."""
    in_turn = itertools.zip_longest(*(finding.entries for finding in findings))
    return [entry for turn in in_turn for entry in turn if entry is not None and entry.input.coordinate >= 0][:_MOST]


def _measure(stencil: Stencil, entry: Entry) -> Exhibit:
    """Few points of the slice, and the rungs that the judge has climbed already."""
    count, ladder = _POINTS, stencil.ladder(entry.input.coordinate, entry.output.coordinate, brief=True)
    problem, column, output = stencil.problem, entry.input.coordinate, entry.output.coordinate
    side = np.arange(1, count + 1) / count
    offsets = _REACH * float(stencil.scale[column]) * np.concatenate([-side[::-1], side])
    index, picked = np.full(2 * count, column, dtype=np.intp), np.array([output], dtype=np.intp)
    values, positions = stencil.moved(index, offsets, picked)
    here, value = float(problem.point[column]), float(problem.value[output])
    return Exhibit(
        entry=entry,
        position=here,
        value=value,
        positions=(*positions[:count].tolist(), here, *positions[count:].tolist()),
        values=(*values[:count, 0].tolist(), value, *values[count:, 0].tolist()),
        ladder=tuple(itertools.starmap(Rung, zip(*(each.tolist() for each in ladder), strict=True))),
    )
