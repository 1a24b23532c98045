"""What an investigation goes by for a while, and no longer: another precision, or steps measured in something else.

What it learns for good goes through `Investigation.take_as` and `Investigation.expect_waves`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gradproof.core.investigation import Investigation
from gradproof.core.problem import Problem
from gradproof.core.types import Vector


@contextmanager
def measured_in(investigation: Investigation, scale: Vector) -> Generator[None]:
    """Meanwhile, steps are measured in this scale.

    What was asked `once` stands: it was measured in the other scale, and is true in this one, too.
    """
    before, investigation.scale = investigation.scale, scale
    try:
        yield
    finally:
        investigation.scale = before


@contextmanager
def taken_as(investigation: Investigation, problem: Problem) -> Generator[None]:
    """Meanwhile, it is the same Problem in another precision; what was asked `once` is asked again, then and after."""
    before = investigation.problem
    investigation.take_as(problem)
    try:
        yield
    finally:
        investigation.take_as(before)
