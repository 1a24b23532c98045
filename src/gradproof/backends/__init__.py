"""Everything that imports a framework: user objects in, a Problem out.

A backend is looked for only among the frameworks that the user has imported already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

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


def as_arguments(inputs: Any) -> tuple[Any, ...]:
    """The arguments of a call: a tuple or list of them, or a lone one."""
    if isinstance(inputs, (tuple, list)):
        return tuple(cast(Sequence[Any], inputs))
    return (inputs,)


_BACKENDS = {"torch": "gradproof.backends.torch"}


def find_backend(func: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Backend:
    """The backend whose arrays are among the arguments, or whose function it is."""
    values = [func, *arguments, *keywords.values()]
    for framework, module in _BACKENDS.items():
        if framework in sys.modules:
            backend: Any = importlib.import_module(module)
            if backend.recognises(values):
                return backend
    kinds = ", ".join(sorted({type(value).__name__ for value in values[1:]})) or "no arguments"
    raise TypeError(
        f"gradproof.check found nothing to differentiate among its inputs ({kinds}): "
        "pass at least one torch.Tensor that requires a gradient"
    )
