"""The every-entry strategy: the whole Jacobian, numeric against analytic, in blocks.

Only the Jacobian by reverse mode is held, and of that no more outputs at a time than the memory budget allows;
numerical columns and those of forward mode stream past it. Columns that share no output are measured together (see
`colours`). Entries that do not agree at first sight become suspects, of which the judge measures the columns again
before anything is said about them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.colours import confirmed
from gradproof.core.directions import draw_direction
from gradproof.core.draws import basis
from gradproof.core.drowned import BURIED, hidden_behind_order_one, order_of
from gradproof.core.flags import every, some
from gradproof.core.investigation import Investigation
from gradproof.core.jacobians import Screened
from gradproof.core.judge import Judge
from gradproof.core.ladder import rungs
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Mode, Problem
from gradproof.core.screened import Claimed, Repeated, can_confirm, differs
from gradproof.core.seen import Seen
from gradproof.core.segments import clear, disputed
from gradproof.core.status import Status
from gradproof.core.stencil import Stencil
from gradproof.core.survey import Survey
from gradproof.core.suspects import Judged, Suspects
from gradproof.core.together import Claim, joined, judge_many
from gradproof.core.tolerances import Tolerances
from gradproof.core.types import Flags, Indices, Matrix

# Bytes of one block of rows, and the fewest rows that make a batch worth starting.
_CACHE, _LEAST_ROWS = 2**20, 64
# The part of the memory budget that the Jacobians held at a time may take; the rest is for batches.
_HELD = 0.75
# Entries up to which the numerical Jacobian is kept, to be confirmed as a whole and diagnosed.
KEPT = 2**22


@dataclass(frozen=True, slots=True)
class EveryEntry:
    """The suspects of each mode that has any, judged; and what was seen, where a certificate is wanted."""

    judged: list[Judged]
    seen: Seen | None
    unseen: list[str] = field(default_factory=list[str])
    """Where round-off hides more than the tolerances that were asked for allow: what could hide, in words."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """A part of the numerical Jacobian; `settled` if reverse mode was found to agree with it."""

    rows: slice
    columns: slice
    numeric: Matrix
    bent: Flags | None = None
    """Entries with a bend within the steps that these values come from; None: not any."""
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What is known before every entry is compared."""

    survey: Survey | None = None
    """For the certificate: it shows whether there are kinks."""
    outputs: slice | None = None
    """A run that suffices, because the others are right; not where a tolerance or a certificate rests on them."""
    largest: Sequence[float] | None = None
    """No entry is excused more than entries of this size of each input are."""
    counted: Sequence[float] | None = None
    """What makes small entries negligible is the largest entry of an input, counted as no larger than this."""


_NOTHING_KNOWN = Known()


def every_entry(
    investigation: Investigation, options: Options, modes: tuple[Mode, ...], known: Known = _NOTHING_KNOWN
) -> EveryEntry:
    """Every entry of the Jacobian, for each mode."""
    problem = investigation.problem
    if not problem.inputs.size or not problem.outputs.size:
        return EveryEntry([], None)
    stencil = Stencil(investigation, options.step, excused=options.atol or 0.0)
    tolerances = Tolerances(stencil, options)
    tolerances.bound(known.largest)
    tolerances.count_at_most(known.counted)
    found: dict[Mode, list[Suspects]] = {mode: [] for mode in modes}
    needs_largest = tolerances.needs_largest
    height, length = _height(problem, options, keeps_tiles=needs_largest), length_of(problem, options)
    investigation.cost.expect(_calls(problem, height, modes))
    whole = slice(0, problem.outputs.size)
    survey = _surveyed(stencil) if known.survey is None and options.certify else known.survey
    run = whole if known.outputs is None or needs_largest else known.outputs
    kept: list[_Tile] = []
    is_kept = problem.inputs.size * problem.outputs.size <= KEPT and run == whole
    for panel in _panels(run, height):
        claimed = investigation.jacobian_rows(panel, length) if Mode.REVERSE in modes else None
        if claimed is not None:
            tolerances.learn_analytic(claimed, panel, slice(0, problem.inputs.size))
        tiles = _numeric(stencil, tolerances, claimed, panel, length)
        for tile in _all_seen(tolerances, tiles) if needs_largest else tiles:
            kept += [tile] if is_kept else []
            for mode in modes:
                analytic = _claim(investigation, mode, claimed, tile)
                if mode is not Mode.REVERSE:
                    tolerances.learn_analytic(analytic, tile.rows, tile.columns)
                if not (tile.settled and mode is Mode.REVERSE):
                    found[mode] += _screen(stencil, tolerances, tile, analytic)
                found[mode] += _straddled(stencil, tolerances, tile, analytic)
                found[mode] += _reached_over(stencil, tolerances, survey, tile, analytic)
    suspects = {mode: Suspects.join(parts).unique() for mode, parts in found.items() if parts}
    numeric = _whole(problem, kept) if suspects and is_kept else None
    judged = [_judged(stencil, tolerances, mode, each, numeric) for mode, each in suspects.items()]
    if Mode.REVERSE in modes and (slopes := disputed(stencil)) is not None:
        judged.append(slopes)
    investigation.screened = None if numeric is None else Screened(numeric, stencil.step)
    seen = seen_of(tolerances, judged, survey) if survey is not None and options.certify else None
    is_wrong = any(each.is_wrong for each in judged)
    return EveryEntry(judged, seen, [] if is_wrong else _drowned(tolerances, problem, investigation.made))


def _judged(stencil: Stencil, tolerances: Tolerances, mode: Mode, suspects: Suspects, numeric: Matrix | None) -> Judged:
    """The suspects of a mode: what another look confirms to be wrong is not measured by a ladder."""
    known = None
    if numeric is not None and not stencil.fixed and can_confirm(stencil.problem):
        parts = Judge(stencil, tolerances).confirm_worst(mode, suspects, Repeated(numeric, stencil))
        known = None if parts is None else joined([part for part in parts if len(part.suspects)])
    found = known or judge_many(stencil, tolerances, mode, suspects, _along(stencil.investigation, mode))
    clear(stencil, tolerances, found)
    return found


def _whole(problem: Problem, tiles: list[_Tile]) -> Matrix:
    """The numerical Jacobian, put together from its tiles."""
    whole = np.empty((problem.outputs.size, problem.inputs.size))
    for tile in tiles:
        whole[tile.rows, tile.columns] = tile.numeric
    return whole


def _along(investigation: Investigation, mode: Mode) -> Claim | None:
    """The analytic derivative along a direction; None where not all rows are at hand."""
    if mode is Mode.FORWARD:
        return investigation.jvp
    rows = investigation.rows
    return None if rows is None else lambda direction: rows @ direction


def _surveyed(stencil: Stencil) -> Survey:
    survey = Survey(stencil, draw_direction(stencil))
    exponents = rungs(float(stencil.eps.max()))
    middle = exponents[len(exponents) // 2]
    survey.climb(middle, exponents[-1] if exponents[-1] > middle else middle + 1)
    return survey


def _claim(investigation: Investigation, mode: Mode, claimed: Matrix | None, tile: _Tile) -> Matrix:
    """The analytic Jacobian of a tile."""
    if mode is Mode.REVERSE and claimed is not None:
        return claimed[:, tile.columns]
    return investigation.jvp_many(basis(tile.columns, investigation.problem.inputs.size))[:, tile.rows].T


def _numeric(
    stencil: Stencil, tolerances: Tolerances, claimed: Matrix | None, panel: slice, length: int
) -> Iterator[_Tile]:
    """The numerical Jacobian of these outputs, some columns at a time; what was confirmed in groups is as claimed."""
    found = None if claimed is None else confirmed(stencil, tolerances, claimed, panel, length)
    for columns in stencil.problem.inputs.chunks(length):
        if claimed is not None and found is not None and every(found.columns[columns]):
            here = claimed[:, columns]
            bent = None if found.bent is None else np.broadcast_to(found.bent[:, None], here.shape)
            yield _Tile(panel, columns, here, bent, settled=True)
        else:
            numeric, bent = stencil.screen_bends(columns)
            yield _Tile(panel, columns, numeric[:, panel].T, None if bent is None else bent[:, panel].T)


def _all_seen(tolerances: Tolerances, tiles: Iterator[_Tile]) -> list[_Tile]:
    """The tiles, after the largest entries of each pair are known, on which tolerances depend."""
    kept = list(tiles)
    for tile in kept:
        tolerances.learn_numeric(tile.numeric, tile.rows, tile.columns)
    return kept


def seen_of(tolerances: Tolerances, judged: list[Judged], survey: Survey) -> Seen:
    """Every entry was compared: nothing can have been missed beyond the tolerance of the largest entry.

    Of entries that were measured again, error bars excuse more; at a kink, all between its two sides is excused. Of an
    output that is no number here, nothing was seen.
    """
    excused = survey.between_sides()
    for each in judged:
        bars = tolerances.hidden_by_bars * each.error + each.suspects.tolerance
        for k, (left, right) in each.sides.items():
            bars[k] += abs(right - left)
        bars[each.status == Status.WRONG.rank] = 0.0
        np.maximum.at(excused, each.suspects.columns, bars)
    if not every(np.isfinite(survey.stencil.problem.value)):
        excused[:] = np.inf
    blocks = enumerate(zip(survey.stencil.problem.inputs.blocks, hidden_behind_order_one(survey), strict=True))
    smallest = (
        max(tolerances.widest(k), hidden, float(excused[block.slice].max(initial=0.0))) for k, (block, hidden) in blocks
    )
    return Seen(tuple(smallest), 0.0)


def _drowned(tolerances: Tolerances, problem: Problem, made: Problem) -> list[str]:
    """The pairs that pass because no step sees as much as was asked for, in words."""
    if problem.noise is not None:
        return _clouded(tolerances, problem) if made.coarsest_eps <= DOUBLE else []
    if not tolerances.asks_too_much and not tolerances.is_default:
        return []
    hides = tolerances.buries if tolerances.is_default else tolerances.drowns
    pairs = itertools.product(enumerate(problem.outputs.blocks), enumerate(problem.inputs.blocks))
    pairs = ((k, i) for k, i in pairs if k[1].size and i[1].size)
    sizes = ((hides(k, i), output, input_) for (k, output), (i, input_) in pairs)
    return [
        f"at any step round-off hides an error of up to {size:.1g} in {output.label} with respect to {input_.label}"
        for size, output, input_ in sizes
        if size
    ]


def _clouded(tolerances: Tolerances, problem: Problem) -> list[str]:
    """The pairs that pass because noise of the function hides much of what is claimed, in words.

    Not where that is round-off of numbers of order one, and claims are as small.
    """
    told: list[str] = []
    round_off = BURIED * DOUBLE * float(order_of(problem).max(initial=1.0))
    for (k, output), (i, input_) in itertools.product(
        enumerate(problem.outputs.blocks), enumerate(problem.inputs.blocks)
    ):
        size = tolerances.clouds(k, i) if output.size and input_.size else 0.0
        noise = float(tolerances.noise[output.slice].max()) if size else 0.0
        if noise > round_off:
            told.append(
                f"{output.label} is noisy by {noise:.1g}, as steps about as wide make it, and an error of up to "
                f"{size:.1g} could hide in an entry with respect to {input_.label}"
            )
    return told


def length_of(problem: Problem, options: Options) -> int:
    """Rows of an M- or N-wide array handled at a time: few enough to stay in the processor's cache."""
    width = max(problem.inputs.size, problem.outputs.size, 1)
    return max(_LEAST_ROWS, min(_CACHE, options.memory // 32) // (8 * width))


def _panels(outputs: slice, height: int) -> Iterator[slice]:
    """A run of outputs, in runs of this height."""
    for start in range(outputs.start, outputs.stop, height):
        yield slice(start, min(start + height, outputs.stop))


def _height(problem: Problem, options: Options, *, keeps_tiles: bool) -> int:
    """How many outputs' Jacobians fit into memory: the analytic one and, where tiles are kept, the numerical one."""
    held = 2 if keeps_tiles else 1
    return max(1, int(_HELD * options.memory) // (held * 8 * max(problem.inputs.size, 1)))


def _calls(problem: Problem, height: int, modes: tuple[Mode, ...]) -> int:
    """How many calls a comparison takes in which nothing is suspect and no columns can share one, at most."""
    inputs, outputs = problem.inputs.size, problem.outputs.size
    reverse, forward = (outputs if Mode.REVERSE in modes else 0), (inputs if Mode.FORWARD in modes else 0)
    return -(-outputs // height) * 2 * inputs + reverse + forward


def _straddled(stencil: Stencil, tolerances: Tolerances, tile: _Tile, analytic: Matrix) -> list[Suspects]:
    """Entries that do not agree with a step of the coordinate's own size, where the screening step is far longer."""
    is_tiny = stencil.tiny[tile.columns]
    if not some(is_tiny):
        return []
    tiny = np.flatnonzero(is_tiny)
    index = tiny + tile.columns.start
    value, floor = (part[:, tile.rows].T for part in stencil.screen_tiny(index))
    with np.errstate(all="ignore"):
        difference = np.abs(analytic[:, tiny] - value)
        rtol = tolerances.rtol[index] + tolerances.row_rtol[tile.rows, None]
        tolerance = tolerances.atol(tile.rows, index) + rtol * np.abs(value) + floor
        at_row, at_column = where = np.nonzero(difference > tolerance)
        excess = np.nan_to_num(difference[where] / tolerance[where], nan=np.inf)
    columns = tiny[at_column]
    suspects = Suspects(
        at_row + tile.rows.start,
        index[at_column],
        analytic[at_row, columns],
        tile.numeric[at_row, columns],
        tolerance[where],
        excess,
    )
    return [suspects] if len(suspects) else []


def _reached_over(
    stencil: Stencil, tolerances: Tolerances, survey: Survey | None, tile: _Tile, analytic: Matrix
) -> list[Suspects]:
    """Entries of which a far finer step to one side says something else, where steps have come upon kinks.

    The mean of the two sides is no derivative beside a kink, though a step that reaches over it agrees.
    """
    bent = tile.bent
    if survey is not None and (reaching := survey.reaches_over[tile.rows]).any():
        bent = reaching[:, None] | (np.zeros(tile.numeric.shape, dtype=np.bool_) if bent is None else bent)
    if bent is None or stencil.fixed:
        return []
    rows, columns = (np.flatnonzero(bent.any(axis=axis)) for axis in (1, 0))
    where, at_rows, at_columns = np.ix_(rows, columns), rows + tile.rows.start, columns + tile.columns.start
    numeric = tile.numeric[where]
    with np.errstate(all="ignore"):
        places = np.repeat(at_rows, len(columns)), np.tile(at_columns, len(rows))
        allowed = tolerances.of(np.abs(numeric).ravel(), *places).reshape(numeric.shape)
    claimed = Claimed(analytic[where], allowed)
    found = bent[where] & differs(stencil, numeric, claimed, at_columns, at_rows)
    return _accused(claimed, numeric, (at_rows, at_columns), found)


def _accused(claimed: Claimed, numeric: Matrix, places: tuple[Indices, Indices], found: Flags) -> list[Suspects]:
    """Those of some rows and columns that were found."""
    (rows, columns), (at_row, at_column) = places, np.nonzero(found)
    if not len(at_row):
        return []
    analytic, tolerance = claimed.values[found], claimed.allowed[found]
    with np.errstate(all="ignore"):
        excess = np.nan_to_num(np.abs(analytic - numeric[found]) / tolerance, nan=np.inf)
    return [Suspects(rows[at_row], columns[at_column], analytic, numeric[found], tolerance, excess)]


def suspects_of(stencil: Stencil, tolerances: Tolerances, numeric: Matrix, analytic: Matrix) -> Suspects | None:
    """Those of all entries that do not agree at first sight; None: all do."""
    problem = stencil.problem
    tile = _Tile(slice(0, problem.outputs.size), slice(0, problem.inputs.size), numeric)
    return next(iter(_screen(stencil, tolerances, tile, analytic)), None)


def _screen(stencil: Stencil, tolerances: Tolerances, tile: _Tile, analytic: Matrix) -> list[Suspects]:
    """The entries of one tile that do not agree at first sight, or that one step is too noisy to see."""
    rows, columns, numeric = tile.rows, tile.columns, tile.numeric
    space = stencil.problem.inputs
    difference = space.magnitude(analytic - numeric, columns)
    tolerance = tolerances.bounded(space.magnitude(numeric, columns), columns)
    relative = tolerances.rtol[columns]
    tolerance *= relative + tolerances.row_rtol[rows, None] if tolerances.has_low_rows else relative
    tolerance += tolerances.atol(rows, columns)
    tolerance *= tolerances.at_first_sight
    if tolerances.one_step_is_sharp and every(difference <= tolerance):  # nearly always: leave it at that
        return []
    noise, reach = stencil.floor(rows, columns)
    tolerance += tolerances.floor(rows, columns)
    blurred = np.multiply.outer(noise, reach) > tolerance
    at_row, at_column = np.nonzero(~(difference <= tolerance) | (blurred & ((numeric != 0) | (analytic != 0))))
    where = at_row, at_column
    # what is not measured again is wrong only beyond the round-off of its one step
    excess = np.nan_to_num(difference[where] / (tolerance[where] + noise[at_row] * reach[at_column]), nan=np.inf)
    suspects = Suspects(
        at_row + rows.start, at_column + columns.start, analytic[where], numeric[where], tolerance[where], excess
    )
    return [suspects] if len(suspects) else []
