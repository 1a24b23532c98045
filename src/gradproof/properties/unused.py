"""Outputs that are connected to no input must not depend on one: their claimed derivative is zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gradproof.core.entries import every_entry
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.properties.jacobian import describe
from gradproof.results.finding import Finding


def unused(investigation: Investigation, options: Options) -> Iterator[Finding | Seen]:
    """The numerical Jacobian must vanish to within its error bars."""
    strict = dataclasses.replace(options, atol=0.0, rtol=0.0)
    compared = every_entry(investigation, strict, (Mode.REVERSE,))
    if compared.seen is not None:
        yield compared.seen
    for judged in compared.judged:
        headline = "No output is connected to an input, yet {output} depends on {input}"
        yield from describe(investigation.problem, options, judged, "unused", headline)
