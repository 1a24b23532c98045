"""A batched (vmapped) vjp or jvp gives what a plain one gives."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem


def batched_reverse(problem: Problem, options: Options) -> Iterator[Finding]:
    """The vjp of a batch of cotangents."""
    yield from _batched(problem, options, Mode.REVERSE, "batched gradient")


def batched_forward(problem: Problem, options: Options) -> Iterator[Finding]:
    """The jvp of a batch of tangents."""
    yield from _batched(problem, options, Mode.FORWARD, "batched forward-mode gradient")


def _batched(problem: Problem, options: Options, mode: Mode, what: str) -> Iterator[Finding]:
    flaw = problem.batch_flaw(mode) if problem.has_graph and mode in options.modes else None
    if flaw is not None:
        yield Finding(
            property=f"batched_{mode.value}",
            status=Status.WRONG,
            message=f"gradcheck or gradgradcheck failed while testing {what} computation: {flaw.reason}.",
            hint="write the rule in operations that vmap understands, or give the Function a vmap staticmethod",
            cause=flaw.cause,
        )
