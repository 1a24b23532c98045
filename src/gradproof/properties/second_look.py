"""A second look: the comparison made once more, because of what it found. Who looks, and when, is in `second_looks.py`.

Each reason to look again is a `SecondLook`, and `looked_twice` is what runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.properties.property import Compare, Found, Pause
from gradproof.results.finding import Finding

Again = Callable[[Investigation, Options, Compare, Sequence[Finding]], Iterable[Found] | None]
"""What is found once more, if these findings are a reason to; None: they are none.

It says what to compare with, what to change about the investigation before that, and for how long.
"""


@dataclass(frozen=True, slots=True)
class SecondLook:
    """One reason to make a comparison once more."""

    again: Again
    applies: Callable[[Investigation, Options], bool]
    """Whether there may be such a reason at all, whatever was found."""
    keeps_seen: bool = False
    """Whether what the first comparison has seen stays seen: its steps were not blind."""


def looked_twice(
    investigation: Investigation, options: Options, compared: Compare, looks: Sequence[SecondLook]
) -> Iterator[Found]:
    """What a comparison finds; if there is a reason for a second look, what the first of these looks finds instead.

    If the budget ends while one looks for a reason, what was found stands.
    """
    held, seen = list[Finding](), list[Found]()
    try:
        for found in compared(investigation, options):
            if isinstance(found, Finding):
                held.append(found)
            elif isinstance(found, Pause):
                yield found
            else:
                seen.append(found)
    except BudgetExhausted:
        yield from (*seen, *held)
        raise
    for look in looks if held else ():
        again = _again(look, investigation, options, compared, held)
        if again is not None:
            yield from seen if look.keeps_seen else ()
            yield from again
            return
    yield from (*seen, *held)


def _again(
    look: SecondLook, investigation: Investigation, options: Options, compared: Compare, found: Sequence[Finding]
) -> Iterable[Found] | None:
    if not look.applies(investigation, options):
        return None
    try:
        return look.again(investigation, options, compared, found)
    except BudgetExhausted:
        return None
