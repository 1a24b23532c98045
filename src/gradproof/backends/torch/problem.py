"""A PyTorch call at a point as a Problem, put together from its parts."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.calls import flatten_outputs
from gradproof.backends.torch.derivative.elsewhere import Elsewhere as Moved
from gradproof.backends.torch.derivative.evaluation import Evaluation, WideEvaluation
from gradproof.backends.torch.derivative.forward import Forward
from gradproof.backends.torch.derivative.graph import Graph
from gradproof.backends.torch.derivative.outputs import NameOutputs, Outputs, nameless
from gradproof.backends.torch.derivative.reverse import Reverse
from gradproof.backends.torch.derivative.second import DerivativeCall, Differentiated, SecondReverse
from gradproof.backends.torch.derivative.trial import find_twin, find_widened
from gradproof.backends.torch.derivative.twin import NOT_TRIED, WideCall
from gradproof.backends.torch.derivative.twin import Twin as TwinCall
from gradproof.backends.torch.derivative.widening import widening
from gradproof.backends.torch.memory.arrangement import possible
from gradproof.backends.torch.tensors.point import Point
from gradproof.backends.torch.validate import validate_outputs
from gradproof.backends.torch.words import TORCH
from gradproof.core.capabilities import (
    Anew,
    Batching,
    Elsewhere,
    FirstNonFinite,
    Inspection,
    MemoryLayouts,
    MemoryWatch,
    MovesTogether,
    Omission,
    Pairing,
    Repeated,
    RoundOff,
    Stateless,
    Twin,
    Twinned,
    Walk,
)
from gradproof.core.precision import DOUBLE, HALF_OR_LESS
from gradproof.core.problem import Problem
from gradproof.core.types import Matrix

LEAST_EVALUATIONS, LEAST_PRODUCTS = 12, 5
"""From how many evaluations, and from how many vjps or jvps on, a batch is started: one costs about as much as this
many plain calls (measured with sin of ten numbers)."""


class Made(NamedTuple):
    """A Problem with those of its parts that a session needs."""

    problem: Problem
    point: Point
    outputs: Outputs
    forward: Forward


def first_order(
    call: Call,
    *,
    masked: bool = False,
    least_products: int = LEAST_PRODUCTS,
    dense_outputs: bool = False,
    backward: type[Reverse] = Reverse,
    twin: bool = True,
) -> Made:
    """The Problem of a call. Calls the function.

    `masked` leaves out what sparse tensors do not specify; `dense_outputs` refuses all other layouts of outputs.
    `backward` is how vjps are run; without `twin`, a low-precision call is not tried in float64.
    """
    point = Point(call, masked)
    first = _first_call(call, point)
    if dense_outputs:
        validate_outputs(first.outputs)
    outputs = first.as_outputs(masked)
    reverse = backward(point, outputs, Graph(call, point, outputs, anew=bool(first.overwritten)))
    return _assemble(call, point, outputs, reverse, first.overwritten, least_products, {}, tries_twin=twin)


def second_order(
    call: DerivativeCall, *, masked: bool = False, least_products: int = LEAST_PRODUCTS, named: bool = False
) -> Made:
    """The Problem of a first derivative. Calls the function. `named`: each output says whose gradient it is."""
    point = Point(call, masked)
    first = _first_call(call, point)
    differentiated = Differentiated(call, point)
    names: NameOutputs = differentiated.names if named else nameless
    outputs = first.as_outputs(masked, names)
    pairing = differentiated.pairing(outputs)
    further: dict[type, Any] = {} if pairing is None else {Pairing: pairing}
    reverse = SecondReverse(point, outputs, Graph(call, point, outputs, anew=bool(first.overwritten)))
    return _assemble(call, point, outputs, reverse, first.overwritten, least_products, further)


class _First(NamedTuple):
    """What the first call returned, all of it; and which inputs the function wrote to, in words."""

    outputs: list[Any]
    overwritten: tuple[str, ...]
    kept: list[Any]
    """Copies, where outputs may lie in the memory of inputs."""

    def as_outputs(self, masked: bool, names: NameOutputs = nameless) -> Outputs:
        made = Outputs(self.outputs, masked, names)
        return made.keep(self.kept) if self.kept else made


def _first_call(call: Call, point: Point) -> _First:
    """Call the function. The inputs are put back."""
    try:
        everything = flatten_outputs(call())
        overwritten = tuple([leaf.block.label for leaf in point.overwritten()])
        kept = [o.detach().clone() if isinstance(o, torch.Tensor) else o for o in everything] if overwritten else []
    except BaseException:
        point.restore()
        raise
    if overwritten:
        point.restore()
    return _First(everything, overwritten, kept)


def _assemble(
    call: Call,
    point: Point,
    outputs: Outputs,
    reverse: Reverse,
    overwritten: tuple[str, ...],
    least_products: int,
    further: dict[type, Any],
    *,
    tries_twin: bool = True,
) -> Made:
    tries_twin = tries_twin and point.batches and outputs.batches
    twin, tries, again = find_twin(call, point, outputs.chosen, outputs.here) if tries_twin else NOT_TRIED
    wide = None if twin is None else WideEvaluation(call, point, outputs, twin)
    evaluation = wide or Evaluation(call, point, outputs)
    forward = Forward(call, point, outputs)
    in_double = point.space.coarsest_eps <= DOUBLE
    # whether a witness would not tell other random numbers, which vmap may draw, from round-off
    blurred = call.draws and wide is None and outputs.space.coarsest_eps > HALF_OR_LESS
    capabilities: dict[type, Any] = {
        Omission: Omission(reverse.without, forward.without),
        MemoryLayouts: MemoryLayouts(possible(outputs.tensors), reverse.arranged, reverse.without),
        MemoryWatch: MemoryWatch(reverse.watched, overwritten, reverse.graph.consumed),
        Anew: Anew(reverse.graph.is_anew),
        FirstNonFinite: FirstNonFinite(reverse.first_not_finite),
        Inspection: Inspection(reverse.inspect, forward.inspect),
        Batching: _batching(point, outputs, None if blurred else evaluation, reverse, forward, least_products),
        **further,
    }
    if outputs.connected and not point.stand_ins and not point.moves_together:
        moved = Moved(call, point, outputs, forward)
        capabilities[Elsewhere] = Elsewhere(moved.vjp, moved.jvp)
        if in_double:
            capabilities[RoundOff] = moved.round_off
        if not isinstance(call, WideCall) and (twin is not None or in_double):
            find = functools.partial(_twinned, call, point, outputs, reverse, least_products, twin)
            capabilities[Twin] = Twin(_Once(find))
    if not (reverse.graph.hand_written or reverse.graph.anew):
        capabilities[Stateless] = Stateless(reverse.graph.is_stateless)
    if wide is None and not point.stand_ins and not point.moves_together and in_double:
        capabilities[Walk] = Walk(evaluation.at, evaluation.visit)
    if twin is None and again is not None and not overwritten:
        capabilities[Repeated] = Repeated(outputs.read(outputs.pick(again, widened=True)))
    if point.moves_together:
        capabilities[MovesTogether] = MovesTogether()
    # what is compared with neighbours must be computed as they are
    if wide is not None:
        value = wide.value
    else:
        value = evaluation.at(point.coordinates) if point.stand_ins else outputs.read(outputs.here)
    problem = Problem(
        inputs=point.space,
        outputs=outputs.space,
        point=point.coordinates,
        value=value,
        evaluate=evaluation.at,
        vjp=reverse.vjp,
        jvp=forward.jvp,
        connected=outputs.connected,
        evaluates_in=None if wide is None else DOUBLE,
        evaluations=1 + tries + (wide is None and bool(point.stand_ins)),
        words=TORCH,
        capabilities=capabilities,
    )
    return Made(problem, point, outputs, forward)


class _Once:
    """Calls a function when it is asked for its result first. To make `functools.cache` of one takes 10 µs."""

    def __init__(self, find: Callable[[], Twinned | None]) -> None:
        self._find: Callable[[], Twinned | None] | None = find
        self._found: Twinned | None = None

    def __call__(self) -> Twinned | None:
        if self._find is not None:
            self._found, self._find = self._find(), None
        return self._found


def _twinned(
    call: Call, narrow_point: Point, narrow: Outputs, reverse: Reverse, least_products: int, twin: TwinCall | None
) -> Twinned | None:
    """The Problem of a call in double precision; None if it has other outputs there, or raises.

    A call in double precision has a `twin` only where it computes in a lower one inside. The backward is widened too:
    what it reads or casts does not show in the call.
    """
    tries = 0
    if twin is None and narrow_point.batches and narrow.batches:
        twin, tries, _ = find_widened(call, narrow_point, narrow.chosen, narrow.here)
    if twin is None:
        return None
    wide = WideCall(call, twin)
    try:
        point = Point(wide, masked=False)
        first = _first_call(wide, point)
    except Exception:
        return None
    names = [block.name for block in narrow.space.blocks]
    outputs = first.as_outputs(False, lambda chosen: names[: len(chosen)])
    if outputs.chosen != narrow.chosen or not outputs.connected:
        return None
    backward = type(reverse)(point, outputs, Graph(wide, point, outputs, anew=bool(first.overwritten)))
    made = _assemble(wide, point, outputs, backward, first.overwritten, least_products, {}).problem
    batching, elsewhere = made.capabilities[Batching], made.capability(Elsewhere)
    capabilities: dict[type, Any] = {
        Batching: batching._replace(vjp=widening(batching.vjp)),
        Anew: made.capabilities[Anew],
    }
    if Stateless in made.capabilities:
        capabilities[Stateless] = made.capabilities[Stateless]
    if elsewhere is not None:
        capabilities[Elsewhere] = elsewhere._replace(vjp=widening(elsewhere.vjp))
        round_off = made.capabilities[RoundOff]
        capabilities[RoundOff] = round_off._replace(vjp=widening(round_off.vjp))
    problem = dataclasses.replace(
        made, vjp=widening(backward.vjp), capabilities=capabilities, evaluations=made.evaluations + tries
    )
    return Twinned(problem, narrow.read(narrow.here), twin.inside)


def _batching(
    point: Point,
    outputs: Outputs,
    evaluation: Evaluation | None,
    reverse: Reverse,
    forward: Forward,
    least_products: int,
) -> Batching:
    """`evaluation`: None, where it must not be batched."""
    if not (point.batches and outputs.batches):
        return Batching(None, _refuse, _refuse, sys.maxsize, sys.maxsize)
    evaluate = None if evaluation is None or point.moves_together or point.stand_ins else evaluation.batched
    return Batching(evaluate, reverse.batched, forward.batched, LEAST_EVALUATIONS, least_products)


def _refuse(_: Matrix) -> Matrix:
    raise NotImplementedError("vmap carries strided tensors only, and not all inputs and outputs are strided")
