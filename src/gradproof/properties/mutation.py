"""Neither forward nor backward writes to what is not its own: inputs, cotangents, saved arrays."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.capabilities import MemoryWatch
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties.trials import trials
from gradproof.results.finding import Finding


def mutation(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """What was written to by the function, and by its vjp."""
    words = investigation.problem.words
    for what in investigation.asks(MemoryWatch).overwritten_inputs:
        yield _finding(f"The function overwrote {what} without declaring it.", words.input_overwritten)
    if investigation.problem.connected and Mode.REVERSE in options.modes:
        for what in investigation.once(trials, options).overwritten:
            yield _finding(f"{words.reverse} overwrote {what}, which others may still read.", words.reverse_overwrites)


def _finding(headline: str, hint: str) -> Finding:
    return Finding(property="mutation", status=Status.WRONG, headline=headline, hint=hint)
