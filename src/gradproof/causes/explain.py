"""The findings of a wrong Jacobian, with their causes; the one with the best cause first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from gradproof.causes import (
    duplicates,
    factors,
    formulas,
    nonfinite,
    outputs,
    places,
    points,
    reach,
    regions,
    structure,
    terms,
)
from gradproof.causes.arrays import called
from gradproof.causes.cause import Cause, Scope
from gradproof.causes.evidence import Allowance, Evidence, RefusedError
from gradproof.causes.listed import listed
from gradproof.causes.lone import lone_entry
from gradproof.causes.sampling import Samples, sample, samples
from gradproof.core.capabilities import MovesTogether
from gradproof.core.cost import BudgetExhausted
from gradproof.core.failing import evaluations_left
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Mode, OutputChangedError
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.wide import widened
from gradproof.results.finding import Finding

# Pairs that are looked into, the worst first; other inputs that are asked about.
_PAIRS, _OTHERS = 3, 3
# Evaluations that all causes together may take where every entry would take more.
_MOST = 84
# What causes get where more was needed before.
_LEAST = 24
# Evaluations that sampling leaves for regions, and for derivatives at other points.
_FOR_REGIONS, _FOR_POINTS = 32, 16
_TOGETHER = "inputs share memory, so that one is moved with another, which no gradient knows of: check copies of them"
_BOTH = "mismatch in reverse and forward mode for"
# How sure a finding's cause is: a named cause, a region alone, what is known besides.
_CAUSE, _REGION, _KNOWN = 2, 1, 0


@dataclass(frozen=True, slots=True)
class Explained:
    """A cause in words, how much it says, and what was sampled."""

    text: str
    strength: int
    sampled: str = ""


def explained(investigation: Investigation, options: Options, findings: Sequence[Finding]) -> list[Finding]:
    """The same findings: of each wrong pair with a cause, forward and reverse as one, best cause first."""
    joined = _joined(findings)
    wrong = [finding for finding in joined if _is_wrong_pair(finding)]
    if not wrong:
        return joined
    allowance = Allowance(investigation, _most(investigation, options))
    strengths: dict[int, int] = {}
    told: dict[int, Finding] = {}
    accused = frozenset(finding.entries[0].input.block.start for finding in wrong)
    for finding in wrong[:_PAIRS]:
        try:
            cause = _explain(investigation, finding, allowance, accused)
        except (BudgetExhausted, OutputChangedError, RefusedError):  # what is wrong stands without a cause
            break
        strengths[id(finding)] = cause.strength
        told[id(finding)] = _with(finding, cause)
    best_first = sorted(wrong, key=lambda finding: -strengths.get(id(finding), -1))
    replaced = iter([told.get(id(each)) or replace(each, hint=listed(each)) for each in best_first])
    return [next(replaced) if _is_wrong_pair(finding) else finding for finding in joined]


def _is_wrong_pair(finding: Finding) -> bool:
    entries = finding.entries
    return (
        finding.status is Status.WRONG
        and finding.property == "jacobian"
        and finding.kind == ""
        and finding.mode is not None
        and bool(entries)
        and entries[0].input.coordinate >= 0
        and not finding.hint
    )


def _most(investigation: Investigation, options: Options) -> int:
    """So many that a failure takes at most twice what a step for each input takes, or 150 beyond the probe."""
    left = evaluations_left(investigation, options)
    return left if investigation.problem.inputs.size <= options.few_columns else max(_LEAST, min(_MOST, left))


def _with(finding: Finding, cause: Explained) -> Finding:
    headline = finding.headline
    if cause.sampled and finding.located:
        headline = headline.replace("; the worst", f" ({cause.sampled}); the worst")
    return replace(finding, hint=cause.text, headline=headline)


def _joined(findings: Sequence[Finding]) -> list[Finding]:
    """Forward and reverse findings of the same entry as one."""
    reverse = {_entry_key(f): f for f in findings if _is_wrong_pair(f) and f.mode is Mode.REVERSE}
    kept: list[Finding] = []
    both: set[int] = set()
    for finding in findings:
        twin = reverse.get(_entry_key(finding)) if _is_wrong_pair(finding) and finding.mode is Mode.FORWARD else None
        if twin is not None and _alike(finding, twin):
            both.add(id(twin))
        else:
            kept.append(finding)
    return [replace(f, headline=f.headline.replace("mismatch for", _BOTH)) if id(f) in both else f for f in kept]


def _entry_key(finding: Finding) -> tuple[Block, Block] | None:
    entry = finding.entries[0] if finding.entries else None
    return None if entry is None else (entry.output.block, entry.input.block)


def _alike(finding: Finding, other: Finding) -> bool:
    """Whether two findings claim the same for the entries that both name, and both name one at least."""
    theirs = {(entry.output, entry.input): entry.analytic for entry in other.entries}
    shared = [(e.analytic, theirs[e.output, e.input]) for e in finding.entries if (e.output, e.input) in theirs]
    return bool(shared) and all(np.isclose(a, b, rtol=1e-6, equal_nan=True) for a, b in shared)


def _explain(
    investigation: Investigation, finding: Finding, allowance: Allowance, accused: frozenset[int]
) -> Explained:
    """In low precision from the float64 twin, where there is one and it is wrong too: its numbers tell more.

    `accused` are the inputs in which something was found to be wrong, by where they start.
    """
    wide = _twin(investigation)
    if wide is not None and np.isfinite(finding.entries[0].analytic):
        told = _explained_by(wide, finding, allowance, accused)
        if told is not None:
            return told
    return _explained_by(investigation, finding, allowance, accused) or Explained("no usual cause fits", _KNOWN)


def _twin(investigation: Investigation) -> Investigation | None:
    return investigation.once(widened) if investigation.problem.coarsest_eps > DOUBLE else None


def _same(block: Block, blocks: Sequence[Block]) -> Block:
    return next(each for each in blocks if each.start == block.start and each.size == block.size)


def _explained_by(
    investigation: Investigation, finding: Finding, allowance: Allowance, accused: frozenset[int]
) -> Explained | None:
    """The cause; None where nothing that was sampled is wrong."""
    worst, problem = finding.entries[0], investigation.problem
    assert finding.mode is not None
    output, input_ = (
        _same(worst.output.block, problem.outputs.blocks), _same(worst.input.block, problem.inputs.blocks),
    )  # fmt: skip
    if problem.capability(MovesTogether) is not None:
        return Explained(_TOGETHER, _KNOWN)
    if finding.lone:
        return Explained(lone_entry(worst), _REGION)
    evidence = Evidence(investigation, finding.mode, output, input_, allowance)
    evidence.entries, evidence.both_modes = finding.entries, _BOTH in finding.headline
    if not np.isfinite(worst.analytic):
        return Explained(nonfinite.not_finite(evidence), _CAUSE)
    anchors = np.array(list(dict.fromkeys(entry.input.coordinate for entry in finding.entries)), dtype=np.intp)
    evidence.along(evidence.direction)
    sample(evidence, anchors, keep=_FOR_REGIONS)
    found, cotangent = _telling(evidence)
    if not found.right.any():  # wrong everywhere: there is no region to look for
        sample(evidence, anchors, keep=_FOR_POINTS)
        found, cotangent = _telling(evidence)
    if not found.wrong.any():
        return None
    cause = _cause(evidence, found, cotangent)
    where = _where(evidence, found, Scope.PART if cause is None else cause.scope)
    sampled = _sampled(evidence, found)
    if cause is not None:
        return Explained("; ".join(filter(None, (cause.text, where))), _CAUSE, sampled)
    return Explained(
        f"{where or 'no usual cause fits'}; {_known(evidence, found, accused)}", _REGION if where else _KNOWN, sampled
    )


def _telling(evidence: Evidence) -> tuple[Samples, Vector]:
    """What was sampled, for the cotangent that shows the most wrong elements; and this."""
    each = [(samples(evidence, cotangent), cotangent) for cotangent in evidence.cotangents[:2]]
    return max(each, key=lambda known: int(known[0].wrong.sum()))


def _cause(evidence: Evidence, found: Samples, cotangent: Vector) -> Cause | None:
    """The cause that says most of those that hold; None: none does."""
    of_elements = next((cause for fit in _OF_ELEMENTS for cause in fit(evidence, found)), None)
    if of_elements is None:
        return next(_causes(evidence, found, cotangent), None)
    if of_elements.scope is not Scope.UNWRITTEN:
        return of_elements
    elsewhere = chain(places.elsewhere(evidence, found, cotangent), outputs.exchanged(evidence, found))
    return next(elsewhere, of_elements)


def _where(evidence: Evidence, found: Samples, scope: Scope) -> str:
    """What reorders everything is of no region; a sum may lack some outputs only, or have too many at an end."""
    if scope is Scope.WHOLE:
        return ""
    return regions.of_output(evidence) if scope is Scope.TERM else regions.region(evidence, found)


def _causes(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """Every cause that holds, those first that say most."""
    yield from structure.reordered(evidence)
    yield from formulas.input_for_output(evidence, found, cotangent)
    yield from terms.product_rule(evidence, found, cotangent)
    yield from points.of_another_point(evidence)
    yield from structure.transposed_jacobian(evidence)
    yield from _for_all(evidence, reach.own_only, found, cotangent)
    yield from duplicates.lost(evidence, found, cotangent)
    yield from structure.scanned(evidence)
    yield from places.elsewhere(evidence, found, cotangent)
    yield from _for_all(evidence, outputs.own_place, found, cotangent)
    yield from reach.along_fewer_axes(evidence, found)
    for fit in _FACTORS:
        yield from _for_all(evidence, fit, found, cotangent)
    yield from outputs.by_some_outputs(evidence, found)
    for fit in _TERMS:
        yield from _for_all(evidence, fit, found, cotangent)
    yield from formulas.summed(evidence)
    yield from points.left_out(evidence)
    yield from points.summed(evidence)
    yield from reach.along_other_axes(evidence, found)
    yield from outputs.some_lost(evidence, found)
    yield from outputs.by_output(evidence, found)
    yield from outputs.unweighted(evidence, found)
    yield from outputs.exchanged(evidence, found)
    yield from outputs.made_up(evidence, found)


_OF_ELEMENTS = (factors.conjugate, factors.zero, factors.unmoved, factors.constant, factors.rounded)
"""What is asked first: it is seen of each wrong element by itself."""
_Fit = Callable[[Evidence, Samples, np.ndarray], Iterator[Cause]]


def _without_cotangent(fit: Callable[[Evidence, Samples], Iterator[Cause]]) -> _Fit:
    return lambda evidence, found, cotangent: fit(evidence, found)


_FACTORS: tuple[_Fit, ...] = (
    _without_cotangent(places.counted),
    _without_cotangent(factors.by_size),
    factors.by_array,
    factors.by_modulus,
    factors.by_phase,
    formulas.along_another_axis,
    formulas.beside,
)
_TERMS: tuple[_Fit, ...] = (
    terms.of_array,
    terms.of_arrays,
    formulas.summed_term,
    _without_cotangent(factors.inverted),
    _without_cotangent(factors.another_mask),
    factors.near_one,
    _without_cotangent(factors.by_index),
    terms.along_axes,
    _without_cotangent(terms.same_claim),
    formulas.of_claim,
)
"""The order matters: what says more, or is more usual, comes first."""


def _for_all(evidence: Evidence, fit: _Fit, found: Samples, cotangent: np.ndarray) -> Iterator[Cause]:
    """What fits one cotangent must fit another one, which it was not made from."""
    causes = list(fit(evidence, found, cotangent))
    if causes and len(evidence.cotangents) > 1:
        other = next(v for v in evidence.cotangents if v is not cotangent)
        again = set(fit(evidence, samples(evidence, other), other))
        causes = [cause for cause in causes if cause in again]
    yield from causes


def _sampled(evidence: Evidence, found: Samples) -> str:
    telling, wrong = int(found.telling.sum()), int(found.wrong.sum())
    if not wrong:
        return ""
    return f"{wrong} of {telling} sampled elements of {evidence.input.label} are wrong"


def _known(evidence: Evidence, found: Samples, accused: frozenset[int]) -> str:
    """What is known where no cause is: how the error is spread, which inputs are right, what to try."""
    words = [_sampled(evidence, found)]
    right, wrong = _other_inputs(evidence, accused)
    if right:
        are = "is" if len(right) == 1 else "are"
        words.append(f"{', '.join(right)} {are} right: look where only {called(evidence.input)} passes")
    if wrong:
        words.append(f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong too")
    words.append("try fewer elements, or one term of the derivative at a time")
    return "; ".join(filter(None, words))


def _other_inputs(evidence: Evidence, accused: frozenset[int]) -> tuple[list[str], list[str]]:
    """Those that are right along a direction, and those that were found to be wrong: a residual may be of a kink."""
    right: list[str] = []
    wrong: list[str] = []
    for block in evidence.others[:_OTHERS]:
        other = Evidence(evidence.investigation, evidence.mode, evidence.output, block, evidence.allowance)
        off = other.residual(other.direction)
        if off is not None and off <= 1.0:
            right.append(called(block))
        elif block.start in accused:
            wrong.append(called(block))
    return right, wrong
