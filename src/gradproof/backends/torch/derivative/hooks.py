"""Whether a derivative calls the user's code: hooks leave no trace in a graph, and show when they are called."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

import torch

# Where code lies that is not the user's: ours, PyTorch's, and Python's, which may have packages of others inside.
_OWN = (__file__.rpartition("backends")[0], os.path.join(os.path.dirname(torch.__file__), ""), "<frozen ")
_PYTHON, _PACKAGES = os.path.join(sysconfig.get_path("stdlib"), ""), ("site-packages", "dist-packages")


class UsersCode:
    """Notes whether any function of the user's is called in this thread, as long as it is entered.

    Another tracer, of a debugger or of coverage, rests meanwhile. Of what PyTorch calls from threads of its own, as for
    a GPU, nothing is seen; nor of functions that were not written in Python.

    >>> with UsersCode() as called:
    ...     _ = (lambda: 1)()
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
        self.seen = self.seen or _is_users(frame.f_code.co_filename)


def _is_users(path: str) -> bool:
    if path.startswith(_PYTHON):
        return any(name in path for name in _PACKAGES) and not path.startswith(_OWN)
    return not path.startswith(_OWN)
