"""Lines folded to a width: at spaces where there are any, with the indent of what they continue."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Narrower than this, folding would leave nothing to read.
_NARROWEST = 30


class Span(NamedTuple):
    """A piece of a line, and what it is: a key of `gradproof.render.terminal.STYLES`, or nothing special."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def width(text: str) -> int:
    """The columns that a text takes on a terminal.

    >>> width("a重b")
    4
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def folded(line: Line, columns: int | None, indent: int) -> Iterator[Line]:
    """A line in as many as it takes, each at most `columns` wide; the further ones begin with an indent.

    >>> [span.text for line in folded((Span("cost: "), Span("eight evaluations, two vjps")), 30, 2) for span in line]
    ['cost: ', 'eight evaluations, two', '  ', 'vjps']
    """
    if columns is None or sum(width(span.text) for span in line) <= columns:
        yield line
        return
    columns = max(columns, _NARROWEST)
    current: list[Span] = []
    used = 0
    for span in line:
        rest = span.text
        while used + width(rest.rstrip()) > columns:
            head, rest = _cut(rest, columns - used, whole=used > indent)
            if head:
                current.append(Span(head.rstrip(), span.style))
            yield tuple(current)
            current, used = [Span(" " * indent)], indent
        if rest:
            current.append(Span(rest, span.style))
            used += width(rest)
    yield tuple(current)


def _cut(text: str, room: int, *, whole: bool) -> tuple[str, str]:
    """As much of a text as fits, up to a space; a longer word is cut, unless a whole line is still to come."""
    fits = 0
    used = 0
    for fits, character in enumerate(text):  # noqa: B007 (where it stops is what is asked for)
        used += width(character)
        if used > room:
            break
    at = text.rfind(" ", 0, fits + 1)
    if at > 0:
        return text[:at], text[at:].lstrip()
    if whole:
        return "", text.lstrip()
    return text[: max(fits, 1)], text[max(fits, 1) :]


def bands(widths: dict[int, int], columns: int | None) -> list[list[int]]:
    """The columns of a table in bands that fit, each to be printed below the one before; the first columns stay whole.

    >>> bands({0: 10, 1: 10, 2: 10}, 24), bands({0: 10, 1: 10, 2: 10}, None)
    ([[0, 1], [2]], [[0, 1, 2]])
    """
    parts: list[list[int]] = [[]]
    used = 0
    for key, wide in widths.items():
        if columns is not None and parts[-1] and used + wide + 2 > columns:
            parts.append([])
            used = 2  # what continues is indented
        parts[-1].append(key)
        used += wide + 2
    return parts


def all_folded(lines: Iterable[Line], columns: int | None, indent: int = 2) -> Iterator[Line]:
    return (piece for line in lines for piece in folded(line, columns, indent))
