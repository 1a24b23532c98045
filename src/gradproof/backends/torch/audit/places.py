"""Where an operation is called: the path of the module, and the line of the user's source."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as _modules

_OURS = str(Path(__file__).parents[3])
_DEMO = str(Path(_OURS) / "demo" / "transformer.py")  # a user like any other
_TORCH = str(Path(torch.__file__).parent)


class ModulePaths:
    """Which module is being called, by its path in the model. Followed by global hooks, which are taken away again."""

    def __init__(self, roots: list[tuple[str, torch.nn.Module]]) -> None:
        self._names: dict[int, str] = {}
        for prefix, root in roots:
            for name, module in root.named_modules():
                path = ".".join(part for part in (prefix, name) if part)
                self._names.setdefault(id(module), path)
        self._stack: list[str] = []

    @property
    def current(self) -> str:
        """The path of the innermost module; nothing outside of all."""
        return self._stack[-1] if self._stack else ""

    @contextmanager
    def followed(self) -> Generator[None]:
        """While inside, `current` is known."""
        before = _modules.register_module_forward_pre_hook(self._enter)
        after = _modules.register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()
            self._stack.clear()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        name = self._names.get(id(module))
        if name is None:  # made during the call, or held where no module is looked for
            name = ".".join(part for part in (self.current, type(module).__name__) if part)
        self._stack.append(name)

    def _leave(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        if self._stack:
            self._stack.pop()


def source_line() -> str:
    """The innermost line of the user's code, as `file:line`; where there is none, that of torch's."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    of_torch = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_TORCH):
            of_torch = of_torch or _told(frame)
        elif is_of_a_user(file):
            return _told(frame)
        elif frame.f_code.co_name == RUN:  # below are whoever asked for the audit
            break
        frame = frame.f_back
    return of_torch


def is_of_a_user(file: str) -> bool:
    """Whether a file is neither torch's nor ours."""
    return file == _DEMO or not file.startswith((_OURS, _TORCH))


RUN = "run_the_model"
"""The name of the function that calls the model: no line above it is the model's."""


def _told(frame: FrameType) -> str:
    return f"{shortened(frame.f_code.co_filename)}:{frame.f_lineno}"


@functools.cache
def shortened(file: str) -> str:
    """A file below the working directory or an installed package without what comes before."""
    path = Path(file)
    for root in (Path.cwd(), *map(Path, sys.path)):
        if str(root) not in ("", ".") and path.is_relative_to(root):
            return str(path.relative_to(root))
    return file


def definition_of(function: Callable[..., Any] | type) -> str:
    """Where a Python function is defined, as `file:line`; nothing for others."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return "" if code is None else f"{shortened(code.co_filename)}:{code.co_firstlineno}"
