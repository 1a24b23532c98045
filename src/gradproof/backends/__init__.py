"""Everything that imports a framework: user objects in, a Problem out.

A backend is looked for only among the frameworks that the user has imported already.
"""

from __future__ import annotations

import importlib
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from gradproof.backends.shrinkable import Failure, Shrinkable, Source, Written
from gradproof.core.capabilities import AccusedBefore, MemoryLayout
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, Problem


class Session(Protocol):
    """One check of one call, while the user's state is kept safe."""

    @property
    def framework(self) -> str:
        """The name of the framework, which is that of its package too."""
        ...

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What is not differentiated, in words; more may be known after each question."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of how the call was checked."""
        ...

    def problem(self) -> Problem:
        """The call as a Problem. Calls the function."""
        ...

    def second(self) -> Problem:
        """The first derivative of the call as a Problem. Calls the function."""
        ...

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        """The modes that a Problem of this session supports. May ask for its shared jvp to find out."""
        ...


@runtime_checkable
class Reconsiders(Protocol):
    """A session that has a second way to look at a call, where the first does not lead to a pass."""

    def reconsider(self, accused: Mapping[int, AccusedBefore]) -> bool:
        """Take the other way from now on, with what the first accuses, by order; whether there is one."""
        ...


class Variation(NamedTuple):
    """How a call differs from the one that was given: what its inputs are made of, and which need a gradient."""

    dtype: Any = None
    """None: as they are."""
    layout: MemoryLayout = MemoryLayout.CONTIGUOUS
    gradients: tuple[int, ...] | None = None
    """The numbers of those among the inputs under test; None: all."""


class Varied(NamedTuple):
    """Arguments in some variation, how many numbers they have, and what makes a function one of these arguments."""

    arguments: tuple[Any, ...]
    elements: int
    adapted: Callable[[Callable[..., Any]], Callable[..., Any]]


class Backend(Protocol):
    """What a backend's module offers."""

    framework: str

    def recognises(self, values: Sequence[Any]) -> bool:
        """Whether any of these values is this framework's."""
        ...

    def session(
        self,
        func: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        wrt: Sequence[str | int] | None,
        masked: bool,
        intended: Callable[..., Any] | None = None,
    ) -> AbstractContextManager[Session]:
        """Refuse what cannot be checked, then keep the user's state safe until the end.

        `masked`: of sparse arrays only the specified elements count. `intended` is the function whose values the
        Problem has, where the derivative is meant to be that one's.
        """
        ...

    def random_state(self) -> Any:
        """The state of the framework's global generator, to be sent; not there if it has none."""
        ...

    def set_random_state(self, state: Any) -> None:
        """Put the generator into such a state."""
        ...

    def threads(self) -> int:
        """How many threads share one operation; not there if nobody can say."""
        ...

    def set_threads(self, count: int) -> None:
        """Let so many threads share one operation."""
        ...

    def dtype_of(self, name: str) -> Any:
        """The dtype of this name; None: there is none."""
        ...

    def tested_labels(self, func: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
        """The inputs that a sweep differentiates with respect to, as reports call them."""
        ...

    def memory_layouts(self, arguments: Sequence[Any]) -> frozenset[MemoryLayout]:
        """The memory layouts, beside the contiguous one, that make a difference for some input."""
        ...

    def vary(self, func: Callable[..., Any], arguments: Sequence[Any], variation: Variation) -> Varied:
        """The call in a variation."""
        ...

    namespaces: tuple[str, ...]
    """Modules in which a function that does not know its own may be."""

    def shrinkable(self, func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Shrinkable:
        """The call, to be made smaller."""
        ...

    def write_test(self, call: Any, failure: Failure, source: Source, subject: str) -> Written:
        """A test file that shows a failure of a call that `shrinkable` gave, with the framework alone."""
        ...


def as_arguments(inputs: Any) -> tuple[Any, ...]:
    """The arguments of a call: a tuple or list of them, or a lone one."""
    if isinstance(inputs, (tuple, list)):
        return tuple(cast(Sequence[Any], inputs))
    return (inputs,)


_BACKENDS = {"torch": "gradproof.backends.torch", "jax": "gradproof.backends.jax"}


def dtypes_of_frameworks(dtypes: Sequence[Any]) -> Iterator[list[Any]]:
    """Dtypes with names looked up in each framework that is imported already and knows all of them."""
    if not any(isinstance(dtype, str) for dtype in dtypes):
        yield list(dtypes)
        return
    unknown = ""
    for backend in _imported():
        found = [backend.dtype_of(dtype) if isinstance(dtype, str) else dtype for dtype in dtypes]
        if all(each is not None for each in found):
            unknown = "none"
            yield found
        elif not unknown:
            unknown = next(str(dtype) for dtype, each in zip(dtypes, found, strict=True) if each is None)
    if unknown != "none":
        raise ValueError(f"unknown dtype {unknown!r}: give one of your framework's, or its name")


def _imported() -> Iterator[Backend]:
    """The backends whose framework is imported already."""
    for framework, module in _BACKENDS.items():
        if sys.modules.get(framework) is not None:
            backend: Any = importlib.import_module(module)
            yield backend


at_work = threading.local()
"""`at_work.here` is set in a thread that works for a check elsewhere: it does not wait for its turn."""


def _generator_states() -> dict[str, Any]:
    """The states of Python's and NumPy's generators, and those of the frameworks that have one, as plain values."""
    found = {backend.framework: backend.random_state() for backend in _imported() if hasattr(backend, "random_state")}
    return {"python": random.getstate(), "numpy": np.random.get_state(), **found}


def _set_generator_states(states: Mapping[str, Any]) -> None:
    """Put generators into states that `_generator_states` gave, here or in another process."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    for backend in _imported():
        if backend.framework in states:
            backend.set_random_state(states[backend.framework])


def surroundings() -> dict[str, Any]:
    """What a computation depends on besides its arguments, as plain values: random states, and numbers of threads.

    A sum that more threads share is added up in another order.
    """
    threads = {backend.framework: backend.threads() for backend in _imported() if hasattr(backend, "threads")}
    return {"random": _generator_states(), "threads": threads}


def surround(values: Mapping[str, Any]) -> None:
    """Put a process into surroundings that `surroundings` gave, here or in another process."""
    _set_generator_states(values["random"])
    for backend in _imported():
        if backend.framework in values["threads"]:
            backend.set_threads(values["threads"][backend.framework])


def find_backend(func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Backend:
    """The backend whose arrays are among the arguments, or whose function it is."""
    values = [func, *arguments, *keywords.values()]
    for backend in _imported():
        if backend.recognises(values):
            return backend
    kinds = ", ".join(sorted({type(value).__name__ for value in values[1:]})) or "no arguments"
    raise TypeError(
        f"gradproof.check found nothing to differentiate among its inputs ({kinds}): "
        "pass at least one torch.Tensor that requires a gradient, or an array of JAX, or with a function of NumPy "
        "arrays its derivative: grad=, jac=, vjp= or jvp="
    )


def known() -> tuple[str, ...]:
    """The frameworks that have a backend which is found by their arrays."""
    return tuple(_BACKENDS)


def by_hand(
    func: Callable[..., Any],
    inputs: Any,
    keywords: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    wrt: Sequence[str | int] | None,
    bounds: Any,
) -> AbstractContextManager[Session]:
    """The session of a NumPy function, whose derivatives are `given` as functions of their own. A list is one array."""
    arguments = (cast(Any, inputs),) if isinstance(inputs, list) else as_arguments(inputs)
    module: Any = importlib.import_module("gradproof.backends.numpy")
    return module.session(func, arguments, keywords, given, wrt=wrt, bounds=bounds)
