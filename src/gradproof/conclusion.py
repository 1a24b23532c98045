"""From findings to a Report, with pictures if there is something wrong; whoever listens hears of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradproof.core.certificate import Certificate
from gradproof.core.diagnose import eliminate
from gradproof.core.exhibits import draw_exhibits, draw_maps
from gradproof.core.finding import Finding, Status
from gradproof.core.problem import Mode, Problem
from gradproof.core.report import Report, Spent
from gradproof.properties import EXPLANATIONS

observers: list[Callable[[Report], None]] = []
"""Called with every report; the pytest plugin collects them here."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What is checked, for which framework, and since when; what is not, and what else a reader should know."""

    subject: str
    framework: str
    seed: int = 0
    not_covered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Round:
    """One Problem and what was found: the first derivative, or the second. No problem: it could not even be made."""

    problem: Problem | None
    modes: tuple[Mode, ...]
    findings: list[Finding]

    @property
    def can_be_differentiated(self) -> bool:
        raised = any(finding.status is Status.RAISED for finding in self.findings)
        return self.problem is not None and self.problem.has_graph and not raised

    @property
    def evaluations(self) -> int:
        return self.problem.cost.evaluations if self.problem else 1


def name_of(func: Callable[..., Any]) -> str:
    """What a reader would call a function.

    >>> name_of(functools.partial(divmod, 3))
    'divmod'
    """
    while isinstance(func, functools.partial):
        func = func.func
    name = str(getattr(func, "__name__", type(func).__qualname__))
    owner = getattr(func, "__self__", None)
    return f"{owner.__qualname__}.{name}" if isinstance(owner, type) and not owner.__name__.startswith("_") else name


def conclude(rounds: Sequence[Round], occasion: Occasion) -> Report:
    """The report of all rounds."""
    report = _bare(rounds, occasion)
    problems = [round_.problem for round_ in rounds if round_.problem is not None]
    if problems and not report:
        report = _illustrated(problems[0], rounds[0].findings, report)
    report = _settled(report, rounds, occasion)
    for observe in observers:
        observe(report)
    return report


def _bare(rounds: Sequence[Round], occasion: Occasion) -> Report:
    findings = [finding for round_ in rounds for finding in round_.findings]
    problems = [round_.problem for round_ in rounds if round_.problem is not None]
    certificates = [problem.certificate for problem in problems]
    inputs, outputs = (problems[0].inputs.blocks, problems[0].outputs.blocks) if problems else ((), ())
    return Report(
        findings=tuple(sorted(findings, key=lambda f: (-f.status.rank, f.property not in EXPLANATIONS))),
        modes=tuple(mode for mode in Mode if any(mode in round_.modes for round_ in rounds)) or (Mode.REVERSE,),
        covered=tuple(block.label for block in inputs),
        entries=sum(problem.inputs.size * problem.outputs.size for problem in problems),
        certificate=functools.reduce(_both, certificates) if certificates else None,
        cost=Spent(0, 0, 0, 0.0),
        seed=occasion.seed,
        versions=tuple((name, version_of(name)) for name in ("gradproof", "numpy", occasion.framework)),
        subject=occasion.subject,
        inputs=inputs,
        outputs=outputs,
        not_covered=occasion.not_covered,
        notes=occasion.notes,
    )


def _both(first: Certificate | None, second: Certificate | None) -> Certificate | None:
    """What the first and the second order were able to see."""
    if first is None or second is None:
        return None
    again = tuple((f"{label}, second order", size) for label, size in second.smallest)
    return Certificate((*first.smallest, *again), max(first.miss, second.miss))


@functools.cache
def version_of(package: str) -> str:
    from importlib.metadata import version  # takes a tenth of the time that importing gradproof may take

    return version(package)


def _illustrated(problem: Problem, findings: Sequence[Finding], report: Report) -> Report:
    """With slices, ladders and maps, and a cause by elimination where no suspect fits."""
    maps = draw_maps(report.findings)
    pairs = report.pairs
    hints = {(pair.output, pair.input): eliminate(pairs, pair) for pair in pairs if pair.status is Status.WRONG}
    exhibits = draw_exhibits(problem, [finding for finding in report.findings if finding in findings])
    explained = tuple(
        replace(f, hint=hints.get((f.entries[0].output.block, f.entries[0].input.block), ""))
        if f.entries and not f.hint and f.status is Status.WRONG
        else f
        for f in report.findings
    )
    return replace(report, findings=explained, maps=maps, exhibits=exhibits)


def _settled(report: Report, rounds: Sequence[Round], occasion: Occasion) -> Report:
    """With its cost, which ends here, and without what was needed on the way."""
    problems = [round_.problem for round_ in rounds if round_.problem is not None]
    return replace(
        report,
        findings=tuple(replace(f, spots=None) if f.spots is not None else f for f in report.findings),
        cost=Spent(
            sum(round_.evaluations for round_ in rounds),
            sum(problem.cost.vjps for problem in problems),
            sum(problem.cost.jvps for problem in problems),
            time.perf_counter() - occasion.started,
        ),
    )
