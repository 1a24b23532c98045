"""No warnings, for a moment."""

from __future__ import annotations

import sys
import warnings
from contextlib import AbstractContextManager
from typing import Any


class _Muted:
    """Other filters meanwhile, where `warnings.catch_warnings` has every module forget which warnings it has shown, so
    that the user sees those again. It keeps `warnings.showwarning` too, which nobody replaces in a backward."""

    def __enter__(self) -> None:
        self._filters: Any = warnings.filters
        warnings.filters = [("ignore", None, Warning, None, 0)]

    def __exit__(self, *_: object) -> None:
        warnings.filters = self._filters


def muted() -> AbstractContextManager[Any]:
    """Warnings inside are ignored; filters that are added there are dropped.

    >>> with muted():
    ...     warnings.warn("nobody hears this")
    """
    by_context = getattr(sys.flags, "context_aware_warnings", False)  # then the filters may be elsewhere
    return warnings.catch_warnings(action="ignore") if by_context else _Muted()
