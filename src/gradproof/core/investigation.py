"""One investigation of one Problem: every question goes through it, and what questions share is kept here.

It counts calls against the budget, draws the random question that properties share, remembers the answers to it, and
decides which of a backend's batches can be relied on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gradproof.core.batched_evaluations import BatchedEvaluations
from gradproof.core.batches import BatchFlaw, Trust, Ways
from gradproof.core.capabilities import (
    Anew,
    Batching,
    Gradients,
    Here,
    Inspection,
    MemoryLayout,
    MemoryLayouts,
    MemoryWatch,
    Omission,
    Tangents,
    Watched,
    Workers,
    is_pushed_once,
)
from gradproof.core.cost import Cost
from gradproof.core.directions import is_long, stretched
from gradproof.core.draws import Drawn, basis
from gradproof.core.jacobians import Screened
from gradproof.core.precision import reordered
from gradproof.core.problem import Mode, Problem, given
from gradproof.core.types import ALL, Indices, Matrix, Vector

C = TypeVar("C")
T = TypeVar("T")

_UNINSPECTED = Inspection(None, None)
# What the shared tangent is multiplied by where one is enough: a power of two, which rounds nothing, and not so large
# that numbers of half precision inside leave their range.
_OPPOSITE = -4.0


class Investigation:
    """Questions to one Problem: counted, batched where that pays, and asked once where several want to know."""

    def __init__(self, problem: Problem, seed: int = 0, cost: Cost | None = None) -> None:
        """`cost` may come with limits. What it took to make the problem is counted."""
        self.problem, self.seed, self.cost = problem, seed, cost or Cost()
        self.made = problem
        """The Problem as it was made, whatever precision it is found to be computed in."""
        self.cost.evaluations += problem.evaluations
        anew = problem.capability(Anew)
        self.cost.calls_anew = None if anew is None else anew.is_needed
        self._drawn = Drawn()
        self._cotangent: Vector | None = None
        self._tangent: Vector | None = None
        self._direction: Vector | None = None
        self._pullback: Vector | None = None
        self._pulled_after = 0
        self._shared_gradients: Gradients | None = None
        self._pushforward: Vector | None = None
        self.rows: Matrix | None = None
        """The whole Jacobian by reverse mode, once it was asked for row by row."""
        self.screened: Screened | None = None
        """The numerical Jacobian by one step for each input, once something in it was suspect."""
        self.gradients: Gradients | None = None
        """What the last plain vjp returned, where the backend can show it."""
        self.has_waves = False  # see `expect_waves`
        self.first_question: tuple[Vector, Vector] | None = None
        """A question that was asked before all others, with weights that are about alike, and its answer."""
        self.tangents: Tangents | None = None
        """The same of the last plain jvp."""
        self._batching: Batching | None = problem.capabilities.get(Batching)
        self._workers = problem.capability(Workers)
        self._inspection: Inspection = problem.capabilities.get(Inspection, _UNINSPECTED)
        self._evaluations = BatchedEvaluations()
        self._vjps, self._jvps = Trust(problem.inputs, may_change=True), Trust(problem.outputs)
        self._once: dict[Callable[..., Any], Any] = {}

    @property
    def vjp_changed(self) -> tuple[Vector, Vector] | None:
        """Two answers to one cotangent, if a batch of them gave another one once."""
        return self._vjps.changed

    @property
    def pulls_in_batches(self) -> bool:
        """Whether one call answers many cotangents."""
        return self._vjps.is_given

    @functools.cached_property
    def scale(self) -> Vector:
        """What steps are measured in, for each input coordinate."""
        return self.made.scale()

    def asks(self, kind: type[C]) -> C:
        """A capability that the Problem must have: whoever needs one says so in the registry of properties."""
        found = self.problem.capability(kind)
        assert found is not None, f"{kind.__name__} is missing"
        return found

    def once(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of `work(self, *arguments)`, done by whoever asks first; all ask with the same arguments."""
        if work not in self._once:
            self._once[work] = work(self, *arguments)
        return self._once[work]

    def take_as(self, problem: Problem, keep: tuple[Callable[..., Any], ...] = (), scale: Vector | None = None) -> None:
        """Go on with the Problem in another precision, or steps in another scale; `once` forgets all but `keep`."""
        self.problem = problem
        if scale is not None:
            self.scale = scale
        self._once = {work: self._once[work] for work in keep if work in self._once}

    def expect_waves(self) -> None:
        """From now on, waves are known that are shorter than the steps of a ladder: see `core/special.py`."""
        self.has_waves = True

    # the questions that properties share: one random one each way, and its answer

    def draw(self, size: int, further: int = 0) -> Vector:
        """Random signs and magnitudes by this investigation's seed, or by one `further` on; few are drawn once."""
        return self._drawn.probe(size, self.seed + further)

    @property
    def cotangent(self) -> Vector:
        """The random cotangent that properties share."""
        self._cotangent = self.draw(self.problem.outputs.size) if self._cotangent is None else self._cotangent
        return self._cotangent

    @property
    def tangent(self) -> Vector:
        """The random tangent that properties share."""
        self._tangent = self.direction if self._tangent is None else self._tangent
        return self.draw(self.problem.inputs.size) if self._tangent is None else self._tangent

    @property
    def direction(self) -> Vector | None:
        """The direction of surveys where the shared tangent is that from the first, which saves a jvp; else None."""
        if self._direction is None and is_long(self.problem):
            self._direction = stretched(self.seed, self.scale, self.problem.point)
        return self._direction

    @property
    def pullback(self) -> Vector:
        """vjp(cotangent)"""
        if self._pullback is None:
            self._pullback, self._pulled_after = self.vjp(self.cotangent), self.cost.evaluations
            self._shared_gradients = self.gradients
        return self._pullback

    @property
    def pushforward(self) -> Vector:
        """jvp(tangent), from that of a multiple of it where the Problem `is_pushed_once`."""
        if self._pushforward is None:
            times = _OPPOSITE if is_pushed_once(self.problem) else 1.0
            self._pushforward = self.jvp(self.tangent) if times == 1.0 else self.jvp(times * self.tangent) / times
        return self._pushforward

    @property
    def is_pulled(self) -> bool:
        """Whether the shared cotangent has its answer by now."""
        return self._pullback is not None

    @property
    def has_moved_on(self) -> bool:
        """Whether the function was evaluated since the shared cotangent got its answer."""
        return self.cost.evaluations != self._pulled_after

    def share_cotangent(self, cotangent: Vector) -> Vector:
        """Replace the shared random cotangent by a better one; its answer."""
        self._cotangent, self._pullback = cotangent, None
        return self.pullback

    def propose_cotangent(self, cotangent: Vector) -> None:
        """Share this one, unless the shared cotangent has its answer by now."""
        self._cotangent = self._cotangent if self.is_pulled else cotangent

    def share_tangent(self, tangent: Vector) -> Vector:
        """Replace the shared random tangent by a better one; its answer."""
        if self._tangent is not tangent:
            self._tangent, self._pushforward = tangent, None
        return self.pushforward

    # evaluations

    def evaluate(self, point: Vector) -> Vector:
        """F at a point."""
        self.cost.evaluate()
        return self.problem.evaluate(point)

    def evaluate_many(self, rows: Matrix, run: slice = ALL, outputs: slice | Indices = ALL) -> Matrix:
        """Some outputs of F at many points, each a row. Rows may hold the coordinates of a `run` only.

        The other coordinates are the point's. In a batch, blocks that no row moves are left single.
        """
        batching = self._batching
        if batching is None or batching.evaluate is None or len(rows) < batching.least_evaluations:
            return self.evaluate_each(self.points(rows, run), outputs)
        return self._evaluations.at(self, batching, rows, run)[:, outputs]

    def evaluate_each(self, points: Matrix, outputs: slice | Indices = ALL) -> Matrix:
        """The same one by one; of values not asked for, no copy is made. Many go to workers, if there are any."""
        if self._workers is not None and len(points) > 2:
            here = Here(self.evaluate, self.problem.outputs.size, self.cost.evaluate)
            return self._workers.evaluate(points, here)[:, outputs]
        first = self.evaluate(points[0])[outputs] if len(points) else self.problem.value[outputs]
        if len(points) == 1:
            return first[None, :]
        values = np.empty((len(points), len(first)))
        for k, point in enumerate(points):
            values[k] = self.evaluate(point)[outputs] if k else first
        return values

    def points(self, rows: Matrix, run: slice) -> Matrix:
        """The whole points, of which rows hold the coordinates of a run."""
        if rows.shape[1] == self.problem.inputs.size:
            return rows
        points = np.empty((len(rows), self.problem.inputs.size))
        points[:] = self.problem.point
        points[:, run] = rows
        return points

    # derivatives

    def vjp(self, cotangent: Vector) -> Vector:
        """J^T v by the derivative under test; zeros where it claims to be zero."""
        if not self.problem.connected:
            return np.zeros(self.problem.inputs.size)
        self.cost.pull()
        if self._inspection.vjp is None:
            return given(self.problem.vjp)(cotangent)
        self.gradients = self._inspection.vjp(cotangent)
        return self.gradients.coordinates

    def jvp(self, tangent: Vector) -> Vector:
        """J u by the derivative under test."""
        self.cost.push()
        if self._inspection.jvp is None:
            return given(self.problem.jvp)(tangent)
        self.tangents = self._inspection.jvp(tangent)
        return self.tangents.coordinates

    def some_gradients(self) -> Gradients:
        """What some plain vjp returned, to be looked at: that of the shared cotangent, where it was asked."""
        if self.gradients is None:
            self.share_cotangent(self.cotangent)
        shown = self._shared_gradients or self.gradients
        assert shown is not None, "the backend cannot show gradients"
        return shown

    def some_tangents(self) -> Tangents:
        """What some plain jvp returned, to be looked at."""
        if self.tangents is None:
            self.jvp(self.tangent)
        assert self.tangents is not None, "the backend cannot show tangents"
        return self.tangents

    def vjp_many(self, cotangents: Matrix) -> Matrix:
        """J^T v for many cotangents, one row each."""
        batching = self._batching
        if batching is None or len(cotangents) < batching.least_products or not self.problem.connected:
            return self._each(Mode.REVERSE, cotangents)
        return self._vjps.answer(cotangents, self._ways(Mode.REVERSE))

    def jvp_many(self, tangents: Matrix) -> Matrix:
        """J u for many tangents, one row each."""
        batching = self._batching
        if batching is None or len(tangents) < batching.least_products:
            return self._each(Mode.FORWARD, tangents)
        return self._jvps.answer(tangents, self._ways(Mode.FORWARD))

    def jacobian_rows(self, which: slice, length: int) -> Matrix:
        """The rows of some outputs by reverse mode, asked for `length` at a time; all of them are remembered."""
        count = self.problem.outputs.size
        if self.rows is not None:
            return self.rows[which]
        if count == 1 and self.problem.connected and self.cotangent[0] == 1.0:  # the shared answer is the only row
            rows = self.pullback[None, :]
        elif which.stop - which.start <= length:
            rows = self.vjp_many(basis(which, count))
        else:
            rows = np.empty((which.stop - which.start, self.problem.inputs.size))
            for start in range(which.start, which.stop, length):
                part = slice(start, min(start + length, which.stop))
                rows[start - which.start : part.stop - which.start] = self.vjp_many(basis(part, count))
        if len(rows) == count:
            self.rows = rows
        return rows

    def batch_flaw(self, mode: Mode) -> BatchFlaw | None:
        """What is wrong with the batched vjp or jvp, if anything: in measured noise, it may round otherwise."""
        round_off = 0.0 if self.problem is self.made else reordered(self.problem.coarsest_eps)
        return (self._vjps if mode is Mode.REVERSE else self._jvps).flaw(self._ways(mode), round_off)

    def _ways(self, mode: Mode) -> Ways:
        batching, reverse = self.asks(Batching), mode is Mode.REVERSE
        batched, count = (batching.vjp, self.cost.pull) if reverse else (batching.jvp, self.cost.push)

        def counted(rows: Matrix) -> Matrix:
            if batched is None:
                raise NotImplementedError("not all inputs and outputs can be batched")
            answers = batched(rows)
            count(len(rows))
            return answers

        shared = (lambda: (self.cotangent, self.pullback)) if reverse else lambda: (self.tangent, self.pushforward)
        return Ways(functools.partial(self._each, mode), counted, shared)

    def _each(self, mode: Mode, rows: Matrix) -> Matrix:
        """The derivative of each row, as rows. Many go to workers, if there are any."""
        reverse = mode is Mode.REVERSE
        apply, width = (self.vjp, self.problem.inputs.size) if reverse else (self.jvp, self.problem.outputs.size)
        asked = None if self._workers is None else self._workers.vjp if reverse else self._workers.jvp
        if asked is not None and len(rows) > 2 and self.problem.connected:
            return asked(rows, Here(apply, width, self.cost.pull if reverse else self.cost.push))
        result = np.empty((len(rows), width))
        for target, row in zip(result, rows, strict=True):
            target[:] = apply(row)
        return result

    # derivatives asked in special ways

    @property
    def memory_layouts(self) -> frozenset[MemoryLayout]:
        """The layouts, beside the contiguous one, that some cotangent can have."""
        layouts = self.problem.capability(MemoryLayouts)
        return frozenset() if layouts is None else layouts.possible

    def vjp_in(self, cotangent: Vector, layout: MemoryLayout) -> Vector:
        """`vjp` with cotangents in a memory layout, where they can have it."""
        if layout is MemoryLayout.CONTIGUOUS:
            return self.vjp(cotangent)
        self.cost.pull()
        return self.asks(MemoryLayouts).vjp(cotangent, layout)

    def watched_vjp(self, cotangent: Vector, layout: MemoryLayout) -> Watched:
        """`vjp_in` with a watch on memory that is not its own, where the backend can watch."""
        watch = self.problem.capability(MemoryWatch)
        if watch is None:
            return Watched(self.vjp_in(cotangent, layout), ())
        before = self.gradients
        self.cost.pull()
        watched = watch.vjp(cotangent, layout)
        if layout is MemoryLayout.CONTIGUOUS or before is None:
            return watched
        # a cotangent in another layout may have been copied before it was written to
        return watched.and_also(before.overwritten_cotangents())

    def vjp_without(
        self, cotangent: Vector, absent: frozenset[int], layout: MemoryLayout = MemoryLayout.CONTIGUOUS
    ) -> Vector:
        """`vjp_in`, where the cotangents of some output blocks are not there at all."""
        self.cost.pull()
        if layout is MemoryLayout.CONTIGUOUS:
            return given(self.asks(Omission).vjp)(cotangent, absent)
        return given(self.asks(MemoryLayouts).without)(cotangent, absent, layout)

    def jvp_without(self, tangent: Vector, absent: frozenset[int]) -> Vector:
        """`jvp`, where some input blocks carry no tangent at all."""
        self.cost.push()
        return given(self.asks(Omission).jvp)(tangent, absent)
