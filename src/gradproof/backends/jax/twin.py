"""The float64 twin of a low-precision function.

float32 and below are too coarse to difference well. Where the function runs inside `jax.enable_x64` on float64 copies
of its arrays, constants included, and computes the same there, its numerical side is evaluated there, at the very same
point: the low-precision numbers are float64 numbers too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.backends.jax.maps import Map
from gradproof.backends.jax.rules import Ingredients
from gradproof.backends.jax.transforms import Function
from gradproof.backends.twins import APART, REACH, REACH_IN_EPS, Change, is_coarse, same_change, same_function
from gradproof.core.norm import parts
from gradproof.core.precision import WIDEST_FORMAT
from gradproof.core.types import Vector

# By this factor, a number of a lower precision becomes one that it cannot hold, and that rounds to the same one.
_BESIDE = 1.0 + 2.0**-36
Make = Callable[[bool], Function]
"""Makes the function under test, of double-precision arrays if told so."""


class Twin:
    """A twin, and its value at the point."""

    def __init__(self, wide: Map, value: Vector, inside: float) -> None:
        self.map, self.value, self.inside = wide, value, inside


def find_twin(make: Make, low: Map, value: Vector, made_of: Ingredients) -> tuple[Twin | None, int]:
    """The twin of a low-precision map with this value, if there is one that computes the same function.

    And how often that was evaluated, be it one or not.

    Where the function draws random numbers, they are others in double precision, and values do not always tell: of a
    head whose weights are zero they are the same. Where both are traced, and one has the steps of the other, one value
    tells enough.
    """
    eps = max(low.inputs.space.coarsest_eps, low.outputs.space.coarsest_eps)
    if (low.inputs.is_wide and low.outputs.is_wide) or eps > WIDEST_FORMAT or made_of.draws:
        return None, 0
    wide = None
    try:
        wide = Map(make(True), low.inputs.widened(), low.outputs.widened(), low.point)
        here = wide.at(low.point)
        is_one = _is_same_here(low, value, here, eps) and (
            made_of.are_those_of(wide.transforms.ingredients(wide.inputs.build(low.point)), eps)
            or _is_same_beside(low, wide, value, here, eps)
        )
    except Exception:  # whatever it raises in another precision: it does not run there
        return None, 0 if wide is None else wide.evaluations
    return Twin(wide, here, eps) if is_one else None, wide.evaluations


def _is_same_here(low: Map, value: Vector, here: Vector, eps: float) -> bool:
    return all(same_function(here[block.slice], value[block.slice], eps) for block in low.outputs.space.blocks)


def _is_same_beside(low: Map, wide: Map, value: Vector, here: Vector, eps: float) -> bool:
    blocks = low.outputs.space.blocks
    moved, beside = _moved(low, max(REACH, REACH_IN_EPS * eps))
    there = wide.at(beside)
    fine, coarse = Change(here, there), Change(value, low.at(moved))
    if not all(same_change(fine.within(block), coarse.within(block), eps) for block in blocks):
        return False
    if not np.isfinite(there).all():
        there = wide.at(low.point * (1.0 - APART))
    return not any(is_coarse(there[block.slice], here[block.slice]) for block in blocks)


def _moved(low: Map, relative: float) -> tuple[Vector, Vector]:
    """The point, each coordinate moved by a part of it: to where the low precision has a number, and just beside."""
    moved, beside = np.empty_like(low.point), np.empty_like(low.point)
    for part in parts(len(moved)):
        here = np.abs(low.point[part], out=moved[part])
        here *= relative
        here += low.point[part]
        low.inputs.space.round_in_place(here, part)
        np.multiply(here, _BESIDE, out=beside[part])
    return moved, beside
