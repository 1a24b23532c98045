"""A PyTorch function at a point, as a Problem."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.batch import Batch, Ways
from gradproof.backends.torch.coordinates import build, build_batch, read
from gradproof.backends.torch.forward import in_kind, load_forward_mode
from gradproof.backends.torch.frames import Frame, output_frame
from gradproof.backends.torch.layouts import arrange, possible
from gradproof.backends.torch.leaves import Leaf, StandIn, find_leaves, move_together, row
from gradproof.backends.torch.pull import pull, pull_batch, undefined
from gradproof.backends.torch.twin import Twin, find_twin, wide
from gradproof.backends.torch.validate import validate_outputs
from gradproof.backends.torch.vmap import quiet_vmap, vmap, vmap_derivative
from gradproof.backends.torch.watch import Watch, memory_of, saved_tensors, share_memory
from gradproof.core.lazy import lazy
from gradproof.core.problem import (
    ALL,
    BatchFlaw,
    Cost,
    Form,
    Layout,
    Mode,
    OutputChangedError,
    Problem,
    Pulled,
    random_probe,
)
from gradproof.core.space import Block, Space
from gradproof.core.types import Matrix, Vector

# Fewer rows than this are looped over: starting a batch costs about as much as this many plain calls,
# of the function and of a vjp or jvp.
_LEAST_BATCH = 12, 5


class TorchProblem(Problem):
    """F, vjp and jvp of one call, with the user's own tensors moved in place and put back.

    Batches go through vmap, but a batch is trusted only after one of its rows was compared with a plain call: a
    function that reads its inputs by closure, or an operator with a wrong batching rule, gets a plain loop.
    """

    def __init__(
        self,
        call: Call,
        *,
        seed: int = 0,
        masked: bool = False,
        least_batch: tuple[int, int] = _LEAST_BATCH,
        dense_outputs: bool = False,
    ) -> None:
        """`masked` leaves out what sparse tensors do not specify; `least_batch` says from how many evaluations, and
        from how many vjps or jvps, on a batch is started; `dense_outputs` refuses all other layouts of outputs.
        """
        self.call, self.seed, self.masked = call, seed, masked
        self.cost = Cost()
        self._leaves = find_leaves(call, masked)
        self._sources = [leaf.tensor for leaf in self._leaves]
        self._stand_ins = [leaf for leaf in self._leaves if isinstance(leaf, StandIn)]
        self.moves_together = move_together(self._leaves)
        """Moving one input moves another: a tangent of one of them is not the derivative of moving it."""
        self.inputs = Space(tuple(leaf.block for leaf in self._leaves))
        self.point = np.concatenate([leaf.base for leaf in self._leaves]) if self._leaves else np.empty(0)
        self._gradients: list[torch.Tensor | None] | None = None
        self._last_question, self._last_cotangents = np.empty(0), list[torch.Tensor]()
        self.primals_need_grad = False
        """Whether the function wants inputs that require a gradient in forward mode too."""
        self.carries_tangents = False
        """Whether the last jvp found a tangent at any output."""
        self._twin: Twin | None = None
        self._evaluations: dict[frozenset[int], Batch] = {}
        """Batches of evaluations, by the inputs that are left single in them."""
        self._signature: list[tuple[torch.Size, torch.dtype]] = []
        self._start(dense_outputs)
        self._batches = all(frame.batches for frame in (*self._frames, *[leaf.frame for leaf in self._leaves]))
        """Whether vmap can carry all inputs and outputs."""
        if self._batches:
            self._twin = find_twin(call, self._leaves, self.point, self._chosen, self._outputs)
        if self._twin is not None:
            self.evaluates_in = 2.0**-52
        if self._twin is not None or self._stand_ins:  # what is compared with neighbours must be computed as they are
            self.value = self.evaluate(self.point)
        evaluations, products = least_batch if self._batches else (sys.maxsize, sys.maxsize)
        self._least_evaluations = sys.maxsize if self.moves_together or self._stand_ins else evaluations
        self._vjps, self._jvps = Batch(self.inputs, products), Batch(self.outputs, products)

    @property
    def has_no_tangents(self) -> bool:
        """Whether forward mode cannot be compared: torch has dual tensors of strided memory only, and see above."""
        return self.moves_together or not all(leaf.frame.batches for leaf in self._leaves)

    def _start(self, dense_outputs: bool) -> None:
        """The first call: which outputs count, and their graph, which every vjp uses."""
        self.cost.evaluate()
        try:
            everything = flatten_outputs(self.call())
        except BaseException:
            self._restore()
            raise
        self._overwritten = tuple(leaf.block.label for leaf in self._leaves if not leaf.is_untouched())
        if self._overwritten:
            self._restore()
        if dense_outputs:
            validate_outputs(everything)
        connected = [i for i, o in enumerate(everything) if isinstance(o, torch.Tensor) and o.requires_grad]
        self.has_graph = bool(connected)
        constant = [i for i, o in enumerate(everything) if _is_constant(o)]
        self.left_out = constant if connected else []
        """The outputs that count as constant because they have no graph, while others have one."""
        self._count = len(everything)
        self._chosen = connected or constant
        self._outputs = [everything[i] for i in self._chosen]
        self._signature = [(o.shape, o.dtype) for o in self._outputs]
        self._frames = [output_frame(o, self.masked) for o in self._outputs]
        kinds = ["output"] * len(self._chosen)
        self.outputs = Space(tuple(row(kinds, self._chosen, self._output_names(), self._frames)))
        self.value = self._collect(self._outputs)

    def _output_names(self) -> list[str]:
        return [""] * len(self._chosen)

    def close(self) -> None:
        """Put the inputs back, to which a backward may have written."""
        self._restore()

    def batch_flaw(self, mode: Mode) -> BatchFlaw | None:
        return self._vjps.flaw(self._vjp_ways()) if mode is Mode.REVERSE else self._jvps.flaw(self._jvp_ways())

    # evaluation

    def evaluate(self, point: Vector) -> Vector:
        self.cost.evaluate()
        if self._twin is not None:
            return self._collect(self._pick(self._twin.run(point), widened=True))
        try:
            self._move(point)
            return self._collect(self._pick(self._call_moved()))
        finally:
            self._restore()

    def evaluate_many(self, rows: Matrix, run: slice = ALL) -> Matrix:
        """In a batch, inputs that no point moves are left single: less work for the function."""
        if len(rows) < self._least_evaluations:
            return self._evaluate_loop(self.points(rows, run))
        if run is ALL:
            still = {k for k, leaf in enumerate(self._leaves) if (rows[:, leaf.block.slice] == leaf.base).all()}
        else:
            rows, run = self._widened(rows, run)
            still = {k for k, leaf in enumerate(self._leaves) if not run.start <= leaf.block.start < run.stop}
        return self._evaluate_some(frozenset(still if len(still) < len(self._leaves) else ()), run, rows)

    def _widened(self, rows: Matrix, run: slice) -> tuple[Matrix, slice]:
        """The run made one of whole inputs, so that the witness of a batch concerns all of their coordinates."""
        start, stop = self.inputs.block_at(run.start).start, self.inputs.block_at(run.stop - 1).stop
        if (run.start, run.stop) == (start, stop):
            return rows, run
        return self.points(rows, run)[:, start:stop], slice(start, stop)

    def _evaluate_some(self, still: frozenset[int], run: slice, rows: Matrix) -> Matrix:
        """Batching rules differ with what is batched, so each set of single inputs is trusted by itself."""
        batch = self._evaluations.setdefault(still, Batch(self.outputs, self._least_evaluations))

        def loop(asked: Matrix) -> Matrix:
            points = self.points(asked, run)
            return self._evaluate_some(frozenset(), ALL, points) if still else self._evaluate_loop(points)

        ways = Ways(
            loop=loop,
            batched=functools.partial(self._evaluate_batched, still, run),
            witness=functools.partial(self._nearby, still, run),
        )
        return batch.answer(rows, ways)

    def _nearby(self, still: frozenset[int], run: slice) -> tuple[Vector, Vector]:
        """The coordinates of a run, each moved a little but for the inputs that are still, and the value there."""
        point = self.point.copy()
        point[run] += 2.0**-20 * self.scale[run] * random_probe(self.inputs.size, self.seed)[run]
        for k in still:
            point[self._leaves[k].block.slice] = self._leaves[k].base
        if self._twin is None:
            self.inputs.round_in_place(point)
        return point[run], self.evaluate(point)

    def _evaluate_loop(self, points: Matrix) -> Matrix:
        if self._twin is not None:
            return super().evaluate_many(points)
        values = np.empty((len(points), self.outputs.size))
        try:
            for row, point in zip(values, points, strict=True):
                self.cost.evaluate()
                self._move(point)
                self._collect_into(row, self._pick(self._call_moved()))
        finally:
            self._restore()
        return values

    def _evaluate_batched(self, still: frozenset[int], run: slice, rows: Matrix) -> Matrix:
        twin = self._twin

        def function(*moved: torch.Tensor) -> list[torch.Tensor]:
            if twin is not None:
                return self._pick(twin.run_with(moved), widened=True)
            values = {leaf.position: tensor for leaf, tensor in zip(self._leaves, moved, strict=True)}
            return self._pick(self.call.with_values(values))

        models = self._sources if twin is None else twin.models
        moved = [
            build(leaf.base, model) if k in still else build_batch(rows[:, _place_in(leaf.block, run)], model)
            for k, (leaf, model) in enumerate(zip(self._leaves, models, strict=True))
        ]
        try:
            with quiet_vmap(), torch.no_grad():
                outputs = vmap(function, moved, still)
        finally:
            self._restore()
        self.cost.evaluate(len(rows))
        return self._collect_batch(outputs, self.outputs)

    def _move(self, point: Vector) -> None:
        if self.moves_together:
            self._restore()
            for leaf in self._leaves:
                shift = point[leaf.block.slice] - leaf.base
                if shift.any():
                    self._shift(leaf, shift)
        else:
            for leaf in self._leaves:
                leaf.write(point[leaf.block.slice])

    def _shift(self, leaf: Leaf, shift: Vector) -> None:
        """Move a leaf in its memory; a tensor that was passed twice has as many stand-ins."""
        moved = [other for other in self._stand_ins if other.tensor is leaf.tensor] or [leaf]
        for other in moved:
            other.write(other.current() + shift)

    def _restore(self) -> None:
        for leaf in self._leaves:
            leaf.restore()

    def _call_moved(self) -> Any:
        if not self._stand_ins:
            return self.call()
        return self.call.with_values({leaf.position: leaf.moved for leaf in self._stand_ins if leaf.moved is not None})

    def _pick(self, output: Any, *, widened: bool = False) -> list[torch.Tensor]:
        everything = flatten_outputs(output)
        if len(everything) != self._count:
            raise OutputChangedError(
                f"the function returned {self._count} outputs at the inputs given, but {len(everything)} when they "
                "were moved a little. Its number of outputs must not depend on the values of its inputs."
            )
        picked = [everything[i] for i in self._chosen]
        for index, (shape, dtype), tensor in zip(self._chosen, self._signature, picked, strict=True):
            if tensor.shape != shape or tensor.dtype != (wide(dtype) if widened else dtype):
                raise OutputChangedError(
                    f"output {index} has shape {tuple(shape)} and dtype {dtype} at the inputs given, but shape "
                    f"{tuple(tensor.shape)} and dtype {tensor.dtype} when they were moved a little. "
                    f"The form of an output must not depend on the values of the inputs.{self._why_form_changed()}"
                )
        return picked

    def _why_form_changed(self) -> str:
        if not any(leaf.frame.elements is not None for leaf in self._stand_ins):
            return ""
        return (
            " (Without a mask, sparse inputs are moved with all their elements stored. "
            "A function of the stored values, like s.values(), is checked with masked=True.)"
        )

    def _collect(self, outputs: list[torch.Tensor]) -> Vector:
        values = np.empty(self.outputs.size)
        self._collect_into(values, outputs)
        return values

    def _collect_into(self, values: Vector, outputs: list[torch.Tensor]) -> None:
        if len(outputs) == 1:
            values[:] = self._frames[0].read(outputs[0])
            return
        for target, frame, tensor in zip(self.outputs.blocks, self._frames, outputs, strict=True):
            values[target.slice] = frame.read(tensor)

    @staticmethod
    def _collect_batch(tensors: Any, space: Space) -> Matrix:
        rows = [read(tensor).reshape(tensor.shape[0], -1) for tensor in tensors]
        if len(rows) == 1:
            return rows[0]
        return np.concatenate(rows, axis=1) if rows else np.empty((0, space.size))

    # reverse mode

    def vjp(self, cotangent: Vector) -> Vector:
        if not self.has_graph:
            return np.zeros(self.inputs.size)
        self.cost.pull()
        cotangents = self._cotangents(cotangent)
        self._gradients = list(pull(self._outputs, self._sources, cotangents))
        self._last_question, self._last_cotangents = cotangent, cotangents
        return self._gather(self._gradients)

    def vjp_many(self, cotangents: Matrix) -> Matrix:
        if not self.has_graph:
            return np.zeros((len(cotangents), self.inputs.size))
        if len(cotangents) < self._vjps.least:
            return super().vjp_many(cotangents)
        return self._vjps.answer(cotangents, self._vjp_ways())

    def _vjp_ways(self) -> Ways:
        return Ways(super().vjp_many, self._vjp_batched, lambda: (self.cotangent, self.pullback))

    def _require_batches(self) -> None:
        if not self._batches:
            raise NotImplementedError("vmap carries strided tensors only, and not all inputs and outputs are strided")

    def _vjp_batched(self, cotangents: Matrix) -> Matrix:
        self._require_batches()
        stacked = [
            build_batch(cotangents[:, target.slice], tensor)
            for target, tensor in zip(self.outputs.blocks, self._outputs, strict=True)
        ]
        gradients = pull_batch(self._outputs, self._sources, stacked)
        self.cost.pull(len(cotangents))
        result = np.zeros((len(cotangents), self.inputs.size))
        for target, gradient in zip(self.inputs.blocks, gradients, strict=True):
            if gradient is not None:
                result[:, target.slice] = read(gradient).reshape(len(cotangents), -1)
        return result

    def vjp_undefined(self, cotangent: Vector, absent: frozenset[int]) -> Vector:
        self.cost.pull()
        outputs = [
            undefined(output) if i in absent and frame.can_be_undefined else output
            for i, (output, frame) in enumerate(zip(self._outputs, self._frames, strict=True))
        ]
        return self._gather(list(pull(outputs, self._sources, self._cotangents(cotangent))))

    @property
    def layouts(self) -> frozenset[Layout]:
        return possible(self._outputs)

    def vjp_in(self, cotangent: Vector, layout: Layout) -> Vector:
        self.cost.pull()
        cotangents = [arrange(tensor, layout) for tensor in self._cotangents(cotangent)]
        return self._gather(list(pull(self._outputs, self._sources, cotangents)))

    def watched_vjp(self, cotangent: Vector, layout: Layout) -> Pulled:
        self.cost.pull()
        cotangents = [arrange(tensor, layout) for tensor in self._cotangents(cotangent)]
        named = zip(map(_cotangent_of, self.outputs.blocks), cotangents, strict=True)
        watch = Watch([*named, *self._saved])
        gradient = self._gather(list(pull(self._outputs, self._sources, cotangents)))
        touched = [leaf for leaf in self._leaves if not leaf.is_untouched()]
        overwritten = [*(leaf.block.label for leaf in touched), *watch.changed()]
        if layout is not Layout.CONTIGUOUS:
            overwritten += self._overwritten_cotangents()
        for leaf in touched:
            leaf.restore()
        return Pulled(gradient, tuple(dict.fromkeys(overwritten)))

    def _overwritten_cotangents(self) -> Iterator[str]:
        """Those of the last plain vjp that hold something else by now. No layout made backward copy them."""
        if self._last_cotangents:
            for block, frame, tensor in zip(self.outputs.blocks, self._frames, self._last_cotangents, strict=True):
                meant, held = self._last_question[block.slice], frame.read(tensor)
                if not (held == meant).all() and not np.array_equal(held, frame.read(frame.build(meant))):
                    yield _cotangent_of(block)

    @lazy
    def _saved(self) -> list[tuple[str, torch.Tensor]]:
        known = self._input_memories  # is looked at anyway
        return [(name, tensor) for name, tensor in saved_tensors(self._outputs) if memory_of(tensor) not in known]

    @lazy
    def _input_memories(self) -> list[int]:
        return [memory_of(leaf.tensor) for leaf in self._leaves]

    def overwritten_inputs(self) -> tuple[str, ...]:
        return self._overwritten

    def aliased_gradients(self) -> list[tuple[Block, str]]:
        found: list[tuple[Block, str]] = []
        inputs = [*zip(self._input_memories, self._leaves, strict=True)]
        others: list[tuple[int, torch.Tensor, Block]] = []
        lent = [memory_of(cotangent) for cotangent in self._last_cotangents]
        for target, gradient in zip(self.inputs.blocks, self._gradients or (), strict=False):
            if gradient is None:
                continue
            memory = memory_of(gradient)
            for at, leaf in inputs:
                if gradient is leaf.tensor or (at == memory and share_memory(gradient, leaf.tensor)):
                    found.append((target, f"{leaf.block.label} itself"))
            for at, other, block in others:
                if at == memory and share_memory(gradient, other):
                    found.append((target, f"the gradient of {block.label}"))
            if memory not in lent:  # autograd itself hands out one tensor, or the cotangent's memory, several times
                others.append((memory, gradient, target))
        return found

    def misshapen_gradients(self) -> list[tuple[Block, Form, Form]]:
        if self._gradients is None:
            self.vjp(np.ones(self.outputs.size))
        return _misshapen(self.inputs, [leaf.frame for leaf in self._leaves], self._gradients or [])

    def _cotangents(self, cotangent: Vector) -> list[torch.Tensor]:
        blocks = self.outputs.blocks
        return [frame.build(cotangent[b.start : b.stop]) for b, frame in zip(blocks, self._frames, strict=True)]

    def _gather(self, gradients: list[torch.Tensor | None]) -> Vector:
        if len(gradients) == 1 and gradients[0] is not None:
            return self._leaves[0].frame.read(gradients[0]).copy()
        result = np.zeros(self.inputs.size)
        for leaf, gradient in zip(self._leaves, gradients, strict=True):
            if gradient is not None:
                result[leaf.block.start : leaf.block.stop] = leaf.frame.read(gradient)
        return result

    # forward mode

    def jvp(self, tangent: Vector) -> Vector:
        return self.jvp_undefined(tangent, frozenset())

    def jvp_many(self, tangents: Matrix) -> Matrix:
        return self._jvps.answer(tangents, self._jvp_ways())

    def _jvp_ways(self) -> Ways:
        return Ways(super().jvp_many, self._jvp_batched, lambda: (self.tangent, self.pushforward))

    def jvp_undefined(self, tangent: Vector, absent: frozenset[int]) -> Vector:
        self.cost.push()
        tangents = [
            None if i in absent else leaf.frame.build(tangent[leaf.block.slice]) for i, leaf in enumerate(self._leaves)
        ]
        result = np.zeros(self.outputs.size)
        pushed = self._push(tangents)
        self.carries_tangents = any(found is not None for found in pushed)
        for target, frame, found in zip(self.outputs.blocks, self._frames, pushed, strict=True):
            if found is not None:
                result[target.slice] = frame.read(in_kind(found, frame.model))
        return result

    def _jvp_batched(self, tangents: Matrix) -> Matrix:
        self._require_batches()

        def function(*batch: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = self._push(list(batch))
            pairs = zip(self._outputs, found, strict=True)
            return tuple(torch.zeros_like(o) if t is None else in_kind(t, o) for o, t in pairs)

        stacked = [build_batch(tangents[:, leaf.block.slice], leaf.tensor) for leaf in self._leaves]
        with quiet_vmap():
            found = vmap_derivative(function, stacked)
            self.cost.push(len(tangents))
            return self._collect_batch(found, self.outputs)

    def misshapen_tangents(self) -> list[tuple[Block, Form, Form]]:
        tangents = [torch.ones_like(leaf.tensor) for leaf in self._leaves]
        return _misshapen(self.outputs, self._frames, self._push(list(tangents)))

    def _push(self, tangents: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The outputs' tangents, None where there is none, for dual inputs that need no gradient."""
        load_forward_mode()
        try:
            with forward_ad.dual_level():
                values: dict[int, torch.Tensor] = {}
                for leaf, tangent in zip(self._leaves, tangents, strict=True):
                    primal = leaf.tensor.detach().requires_grad_(self.primals_need_grad)
                    values[leaf.position] = primal if tangent is None else forward_ad.make_dual(primal, tangent)
                outputs = self._pick(self.call.with_values(values))
                return [forward_ad.unpack_dual(output).tangent for output in outputs]
        finally:
            self._restore()


def _cotangent_of(block: Block) -> str:
    return f"the grad_output of {block.label}"


def _place_in(block: Block, run: slice) -> slice:
    """Where the coordinates of a block lie in a run."""
    start = run.start or 0
    return slice(block.start - start, block.stop - start)


def _is_constant(output: Any) -> bool:
    """A tensor that could have a graph and has none."""
    if not isinstance(output, torch.Tensor) or output.requires_grad:
        return False
    return output.is_floating_point() or output.is_complex()


def _misshapen(space: Space, frames: list[Frame], actual: list[torch.Tensor | None]) -> list[tuple[Block, Form, Form]]:
    """The tensors that are there but are not of the form that their frames ask for."""
    found: list[tuple[Block, Form, Form]] = []
    for block, frame, tensor in zip(space.blocks, frames, actual, strict=True):
        mismatch = None if tensor is None else frame.mismatch(tensor)
        if mismatch is not None:
            found.append((block, *mismatch))
    return found
