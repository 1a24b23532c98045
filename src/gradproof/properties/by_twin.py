"""A low-precision Jacobian through its twin: that of float64 is checked, then both are compared element by element."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.cost import BudgetExhausted
from gradproof.core.draws import basis
from gradproof.core.formats import OF_SPACING
from gradproof.core.investigation import Investigation
from gradproof.core.noise import learn_cancelled
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.seen import Note, Seen
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.wide import Comparer, Deviation, Known, wide_options, widened
from gradproof.properties.property import Examine, Pause
from gradproof.properties.trials import trials
from gradproof.results.finding import Entry, Finding

_NOTE = (
    "the derivative was checked in float64, where the function runs too, and the {low} one was compared with that "
    "element by element"
)
_ANOTHER = (
    "in float64 the derivative is wrong, and quite another than in {low}: it was not used, and the {low} one is judged "
    "by itself"
)
# Derivatives of two precisions that differ by more than this part are not one derivative.
_ALIKE = 0.25
# Properties that ask the trials.
_TRIED = frozenset({"mutation", "determinism", "linearity", "layout"})
_NAMED = {-1.0: "the sign is wrong", 2.0: "a factor 2 too many", 0.5: "a factor 2 is missing"}


def has_twin(investigation: Investigation) -> bool:
    """Whether `by_twin` can be asked: function and derivative run in float64 too."""
    return investigation.once(widened) is not None


def by_twin(
    investigation: Investigation, options: Options, compared: Examine, *, may_differ: bool = False
) -> Generator[Finding | Seen | Note | Pause, None, bool]:
    """What the ordinary comparison finds of the float64 derivative, then what differs from it in low precision.

    `options.modes` are asked each. What was seen of the low-precision Jacobian is what both comparisons saw. If the
    float64 derivative is wrong and `may_differ` from the other, and does, that says nothing of the other: returns
    whether it says anything.
    """
    wide = investigation.once(widened)
    assert wide is not None, "there is no twin"
    problem = investigation.problem
    asked = wide_options(problem, options)
    findings, seen = yield from sorted_out(compared(wide, asked))
    if any(finding.status is not Status.KINK for finding in findings) and _learns(wide):
        findings, seen = yield from sorted_out(compared(wide, asked))
    findings = [_renamed(finding, problem) for finding in findings]
    wrong = any(finding.status is Status.WRONG for finding in findings)
    if wrong and may_differ and _is_another(investigation, wide, options):
        yield Note(_ANOTHER.format(low=_precision(problem)))
        return False
    yield Note(_NOTE.format(low=_precision(problem)))
    yield from (*seen, *findings)
    if not wrong:  # the difference to a wrong derivative says nothing
        for mode in options.modes:
            yield from _compared(Comparer(investigation, wide, options, mode, _answered(investigation, options, mode)))
    return True


def _learns(wide: Investigation) -> bool:
    """Whether outputs of a twin are nothing but round-off. If the budget ends meanwhile, what was found stands."""
    try:
        return learn_cancelled(wide)
    except BudgetExhausted:
        return False


def sorted_out(
    found: Iterable[Finding | Seen | Note | Pause],
) -> Generator[Pause, None, tuple[list[Finding], list[Seen | Note]]]:
    """Findings, and what was seen, and how; it pauses where they do."""
    findings, seen = list[Finding](), list[Seen | Note]()
    for each in found:
        if isinstance(each, Pause):
            yield each
        elif isinstance(each, Finding):
            findings.append(each)
        else:
            seen.append(each)
    return findings, seen


def _answered(investigation: Investigation, options: Options, mode: Mode) -> Known | None:
    """A question to the low precision that other properties ask anyway, with its answer."""
    if mode is not Mode.REVERSE or not _TRIED & options.properties:
        return None
    last = investigation.once(trials, options).last
    return None if last is None else (last.cotangent, last.answer)


def _is_another(low: Investigation, wide: Investigation, options: Options) -> bool:
    """Whether the float64 derivative is no more like that of low precision than a kernel made for one of them is.

    What round-off makes of a derivative that cancels is not like it, either, and says nothing.
    """
    comparer = Comparer(low, wide, options, options.modes[0])
    made = comparer.shared()
    if not np.isfinite(made.low).all():
        return False
    off = norm(made.low - made.wide)
    if off <= _ALIKE * norm(made.low):
        return False
    return not off <= norm(comparer.responding(made).spread)  # NaN is none


def _compared(comparer: Comparer) -> Iterator[Finding | Seen]:
    problem, mode = comparer.low.problem, comparer.mode
    last, deviations = comparer.run()
    if mode is Mode.REVERSE:
        yield Seen(last.smallest(problem.inputs.blocks), 0.0)
    else:
        whole = max(last.smallest(problem.outputs.blocks), default=0.0)
        yield Seen((whole,) * len(problem.inputs.blocks), 0.0)
    for deviation in deviations:
        yield _finding(comparer, deviation)


def _finding(comparer: Comparer, deviation: Deviation) -> Finding:
    problem, mode = comparer.low.problem, comparer.mode
    reverse = mode is Mode.REVERSE
    low, wide = _precision(problem), "float64"
    block, worst = deviation.block, int(deviation.elements[0])
    place = comparer.answered.place(worst)
    rule, probe = problem.words.rule(reverse), problem.words.probe(reverse)
    count = f"{len(deviation.elements)} of {block.size} elements"
    status = Status.WRONG if deviation.is_wrong else Status.INCONCLUSIVE
    finding = Finding(
        property="jacobian",
        kind="precision",
        mode=mode,
        status=status,
        headline=(
            f"{rule[0].upper()}{rule[1:]} gives something else in {low} than in {wide}, for the same {_bare(probe)}: "
            f"{count} for {block.label} differ.\n"
            f"  {place}: in {low} {deviation.low[0]:.6g}, in {wide} {deviation.wide[0]:.6g}, "
            f"allowed {deviation.allowed[0]:.3g}"
        ),
        hint=_hint(deviation, low),
        wrong=len(deviation.elements),
        total=block.size,
    )
    if status is not Status.WRONG:
        return finding
    return _placed(finding, comparer, deviation)


def _placed(finding: Finding, comparer: Comparer, deviation: Deviation) -> Finding:
    """The finding with an entry: of the worst element, the one that the two precisions differ most about."""
    answered, asked, worst = comparer.answered, comparer.asked, int(deviation.elements[0])
    low, high = 0, asked.size
    whole = float(deviation.low[0] - deviation.wide[0])
    while high - low > 1:
        middle = (low + high) // 2
        made = comparer.compare(_restricted(deviation.question, low, middle))
        left = float(made.low[worst] - made.wide[worst])
        right = whole - left
        low, high, whole = (middle, high, right) if abs(right) > abs(left) else (low, middle, left)
    made = comparer.compare(basis(slice(low, low + 1), asked.size)[0])
    weight = abs(float(deviation.question[low])) or 1.0  # zero, where all that differs is what was left out
    here, there = answered.place(worst), asked.place(low)
    reverse = comparer.mode is Mode.REVERSE
    entry = Entry(
        output=there if reverse else here,
        input=here if reverse else there,
        numeric=float(made.wide[worst]),
        error=0.0,
        analytic=float(made.low[worst]),
        tolerance=min(float(made.allowed[worst]), float(deviation.allowed[0]) / weight),
        status=Status.WRONG,
    )
    return replace(finding, entries=(entry,), located=True).at(entry)


def _restricted(question: Vector, low: int, high: int) -> Vector:
    part = np.zeros_like(question)
    part[low:high] = question[low:high]
    return part


def _bare(words: str) -> str:
    return words.removeprefix("the ")


def _precision(problem: Problem) -> str:
    return OF_SPACING.get(problem.coarsest_eps, "low precision")


def _hint(deviation: Deviation, low: str) -> str:
    if not np.isfinite(deviation.low).all():
        return f"a number inside may leave the range of {low}"
    if not deviation.low.any():
        return f"it is 0 in {low} on all {len(deviation.elements)} of these: a gradient is lost"
    if deviation.factor is not None:
        named = _NAMED.get(deviation.factor, "a constant factor")
        return f"in {low} it is {deviation.factor:.4g} times what it is in float64: {named}"
    return f"a number inside needs a higher precision than {low}, or {low} is treated in another way"


def _renamed(finding: Finding, problem: Problem) -> Finding:
    """The finding with the blocks of the low-precision Problem in its entries."""
    entries = tuple(
        replace(
            entry,
            output=problem.outputs.place(entry.output.coordinate),
            input=problem.inputs.place(entry.input.coordinate),
        )
        for entry in finding.entries
    )
    return replace(finding, entries=entries)
