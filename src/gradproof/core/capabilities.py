"""What a backend may be able to do besides applying a derivative.

Each capability is a small value made of functions, handed over in `Problem.capabilities`. A property names those it
needs; what a backend does not offer is reported as not covered. None of these functions counts anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from gradproof.core.precision import DOUBLE
from gradproof.core.problem import Apply, Mode, Problem
from gradproof.core.space import Block
from gradproof.core.types import Flags, Indices, Matrix, Vector


class Omission(NamedTuple):
    """Leave some cotangents or tangents out altogether: those of the blocks whose numbers are in the set."""

    vjp: Callable[[Vector, frozenset[int]], Vector] | None
    jvp: Callable[[Vector, frozenset[int]], Vector] | None


class MemoryLayout(enum.Enum):
    """How the memory of a cotangent is arranged; its values are the same."""

    CONTIGUOUS = "contiguous"
    EXPANDED = "expanded (stride 0), one number in memory for all elements"
    SLICED = "a slice with gaps and an offset"
    TRANSPOSED = "transposed"
    CHANNELS_LAST = "channels last"


class MemoryLayouts(NamedTuple):
    """Arrange the memory of cotangents. `possible` are the layouts that some cotangent can have.

    For the expanded one, the coordinates of each block must be the same. `without` leaves some cotangents out at the
    same time, as `Omission` does; None: that cannot be asked.
    """

    possible: frozenset[MemoryLayout]
    vjp: Callable[[Vector, MemoryLayout], Vector]
    without: Callable[[Vector, frozenset[int], MemoryLayout], Vector] | None = None


class Watched(NamedTuple):
    """What a vjp gave, and what it wrote to that was not its own, in words."""

    gradient: Vector
    overwritten: tuple[str, ...]

    def and_also(self, overwritten: Collection[str]) -> Watched:
        """The same, with what else was written to."""
        if not overwritten:
            return self
        return self._replace(overwritten=tuple(dict.fromkeys((*self.overwritten, *overwritten))))


class MemoryWatch(NamedTuple):
    """Watch memory that a vjp must not write to; and which inputs the function itself wrote to, in words.

    `consumed` says what vjps were seen to overwrite so far of what was saved for them.
    """

    vjp: Callable[[Vector, MemoryLayout], Watched]
    overwritten_inputs: tuple[str, ...]
    consumed: Callable[[], tuple[str, ...]] = tuple


class Walk(NamedTuple):
    """F at several steps from the point along one direction, without an array for each point and each value.

    `visit` hands over the value at each step in turn. It may be kept if it is writeable; else it may be the function's
    own memory. `evaluate` is what it belongs to: a Problem that evaluates otherwise has no use for it.
    """

    evaluate: Apply
    visit: Callable[[Vector, Iterable[float], Callable[[Vector], None]], None]


class Anew(NamedTuple):
    """Whether each vjp calls the function first by now: of one that consumes what it saved, or its inputs."""

    is_needed: Callable[[], bool]


class Stateless(NamedTuple):
    """The vjp may be made of the framework's own operations alone, which keep nothing from call to call.

    What such a vjp answered is not asked again for a change that shows at every so many calls only.
    """

    holds: Callable[[], bool] = lambda: True
    """Whether it is, as far as is known by now: hooks may show when they are called first."""


def is_stateless(problem: Problem) -> bool:
    """Whether all operations of the vjp are the framework's own, and none was hooked, as far as is known by now."""
    told = problem.capability(Stateless)
    return told is not None and told.holds()


def is_pushed_once(problem: Problem) -> bool:
    """Whether the shared tangent is pushed as a negative multiple: all operations are the framework's own, in double.

    Where what it gives is measured, too, a rule that is not linear in it gives itself away by that.
    """
    return problem.coarsest_eps <= DOUBLE and is_stateless(problem)


@dataclass(frozen=True, slots=True)
class Form:
    """What an array is besides its values, in the framework's own words."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    device: str


class Misshapen(NamedTuple):
    """A block whose gradient or tangent has another form than it should."""

    block: Block
    wanted: Form
    got: Form


class Gradients(Protocol):
    """The gradients of one vjp, as the framework's own arrays, to be looked at."""

    coordinates: Vector

    def misshapen(self) -> list[Misshapen]: ...

    def aliased(self) -> list[tuple[Block, str]]:
        """The blocks whose gradient shares memory with something that is not its own: what, in words."""
        ...

    def share_memory(self, later: Any) -> bool:
        """Whether some lie in the memory of those of a later vjp, of the same kind."""
        ...

    def overwritten(self) -> list[Block]:
        """The blocks whose gradient holds something else by now than what was returned."""
        ...

    def overwritten_cotangents(self) -> list[str]:
        """The cotangents that hold something else by now than they did, in words."""
        ...


class Tangents(Protocol):
    """The output tangents of one jvp, to be looked at."""

    coordinates: Vector

    def misshapen(self) -> list[Misshapen]: ...


class Inspection(NamedTuple):
    """Keep what a vjp or jvp returned, so that its form and memory can be looked at."""

    vjp: Callable[[Vector], Gradients] | None
    jvp: Callable[[Vector], Tangents] | None


class Batching(NamedTuple):
    """Answer many questions at once, one row each. Nobody relies on it before a witness: see `core.batches`.

    `evaluate(rows, run, still)` takes rows that hold the coordinates of a run of whole blocks; all others, and the
    blocks in `still`, are at the point in every row. `least_evaluations` and `least_products` are the numbers of rows
    from which on a batch is worth starting, for evaluations and for vjps and jvps.
    """

    evaluate: Callable[[Matrix, slice, frozenset[int]], Matrix] | None
    vjp: Callable[[Matrix], Matrix] | None
    jvp: Callable[[Matrix], Matrix] | None
    least_evaluations: int
    least_products: int


@dataclass(frozen=True, slots=True)
class Here:
    """How a question of some kind is asked in this process, how long its answer is, and how calls are counted."""

    ask: Callable[[Vector], Vector]
    width: int
    count: Callable[[int], None]


Asked = Callable[[Matrix, Here], Matrix]


class Workers(NamedTuple):
    """Plain calls in other processes, many at a time. The answers are those of plain calls, to the last bit."""

    evaluate: Asked
    vjp: Asked | None
    jvp: Asked | None


class Pairing(NamedTuple):
    """The outputs are the gradient of one real number: the input coordinate of each."""

    inputs: Indices


class Side(NamedTuple):
    """Another implementation of the same map at the same point: its value, and its vjp for a cotangent."""

    value: Vector
    vjp: Callable[[Vector], Vector]


class Reference(NamedTuple):
    """An implementation to compare with, and the same in higher precision: the truth, if there is one.

    `misfits` says in words what cannot be compared at all: another number of outputs, another shape or dtype.
    """

    side: Side
    truth: Side | None
    misfits: tuple[tuple[int | None, str], ...] = ()
    """Each with the number of its output, if it has one."""
    evaluations: int = 0
    vjps: int = 0
    """The calls that it took to find all this out."""


class Original(NamedTuple):
    """The function itself, where the Problem has the values of another one, whose derivative is meant."""

    value: Vector
    evaluate: Callable[[Vector], Vector]


class Repeated(NamedTuple):
    """What another call at the point gave, which was made for something else."""

    value: Vector


class Pattern(NamedTuple):
    """The derivative under test is a sparse matrix: what it is called, and which entries it stores."""

    name: str
    stores: Callable[[Indices, Indices], Flags]
    """For rows and columns, entry by entry."""


class AccusedEntry(NamedTuple):
    """An entry that was found wrong: its place, its numerical value, and what it was excused."""

    mode: Mode
    output: int
    input: int
    numeric: float
    tolerance: float


class AccusedBefore(NamedTuple):
    """Entries that another look at the same call found wrong.

    Where nothing accuses, these are judged by themselves: a probe may be too blunt to see what is wrong with one.
    """

    entries: tuple[AccusedEntry, ...]


class Domain(NamedTuple):
    """Where the function can be asked: what it is outside is extrapolated from points inside.

    So where steps begin to lead outside, what evaluations show is not the function's own.
    """

    holds: Callable[[Vector], bool]
    turned: Callable[[Vector], Vector]
    """A direction, with each coordinate turned to the side on which there is more room."""


class StandIn(NamedTuple):
    """The values of the Problem are not the function's own, but of something with the same derivative.

    `smallest`: for each input, the largest error of a lone entry of that derivative that its comparison with the
    function would not have shown. It is part of the certificate.
    """

    smallest: tuple[float, ...]


class Elsewhere(NamedTuple):
    """The derivative under test at another point, which its blocks can store: the point first, then the probe."""

    vjp: Callable[[Vector, Vector], Vector]
    jvp: Callable[[Vector, Vector], Vector]


TURNS = 3
"""Runs that round take turns, by their seeds: the first two of so many are of different kinds, the others of either."""


class RoundOff(NamedTuple):
    """A twin with every step rounded to a lower precision, at random: what round-off alone may do to its answers.

    Each is asked for a point, for a probe if it is a derivative, for the spacing of the lower precision and for a seed:
    see `TURNS`.
    """

    evaluate: Callable[[Vector, float, int], Vector]
    vjp: Callable[[Vector, Vector, float, int], Vector]
    jvp: Callable[[Vector, Vector, float, int], Vector]


class Twinned(NamedTuple):
    """A twin: the same map as a whole Problem in double precision, whose blocks differ in their spacing only.

    `value` is what the function itself gave, with which evaluations of a low-precision Problem may have nothing to do;
    `inside` the widest spacing of the numbers that it computes with by itself.
    """

    problem: Problem
    value: Vector
    inside: float


class Twin(NamedTuple):
    """The same map at the same point in double precision throughout.

    For a Problem with blocks of a lower one, or one that is computed in a lower one inside. `make` gives None where
    there is none after all.
    """

    make: Callable[[], Twinned | None]


LACKING: dict[type, str] = {
    Omission: "the backend cannot leave out a cotangent or tangent",
    MemoryLayouts: "the backend cannot arrange the memory of a cotangent",
    MemoryWatch: "the backend cannot watch memory",
    Inspection: "the backend cannot look at the form and memory of gradients",
    Batching: "the backend has no batches",
    Pairing: "",  # there is nothing to ask
    Reference: "there is no reference",
}
"""Why something is not covered, by the capability that is missing. Nothing: then there is no question."""


@dataclass(frozen=True, slots=True)
class MovesTogether:
    """Says that inputs lie in the same memory, so that moving one moves another: its gradient knows nothing of that."""


@dataclass(frozen=True, slots=True)
class FirstNonFinite:
    """Tells which operation of a vjp first returns what is no number; an empty name where that is not known."""

    name: Callable[[Vector], str]
