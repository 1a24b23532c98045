"""What things are called in a report: functions, and the versions of packages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def name_of(func: Callable[..., Any]) -> str:
    """What a reader would call a function.

    >>> name_of(functools.partial(divmod, 3))
    'divmod'
    """
    while isinstance(func, functools.partial):
        func = func.func
    # an operator of torch.library is called by what it was registered as
    name = str(getattr(func, "__name__", "") or getattr(func, "_qualname", "") or type(func).__qualname__)
    owner = getattr(func, "__self__", None)
    return f"{owner.__qualname__}.{name}" if isinstance(owner, type) and not owner.__name__.startswith("_") else name


@functools.cache
def version_of(package: str) -> str:
    from importlib.metadata import version  # takes a tenth of the time that importing gradproof may take

    return version(package)
