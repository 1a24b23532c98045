"""What a Python function reads from around itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def referred(function: Any) -> Iterator[tuple[str, Any]]:
    """The values of a function's closure and of the globals that its code names, with their names."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from ((name, function.__globals__.get(name)) for name in code.co_names)
