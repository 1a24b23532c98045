"""A NumPy function and what claims to be its derivative, as a Problem."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gradproof.backends.numpy.arrays import Array, Like, as_numbers, shape_words
from gradproof.backends.numpy.bounds import EXTRAPOLATED
from gradproof.backends.numpy.claims import MatrixClaim, PullClaim, Pulls, PushClaim, Pushes
from gradproof.backends.numpy.setting import Setting
from gradproof.backends.numpy.words import words_of
from gradproof.core.capabilities import Batching, Domain, MemoryLayout, MemoryWatch, Pattern, Watched
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import NothingToCheckError, OutputChangedError, Problem
from gradproof.core.space import Space
from gradproof.core.types import Vector

T = TypeVar("T")

# From how many cotangents on one matrix serves all of them.
_LEAST = 2


@dataclass(frozen=True, slots=True)
class Given:
    """The derivatives that were given for one function, by the words for them."""

    reverse: tuple[str, Any] | None = None
    """"grad", "jac", "vjp" or "hess", and the function (or matrix) itself."""
    forward: tuple[str, Any] | None = None
    """"jvp", "hessp" or "jac"."""


def make_problem(function: Callable[..., Any], given: Given, setting: Setting) -> Problem:
    """The Problem of a function with its derivatives. Calls the function, and matrices once, to see their kind."""
    written: list[str] = []
    value = setting.call(function, setting.point, overwritten=written)
    outputs = Like.of(_copied(value), "output", 0, "", 0)
    reverse, forward = _claims(given, setting, outputs)
    evaluation = _Evaluation(function, setting, outputs)
    scalar = outputs.array.size == 1
    problem = Problem(
        inputs=setting.space,
        outputs=Space((outputs.block,)),
        point=setting.point,
        value=outputs.read(outputs.array),
        evaluate=evaluation.at,
        vjp=None if reverse is None else lambda v: reverse.pull(v[None, :])[0],
        jvp=None if forward is None else forward.push,
        words=words_of("" if reverse is None else reverse.name, "" if forward is None else forward.name, scalar=scalar),
        capabilities=_capabilities(reverse, written),
    )
    return _bounded(_wide(problem, evaluation), setting)


def _copied(value: Any) -> Array:
    return as_numbers(value, "what the function returns").copy()


def _bounded(problem: Problem, setting: Setting) -> Problem:
    """With evaluations inside the bounds only."""
    if setting.box is None:
        return problem
    near = setting.box.is_near(problem.scale())
    return dataclasses.replace(
        problem,
        evaluate=setting.box.guarding(problem.evaluate),
        round_off=EXTRAPOLATED if near else 1.0,
        capabilities={**problem.capabilities, Domain: Domain(setting.box.holds, setting.box.turned)},
    )


def _wide(problem: Problem, evaluation: _Evaluation) -> Problem:
    """In low precision: with evaluations in double precision, where the function gives the same there."""
    if problem.coarsest_eps <= DOUBLE:
        return problem
    wide = evaluation.wide()
    try:
        value = wide.at(problem.point)
    except Exception:
        return problem
    size = np.abs(problem.value).max(initial=0.0)
    if not np.allclose(value, problem.value, rtol=problem.coarsest_eps**0.5, atol=problem.coarsest_eps**0.5 * size):
        return problem
    return dataclasses.replace(problem, value=value, evaluate=wide.at, evaluates_in=DOUBLE, evaluations=2)


class _Evaluation:
    """F at a point, in the dtype of the inputs or in double precision."""

    def __init__(self, function: Callable[..., Any], setting: Setting, outputs: Like, *, wide: bool = False) -> None:
        self._function, self._setting, self._outputs, self._wide = function, setting, outputs, wide

    def at(self, point: Vector) -> Vector:
        dtype = None
        if self._wide:
            dtype = np.complex128 if any(like.block.parts == 2 for like in self._setting.likes) else np.float64
        value = as_numbers(self._setting.call(self._function, point, dtype=dtype), "what the function returns")
        expected = self._outputs.array
        if value.shape != expected.shape:
            raise OutputChangedError(
                f"the function returned {shape_words(value.shape)}, "
                f"but {shape_words(expected.shape)} at the point itself"
            )
        if value.dtype.kind == "c" and expected.dtype.kind != "c":
            raise ValueError("the function returned complex numbers, but real ones at the point itself")
        if self._wide and value.dtype.itemsize < np.dtype(np.float64).itemsize:
            raise TypeError("the function computes in low precision whatever it is given")
        return self._outputs.read(value)

    def wide(self) -> _Evaluation:
        return _Evaluation(self._function, self._setting, self._outputs, wide=True)


def _claims(given: Given, setting: Setting, outputs: Like) -> tuple[Pulls | None, Pushes | None]:
    """What was given, in the modes that it serves. A linear operator has both products."""
    reverse: Pulls | None = None
    forward: Pushes | None = None
    if given.reverse is not None:
        name, function = given.reverse
        if name == "grad" and outputs.array.size != 1:
            raise NothingToCheckError(
                "there is nothing to check: grad is the gradient of a function with one value, but the function "
                f"returned {shape_words(outputs.array.shape)}: give jac=, vjp= or jvp="
            )
        reverse = _pulling(name, function, setting, outputs)
    if given.forward is not None:
        name, function = given.forward
        kind = PushClaim if name in ("jvp", "hessp") else MatrixClaim
        forward = kind(name, function, setting, outputs)
    if isinstance(reverse, MatrixClaim):
        operators = _seen(reverse.operators)
        if operators:
            forward = forward or reverse
            reverse = reverse if all(operator.can_pull() for operator in operators) else None
    return reverse, forward


def _pulling(name: str, function: Any, setting: Setting, outputs: Like) -> Pulls:
    return (PullClaim if name == "vjp" else MatrixClaim)(name, function, setting, outputs)


def _seen(look: Callable[[], T]) -> T | None:
    """What is seen of a matrix; None if it raises: that is reported where its values are asked for."""
    try:
        return look()
    except Exception:
        return None


def _capabilities(reverse: Pulls | None, written: list[str]) -> Mapping[type, Any]:
    offered: dict[type, Any] = {MemoryWatch: MemoryWatch(_watching(reverse), tuple(written))}
    if isinstance(reverse, MatrixClaim):
        offered[Batching] = Batching(None, reverse.pull, None, sys.maxsize, _LEAST)
        stores = _seen(reverse.stores)
        if stores is not None:
            offered[Pattern] = Pattern(reverse.name, stores)
    return offered


def _watching(reverse: Pulls | None) -> Callable[[Vector, MemoryLayout], Watched]:
    """The vjp, with the arrays that are passed to the derivative watched."""

    def watched(cotangent: Vector, _: MemoryLayout) -> Watched:
        assert reverse is not None, "there is a derivative in reverse mode"
        overwritten: list[str] = []
        return Watched(reverse.pull(cotangent[None, :], overwritten)[0], tuple(overwritten))

    return watched
