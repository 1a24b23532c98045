"""What a search for a smaller call needs of a framework: a call whose arrays can be cut and given other values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

Axis = tuple[int, int]
"""The position of an array among the flat values of a call, and the number of one of its axes."""


class ArrayOf(NamedTuple):
    """One array of a call."""

    position: int
    origin: int
    """The number of the argument that it came with."""
    shape: tuple[int, ...]
    kind: Literal["real", "integer", "other"]
    """Numbers of other kinds (complex, boolean, sparse) keep their values."""
    tested: bool
    """Whether the call is differentiated with respect to it."""


class Shrinkable(Protocol):
    """A call that is never changed: each method gives another one."""

    @property
    def arguments(self) -> tuple[Any, ...]: ...

    @property
    def keywords(self) -> dict[str, Any]: ...

    @property
    def key(self) -> object:
        """Equal for calls with equal arguments, so that none is checked twice."""
        ...

    def arrays(self) -> list[ArrayOf]: ...

    def elements(self) -> int:
        """How many elements all arrays have."""
        ...

    def copies(self) -> Iterator[Shrinkable]:
        """The same call with arrays of its own, the simplest in memory and number format first."""
        ...

    def cut(self, kept: Mapping[Axis, Sequence[int]]) -> Shrinkable:
        """With only these indices along some axes."""
        ...

    def counting(self, old: int, new: int) -> Shrinkable | None:
        """With numbers that count along an axis of size `old` changed to one of size `new`; None: there are none."""
        ...

    def values(self, position: int) -> list[float]: ...

    def with_values(self, position: int, values: Sequence[float]) -> Shrinkable: ...

    def constant(self, position: int) -> Shrinkable:
        """Not differentiated with respect to this array."""
        ...

    def without(self, position: int) -> Iterator[Shrinkable]:
        """Without this array: left out, or None in its place."""
        ...


class Failure(NamedTuple):
    """What a finding says, as far as a test of it needs to know."""

    property: str
    headline: str
    second: bool
    """Whether it is about the second derivative."""
    forward: bool
    raised: str
    """The type of the exception, if it is one."""
    input: int | str | None
    input_name: str
    input_element: tuple[int, ...] | None
    output: int | None
    output_element: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Source:
    """Lines that define what `expression` names; `obstacle` says why they do not by themselves, empty if they do."""

    text: str
    expression: str
    obstacle: str = ""


class Written(NamedTuple):
    """The text of a test, and why it does not show the failure by itself; empty if it does."""

    text: str
    obstacle: str
