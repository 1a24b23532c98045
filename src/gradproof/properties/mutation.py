"""Neither forward nor backward writes to what is not its own: inputs, cotangents, saved arrays.

Some do so by design: fused kernels keep a gradient in the memory of their input, and scale it in place. Whether their
values are right all the same is known where the derivative was compared and nothing else was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from gradproof.core.capabilities import MemoryWatch
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.core.words import Words
from gradproof.properties.trials import trials
from gradproof.results.finding import Finding

_RIGHT_ONCE = (
    "The values are right when called once: each question had inputs of its own, and what the function saved anew."
)
_COMPARED = {"jacobian", "compare"}
"""The properties that say whether values are right."""
_ABOUT_MEMORY = {"mutation", "aliasing"}


def mutation(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """What was written to by the function, and by its vjp. What is known without a call comes first."""
    words, watch = investigation.problem.words, investigation.asks(MemoryWatch)
    reverse = investigation.problem.connected and Mode.REVERSE in options.modes
    if reverse and investigation.cost.is_limited and investigation.rows is None:
        with suppress(Exception):  # the trials need it too; others report what it raises
            _ = investigation.pullback
    told = watch.consumed() if reverse else ()
    yield from overwriting(watch.overwritten_inputs, told, words)
    if reverse:
        further = [what for what in investigation.once(trials, options).overwritten if what not in told]
        yield from overwriting((), further, words)


def overwriting(by_function: Iterable[str], by_vjp: Iterable[str], words: Words) -> Iterator[Finding]:
    """The findings that these were written to."""
    for what in dict.fromkeys(by_function):
        yield _finding(f"The function overwrote {what} without declaring it.", words.input_overwritten)
    for what in dict.fromkeys(by_vjp):
        yield _finding(f"{words.reverse} overwrote {what}, which others may still read.", words.reverse_overwrites)


def _finding(headline: str, hint: str) -> Finding:
    return Finding(property="mutation", status=Status.WRONG, headline=headline, hint=hint)


def with_values_told(findings: Sequence[Finding], asked: Sequence[str]) -> list[Finding]:
    """The findings, where the first mutation says that values are right, if they were compared and nothing differed."""
    guilty = [finding for finding in findings if finding.status.rank > Status.KINK.rank]
    if not _COMPARED & set(asked) or not all(finding.property in _ABOUT_MEMORY for finding in guilty):
        return list(findings)
    first = next((finding for finding in guilty if finding.property == "mutation"), None)
    if first is None:
        return list(findings)
    told = replace(first, headline=f"{first.headline}\n  {_RIGHT_ONCE}")
    return [told if finding is first else finding for finding in findings]
