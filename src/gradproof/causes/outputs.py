"""What is claimed of single outputs: a factor for each, exchanged numbers, contributions that are lost or made up.

The claim for one output is a row of the Jacobian, and costs a vjp. The truth is known of the columns that were sampled.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.causes.cause import Cause, Scope
from gradproof.causes.evidence import Evidence, close
from gradproof.causes.sampling import Samples
from gradproof.core.problem import Mode
from gradproof.core.types import Flags, Indices, Vector

# Outputs whose rows are looked at, and those of one element; elements whose outputs are.
_ROWS, _OF_ELEMENT, _ELEMENTS = 12, 3, 6
# Readers of an element that are looked at, all of them.
_READERS = 64
# Elements that one output reads, for their numbers to be compared in any order; rows that must show it.
_READ, _EXCHANGED = 5, 2
# Entries agree to within this part of the largest of their column.
_SAME = 1e-6


def _moved(evidence: Evidence, column: int) -> Flags:
    """Which outputs an element moves, beyond what a step measures where nothing moves."""
    entries = np.abs(evidence.column(column))
    moved: Flags = entries > np.maximum(evidence.round_off(column), _SAME * float(entries.max(initial=0.0)))
    return moved


def _unmoved(evidence: Evidence, column: int) -> Flags:
    """Which outputs an element does not move: what a step measures there is round-off. Small is not still."""
    still: Flags = np.abs(evidence.column(column)) <= evidence.round_off(column)
    return still


def _row(evidence: Evidence, output: int) -> Vector:
    """The claimed row of one coordinate of the output."""
    unit = np.zeros(evidence.output.size)
    unit[output] = 1.0
    return evidence.claimed(unit)


def _at(evidence: Evidence, output: int) -> str:
    """The element of the output that one of its coordinates belongs to."""
    return str(list(evidence.problem.outputs.place(evidence.output.start + output).element))


def _element(evidence: Evidence, column: int) -> str:
    return str(list(evidence.problem.inputs.place(column).element))


def _is_plain(evidence: Evidence) -> bool:
    return evidence.mode is Mode.REVERSE and evidence.output.size > 1 and evidence.output.elements is None


# a factor for each output


def by_output(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Each row is the truth times a factor of its own."""
    ratios = _ratios(evidence, found)
    factors = np.array(list(ratios.values()))
    if not ratios:
        return
    values = evidence.problem.value[evidence.output.start + np.array(list(ratios))]
    with np.errstate(all="ignore"):
        if close(factors * values, np.full(len(factors), np.median(factors * values)), 0.0, 1e-4).all():
            yield Cause("analytic ≈ numeric / the output, for each output: it is not multiplied by it")
            return
        if close(factors / values, np.full(len(factors), np.median(factors / values)), 0.0, 1e-4).all():
            yield Cause("analytic ≈ numeric × the output, for each output: it is multiplied by it once too often")
            return
    yield Cause(f"analytic ≈ numeric × a factor for each output: {_told(evidence, ratios)}")


def by_some_outputs(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The same, where some rows are right: what is wrong is with the others, and no sum is missing."""
    ratios = _ratios(evidence, found)
    if any(abs(ratio - 1.0) <= _SAME for ratio in ratios.values()):
        yield Cause(f"analytic ≈ numeric × a factor for each output: {_told(evidence, ratios)}")


def _ratios(evidence: Evidence, found: Samples) -> dict[int, float]:
    """The factors of some rows; none where a row has not one factor, or all have the same."""
    known = evidence.along(evidence.direction) if _is_plain(evidence) else None
    if known is None or not np.isfinite(known[0]).all() or not len(found):
        return {}
    ratios: dict[int, float] = {}
    for row in _some_readers(evidence, found):
        ratio = _ratio(evidence, found.columns, row, (float(known[0][row]), float(known[1][row])))
        if ratio is None:
            return {}
        if ratio:
            ratios[row] = ratio
    factors = np.array(list(ratios.values()))
    return ratios if len(factors) > 2 and np.ptp(factors) > 1e-3 * np.abs(factors).max() else {}


def _told(evidence: Evidence, ratios: dict[int, float]) -> str:
    """The first output that has each of a few factors."""
    first: dict[str, int] = {}
    for row, ratio in sorted(ratios.items()):
        first.setdefault(f"{ratio:.4g}", row)
    told = ", ".join(f"{factor} at {_at(evidence, row)}" for factor, row in list(first.items())[:4])
    return f"{told}{', ...' if len(first) > 4 else ''}"


def _some_readers(evidence: Evidence, found: Samples) -> list[int]:
    """Outputs that sampled elements move, wrong ones first."""
    rows: dict[int, None] = {}
    for column in [*found.columns[found.wrong].tolist(), *found.columns[found.right].tolist()]:
        moved = np.flatnonzero(_moved(evidence, column))
        if len(moved):
            picked = moved[np.unique(np.linspace(0, len(moved) - 1, _OF_ELEMENT).round().astype(np.intp))]
            rows.update(dict.fromkeys(picked.tolist()))
        if len(rows) >= _ROWS:
            break
    return list(rows)[:_ROWS]


def _ratio(evidence: Evidence, columns: Indices, row: int, along: tuple[float, float]) -> float | None:
    """The factor of one row; 0 where too little is known of it, None where it has not one factor."""
    value, error = along
    claims = _row(evidence, row)
    inside = columns - evidence.input.start
    truth = np.array([evidence.column(c)[row] for c in columns.tolist()])
    moved = np.array([_moved(evidence, c)[row] for c in columns.tolist()], dtype=np.bool_)
    if not moved.any() or abs(value) <= 1e3 * error:
        return 0.0
    ratio = float(np.median(claims[inside][moved] / truth[moved]))
    known = float(truth[moved] @ evidence.direction[inside][moved])
    if moved.sum() < 2 and abs(value - known) <= 1e-3 * abs(value):
        return None  # the output reads one element only: every claim has a ratio
    holds = close(claims[inside][moved], ratio * truth[moved], 1e-5 * float(np.abs(truth).max())).all()
    total = float(claims @ evidence.direction)
    return ratio if holds and abs(total - ratio * value) <= 1e-4 * abs(total) else None


# contributions


def some_lost(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Of the outputs that read an element, all are claimed rightly or not at all."""
    wrong = found.columns[found.wrong][:_ELEMENTS].tolist()
    if not _is_plain(evidence) or len(wrong) < 2:
        return
    counted = lost = 0
    for column in wrong:
        rows, truth = np.flatnonzero(_moved(evidence, column)), evidence.column(column)
        if not 1 < len(rows) <= _READERS:
            return
        claims = np.array([_row(evidence, row)[column - evidence.input.start] for row in rows.tolist()])
        right = close(claims, truth[rows], _SAME * float(np.abs(truth).max()))
        if not (right | (claims == 0)).all():
            return
        counted, lost = counted + int(right.sum()), lost + int((~right).sum())
    if counted and lost:
        yield Cause(
            f"of several outputs that read one element, only some are counted and the others are 0, for {len(wrong)} "
            "wrong elements that were looked at: perhaps contributions are not added up, those of one of several uses "
            "are missing, or others are read than in the function",
            Scope.PART,
        )


def unweighted(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The claim is the same number for every output that reads an element, whatever they make of it."""
    columns = [*found.columns[found.wrong][:_ELEMENTS].tolist(), *found.columns[found.right][:_OF_ELEMENT].tolist()]
    if not _is_plain(evidence) or len(columns) < 2:
        return
    claims: list[float] = []
    truths: list[float] = []
    for column in columns:
        rows = np.flatnonzero(_moved(evidence, column))
        if not 0 < len(rows) <= _ROWS:
            return
        truths += evidence.column(column)[rows].tolist()
        claims += [float(_row(evidence, row)[column - evidence.input.start]) for row in rows.tolist()]
        if not close(np.array(claims), np.full(len(claims), claims[0]), 0.0, _SAME).all() or not claims[0]:
            return
    if len(claims) > _OF_ELEMENT and np.ptp(truths) > 1e-3 * np.abs(truths).max():
        name = evidence.problem.words.cotangent
        yield Cause(
            f"analytic is {claims[0]:.4g} × {name} for every output that reads an element, and numeric is not the same "
            "for all of them: a factor that differs (weights, a window, a scale for each block) is missing, or the "
            "first of it is taken for all"
        )


def made_up(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """Elements get something from outputs that do not depend on them."""
    wrong = found.columns[found.wrong]
    if not _is_plain(evidence) or not len(wrong):
        return
    wrong = wrong[np.unique(np.linspace(0, len(wrong) - 1, _ELEMENTS).round().astype(int))].tolist()
    from_others = asked = 0
    for column in wrong:
        still = _unmoved(evidence, column)
        if not still.any():
            continue
        cotangent = np.where(still, evidence.cotangents[0], 0.0)
        claim = float(evidence.claimed(cotangent)[column - evidence.input.start])
        whole = float(evidence.claimed(evidence.cotangents[0])[column - evidence.input.start])
        asked, from_others = asked + 1, from_others + (abs(claim) > 1e-3 * abs(whole))
    if from_others > 1 and 2 * from_others >= asked:
        yield Cause(
            f"analytic counts outputs that do not depend on the element, for {from_others} of {asked} wrong elements "
            "that were looked at: perhaps a mask is not applied, a sum runs over too many (other segments, blocks or "
            "rows), a term is missing that cancels them, or others are read than in the function",
            Scope.PART,
        )


def own_place(evidence: Evidence, found: Samples, cotangent: Vector) -> Iterator[Cause]:
    """Each element moves one output, and its claim is made with the cotangent at its own place, where that is not."""
    telling = found.take(found.telling & (np.abs(found.truth) > found.bar))
    alike = evidence.output.shape == evidence.input.shape and evidence.output.parts == evidence.input.parts
    if not _is_plain(evidence) or not alike or len(telling) < 3:
        return
    inside = telling.columns - evidence.input.start
    rows = np.zeros(len(telling), dtype=np.intp)
    for k, column in enumerate(telling.columns.tolist()):
        moved = np.flatnonzero(_moved(evidence, column))
        if len(moved) != 1:
            return
        rows[k] = moved[0]
    entries = np.array([evidence.column(c)[r] for c, r in zip(telling.columns.tolist(), rows.tolist(), strict=True)])
    if (rows != inside).any() and close(telling.claim, entries * cotangent[inside], telling.bar).all():
        k, name = int(np.flatnonzero(rows != inside)[0]), evidence.problem.words.cotangent
        own, there = _element(evidence, int(telling.columns[k])), _at(evidence, int(rows[k]))
        yield Cause(
            f"element {own} moves the output at {there}, and takes {name} from {own}: {name} is not gathered by the "
            "index that the function scatters with"
        )


# order


def exchanged(evidence: Evidence, found: Samples) -> Iterator[Cause]:
    """The numbers of the few elements that an output reads, or is claimed to read, stand at one another's places."""
    if not _is_plain(evidence):
        return
    shown, told = 0, ""
    for row in _some_readers(evidence, found)[: 2 * _EXCHANGED]:
        claims = _row(evidence, row)
        read = np.flatnonzero(claims) + evidence.input.start
        moving = [c for c in found.columns.tolist() if _moved(evidence, c)[row]]
        places = np.unique(np.concatenate([read, np.array(moving, dtype=np.intp)]))
        if not 2 <= len(places) <= _READ or 2 * len(places) > evidence.allowance.left:
            return
        evidence.measure(places)
        if not np.isin(places, evidence.measured).all():
            return
        truth = np.array([evidence.column(c)[row] for c in places.tolist()])
        claimed, size = claims[places - evidence.input.start], float(np.abs(truth).max())
        if close(claimed, truth, _SAME * size).all():
            continue
        if not close(np.sort(claimed), np.sort(truth), 1e-5 * size).all():
            return
        first = int(np.argmax(np.abs(truth)))
        there = int(np.argmin(np.abs(claimed - truth[first])))
        own, other = (_element(evidence, int(places[k])) for k in (first, there))
        told = told or f"the output at {_at(evidence, row)} has from {own} what is claimed of {other}"
        shown += 1
    if shown >= _EXCHANGED:
        yield Cause(
            f"analytic has the numbers of the elements that one output reads at one another's places: {told}: weights "
            "of neighbours are exchanged, or an index map is wrong"
        )
