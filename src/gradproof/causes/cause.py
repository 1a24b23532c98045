"""A cause as a value: what is said of it, and of what it is said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Scope(Enum):
    """What a cause is said of, and so what is asked besides."""

    WHOLE = "the whole pair: there is no region to look for"
    TERM = "a term of a sum, which some outputs only may lack"
    PART = "the elements that are wrong: where these are is asked"
    UNWRITTEN = "elements that nothing is claimed of: it may be claimed of others, and where these are is asked"


@dataclass(frozen=True, slots=True)
class Cause:
    """A sentence that the evidence proves."""

    text: str
    scope: Scope = Scope.WHOLE
