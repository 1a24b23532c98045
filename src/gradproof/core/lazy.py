"""An attribute that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 (used as a decorator)
    """`functools.cached_property` without the lock that it takes before Python 3.12, which a small check notices.

    >>> class Circle:
    ...     radius = 2.0
    ...
    ...     @lazy
    ...     def area(self) -> float:
    ...         return 3.14 * self.radius**2
    >>> Circle().area
    12.56
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[T]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> T | lazy[T]:
        if owner is None:
            return self
        value = vars(owner)[self._name] = self._compute(owner)
        return value
