"""Sessions: one check of one NumPy function and its derivatives, while the user's arrays and random states are safe."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from gradproof.backends.numpy.complex_step import with_complex_step
from gradproof.backends.numpy.matrices import is_sparse
from gradproof.backends.numpy.problem import Given, make_problem
from gradproof.backends.numpy.setting import Setting
from gradproof.core.capabilities import AccusedBefore, Pairing
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, NothingToCheckError, Problem

FIRST, SECOND = ("grad", "jac", "vjp", "jvp"), ("hess", "hessp")
"""The words for derivatives of the first order, and of the second."""


class HandSession:
    """One check of one function with the derivatives that were given for it."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, Any], setting: Setting) -> None:
        self._function, self._given, self._setting = function, given, setting
        self._complex = True
        self._stepped: list[str] = []
        self._accused: Mapping[int, AccusedBefore] = {}

    framework = ""

    def __enter__(self) -> Self:
        if "scipy" in sys.modules and any(map(_is_of_scipy, self._given.values())):
            self.framework = "scipy"
        return self

    def __exit__(self, *_: object) -> None:
        self._setting.put_back()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is not differentiated, in words."""
        tested = " and ".join(like.block.label for like in self._setting.likes)
        constants = [
            f"{label} (constant: derivatives are with respect to {tested})" for label in self._setting.constants
        ]
        return (*constants, *self._setting.fixed)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the numerical side was computed, where that is not the ordinary way."""
        box = self._setting.box
        if box is None or not box.is_near(_scale(self._setting)):
            return tuple(self._stepped)
        note = "no evaluation left the bounds: what lies beyond them was extrapolated, from three evaluations each"
        return (*self._stepped, note)

    def problem(self) -> Problem:
        """The function as a Problem. Calls it."""
        given = _first(self._given)
        made = self._with_accused(make_problem(self._function, given, self._setting), 1)
        return self._numeric(made, self._function, "the function")

    def second(self) -> Problem:
        """The gradient as a Problem, with the Hessian as its derivative. Calls it."""
        gradient = self._gradient()
        hess, hessp = self._given.get("hess"), self._given.get("hessp")
        given = Given(None if hess is None else ("hess", hess), None if hessp is None else ("hessp", hessp))
        made = make_problem(gradient, given, self._setting)
        (block,) = made.outputs.blocks
        named = dataclasses.replace(block, name="gradient")
        paired = dataclasses.replace(
            made,
            outputs=dataclasses.replace(made.outputs, blocks=(named,)),
            capabilities={**made.capabilities, Pairing: Pairing(np.arange(made.inputs.size))},
        )
        if made.outputs.size != made.inputs.size:  # some elements cannot move
            paired = made
        return self._numeric(self._with_accused(paired, 2), gradient, "the gradient")

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """Those that a derivative was given for."""
        return investigation.problem.modes

    def reconsider(self, accused: Mapping[int, AccusedBefore]) -> bool:
        """Nothing is called wrong by a complex step: whether there is reason to look again with differences."""
        again, self._complex, self._stepped = bool(self._stepped), False, []
        self._accused = accused
        return again

    def _with_accused(self, problem: Problem, order: int) -> Problem:
        if order not in self._accused:
            return problem
        return dataclasses.replace(problem, capabilities={**problem.capabilities, AccusedBefore: self._accused[order]})

    def _numeric(self, problem: Problem, function: Callable[..., Any], what: str) -> Problem:
        """With the complex step as the numerical side, where that can be relied on."""
        if not self._complex or not self._setting.is_real or any(block.parts == 2 for block in problem.outputs.blocks):
            return problem
        agreed = with_complex_step(problem, function, self._setting)
        if agreed is None:
            return problem
        self._stepped.append(
            f"numerical derivatives of {what} are complex steps: it accepts complex numbers, and along a random "
            f"direction they agree with a difference quotient to {agreed.relative:.1g} of the largest value"
        )
        return agreed.problem

    def _gradient(self) -> Callable[..., Any]:
        """The gradient as a function of the arguments."""
        shape = self._setting.likes[0].array.shape
        name, function = _reverse(self._given)

        def gradient(x: Any, *further: Any, **keywords: Any) -> Any:
            if name == "vjp":
                return function(x, np.float64(1.0), *further, **keywords)
            value: Any = function(x, *further, **keywords) if callable(function) else function  # a constant matrix
            return np.reshape(value.toarray() if is_sparse(value) else value, shape)

        return gradient


def session(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    wrt: Sequence[str | int] | None,
    bounds: Any = None,
) -> HandSession:
    """The session of a function with its derivatives by name; refuses what cannot be checked."""
    _require_consistent(given)
    setting = Setting(function, arguments, keywords, wrt, bounds)
    if len(setting.tested) > 1 and set(given) & set(SECOND):
        raise ValueError("hess= and hessp= are with respect to one input: choose it with wrt=")
    if set(given) & set(SECOND) and any(like.block.parts == 2 for like in setting.likes):
        raise ValueError("hess= and hessp= are of functions of real numbers")
    if not setting.space.size:
        raise NothingToCheckError("there is nothing to check: the inputs have no elements")
    return HandSession(function, given, setting)


def _require_consistent(given: Mapping[str, Any]) -> None:
    rivals = [name for name in ("grad", "jac") if name in given]
    if len(rivals) == 2:
        raise ValueError("grad= and jac= are the same thing of a function with one value: give one of them")
    if "grad" in given and "vjp" in given:
        raise ValueError("grad= and vjp= are both derivatives in reverse mode: give one of them")
    if {"jac", "vjp", "jvp"} <= set(given):
        raise ValueError("jac=, vjp= and jvp= are three derivatives for two modes: leave one of them out")
    if set(given) & set(SECOND) and not set(given) & {"grad", "jac", "vjp"}:
        raise ValueError(
            "hess= and hessp= are checked as the derivative of the gradient: give grad= too, or check the gradient by "
            "itself, with jac= in place of hess="
        )
    for name in ("grad", "vjp", "jvp", "hessp"):
        if name in given and not callable(given[name]):
            raise TypeError(f"{name}= must be a function, got {type(given[name]).__name__}")


def _reverse(given: Mapping[str, Any]) -> tuple[str, Any]:
    return next((name, given[name]) for name in ("vjp", "grad", "jac") if name in given)


def _first(given: Mapping[str, Any]) -> Given:
    """What serves reverse mode, and forward mode: a matrix serves the one that nothing else does."""
    reverse = _reverse(given) if set(given) & {"vjp", "grad", "jac"} else None
    forward = next(((name, given[name]) for name in ("jvp", "jac") if name in given), None)
    if forward is not None and reverse is not None and forward[0] == reverse[0]:
        forward = None
    return Given(reverse, forward)


def _is_of_scipy(value: Any) -> bool:
    return type(value).__module__.startswith("scipy.")


def _scale(setting: Setting) -> Any:
    scale = setting.space.typical(setting.point)
    return np.where(scale == 0, 1.0, scale)
