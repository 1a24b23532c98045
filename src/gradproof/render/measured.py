"""The columns of numbers that tables of a page have: without those in which no row has any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradproof.render.text import filled, noticed, number, off_by, ratio_of
from gradproof.results.finding import Entry
from gradproof.results.pairs import Pair


@dataclass(frozen=True, slots=True)
class Measured:
    """Columns of numbers for the rows of a table: their names, and of each row a value to sort by and a text.

    A column in which no row has a text is left out.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]

    @staticmethod
    def of(names: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> Measured:
        used = filled([[text for _, text in row] for row in rows])
        return Measured(tuple(names[k] for k in used), tuple(tuple(row[k] for k in used) for row in rows))


def measured_entries(entries: Sequence[Entry]) -> Measured:
    """How far entries are off."""
    rows = [[("", text) for text in (ratio_of(entry), *off_by(entry))] for entry in entries]
    return Measured.of(("ratio", "difference", "allowed", "× allowed"), rows)


def measured_pairs(pairs: Sequence[Pair]) -> Measured:
    """How many entries of pairs are wrong, how far the worst one is off, and what would have been noticed."""
    rows = [
        [
            (str(pair.wrong) if pair.status else "", pair.count_alone),
            (str(pair.total), str(pair.total)),
            (number(pair.difference, 6), number(pair.difference)),
            (number(pair.allowed, 6), number(pair.allowed)),
            (number(pair.excess, 6), number(pair.excess, 2)),
            (number(pair.smallest, 6), noticed(pair.smallest)),
        ]
        for pair in pairs
    ]
    return Measured.of(("wrong", "of", "worst difference", "allowed", "× allowed", "would notice"), rows)
