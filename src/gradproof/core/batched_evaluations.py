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

    def __init__(self, investigation: Investigation) -> None:
        self._investigation = investigation
        self._trusts: dict[frozenset[int], Trust] = {}

    def at(self, batching: Batching, rows: Matrix, run: slice) -> Matrix:
        """F at points, each a row that holds the coordinates of a run. Blocks that no row moves are left single."""
        inputs, point = self._investigation.problem.inputs, self._investigation.problem.point
        blocks = inputs.blocks
        if run is ALL:
            still = {k for k, block in enumerate(blocks) if (rows[:, block.slice] == point[block.slice]).all()}
        else:
            rows, run = self._widened(rows, run)
            still = {k for k, block in enumerate(blocks) if not run.start <= block.start < run.stop}
        return self._answers(batching, rows, run, frozenset(still) if len(still) < len(blocks) else _NOBODY)

    def _widened(self, rows: Matrix, run: slice) -> tuple[Matrix, slice]:
        """The run made one of whole blocks, so that the witness of a batch concerns all of their coordinates."""
        inputs = self._investigation.problem.inputs
        start, stop = inputs.block_at(run.start).start, inputs.block_at(run.stop - 1).stop
        if (run.start, run.stop) == (start, stop):
            return rows, run
        return self._investigation.points(rows, run)[:, start:stop], slice(start, stop)

    def _answers(self, batching: Batching, rows: Matrix, run: slice, still: frozenset[int]) -> Matrix:
        investigation = self._investigation
        trust = self._trusts.setdefault(still, Trust(investigation.problem.outputs))

        def loop(asked: Matrix) -> Matrix:
            points = investigation.points(asked, run)
            return self._answers(batching, points, ALL, _NOBODY) if still else investigation.evaluate_each(points)

        def batched(asked: Matrix) -> Matrix:
            assert batching.evaluate is not None
            investigation.cost.afford(len(asked))
            values = batching.evaluate(asked, run, still)
            investigation.cost.evaluate(len(asked))  # one that could not run is asked again, in a loop
            return values

        return trust.answer(rows, Ways(loop, batched, lambda: self._nearby(run, still)))

    def _nearby(self, run: slice, still: frozenset[int]) -> tuple[Vector, Vector]:
        """The coordinates of a run, each moved a little but for the blocks that are still, and the value there."""
        investigation, problem = self._investigation, self._investigation.problem
        point = problem.point.copy()
        point[run] += NEARBY * investigation.scale[run] * investigation.draw(problem.inputs.size)[run]
        for k in still:
            block = problem.inputs.blocks[k]
            point[block.slice] = problem.point[block.slice]
        if problem.evaluates_in is None:
            problem.inputs.round_in_place(point)
        return point[run], investigation.evaluate(point)
