"""The filters of warnings, which are the user's."""

from __future__ import annotations

import itertools
import sys
import warnings
from typing import Any, cast


class kept_filters:  # noqa: N801 (used as a function, in a with statement)
    """Drop the filters that a library adds for warnings of its own as it is loaded meanwhile, as SymPy does for torch.

    >>> before = list(warnings.filters)
    >>> with kept_filters():
    ...     pass
    >>> list(warnings.filters) == before
    True
    """

    def __enter__(self) -> None:
        self._before, self._loaded = list(warnings.filters), len(sys.modules)

    def __exit__(self, *_: object) -> None:
        if len(sys.modules) > self._loaded:
            new = set(itertools.islice(sys.modules, self._loaded, None))
            _drop(cast("list[Any]", warnings.filters), self._before, new)


def _drop(filters: list[Any], before: list[Any], new: set[str]) -> None:
    """Take out what was not there before, if its category is of a module that is new."""
    added = [each for each in filters if each not in before and each[2].__module__ in new]
    if added:
        filters[:] = [each for each in filters if each not in added]
        with warnings.catch_warnings():  # which has warnings look at the filters anew
            pass
