"""Warnings of ours, which are never errors: what they say does not change the verdict."""

from __future__ import annotations

import warnings


def notify(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Warn. Where warnings are errors (`python -W error`) it is shown all the same: it is no error of the function."""
    try:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    except category:
        with warnings.catch_warnings(action="default", category=category):
            warnings.warn(message, category, stacklevel=stacklevel + 1)
