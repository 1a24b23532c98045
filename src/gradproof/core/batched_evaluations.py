"""F at many points in one call, as far as a batch of them can be relied on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradproof.core.batches import Trust, Ways
from gradproof.core.capabilities import Batching
from gradproof.core.precision import NEARBY
from gradproof.core.types import ALL, Matrix, Vector

if TYPE_CHECKING:
    from gradproof.core.investigation import Investigation

_NOBODY: frozenset[int] = frozenset()


class BatchedEvaluations:
    """Those of one investigation. Batching rules differ with what is batched: each set of blocks is trusted alone."""

    def __init__(self) -> None:
        self._trusts: dict[frozenset[int], Trust] = {}

    def at(self, investigation: Investigation, batching: Batching, rows: Matrix, run: slice) -> Matrix:
        """F at points, each a row that holds the coordinates of a run. Blocks that no row moves are left single."""
        blocks, point = investigation.problem.inputs.blocks, investigation.problem.point
        if run is ALL:
            still = {k for k, block in enumerate(blocks) if (rows[:, block.slice] == point[block.slice]).all()}
        else:
            rows, run = _widened(investigation, rows, run)
            still = {k for k, block in enumerate(blocks) if not run.start <= block.start < run.stop}
        single = frozenset(still) if len(still) < len(blocks) else _NOBODY
        return self._answers(investigation, batching, (rows, run), single)

    def _answers(
        self, investigation: Investigation, batching: Batching, points: tuple[Matrix, slice], still: frozenset[int]
    ) -> Matrix:
        rows, run = points
        trust = self._trusts.setdefault(still, Trust(investigation.problem.outputs))

        def loop(asked: Matrix) -> Matrix:
            whole = investigation.points(asked, run)
            if still:
                return self._answers(investigation, batching, (whole, ALL), _NOBODY)
            return investigation.evaluate_each(whole)

        def batched(asked: Matrix) -> Matrix:
            assert batching.evaluate is not None
            investigation.cost.afford(len(asked))
            values = batching.evaluate(asked, run, still)
            investigation.cost.evaluate(len(asked))  # one that could not run is asked again, in a loop
            return values

        return trust.answer(rows, Ways(loop, batched, lambda: _nearby(investigation, run, still)))


def _widened(investigation: Investigation, rows: Matrix, run: slice) -> tuple[Matrix, slice]:
    """The run made one of whole blocks, so that the witness of a batch concerns all of their coordinates."""
    inputs = investigation.problem.inputs
    start, stop = inputs.block_at(run.start).start, inputs.block_at(run.stop - 1).stop
    if (run.start, run.stop) == (start, stop):
        return rows, run
    return investigation.points(rows, run)[:, start:stop], slice(start, stop)


def _nearby(investigation: Investigation, run: slice, still: frozenset[int]) -> tuple[Vector, Vector]:
    """The coordinates of a run, each moved a little but for the blocks that are still, and the value there."""
    problem = investigation.problem
    point = problem.point.copy()
    point[run] += NEARBY * investigation.scale[run] * investigation.draw(problem.inputs.size)[run]
    for k in still:
        block = problem.inputs.blocks[k]
        point[block.slice] = problem.point[block.slice]
    if problem.evaluates_in is None:
        problem.inputs.round_in_place(point)
    return point[run], investigation.evaluate(point)
