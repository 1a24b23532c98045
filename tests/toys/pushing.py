"""A backend with `evaluate` and `jvp` alone: dual numbers, complex if need be, whose rules are written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.problem import Problem
from gradproof.core.space import Block, Space
from gradproof.core.words import Words

WORDS = Words(forward="your push", tangent="the dual part", nonlinear="keep the push linear in {probe}")


@dataclass(frozen=True)
class Pushing:
    """`function(array)` is an array; `push(array, dual)` its derivative along `dual`."""

    function: Callable[[Any], Any]
    push: Callable[[Any, Any], Any]

    def problem(self, array: Any) -> Problem:
        value = self.function(array)
        source, target = space("input", array), space("output", value)
        return Problem(
            inputs=source,
            outputs=target,
            point=flat(array),
            value=flat(value),
            evaluate=lambda point: flat(self.function(shaped(point, array))),
            jvp=lambda tangent: flat(self.push(array, shaped(tangent, array))),
            words=WORDS,
        )


def space(kind: str, like: Any) -> Space:
    """A complex element has two coordinates."""
    parts = 2 if np.iscomplexobj(like) else 1
    return Space((Block(kind, 0, "", like.shape, parts, 0, np.finfo(like.dtype).eps),))


def flat(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.float64)


def shaped(coordinates: Any, like: Any) -> Any:
    return np.ascontiguousarray(coordinates).view(like.dtype).reshape(like.shape)
