"""Sessions: one check of one call of JAX, used in a `with` statement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np

from gradproof.backends.coverage import left_out, select
from gradproof.backends.jax.availability import why_unavailable
from gradproof.backends.jax.calls import JITTED, JaxCall
from gradproof.backends.jax.problem import Derivative, Made, first_order, second_order
from gradproof.backends.jax.rereading import Reading, below_jit
from gradproof.backends.random_states import HostGenerators
from gradproof.core.capabilities import Batching, Elsewhere, Original, Twin
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, NothingToCheckError, Problem

FRAMEWORK = "jax"
_INTENDED = "the derivative was checked against the derivative of the intended function, not of the function"


_CHANGED = (
    "`{name}`, which the function refers to, is another one than at its first check: it was checked as it is now; "
    "unless jax.clear_caches() was called since, what jax.jit keeps of the older one is used elsewhere"
)


class _Rewind:
    """Undoes, after each call, what it drew from the generators of Python and NumPy: the next draws the same."""

    def __init__(self, generators: HostGenerators) -> None:
        self._generators = generators
        self.draws = False

    def put_back(self) -> None:
        self.draws |= bool(list(self._generators.drawn_from()))
        self._generators.rewind()


class JaxSession:
    """One check of one call. JAX's arrays are immutable: what is kept safe are the generators of Python and NumPy."""

    framework = FRAMEWORK

    def __init__(self, call: JaxCall, *, derivative: Derivative | None = None, intended: JaxCall | None = None) -> None:
        self._call, self._derivative, self._intended = call, derivative, intended
        self._made: list[Made] = []
        self._learnt: tuple[str, ...] = ()
        self._reading: Reading | None = None
        """What the function refers to, if the user has compiled it."""

    def __enter__(self) -> Self:
        if isinstance(self._call.function, JITTED):
            self._reading = Reading(self._call.function)
            if self._reading.changed:
                self._call = self._call.calling(below_jit(self._call.function))
        self._generators = HostGenerators()
        keeper = _Rewind(self._generators)
        self._call = self._call.kept_by(keeper)
        self._intended = None if self._intended is None else self._intended.kept_by(keeper)
        self._transfers = jax.transfer_guard("allow")  # coordinates come from the host, whatever the user forbids
        self._transfers.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._generators.rewind()
        self._transfers.__exit__(*exception)
        if self._reading is not None:
            self._reading.close()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is not differentiated, in words; it may be more after each question."""
        return (*left_out(self._call), *self._learnt)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the call was checked."""
        told = [note for made in self._made for note in made.map.transforms.notes]
        narrowed = [i for i in self._call.differentiable() if self._is_narrowed(i)]
        told += [f"{self._call.label(i)} is float64, which JAX takes as float32: see jax_enable_x64" for i in narrowed]
        told += [_CHANGED.format(name=name) for name in (self._reading.changed if self._reading else ())]
        if self._intended is not None:
            told.append(_INTENDED)
        return tuple(dict.fromkeys(told))

    @property
    def dtypes(self) -> tuple[Any, ...]:
        """Those of the inputs under test and of the outputs, once there is a Problem."""
        rows = [row for made in self._made[:1] for row in (made.map.inputs, made.map.outputs)]
        return tuple(model.dtype for row in rows for model in row.models)

    def _is_narrowed(self, position: int) -> bool:
        value = self._call.flat[position]
        models = self._made[0].map.inputs.models if self._made else ()
        if not isinstance(value, np.ndarray | np.generic) or not models:
            return False
        return bool(models[self._call.differentiable().index(position)].dtype != value.dtype)

    def problem(self) -> Problem:
        """The call as a Problem. Calls the function."""
        made = first_order(self._call, self._derivative)
        self._made.append(made)
        self._learnt += tuple(made.outputs.left_out)
        if self._intended is None:
            return made.problem
        made = made._replace(problem=_intending(made, self._intended))
        self._made[-1] = made
        return made.problem

    def second(self) -> Problem:
        """The first derivative of the call as a Problem. Calls the function."""
        made = second_order(self._call, self._made[0])
        self._made.append(made)
        return made.problem

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """The modes that JAX has for the function. Where it has none, reverse mode is asked, and says why not."""
        reasons = {mode: why_unavailable(investigation, mode) for mode in Mode}
        found = tuple(mode for mode, reason in reasons.items() if not reason)
        self._learnt += tuple(f"{mode} ({reason})" for mode, reason in reasons.items() if reason and found)
        return found or (Mode.REVERSE,)


def _intending(made: Made, intended: JaxCall) -> Problem:
    """The Problem with the values of the intended function. Calls that function.

    Neither a twin of the function itself nor its derivative elsewhere is offered: they belong to its own values.
    """
    try:
        other = first_order(intended)
    except Exception as error:
        raise RuntimeError(
            f"the intended function, not the function, raised {type(error).__name__}: {error}"
        ) from error
    if [model[:2] for model in other.map.outputs.models] != [model[:2] for model in made.map.outputs.models]:
        raise NothingToCheckError(
            "the function and the intended function must have the same outputs: "
            f"{_forms(made)} and {_forms(other)} are not"
        )
    problem = made.problem
    capabilities = {kind: value for kind, value in problem.capabilities.items() if kind not in (Twin, Elsewhere)}
    capabilities[Original] = Original(problem.value, problem.evaluate)
    evaluate = other.problem.capabilities[Batching].evaluate
    capabilities[Batching] = problem.capabilities[Batching]._replace(evaluate=evaluate)
    return dataclasses.replace(
        problem,
        value=other.problem.value,
        evaluate=other.problem.evaluate,
        evaluates_in=other.problem.evaluates_in,
        evaluations=problem.evaluations + other.problem.evaluations,
        capabilities=capabilities,
    )


def _forms(made: Made) -> str:
    return ", ".join(f"{model.dtype}{list(model.shape)}" for model in made.map.outputs.models) or "none"


def session(
    func: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    wrt: Sequence[str | int] | None,
    masked: bool,
    intended: Callable[..., Any] | None = None,
) -> JaxSession:
    """For `gradproof.check`. Of a module that is a pytree, the parameters are checked too; `wrt` selects among both."""
    if masked:
        raise ValueError("masked is for sparse tensors of PyTorch: a sparse array of JAX is a pytree of its values")
    call = JaxCall(func, arguments, keywords)
    if not call.differentiable():
        raise NothingToCheckError(
            "there is nothing to check: no array of floating-point or complex numbers is among the inputs"
        )
    if wrt is not None:
        call = select(call, wrt)
    other = None
    if intended is not None:
        other = JaxCall(intended, arguments, keywords)
        other = other.choosing(frozenset(call.differentiable()))
    return JaxSession(call, intended=other)
