"""One row for each pair of an output and an input: what the comparison of their Jacobian came to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.results.certificate import About, Certificate
from gradproof.results.finding import Finding

_INSTEAD = {Status.INCONCLUSIVE: " not judged", Status.KINK: " at kinks"}
"""What is counted of a pair in which nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The Jacobian of one output with respect to one input.

    `status` is None where the comparison came to no conclusion. `difference` and `allowed` are those of the worst
    entry, None where all agree, and at kinks. `smallest` is the certificate: the smallest error that would have been
    noticed.
    """

    output: Block
    input: Block
    status: Status | None
    wrong: int = 0
    difference: float | None = None
    allowed: float | None = None
    smallest: float | None = None
    order: int = 1
    """Whether it is of the first or of the second derivative."""
    located: bool = False
    """Whether `wrong` counts only what a search came upon."""

    @property
    def output_label(self) -> str:
        """The output, and that it is one of the second derivative, if so."""
        return self.output.label + (", second order" if self.order == 2 else "")

    @property
    def count(self) -> str:
        """How many entries are wrong, in words; of a pair with none, how many were not judged or lie at kinks."""
        if self.status is None:
            return ""
        counted = f"{'at least ' if self.located else ''}{self.wrong} of {self.total}"
        return f"{counted}{_INSTEAD.get(self.status, '')}"

    @property
    def count_alone(self) -> str:
        """The same without the number of all entries, for a table that has it in a column of its own."""
        if self.status is None:
            return ""
        return f"{'≥ ' if self.located else ''}{self.wrong}{_INSTEAD.get(self.status, '')}"

    @property
    def excess(self) -> float | None:
        """The worst difference in units of what is allowed."""
        if self.difference is None or self.allowed is None:
            return None
        if math.isnan(self.difference):
            return math.nan
        return self.difference / self.allowed if self.allowed else math.inf

    @property
    def total(self) -> int:
        """Both parts of a complex element are one."""
        return (self.output.size // self.output.parts) * (self.input.size // self.input.parts)

    @property
    def word(self) -> str:
        return self.status.name if self.status else "NOT SETTLED"

    @property
    def rank(self) -> float:
        """How bad it is; what is not settled comes between what is right and what is not."""
        return self.status.rank if self.status else 0.5


def pair_up(
    inputs: Sequence[Block],
    outputs: Sequence[Block],
    findings: Sequence[Finding],
    certificate: Certificate | None,
    *,
    order: int = 1,
) -> tuple[Pair, ...]:
    """All pairs, worst first: by status, then by excess.

    A pair that no finding mentions is right only if the comparison ran to its end. What was found of the derivative of
    another order says nothing of it.
    """
    findings = [finding for finding in findings if finding.order == order]
    of_pair: dict[tuple[Block, Block], Finding] = {}
    for finding in sorted(findings, key=lambda f: f.status.rank, reverse=True):
        if finding.entries:
            worst = finding.entries[0]
            of_pair.setdefault((worst.output.block, worst.input.block), finding)
        elif finding.property == "jacobian" and finding.input is not None:
            of = [output for output in outputs if finding.output in (None, output.key)]
            for pair in [(output, input_) for output in of for input_ in inputs if input_.key == finding.input]:
                of_pair.setdefault(pair, finding)
    smallest = dict(certificate.smallest) if certificate else {}
    certified = certificate is not None and (order == 1 or any(about.order == order for about in smallest))
    otherwise = Status.RIGHT if certified and not any(map(_leaves_open, findings)) else None
    pairs = [
        _pair(output, input_, of_pair.get((output, input_)), otherwise, smallest.get(About(input_, order)))
        for output in outputs
        for input_ in inputs
    ]
    return tuple(sorted((replace(pair, order=order) for pair in pairs), key=badness))


def badness(pair: Pair) -> tuple[float, float]:
    """What pairs are sorted by, the worst first."""
    excess = pair.excess or 0.0
    return -pair.rank, -math.inf if math.isnan(excess) else -excess


def _leaves_open(finding: Finding) -> bool:
    """Whether other pairs may be wrong too: a search was cut short, or the comparison itself."""
    undecided = finding.status in (Status.INCONCLUSIVE, Status.RAISED) and not finding.entries
    return finding.property == "jacobian" and (finding.located or undecided)


def _pair(
    output: Block, input_: Block, finding: Finding | None, otherwise: Status | None, smallest: float | None
) -> Pair:
    if finding is None:
        return Pair(output, input_, otherwise if output.size * input_.size else None, smallest=smallest)
    if not finding.entries:  # what accuses the pair as a whole
        return Pair(output, input_, finding.status, max(finding.wrong, 1), smallest=smallest, located=True)
    worst = finding.entries[0]
    difference, allowed = (None, None) if worst.excess is None else (worst.difference, worst.allowed)
    numbers = finding.wrong, difference, allowed, smallest
    return Pair(output, input_, finding.status, *numbers, located=finding.located)
