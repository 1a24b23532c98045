"""Outputs that no joint question sees, by their rows."""

from __future__ import annotations

import numpy as np
from array_problem import investigation

from gradproof.core.options import Options
from gradproof.core.rows import MOST_ENTRIES, Row, Rows, look_at, settled
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.tolerances import Tolerances

X = np.array([1e-9, 0.5, 2.0, 3.0])


def looked_at(gradient: list[float], output: int = 0) -> Rows:
    """Of log, the row of an output, at first that near the pole, with this claim."""
    case = investigation(lambda x: np.log(np.abs(x)), X, vjp=lambda v: v / X)
    stencil = Stencil(case)
    row = Row.of(output, np.array(gradient))
    assert row is not None
    direction = np.array([0.1, 1.0, -1.0, 0.7])
    return look_at([row], stencil, Tolerances(stencil, Options()), direction, (14, 17, 20), np.full(4, 1e-3))


def test_a_right_row_is_seen() -> None:
    found = looked_at([1e9, 0.0, 0.0, 0.0])
    assert found.moved is None
    assert found.seen[0].value == 1e8
    assert found.judged is not None
    assert settled(found.judged) is None


def test_a_wrong_entry_is_judged_wrong() -> None:
    found = looked_at([1.1e9, 0.0, 0.0, 0.0])
    assert not found.seen
    assert found.judged is not None
    assert found.judged.status.tolist() == [Status.WRONG.rank]
    told = settled(found.judged)
    assert told is not None
    assert told.located


def test_an_output_that_moves_without_its_inputs_is_noticed() -> None:
    found = looked_at([0.0, 0.0, 0.5, 0.0], output=1)
    assert found.moved is not None
    assert not found.seen


def test_a_dense_row_is_not_looked_at() -> None:
    assert Row.of(0, np.ones(MOST_ENTRIES + 1)) is None
