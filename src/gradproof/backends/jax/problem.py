"""A JAX call at a point, or its first derivative, as a Problem."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.backends.jax.arrays import Model, Name, Row, in_double, is_floating, wide
from gradproof.backends.jax.calls import JaxCall
from gradproof.backends.jax.compiled import Forward, Reverse, pulled, pushed
from gradproof.backends.jax.maps import Map
from gradproof.backends.jax.outputs import Outputs
from gradproof.backends.jax.transforms import Function
from gradproof.backends.jax.twin import Make, find_twin
from gradproof.backends.jax.words import JAX
from gradproof.backends.twins import same_function
from gradproof.core.capabilities import Batching, Elsewhere, Inspection, Omission, Pairing, Twin, Twinned
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Problem
from gradproof.core.types import Vector

_SEED = 0x9E3779B9
_OTHER_VALUES = "compiled, the function gives other values"


class Made(NamedTuple):
    """A Problem with those of its parts that a session needs."""

    problem: Problem
    map: Map
    outputs: Outputs


class Derivative(NamedTuple):
    """What claims to be the derivative: JAX's own, or somebody's."""

    reverse: Reverse = pulled
    forward: Forward = pushed


def row_of(call: JaxCall) -> Row:
    """The arrays under test of a call."""
    tested, names = call.differentiable(), call.names()
    return Row(
        [Name(call.kind(i), call.origins[i], names[i]) for i in tested], [Model.of(call.flat[i]) for i in tested]
    )


def point_of(call: JaxCall, row: Row) -> Vector:
    """Where they are."""
    values = [np.asarray(call.flat[i]).astype(m.dtype) for i, m in zip(call.differentiable(), row.models, strict=True)]
    return row.read(values)


def first_order(call: JaxCall, derivative: Derivative | None = None) -> Made:
    """The Problem of a call. Calls the function, once as it is and once compiled."""
    inputs = row_of(call)
    point = point_of(call, inputs)
    result = call.plain(inputs.build(point), call.constants)
    outputs = Outputs(result)
    value = outputs.row.read(outputs.pick(result, outputs.row))
    make = _maker(call, outputs, derivative)
    return _assemble(make, inputs, outputs.row, point, outputs, value, {}, compiled=call.is_compiled)


def _maker(call: JaxCall, outputs: Outputs, derivative: Derivative | None = None) -> Make:
    key = call.key() if derivative is None else None
    to_trace = call if key is None else call.bare()

    def make(widened: bool) -> Function:
        row = outputs.row.widened() if widened else outputs.row

        def traced(moved: Any, constants: Any) -> tuple[Any, ...]:
            return outputs.pick(to_trace.traced(moved, constants), row)

        def plain(moved: Any, constants: Any) -> tuple[Any, ...]:
            return outputs.pick(call.plain(moved, constants), row)

        constants = _widened(call.constants) if widened else call.constants
        known = None if key is None else (key, outputs.key, widened)
        return Function(traced, plain, constants, *(derivative or Derivative()), known)

    return make


def second_order(call: JaxCall, first: Made) -> Made:
    """The Problem of the first derivative of a call: of its arrays and a cotangent for each output."""
    inputs, outputs = first.map.inputs, first.outputs
    before = max(call.origins, default=-1) + 1
    behind = [Name("input", before + k, f"cotangents[{k}]") for k in range(len(outputs.chosen))]
    whole = Row([*inputs.names, *behind], [*inputs.models, *outputs.row.models])
    drawn = np.random.default_rng(_SEED).uniform(-1.0, 1.0, outputs.row.space.size)
    outputs.row.space.round_in_place(drawn)
    point = np.concatenate([first.map.point, drawn])
    gradients = Row(
        [Name("output", k, f"gradient of {b.name or b.label}") for k, b in enumerate(inputs.space.blocks)],
        [model._replace(sharding=None) for model in inputs.models],
    )
    inner = _maker(call, outputs)
    make = _derived(inner, len(inputs.models))
    function = make(False)
    value = gradients.read(function.plain(jax.tree.map(jnp.array, whole.build(point)), function.constants))
    capabilities: dict[type, Any] = {}
    if outputs.row.space.size == 1:
        capabilities[Pairing] = Pairing(np.arange(inputs.space.size))
    return _assemble(make, whole, gradients, point, outputs, value, capabilities)


def _derived(inner: Make, count: int) -> Make:
    """Makes the first derivative, of `count` arrays and the cotangents, as a function.

    Its cotangents and gradients are those of the core: JAX's, conjugated.
    """

    def make(widened: bool) -> Function:
        function = inner(widened)
        once = jax.jit(function.traced)

        def traced(moved: Any, constants: Any) -> tuple[Any, ...]:
            return _gradient(once, moved, constants, count)

        def plain(moved: Any, constants: Any) -> tuple[Any, ...]:
            return _gradient(function.plain, moved, constants, count)

        known = None if function.key is None else (function.key, count)
        return Function(traced, plain, function.constants, key=known)

    return make


def _gradient(run: Any, moved: Any, constants: Any, count: int) -> tuple[Any, ...]:
    cotangents = tuple(map(jnp.conj, moved[count:]))
    return tuple(map(jnp.conj, pulled(run, moved[:count], constants, cotangents).products))


def _assemble(
    make: Make,
    inputs: Row,
    outputs: Row,
    point: Vector,
    whole: Outputs,
    first: Vector,
    further: dict[type, Any],
    *,
    compiled: bool = False,
) -> Made:
    """`first` is the value of a call as it is; if that is `compiled` by the user, what we compile gives no other."""
    low = Map(make(False), inputs, outputs, point)
    ingredients = low.transforms.ingredients(inputs.build(point))
    compiled = compiled and ingredients.are_known
    value = first if compiled else low.at(point)
    eps = max(inputs.space.coarsest_eps, outputs.space.coarsest_eps)
    if not all(same_function(value[b.slice], first[b.slice], eps) for b in outputs.space.blocks):
        low.transforms.give_up(_OTHER_VALUES)
        value = low.at(point)
    twin, tried = find_twin(make, low, value, ingredients)
    capabilities: dict[type, Any] = {
        Batching: low.batching(),
        Elsewhere: low.elsewhere(),
        Inspection: low.inspection(value, has_rules=ingredients.has_rules),
        **further,
    }
    if ingredients.takes_symbolic_zeros:
        capabilities[Omission] = low.omission()
    if twin is not None:
        wide_map = twin.map
        twinned = Twinned(
            Problem(
                inputs=wide_map.inputs.space,
                outputs=wide_map.outputs.space,
                point=point,
                value=twin.value,
                evaluate=wide_map.at,
                vjp=wide_map.vjp,
                jvp=wide_map.jvp,
                words=JAX,
                capabilities={Batching: wide_map.batching(), Elsewhere: wide_map.elsewhere()},
            ),
            value,
            twin.inside,
        )
        capabilities[Twin] = Twin(lambda: twinned)
        capabilities[Batching] = low.batching()._replace(evaluate=wide_map.batching().evaluate)
    problem = Problem(
        inputs=inputs.space,
        outputs=outputs.space,
        point=point,
        value=value if twin is None else twin.value,
        evaluate=low.at if twin is None else twin.map.at,
        vjp=low.vjp,
        jvp=low.jvp,
        evaluates_in=None if twin is None else DOUBLE,
        evaluations=1 + low.evaluations + tried,
        words=JAX,
        capabilities=capabilities,
    )
    return Made(problem, low, whole)


def _widened(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays of numbers in double precision."""
    with in_double():
        return tuple(jnp.asarray(np.asarray(v).astype(wide(v.dtype))) if is_floating(v) else v for v in values)
