"""Derivatives that somebody hands over in the form of `jax.vjp` and `jax.jvp`, as rules for the arrays under test.

The values that they return beside the derivative are handed on where they are JAX's own. Those of somebody's function
are compared by the doors that take them, within the tolerances given there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import dtypes, tree_util

from gradproof.backends.jax.arrays import is_floating
from gradproof.backends.jax.calls import JaxCall, is_none
from gradproof.backends.jax.compiled import Derived, Forward, Reverse


def zeros_for(value: Any) -> Any:
    """The cotangent or tangent of a value that has none: of dtype float0."""
    return np.zeros(np.shape(value), dtypes.float0)


def supplied_vjp(f_vjp: Callable[..., Any], call: JaxCall) -> Reverse:
    """J^T v by `f_vjp(*args)`, which returns the outputs and the function that is applied to cotangents."""

    def rule(run: Any, moved: Any, constants: Any, cotangents: Any) -> Derived:
        outputs, pull = f_vjp(*call.arguments_with(moved, constants))
        leaves, tree = tree_util.tree_flatten(outputs)
        given = iter(cotangents)
        whole = [next(given) if is_floating(leaf) else zeros_for(leaf) for leaf in leaves]
        return Derived((), _picked(call, pull(tree_util.tree_unflatten(tree, whole)), moved))

    return rule


def supplied_jvp(f_jvp: Callable[..., Any], call: JaxCall, *, shows_values: bool = False) -> Forward:
    """J u by `f_jvp(primals, tangents)`, which returns the outputs and their tangents."""

    def rule(run: Any, moved: Any, constants: Any, tangents: Any) -> Derived:
        primals = call.arguments_with(moved, constants)
        by_place = dict(zip(call.differentiable(), tangents, strict=True))
        leaves, tree = tree_util.tree_flatten(primals, is_leaf=is_none)
        given = [by_place.get(i, _still(leaf)) for i, leaf in enumerate(leaves)]
        outputs, pushed = f_jvp(primals, tree_util.tree_unflatten(tree, given))
        pairs = list(zip(tree_util.tree_leaves(outputs), tree_util.tree_leaves(pushed), strict=True))
        values = tuple(output for output, _ in pairs if is_floating(output)) if shows_values else ()
        return Derived(values, tuple(tangent for output, tangent in pairs if is_floating(output)))

    return rule


def _still(leaf: Any) -> Any:
    if leaf is None:
        return None
    return jnp.zeros_like(leaf) if is_floating(leaf) else zeros_for(leaf)


def _picked(call: JaxCall, gradients: Any, moved: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients of the arrays under test; what is None is zero."""
    leaves = tree_util.tree_leaves(gradients, is_leaf=is_none)
    if len(leaves) != len(call.flat):
        raise ValueError(f"f_vjp returned {len(leaves)} cotangents for {len(call.flat)} inputs")
    found = [leaves[i] for i in call.differentiable()]
    return tuple(jnp.zeros_like(array) if leaf is None else leaf for leaf, array in zip(found, moved, strict=True))
