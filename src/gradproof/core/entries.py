"""The every-entry strategy: the whole Jacobian, numeric against analytic, in blocks.

Only the Jacobian by reverse mode is held, and of that no more outputs at a time than the memory budget allows;
numerical columns and those of forward mode stream past it. Columns that share no output are measured together (see
`colours`). Entries that do not agree at first sight become suspects, whose columns are measured again with the full
ladder before anything is said about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gradproof.core.certificate import Certificate
from gradproof.core.colours import confirmed
from gradproof.core.finding import Status
from gradproof.core.judge import Judge, Statuses, judge, subgradients
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.stencil import Estimate, Stencil
from gradproof.core.types import Indices, Matrix, Vector

# Columns measured at a time, and how many are measured once something is known to be wrong.
_BATCH, _ENOUGH = 16, 16
# Bytes of one block of rows, and the fewest rows that make a batch worth starting.
_CACHE, _LEAST_ROWS = 2**20, 64
# The second ladder's steps, relative to the first's.
STRETCH = 0.71
# Suspects kept for judgement; beyond this the worst stay.
_SUSPECTS = 2_000_000


@dataclass(slots=True)
class Suspects:
    """Entries that did not agree at first sight: output, input, analytic and numeric value, allowed difference."""

    rows: Indices
    columns: Indices
    analytic: Vector
    numeric: Vector
    tolerance: Vector
    excess: Vector

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: Indices) -> Suspects:
        return Suspects(*(getattr(self, name)[which] for name in self.__slots__))

    @staticmethod
    def join(parts: list[Suspects]) -> Suspects:
        return Suspects(*(np.concatenate([getattr(part, name) for part in parts]) for name in Suspects.__slots__))


@dataclass(slots=True)
class Comparison:
    """What comparing one mode with the numerical Jacobian gave: the judged suspects; all other entries agree."""

    mode: Mode
    suspects: Suspects
    error: Vector
    status: Statuses
    sides: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """For suspects at a kink or a jump, by their number: the derivatives of the two sides."""
    located: bool = False
    """Whether these are only the entries that a search came upon: there may be more."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the numerical Jacobian; `settled` if reverse mode was found to agree with it."""

    rows: slice
    columns: slice
    numeric: Matrix
    settled: bool = False


def compare_entries(problem: Problem, options: Options, modes: tuple[Mode, ...]) -> list[Comparison]:
    """Every entry of the Jacobian, for each mode."""
    if not problem.inputs.size or not problem.outputs.size:
        return []
    stencil = Stencil(problem, options.step)
    judgement = Judge(stencil, options)
    found: dict[Mode, list[Suspects]] = {mode: [] for mode in modes}
    problem.cost.expect(_calls(problem, options, modes))
    for panel in _panels(problem, options):
        claimed = _rows(problem, panel, options) if Mode.REVERSE in modes else None
        if claimed is not None and len(claimed) == problem.outputs.size:
            problem.rows = claimed
        tiles = _numeric(stencil, judgement, claimed, panel, _length(problem, options))
        for tile in _all_seen(judgement, tiles) if judgement.looks_for_dust else tiles:
            for mode in modes:
                analytic = _claim(problem, mode, claimed, tile)
                judgement.bear(analytic)
                if not (tile.settled and mode is Mode.REVERSE):
                    found[mode] += _screen(problem, stencil, judgement, tile, analytic)
    if options.certify:
        problem.certificate = _certificate(problem, judgement) | problem.certificate
    return [_examine(problem, stencil, judgement, mode, Suspects.join(found[mode])) for mode in modes if found[mode]]


def _rows(problem: Problem, panel: slice, options: Options) -> Matrix:
    """The Jacobian of these outputs by reverse mode."""
    if problem.has_graph and problem.outputs.size == 1 and problem.cotangent[0] == 1.0:  # that vjp is known
        return problem.pullback[None, :]
    length = _length(problem, options)
    if panel.stop - panel.start <= length:
        return problem.vjp_many(_basis(panel, problem.outputs.size))
    claimed = np.empty((panel.stop - panel.start, problem.inputs.size))
    for start in range(panel.start, panel.stop, length):
        rows = slice(start, min(start + length, panel.stop))
        claimed[start - panel.start : rows.stop - panel.start] = problem.vjp_many(_basis(rows, problem.outputs.size))
    return claimed


def _claim(problem: Problem, mode: Mode, claimed: Matrix | None, tile: Tile) -> Matrix:
    """The analytic Jacobian of a tile."""
    if mode is Mode.REVERSE and claimed is not None:
        return claimed[:, tile.columns]
    return problem.jvp_many(_basis(tile.columns, problem.inputs.size))[:, tile.rows].T


def _numeric(stencil: Stencil, judgement: Judge, claimed: Matrix | None, panel: slice, length: int) -> Iterator[Tile]:
    """The numerical Jacobian of these outputs, some columns at a time; what was confirmed in groups is as claimed."""
    settled = None if claimed is None else confirmed(stencil, judgement, claimed, panel, length)
    for columns in stencil.problem.inputs.chunks(length):
        if claimed is not None and settled is not None and settled[columns].all():
            yield Tile(panel, columns, claimed[:, columns], settled=True)
        else:
            yield Tile(panel, columns, stencil.screen(columns)[:, panel].T)


def _all_seen(judgement: Judge, tiles: Iterator[Tile]) -> list[Tile]:
    """The tiles, after the largest entry among them is known, on which tolerances depend."""
    seen = list(tiles)
    for tile in seen:
        judgement.allow_dust(tile.numeric)
    return seen


def _certificate(problem: Problem, judgement: Judge) -> Certificate:
    """Every entry was compared: nothing beyond the tolerance of the largest entry can have been missed."""
    blocks = [block for block in problem.inputs.blocks if block.size]
    widest = judgement.atol + judgement.rtol * judgement.largest
    return Certificate(tuple((block.label, float(widest[block.slice].max())) for block in blocks), 0.0)


def _length(problem: Problem, options: Options) -> int:
    """Rows of an M- or N-wide array handled at a time: few enough to stay in the processor's cache."""
    width = max(problem.inputs.size, problem.outputs.size, 1)
    return max(_LEAST_ROWS, min(_CACHE, options.memory // 32) // (8 * width))


def _panels(problem: Problem, options: Options) -> Iterator[slice]:
    """The outputs, in runs whose Jacobian takes at most three quarters of the memory budget."""
    height = _height(problem, options)
    for start in range(0, problem.outputs.size, height):
        yield slice(start, min(start + height, problem.outputs.size))


def _height(problem: Problem, options: Options) -> int:
    return max(1, options.memory * 3 // 4 // (8 * max(problem.inputs.size, 1)))


def _calls(problem: Problem, options: Options, modes: tuple[Mode, ...]) -> int:
    """How many calls a comparison takes in which nothing is suspect and no columns can share one, at most."""
    inputs, outputs = problem.inputs.size, problem.outputs.size
    panels = -(-outputs // _height(problem, options))
    reverse, forward = (outputs if Mode.REVERSE in modes else 0), (inputs if Mode.FORWARD in modes else 0)
    return panels * 2 * inputs + reverse + forward


def _basis(which: slice, width: int) -> Matrix:
    basis = np.zeros((which.stop - which.start, width))
    np.fill_diagonal(basis[:, which], 1.0)
    return basis


def _screen(problem: Problem, stencil: Stencil, judgement: Judge, tile: Tile, analytic: Matrix) -> list[Suspects]:
    """The entries of one tile that do not agree at first sight, or that one step is too noisy to see."""
    rows, columns, numeric = tile.rows, tile.columns, tile.numeric
    with np.errstate(all="ignore"):
        difference = problem.inputs.magnitude(analytic - numeric, columns)
        tolerance = problem.inputs.magnitude(numeric, columns)
        relative = judgement.rtol[columns]
        tolerance *= relative + judgement.row_rtol[rows, None] if judgement.has_low_rows else relative
        tolerance += judgement.atol[columns]
        if judgement.one_step_is_sharp and (difference <= tolerance).all():  # nearly always: leave it at that
            return []
        noise, reach = stencil.floor(rows, columns)
        tolerance += np.multiply.outer(judgement.noise[rows], judgement.unresolvable[columns])
        blurred = np.multiply.outer(noise, reach) > tolerance
        at_row, at_column = np.nonzero(~(difference <= tolerance) | (blurred & ((numeric != 0) | (analytic != 0))))
        where = at_row, at_column
        excess = np.nan_to_num(difference[where] / tolerance[where], nan=np.inf)
    suspects = Suspects(
        at_row + rows.start, at_column + columns.start, analytic[where], numeric[where], tolerance[where], excess
    )
    return [suspects] if len(suspects) else []


def _examine(problem: Problem, stencil: Stencil, judgement: Judge, mode: Mode, suspects: Suspects) -> Comparison:
    """Measure the suspects' columns, worst first, and judge; once something is wrong, enough is enough."""
    if len(suspects) > _SUSPECTS:
        suspects = suspects.take(np.argpartition(suspects.excess, -_SUSPECTS)[-_SUSPECTS:])
    error = np.zeros(len(suspects))
    sides: dict[int, tuple[float, float]] = {}
    status = judge(suspects.excess, np.zeros(1), np.ones(1))
    if not stencil.fixed:
        elements = problem.inputs.elements
        worst = np.zeros(elements[-1] + 1 if len(elements) else 0)
        np.maximum.at(worst, elements[suspects.columns], suspects.excess)
        queue = np.unique(elements[suspects.columns])
        queue = queue[np.argsort(-worst[queue], kind="stable")]
        measured = wrong = 0
        while measured < len(queue) and not (wrong and measured >= _ENOUGH):
            batch = queue[measured : measured + _BATCH]
            which = np.flatnonzero(np.isin(elements[suspects.columns], batch))
            _remeasure(problem, stencil, judgement, suspects, which, error, status)
            doubtful = which[status[which] == Status.WRONG.rank]
            if len(doubtful):
                _remeasure(problem, stencil, judgement, suspects, doubtful, error, status, confirm=True)
            sides |= excuse_kinks(stencil, judgement, suspects, which[status[which] > Status.KINK.rank], status)
            wrong += int((status[which] == Status.WRONG.rank).sum())
            measured += len(batch)
    return Comparison(mode, suspects, error, status, sides)


def _remeasure(
    problem: Problem,
    stencil: Stencil,
    judgement: Judge,
    suspects: Suspects,
    which: Indices,
    error: Vector,
    status: Statuses,
    *,
    confirm: bool = False,
) -> None:
    """Replace the first-sight values of the suspects `which` by the ladder's, and judge them.

    To confirm is to climb two ladders with other steps: what is noise on one is not the same noise on the other.
    """
    space = problem.inputs
    columns = np.flatnonzero(np.isin(space.elements, space.elements[suspects.columns[which]]))
    estimate = stencil.measure(columns.tolist(), judgement.sharpness(columns))
    if confirm:
        estimate = estimate & stencil.measure(columns.tolist(), judgement.sharpness(columns), stretch=STRETCH)
    at = np.searchsorted(columns, suspects.columns[which])
    rows = suspects.rows[which]
    analytic = np.array(estimate.value)
    analytic[at, rows] = suspects.analytic[which]
    element = space.elements[columns]
    with np.errstate(all="ignore"):
        size = _modulus(estimate.value, element)[at, rows]
        bar = _modulus(estimate.error, element)[at, rows]
        difference = _modulus(analytic - estimate.value, element)[at, rows]
        at_column = suspects.columns[which]
        tolerance = judgement.tolerance(size, rows, at_column)
        own = np.abs(suspects.analytic[which] - estimate.value[at, rows])
        suspects.excess[which] = np.nan_to_num(own / (tolerance + bar), nan=np.inf)
    suspects.numeric[which] = estimate.value[at, rows]
    suspects.tolerance[which] = tolerance
    error[which] = bar
    status[which] = judge(difference, bar, tolerance, judgement.bearable(at_column))
    unsure = which[status[which] == Status.INCONCLUSIVE.rank]
    with np.errstate(all="ignore"):  # of what cannot be judged, that which differs most comes first
        off = np.abs(suspects.analytic[unsure] - suspects.numeric[unsure])
        suspects.excess[unsure] = np.nan_to_num(off / suspects.tolerance[unsure], nan=np.inf)


def excuse_kinks(
    stencil: Stencil, judgement: Judge, suspects: Suspects, which: Indices, status: Statuses
) -> dict[int, tuple[float, float]]:
    """At kinks and jumps, call those suspects KINK that are valid subgradients, and the others WRONG.

    Returns the derivatives of the two sides, by the number of the suspect.
    """
    found: dict[int, tuple[float, float]] = {}
    for column in np.unique(suspects.columns[which]):
        here = which[suspects.columns[which] == column]
        rows = suspects.rows[here]
        if not stencil.bends(int(column), rows):
            continue
        left, right = (_row(estimate) for estimate in stencil.sides([int(column)], rows))
        size = np.fmax(np.abs(left.value), np.abs(right.value))
        tolerance = judgement.tolerance(size, rows, suspects.columns[here])
        special, valid = subgradients(suspects.analytic[here], left, right, suspects.numeric[here], tolerance)
        status[here[special]] = Status.WRONG.rank
        status[here[valid]] = Status.KINK.rank
        for k in np.flatnonzero(special):
            found[int(here[k])] = (float(left.value[k]), float(right.value[k]))
    return found


def _row(estimate: Estimate) -> Estimate:
    return Estimate(estimate.value[0], estimate.error[0], estimate.evaluations)


def _modulus(values: Matrix, element: Indices) -> Matrix:
    """The size of each row's entries; rows of the same element are the parts of one number."""
    _, group = np.unique(element, return_inverse=True)
    if len(values) == group.max(initial=-1) + 1:
        return np.abs(values)
    squares = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(squares, group, np.square(values))
    return np.sqrt(squares)[group]
