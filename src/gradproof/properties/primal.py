"""A function has the same value when it is differentiated: the fwd of a custom_vjp computes it once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradproof.core.agreement import close, worst_difference
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.results.finding import Finding

_HINT = "the rule of the derivative computes the value by itself: it must return what the function returns"


def primal(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """In each mode, for each output; nothing is asked where a backend has one forward for both."""
    for mode in options.modes:
        shown: Any = investigation.some_gradients() if mode is Mode.REVERSE else investigation.some_tangents()
        values: Callable[[], tuple[Vector, Vector]] | None = getattr(shown, "values", None)
        if values is not None:
            yield from _differing(investigation, mode, options.nondet_tol, *values())


def _differing(
    investigation: Investigation, mode: Mode, slack: float, alone: Vector, derived: Vector
) -> Iterator[Finding]:
    outputs = investigation.made.outputs
    for block in outputs.blocks:
        first, second = alone[block.slice], derived[block.slice]
        with np.errstate(invalid="ignore"):
            if not block.size or close(first, second, investigation.made, slack):
                continue
        worst = worst_difference(first, second)
        place = outputs.place(block.start + worst)
        yield Finding(
            property="primal",
            mode=mode,
            status=Status.WRONG,
            output=block.index,
            output_element=place.element,
            headline=(
                f"Under differentiation in {mode} the function returns another value: "
                f"{place} is {first[worst]:.9g}, and {second[worst]:.9g} when it is differentiated."
            ),
            hint=_HINT,
        )
