"""Sessions: one check of one call, while the user's tensors and random states are kept safe.

A session is made by one of the functions at the end, one for each way in, and used in a `with` statement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch

from gradproof.backends import as_arguments
from gradproof.backends.calls import Call
from gradproof.backends.coverage import left_out, select
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.closures import uncovered
from gradproof.backends.torch.comparison import comparing
from gradproof.backends.torch.derivative.availability import why_no_tangents
from gradproof.backends.torch.derivative.intended import intending
from gradproof.backends.torch.derivative.second import DerivativeCall, draw_cotangents, first_outputs
from gradproof.backends.torch.likes import holding
from gradproof.backends.torch.memory.sharing import moved_along, overlaps
from gradproof.backends.torch.modules import ModuleCall
from gradproof.backends.torch.problem import LEAST_PRODUCTS, Made, first_order, second_order
from gradproof.backends.torch.state.preserve import kept
from gradproof.backends.torch.validate import differentiable, validate_inputs, validate_outputs
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, Problem

FRAMEWORK = "torch"
Make = Callable[[Any], Made]
"""Makes the Problem of a call."""


class TorchSession:
    """One check of one call. Its Problems can be asked until the end of the `with` statement."""

    framework = FRAMEWORK

    def __init__(
        self,
        call: Call,
        tensors: Sequence[torch.Tensor],
        make: Make,
        *,
        masked: bool = False,
        notes: tuple[str, ...] = (),
    ) -> None:
        """`tensors` are those under test; `masked` is for the second order."""
        self._state, self._call, self._make, self._masked, self.notes = kept(tensors, call), call, make, masked, notes
        self._made: list[Made] = []
        self._learnt: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self._call = self._state.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for made in self._made:  # whatever user code wrote to them
                made.point.restore()
        finally:
            self._state.__exit__()

    @property
    def draws(self) -> bool:
        """Whether the function was seen to draw random numbers."""
        return self._call.draws

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is not differentiated, in words; it may be more after each question."""
        return (*self._left_out, *self._learnt, *self._around)

    @functools.cached_property
    def _left_out(self) -> tuple[str, ...]:
        return left_out(self._call)

    @functools.cached_property
    def _around(self) -> tuple[str, ...]:
        """What the function reads from around itself, and a gradient would reach."""
        if not self._made:
            return ()
        known = [value for value in self._call.flat if isinstance(value, torch.Tensor)]
        return uncovered(self._call.function, self._made[0].outputs.tensors, known)

    def problem(self) -> Problem:
        """The call as a Problem. Calls the function."""
        made = self._keep(self._make(self._call))
        self._learnt += tuple([f"output {i} (it has no graph)" for i in made.outputs.left_out])
        return made.problem

    def second(self) -> Problem:
        """The first derivative of the call as a Problem. Calls the function."""
        cotangents = draw_cotangents(first_outputs(self._call), noncontiguous=False, masked=self._masked)
        derivative = DerivativeCall(self._call, cotangents)
        return self._keep(second_order(derivative, masked=self._masked, named=True)).problem

    def _keep(self, made: Made) -> Made:
        self._made.append(made)
        return made

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """The modes that a Problem of this session supports."""
        if not investigation.problem.connected:
            return (Mode.REVERSE,)
        made = next(made for made in self._made if made.problem is investigation.problem)
        reason = why_no_tangents(investigation, made.forward)
        if reason:
            self._learnt += (f"forward mode ({reason})",)
        return (Mode.REVERSE,) if reason else (Mode.REVERSE, Mode.FORWARD)


class IntendingSession(TorchSession):
    """One check of a call whose derivative is meant to be that of another call, with the same arguments."""

    def __init__(
        self, call: Call, intended: Call, tensors: Sequence[torch.Tensor], *, masked: bool, notes: tuple[str, ...]
    ) -> None:
        super().__init__(call, tensors, self._first, masked=masked, notes=notes)
        self._other, self._intended = kept(tensors, intended), intended

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._intended = self._other.__enter__()
        except BaseException:
            super().__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._other.__exit__()
        finally:
            super().__exit__()

    def _first(self, call: Call) -> Made:
        made = first_order(call, masked=self._masked)
        return made._replace(problem=intending(made.problem, made.point, made.outputs, self._intended))


class ComparingSession:
    """One comparison of a kernel with a reference, on copies of their tensors."""

    framework = FRAMEWORK
    notes: tuple[str, ...] = ()

    def __init__(self, kernel: Call, reference: Call, tensors: Sequence[torch.Tensor], seed: int) -> None:
        self._states = kept(tensors, kernel), kept(tensors, reference)
        self._kernel, self._reference, self._seed = kernel, reference, seed

    def __enter__(self) -> Self:
        self._kernel = self._states[0].__enter__()
        try:
            self._reference = self._states[1].__enter__()
        except BaseException:
            self._states[0].__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._states[1].__exit__()
        finally:
            self._states[0].__exit__()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is not differentiated, in words."""
        return left_out(self._kernel)

    def problem(self) -> Problem:
        """The kernel as a Problem, with the reference as its capability. Calls both."""
        return comparing(self._kernel, self._reference, self._seed)

    def second(self) -> Problem:
        """Nothing: only first derivatives are compared."""
        raise NotImplementedError("a kernel and a reference are compared in their values and first derivatives")

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """Reverse mode."""
        return (Mode.REVERSE,)


def session(
    func: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    wrt: Sequence[str | int] | None,
    masked: bool,
    intended: Callable[..., Any] | None = None,
) -> TorchSession:
    """For `gradproof.check`. Of a module, the parameters are checked too; `wrt` selects among both."""
    call = (
        ModuleCall(func, arguments, keywords)
        if isinstance(func, torch.nn.Module)
        else call_of(func, arguments, keywords)
    )
    call, notes = _with_memory_of_their_own(call)
    if wrt is not None:
        call = select(call, wrt)
    tensors = validate_inputs(call, who="gradproof.check", forward=False, warn_precision=False)
    if intended is not None:
        other = call_of(intended, call.arguments, call.keywords)
        notes += ("the derivative was checked against the derivative of the intended function, not of the function",)
        return IntendingSession(call, other, tensors, masked=masked, notes=notes)
    return TorchSession(call, tensors, functools.partial(first_order, masked=masked), masked=masked, notes=notes)


def _with_memory_of_their_own(call: Call) -> tuple[Call, tuple[str, ...]]:
    """The call with copies of the inputs that another one would move along with, or that would move themselves."""
    tested = call.differentiable()
    overlapping = [i for i in tested if call.kind(i) == "input" and overlaps(call.flat[i])]
    notes = [f"{call.label(i)} has elements that share memory: a copy of it was checked" for i in overlapping]
    moved = [*moved_along(call.flat, [i for i in tested if i not in overlapping])]
    moved = [(i, other) for i, other in moved if call.kind(i) == "input" and i not in overlapping]
    notes += [f"{call.label(i)} shares memory with {call.label(k)}: a copy of it was passed" for i, k in moved]
    copied = {i: _separate(call.flat[i]) for i in (*overlapping, *(i for i, _ in moved))}
    return call.replacing(copied) if copied else call, tuple(notes)


def _separate(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in which no elements share memory."""
    return tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_(tensor.requires_grad)


def gradcheck_session(
    func: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    masked: bool = False,
    forward: bool = False,
    least_products: int = LEAST_PRODUCTS,
) -> TorchSession:
    """For `gradproof.torch.gradcheck`: outputs must be strided. `forward` says that forward mode will be asked for."""
    call = call_of(*holding(func, arguments))
    tensors = validate_inputs(call, who="gradcheck", forward=forward, warn_precision=True)
    make = functools.partial(first_order, masked=masked, least_products=least_products, dense_outputs=True)
    return TorchSession(call, tensors, make, masked=masked)


def gradgradcheck_session(
    func: Callable[..., Any],
    arguments: Sequence[Any],
    grad_outputs: Any = None,
    *,
    masked: bool = False,
    forward: bool = False,
    least_products: int = LEAST_PRODUCTS,
    noncontiguous: bool = False,
) -> TorchSession:
    """For `gradproof.torch.gradgradcheck`: its Problem is that of the first derivative.

    Where there are no `grad_outputs`, calls the function and draws some, `noncontiguous` if asked.
    """
    call = call_of(*holding(func, arguments))
    derivative = DerivativeCall(
        call, _drawn(call, noncontiguous) if grad_outputs is None else as_arguments(grad_outputs)
    )
    tensors = validate_inputs(derivative, who="gradcheck", forward=forward, warn_precision=True)
    make = functools.partial(second_order, masked=masked, least_products=least_products)
    return TorchSession(derivative, tensors, make, masked=masked)


def _drawn(call: Call, noncontiguous: bool) -> list[torch.Tensor]:
    with kept([tensor for _, tensor in differentiable(call)], call) as safe:
        outputs = first_outputs(safe)
        validate_outputs(outputs)
    return draw_cotangents(outputs, noncontiguous=noncontiguous)


def comparing_session(
    func: Callable[..., Any],
    reference: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    seed: int = 0,
) -> ComparingSession:
    """For `gradproof.torch.compare`. `seed` is that of the cotangent with which the reference is tried in float64."""
    kernel, other = (call_of(function, arguments, keywords) for function in (func, reference))
    tensors = validate_inputs(kernel, who="compare", forward=False, warn_precision=False)
    return ComparingSession(kernel, other, tensors, seed)
