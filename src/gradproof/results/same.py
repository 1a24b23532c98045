"""When two results are equal: where what their documents say is. So NaN is NaN, and an exception its type and text."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

_NAN = "nan"


class RecordedError(Exception):
    """An exception of user code that was read from a document: the name of its type, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


def told_of(error: Exception) -> tuple[str, str]:
    """The name of an exception's type, and its text."""
    if isinstance(error, RecordedError):
        return error.kind, error.text
    return type(error).__qualname__, str(error)


class Same:
    """A dataclass (with `eq=False`, so that it takes this) which is equal to what its document is read as."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and _fields(self) == _fields(other))

    def __hash__(self) -> int:
        return hash(_fields(self))


def _fields(value: Any) -> tuple[Any, ...]:
    return tuple(_comparable(getattr(value, field.name)) for field in dataclasses.fields(value) if field.compare)


def _comparable(value: Any) -> Any:
    """
    >>> _comparable((1.0, float("nan"), ValueError("no")))
    (1.0, ('nan',), ('ValueError', 'no'))
    """
    if isinstance(value, float):
        return (_NAN,) if math.isnan(value) else value  # no float is equal to a tuple
    if isinstance(value, tuple):
        return tuple(map(_comparable, cast(tuple[Any, ...], value)))
    return told_of(value) if isinstance(value, Exception) else value
