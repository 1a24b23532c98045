"""The filters of warnings, which are the user's."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast


@contextmanager
def kept_filters() -> Generator[None]:
    """Drop the filters that a library adds for warnings of its own as it is loaded meanwhile, as SymPy does for torch.

    >>> before = list(warnings.filters)
    >>> with kept_filters():
    ...     pass
    >>> list(warnings.filters) == before
    True
    """
    before, loaded = list(warnings.filters), len(sys.modules)
    try:
        yield
    finally:
        filters = cast("list[Any]", warnings.filters)
        if filters != before:
            _drop(filters, before, new=set(itertools.islice(sys.modules, loaded, None)))


def _drop(filters: list[Any], before: list[Any], new: set[str]) -> None:
    """Take out what was not there before, if its category is of a module that is new."""
    added = [each for each in filters if each not in before and each[2].__module__ in new]
    if added:
        filters[:] = [each for each in filters if each not in added]
        with warnings.catch_warnings():  # which has warnings look at the filters anew
            pass
