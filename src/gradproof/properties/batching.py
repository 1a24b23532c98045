"""A batched vjp or jvp gives what a plain one gives."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.batches import BatchFlaw
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.allowance import explains_difference
from gradproof.results.finding import Finding


def batched_reverse(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The vjp of a batch of cotangents."""
    yield from _batched(investigation, Mode.REVERSE)


def batched_forward(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """The jvp of a batch of tangents."""
    yield from _batched(investigation, Mode.FORWARD)


def _batched(investigation: Investigation, mode: Mode) -> Iterator[Finding]:
    flaw = investigation.batch_flaw(mode)
    if flaw is not None and not _is_round_off(investigation, mode, flaw):
        yield Finding(
            property=f"batched_{mode.value}",
            status=Status.WRONG,
            mode=mode,
            headline=f"The derivative in {mode} cannot be batched: {flaw.reason}.",
            hint=investigation.problem.words.unbatched,
            cause=flaw.cause,
        )


def _is_round_off(investigation: Investigation, mode: Mode, flaw: BatchFlaw) -> bool:
    """Whether a batch only rounds otherwise, as where all of a gradient is what terms that cancel have left of it."""
    question = investigation.cotangent if mode is Mode.REVERSE else investigation.tangent
    return flaw.off is not None and explains_difference(investigation, mode, question, flaw.off)
