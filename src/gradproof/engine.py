"""One way from a call to a verdict, for every door.

    door: a user's words    ->  Request
    backend.session(call)   ->  Session, which keeps the user's state safe
    session.problem()       ->  Problem
    Investigation(problem)  ->  each property asks its questions: findings, and what was seen
    conclude                ->  Report, shown to the observers

A door may stop early, at the first finding that decides for it. Nothing here raises for a wrong derivative.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradproof.backends import Session
from gradproof.causes.explain import explained
from gradproof.core.cost import BudgetExhausted, Cost
from gradproof.core.filters import kept_filters
from gradproof.core.hollow import hollow
from gradproof.core.investigation import Investigation
from gradproof.core.noise import computed_in, told
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode, NothingToCheckError, Problem
from gradproof.core.seen import Note, Seen
from gradproof.core.status import Status
from gradproof.examination import examined, raised
from gradproof.exhibits import measure_exhibits
from gradproof.properties import DEFAULT, EXPLANATIONS, PROPERTIES
from gradproof.properties.mutation import with_values_told
from gradproof.properties.property import Property
from gradproof.render.progress import watching
from gradproof.results.called import version_of
from gradproof.results.certificate import About, Certificate
from gradproof.results.finding import Finding
from gradproof.results.report import Report, Spent

observers: list[Callable[[Report], None]] = []
"""Called with every report; the pytest plugin collects them here."""


@contextmanager
def unobserved() -> Generator[None]:
    """While inside, reports are not shown to observers: those of a search are no news."""
    kept, observers[:] = observers[:], []
    try:
        yield
    finally:
        observers[:] = kept


_UNWATCHED = nullcontext()


def _as_they_are(problem: Problem, options: Options) -> Options:
    return options


def _never(finding: Finding) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a door asks for. `modes` is empty where it is left to the session."""

    subject: str
    options: Options
    modes: tuple[Mode, ...] = ()
    order: int = 1
    evaluations: int | None = None
    """How many there may be, at most."""
    seconds: float | None = None
    """How long it may take."""
    budget_option: str = "budget="
    """What the door calls the limit that was given."""
    progress: bool = False
    """Whether a long check shows a bar on a terminal."""
    fit: Callable[[Problem, Options], Options] = _as_they_are
    """The options for this Problem; may raise for one that the door does not take."""
    decides: Callable[[Finding], bool] = _never
    """Whether a finding settles the matter, so that no further property is examined."""
    repeat: Callable[[], str] = str
    """Gives the line that makes the same request again; asked for where something was found."""
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Round:
    """One Problem and what was found: the first derivative, or the second. No investigation: it could not be made."""

    order: int
    options: Options
    investigation: Investigation | None
    findings: tuple[Finding, ...]
    seen: Seen | None = None
    notes: tuple[str, ...] = ()

    @property
    def can_be_differentiated(self) -> bool:
        raised = any(finding.status is Status.RAISED for finding in self.findings)
        return self.investigation is not None and self.investigation.problem.connected and not raised

    @property
    def cost(self) -> Cost:
        return Cost(evaluations=1) if self.investigation is None else self.investigation.cost

    @property
    def certificate(self) -> Certificate | None:
        if self.investigation is None or self.seen is None:
            return None
        return Certificate.of(self.seen, self.investigation.problem.inputs.blocks, self.order)


@dataclass(frozen=True, slots=True)
class HandMade:
    """A session of a Problem that needs no framework."""

    made: Problem
    framework: str = ""
    not_covered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def problem(self) -> Problem:
        return self.made

    def second(self) -> Problem:
        raise NotImplementedError("a Problem made by hand has no second derivative")

    def modes(self, investigation: Investigation) -> tuple[Mode, ...]:
        return self.made.modes


def check_problem(problem: Problem, subject: str = "", options: Options | None = None) -> Report:
    """Check a Problem that was made by hand, in every mode that it has a derivative for.

    >>> import numpy as np
    >>> from gradproof.core.space import vector_space
    >>> x = np.array([0.5, 2.0])
    >>> spaces = {"inputs": vector_space("input", 2), "outputs": vector_space("output", 2)}
    >>> claimed = Problem(point=x, value=x**3, evaluate=lambda x: x**3, vjp=lambda v: 2 * x**2 * v, **spaces)
    >>> check_problem(claimed).findings[0].hint
    'analytic ≈ 0.6667 × numeric: a constant factor 2/3'
    """
    request = Request(subject=subject, options=options or Options(strategy=Strategy.PROBES, properties=DEFAULT))
    session = HandMade(problem)
    return conclude(session, request, examine(session, request))


def examine(session: Session, request: Request) -> list[Round]:
    """The first derivative; and the second, if it is asked for and there is one."""
    with kept_filters(), np.errstate(all="ignore"):  # numbers at the ends of their range are no news
        rounds = [_round(session, request, session.problem, 1, 0)]
        if request.order == 2 and rounds[0].can_be_differentiated:
            rounds.append(_round(session, request, session.second, 2, rounds[0].cost.evaluations))
    return rounds


def _round(session: Session, request: Request, make: Callable[[], Problem], order: int, spent: int) -> Round:
    """Investigate one Problem, with what the budget leaves after `spent` evaluations."""
    try:
        problem = make()
    except NothingToCheckError:
        raise
    except Exception as error:
        return Round(order, request.options, None, _numbered([raised("evaluate", error)], order))
    options = request.fit(problem, request.options)
    investigation = Investigation(problem, options.seed, _limited(request, spent))
    modes = request.modes or _supported(session, investigation)
    _require_modes(problem, modes)
    if modes != options.modes:
        options = dataclasses.replace(options, modes=modes)
    asked = _askable(problem, options, order)
    if not asked and order == request.order:
        raise _nothing_to_ask(problem, options, order)
    if options.precision is not None and options.precision > problem.outputs.finest_eps:
        investigation.take_as(computed_in(problem, [options.precision] * len(problem.outputs.blocks)))
    with watching(investigation.cost, request.subject) if request.progress else _UNWATCHED:
        findings, seen, notes = _sorted(examined(investigation, options, asked), request)
    if findings:
        findings = explained(investigation, options, findings)
        findings = with_values_told(findings, [name for name, _ in asked])
        findings, allowed = _accepted(findings, options)
        notes += allowed
    notes += hollow(investigation, options, seen)
    if options.precision is None:
        notes += told(investigation)
    texts = tuple(dict.fromkeys(note.text for note in notes))
    return Round(order, options, investigation, _numbered(findings, order), seen, texts)


def _sorted(
    found: Iterator[list[Finding | Seen | Note]], request: Request
) -> tuple[list[Finding], Seen | None, list[Note]]:
    """Findings, what all comparisons were able to see, and notes; no more, once a finding decides."""
    findings: list[Finding] = []
    seen: Seen | None = None
    notes: list[Note] = []
    for by_one in found:
        for each in by_one:
            if isinstance(each, Finding):
                findings.append(each)
            elif isinstance(each, Seen):
                seen = each if seen is None else seen & each
            else:
                notes.append(each)
        if findings and any(map(request.decides, findings)):
            break
    return findings, seen, notes


def _accepted(findings: Sequence[Finding], options: Options) -> tuple[list[Finding], list[Note]]:
    """What remains when the allowed properties are taken out, and notes of those. An exception is never allowed."""
    left: list[Finding] = []
    notes: list[Note] = []
    for finding in findings:
        if finding.property in options.allow and finding.status in (Status.WRONG, Status.INCONCLUSIVE):
            notes.append(Note(f"allowed: {finding.property}: {' '.join(finding.headline.split())}"))
        else:
            left.append(finding)
    return left, notes


def _supported(session: Session, investigation: Investigation) -> tuple[Mode, ...]:
    """The modes that the call supports; where the budget does not even suffice to find out, the first it may have."""
    try:
        return session.modes(investigation)
    except BudgetExhausted:
        return investigation.problem.modes[:1]


def _require_modes(problem: Problem, modes: Iterable[Mode]) -> None:
    for mode in modes:
        if mode not in problem.modes:
            raise ValueError(f"{mode} was asked for, but there is no derivative in {mode} to check")


def _askable(problem: Problem, options: Options, order: int) -> tuple[tuple[str, Property], ...]:
    """The properties wanted that can be asked of a Problem, in the fixed order."""
    there = problem.connected, problem.is_empty, problem.vjp is None, problem.jvp is None, *problem.capabilities
    key = there, options.properties, options.modes, order
    found = _askable_of.get(key)
    if found is None:
        found = _askable_of[key] = tuple(
            (name, asked)
            for name, asked in PROPERTIES.items()
            if name in options.properties and asked.can_be_asked(problem, options.modes, order)
        )
    return found


_askable_of: dict[tuple[Any, ...], tuple[tuple[str, Property], ...]] = {}
"""What was found before: looking takes 40 µs, 3 % of the smallest check."""


def _nothing_to_ask(problem: Problem, options: Options, order: int) -> NothingToCheckError:
    """A check in which nothing can be asked is an error, never a pass."""
    wanted = [name for name in PROPERTIES if name in options.properties]
    reasons = [f"{name} ({PROPERTIES[name].obstacle(problem, order) or 'not a question here'})" for name in wanted]
    return NothingToCheckError(f"there is nothing to check: none of the properties can be asked: {', '.join(reasons)}")


def _limited(request: Request, spent: int) -> Cost:
    evaluations, seconds = request.evaluations, request.seconds
    return Cost(
        most_evaluations=math.inf if evaluations is None else evaluations - spent,
        deadline=math.inf if seconds is None else request.started + seconds,
        option=request.budget_option,
    )


def _numbered(findings: Sequence[Finding], order: int) -> tuple[Finding, ...]:
    """The findings, those of the second order marked as such."""
    if order == 1:
        return tuple(findings)
    return tuple(dataclasses.replace(each, order=order, headline=f"Second order: {each.headline}") for each in findings)


def _left_out(round_: Round, request: Request) -> Iterator[str]:
    """What a round did not cover, with the reasons."""
    if round_.investigation is not None:
        problem = round_.investigation.problem
        if problem.connected and not request.modes:
            yield from (f"{mode} (there is no derivative for it)" for mode in Mode if mode not in problem.modes)
        yield from (f"{block.label} (it has no elements)" for block in problem.inputs.blocks if not block.size)
        yield from _not_asked(problem, round_.options, round_.order)


def _not_asked(problem: Problem, options: Options, order: int) -> Iterator[str]:
    """What was wanted and could not be asked, with the reason."""
    by_reason: dict[str, list[str]] = {}
    for name, asked in PROPERTIES.items():
        if name in options.properties and (obstacle := asked.obstacle(problem, order)):
            by_reason.setdefault(obstacle, []).append(name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)} ({reason})"


def is_fatal(finding: Finding) -> bool:
    """For doors that raise: wrong, nothing verified, or beyond the tolerance by numbers too noisy to call it wrong."""
    if finding.kind == "staircase":
        return False  # zero is claimed, and the step that others take stays between two of its own
    if finding.status is Status.INCONCLUSIVE and finding.entries and finding.kind != "lone kink":
        # so are those of outputs that are no numbers, whatever is claimed of them
        return any(not entry.error >= math.inf and not entry.difference <= entry.tolerance for entry in finding.entries)
    return finding.status is not Status.KINK and finding.kind != "unseen"


def explain(round_: Round) -> list[Finding]:
    """What may stand behind a wrong Jacobian, apart from a wrong formula."""
    investigation, options = round_.investigation, round_.options
    if investigation is None:
        return []
    known = {finding.property for finding in round_.findings}
    asked = [(name, PROPERTIES[name]) for name in EXPLANATIONS if name not in known]
    asked = [(name, each) for name, each in asked if each.can_be_asked(investigation.problem, options.modes)]
    found = [finding for by_one in examined(investigation, options, asked) for finding in by_one]
    return [finding for finding in found if isinstance(finding, Finding) and finding.cause is None]


# from rounds to a report


def conclude(session: Session, request: Request, rounds: Sequence[Round]) -> Report:
    """The report of all rounds, with pictures if there is something wrong."""
    report = _bare(session, request, rounds)
    if not report:
        with np.errstate(all="ignore"):
            report = _illustrated(rounds[0], report)
    spent = Spent(
        evaluations=sum(round_.cost.evaluations for round_ in rounds),
        vjps=sum(round_.cost.vjps for round_ in rounds),
        jvps=sum(round_.cost.jvps for round_ in rounds),
        seconds=time.perf_counter() - request.started,
    )
    report = dataclasses.replace(report, cost=spent)
    for observe in observers:
        observe(report)
    return report


def _bare(session: Session, request: Request, rounds: Sequence[Round]) -> Report:
    findings = [finding for round_ in rounds for finding in round_.findings]
    problems = [round_.investigation.problem for round_ in rounds if round_.investigation is not None]
    inputs, outputs = (problems[0].inputs.blocks, problems[0].outputs.blocks) if problems else ((), ())
    jacobian = bool(request.options.properties & {"jacobian", "unused"})  # else no entry was compared
    left_out = (sentence for round_ in rounds for sentence in _left_out(round_, request))
    asked = {mode for round_ in rounds for mode in round_.options.modes}
    return Report(
        findings=tuple(sorted(findings, key=_order)),
        modes=tuple(mode for mode in Mode if mode in asked),
        covered=tuple(block.label for block in inputs if block.size),
        entries=sum(problem.inputs.size * problem.outputs.size for problem in problems) if jacobian else 0,
        certificate=_certified(rounds),
        cost=Spent(0, 0, 0, 0.0),
        seed=request.options.seed,
        versions=tuple((name, version_of(name)) for name in ("gradproof", "numpy", session.framework) if name),
        subject=request.subject,
        repeat=request.repeat() if findings else "",
        inputs=inputs,
        outputs=outputs if jacobian else (),
        second=next(((p.inputs.blocks, p.outputs.blocks) for p in problems[1:] if jacobian), ((), ())),
        not_covered=tuple(dict.fromkeys((*session.not_covered, *left_out))),
        notes=(*session.notes, *dict.fromkeys(note for round_ in rounds for note in round_.notes)),
    )


def _certified(rounds: Sequence[Round]) -> Certificate | None:
    """Of rounds that ran to their end, the first at least. No input of which no entry was verified is in it."""
    if rounds[0].certificate is None:
        return None
    known = [each for round_ in rounds if (each := round_.certificate) is not None]
    certificate = functools.reduce(operator.add, known)
    found = [(round_.order, f) for round_ in rounds for f in round_.findings if f.entries and f.doubtful == f.total]
    bad = frozenset(About(f.entries[0].input.block, order) for order, f in found if f.status is not Status.KINK)
    return certificate.without(bad) if bad else certificate


def _order(finding: Finding) -> tuple[int, int]:
    """The worst first; among equals, what explains others."""
    name = finding.property
    return -finding.status.rank, EXPLANATIONS.index(name) if name in EXPLANATIONS else len(EXPLANATIONS)


def _illustrated(first: Round, report: Report) -> Report:
    """With slices and ladders."""
    if first.investigation is None:
        return report
    exhibits = measure_exhibits(first.investigation, [f for f in report.findings if f in first.findings])
    return dataclasses.replace(report, exhibits=exhibits)
