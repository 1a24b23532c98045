"""The form of gradients and tangents, besides their values."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Form, Mode, Problem
from gradproof.core.space import Block


def metadata(problem: Problem, options: Options) -> Iterator[Finding]:
    """Shape, layout and device of each gradient are its input's."""
    if problem.has_graph and Mode.REVERSE in options.modes:
        for block, expected, actual in problem.misshapen_gradients():
            for aspect in ("shape", "layout", "device"):
                yield from _compare(block, expected, actual, aspect, "Gradient")


def dtypes(problem: Problem, options: Options) -> Iterator[Finding]:
    """Each gradient has the dtype of its input, each tangent that of its output."""
    if problem.has_graph and Mode.REVERSE in options.modes:
        for block, expected, actual in problem.misshapen_gradients():
            yield from _compare(block, expected, actual, "dtype", "Gradient")
    if problem.has_graph and Mode.FORWARD in options.modes:
        for block, expected, actual in problem.misshapen_tangents():
            yield from _compare(block, expected, actual, "dtype", "Forward AD gradient")


def _compare(block: Block, expected: Form, actual: Form, aspect: str, what: str) -> Iterator[Finding]:
    want, got = getattr(expected, aspect), getattr(actual, aspect)
    if want != got:
        flaw = "dtype mismatch" if aspect == "dtype" else f"incorrect {aspect}"
        yield Finding(
            property="dtypes" if aspect == "dtype" else "metadata",
            status=Status.WRONG,
            input=None if block.kind == "output" else block.key,
            output=block.index if block.kind == "output" else None,
            message=f"{what} has {flaw}: {block.label} has {aspect} {want}, its gradient {got}.",
        )
