"""Whether a derivative calls the user's code: hooks leave no trace in a graph, and show when they are called."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

import torch
import torch.utils.checkpoint

from gradproof.backends.torch import private

# Where the engine is called from. What Python code is called from there directly, the engine calls.
_ENGINES = (private.__file__, torch.autograd.graph.__file__)
# The engine itself, where something stands in for it that counts what is asked.
_ENGINE = "run_backward"
# Where code lies that is not the user's: ours, PyTorch's, and Python's, which may have packages of others inside. But
# PyTorch's checkpoints call the user's function.
_OWN = (__file__.rpartition("backends")[0], os.path.join(os.path.dirname(torch.__file__), ""), "<frozen ")
_PYTHON, _PACKAGES = os.path.join(sysconfig.get_path("stdlib"), ""), ("site-packages", "dist-packages")
_CHECKPOINTS = torch.utils.checkpoint.__file__


class UsersCode:
    """Notes whether the engine calls any function of the user's in this thread, as long as it is entered.

    Another tracer, of a debugger or of coverage, rests meanwhile. Of what PyTorch calls from threads of its own, as for
    a GPU, nothing is seen; nor of functions that were not written in Python.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x.sin()
    >>> _ = y.register_hook(lambda gradient: 2 * gradient)
    >>> with UsersCode() as called:
    ...     y.sum().backward()
    >>> called.seen
    True
    """

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> UsersCode:
        self._before = sys.gettrace()
        sys.settrace(self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self._before)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if caller is None or frame.f_code.co_name == _ENGINE:
            return
        if caller.f_code.co_filename in _ENGINES:
            self.seen = self.seen or _is_users(frame.f_code.co_filename)


def _is_users(path: str) -> bool:
    if path.startswith(_PYTHON) and not any(name in path for name in _PACKAGES):
        return False
    return path == _CHECKPOINTS or not path.startswith(_OWN)
