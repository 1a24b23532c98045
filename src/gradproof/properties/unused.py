"""Outputs without a graph must not depend on the inputs: their claimed derivative is zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gradproof.core.entries import compare_entries
from gradproof.core.finding import Finding
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.properties.jacobian import describe


def unused(problem: Problem, options: Options) -> Iterator[Finding]:
    """Where no output has a graph, the numerical Jacobian must vanish to within its error bars."""
    if problem.has_graph:
        return
    strict = dataclasses.replace(options, atol=0.0, rtol=0.0)
    for comparison in compare_entries(problem, strict, (Mode.REVERSE,)):
        yield from describe(
            problem,
            options,
            comparison,
            "unused",
            "Numerical gradient for function expected to be zero: no output is connected to an input, "
            "yet {output} depends on {input}",
        )
