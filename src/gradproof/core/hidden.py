"""What could still hide, by the ledger: which inputs are not seen yet, what to say of them, and the certificate."""

from __future__ import annotations

import math

import numpy as np

from gradproof.core.drowned import hidden_behind_order_one
from gradproof.core.largest import bounded_entries, is_bounded, largest_entries
from gradproof.core.ledger import Ledger
from gradproof.core.norm import norm, parts, products
from gradproof.core.precision import BOUNDED, MISS, UNSEEN_FACTOR
from gradproof.core.seen import Seen
from gradproof.core.space import Block, peak
from gradproof.core.survey import Survey
from gradproof.core.types import Vector
from gradproof.core.weak import weak_elements

# The same where segments would look for it otherwise, and what of a typical gradient may be missing in lost elements.
_TENTH, _TYPICAL = 0.1, 1.0
# The part of the largest entry of all inputs that an error beside zeros must exceed to be looked for.
_DWARFED = 1e-6
BESIDE_OTHERS = "of which nothing but zeros is claimed, beside the far larger effect of others"
# What is less than this part of a bound on entries is less than the largest of them.
_FAR_LESS = 0.05
# What a probe that has climbed all it can may be short of the tolerance, and still passes: its certificate says so.
_SHORT = 4.0


def unseen_blocks(ledger: Ledger) -> list[Block]:
    """The inputs of which some output's error could still hide."""
    weak = weak_elements(ledger)
    return [
        block
        for block, step in ledger.steps
        if (weak is not None and weak[block.slice].any()) or not _is_seen(ledger, block, step)
    ]


def _is_seen(ledger: Ledger, block: Block, step: float) -> bool:
    """Whether each coordinate of an input is covered by a survey that sees every output along it."""
    single = len(ledger.problem.inputs.blocks) == 1  # of which as much is wanted as of all inputs
    if (ledger.explicit or single) and ledger.survey.clear_from <= step and _is_sharp(ledger, step):
        return True  # nearly always: the first survey moves every coordinate
    left = np.ones(block.size, dtype=np.bool_)
    for survey in ledger.surveys:
        covered = survey.direction[block.slice] != 0
        if (covered & left).any() and not (
            (survey.hides > ledger.wanted_of(survey, block, step)) & ~survey.verified
        ).any():
            left &= ~covered
    return not left.any()


def hidden_zeros(ledger: Ledger) -> list[Block]:
    """The inputs of which nothing but zeros is claimed, and in which an error could hide that others dwarf."""
    largest, hides = _largest_claim(ledger), peak(ledger.survey.hides)
    if hides >= largest * ledger.easiest_step:
        return []  # all that is claimed may be round-off: there are no others that could dwarf anything
    least = _DWARFED * largest
    found = (block for block, step in ledger.steps if least * step < hides < math.inf)
    return [block for block in found if not any(answer[block.slice].any() for _, answer in ledger.questions)]


def doubts_of_zeros(ledger: Ledger, survey: Survey, block: Block) -> list[str]:
    """What could hide, in words, in an input of which zeros are claimed, if that is much after a survey of it alone."""
    step = float(np.abs(survey.direction[block.slice]).min())
    size = peak(survey.hides) / step
    if size <= _DWARFED * _largest_claim(ledger):
        return []
    return [f"an error of up to {size:.1g} could hide with respect to {block.label}, {BESIDE_OTHERS}"]


def _largest_claim(ledger: Ledger) -> float:
    """The largest entry of an answer, for cotangents of about one."""
    return max(
        float(np.abs(answer).max(initial=0.0)) / float(np.abs(asked).max()) for asked, answer in ledger.questions
    )


def hidden_outputs(ledger: Ledger, unseen: list[Block]) -> slice:
    """A run of outputs outside of which the first survey, which moves every coordinate, sees all of these inputs."""
    survey, hidden = ledger.survey, np.zeros(ledger.problem.outputs.size, dtype=np.bool_)
    for block, step in ledger.steps:
        if block in unseen:
            hidden |= (survey.hides > ledger.wanted_of(survey, block, step)) & ~survey.verified
    where = np.flatnonzero(hidden)
    return slice(int(where[0]), int(where[-1]) + 1) if len(where) else slice(0, len(hidden))


def _is_sharp(ledger: Ledger, step: float) -> bool:
    """Whether the first survey sees as much of every input, however weak it is beside others."""
    single = len(ledger.problem.inputs.blocks) == 1
    return single or peak(ledger.survey.hides) <= step * ledger.tolerances.least_atol


def sees_factor(ledger: Ledger, block: Block) -> bool:
    """Whether some question would have shown that all of an input's gradient is off by a factor; or none can."""
    can = False
    for survey in ledger.surveys:
        for hidden, answer, moved, _ in survey.entered:
            gradient, direction = answer[block.slice], survey.direction[block.slice]
            moved = moved if block.size == len(survey.direction) else products(gradient, direction)[0]
            if hidden <= UNSEEN_FACTOR * abs(moved):
                return True
            can = can or hidden <= UNSEEN_FACTOR * float(np.abs(gradient * direction).sum())
    return not can


def doubts(ledger: Ledger, unseen: list[Block]) -> list[str]:
    """What could not be seen of these inputs, in words."""
    if not ledger.searches:
        return []
    told: list[str] = []
    weak = weak_elements(ledger)
    for block in unseen:
        step = float(np.abs(ledger.direction[block.slice]).min())
        survey = next(each for each in reversed(ledger.surveys) if each.direction[block.slice].any())
        wanted = _short(ledger, survey) * ledger.wanted_of(survey, block, step)
        hidden = (survey.hides > wanted) & ~survey.verified
        if hidden.any():
            size = float(survey.hides[hidden].max()) / step
            told.append(
                f"an error of up to {size:.1g} could hide in {int(hidden.sum())} of {len(hidden)} outputs "
                f"with respect to {block.label}"
            )
        elif weak is not None and (count := int(weak[block.slice].sum())):
            told.append(
                f"an error of up to {float(survey.hides[0]) / step:.1g} could hide in {count} of {block.size} elements "
                f"of {block.label}, whose gradient is small beside that of others"
            )
    return told


def doubts_of_all(ledger: Ledger) -> list[str]:
    """Inputs of which an error could hide that is larger than all their entries, in words: nothing was seen of them.

    What drowns in noise need not be seen, unless that is all there is. Where a tolerance was given, that one says what
    must be seen.
    """
    if ledger.explicit or not ledger.precise or ledger.problem.noise is not None or not ledger.questions:
        return []
    sizes, bounds = hidden_in(ledger), bounded_entries(ledger)
    if all(size < _FAR_LESS * bound for size, bound in zip(sizes, bounds, strict=True)):
        return []  # nearly always, and the entries themselves need not be asked for
    return [
        f"an error of up to {size:.1g} could hide with respect to {block.label}, "
        f"whose entries are at most {largest:.1g}"
        for block, size, largest in zip(ledger.problem.inputs.blocks, sizes, largest_entries(ledger), strict=True)
        if size >= largest > 0.0 and not ledger.is_dust(block)
    ]


def _short(ledger: Ledger, survey: Survey) -> float:
    """How far what was seen may be short of what was wanted.

    In noise that was measured, what all entries of an output come to is wanted, and not one among them: the rest is
    in the certificate, and no question would show it.
    """
    return _SHORT if ledger.precise else _SHORT * math.sqrt(int(np.count_nonzero(survey.direction)))


def seen(ledger: Ledger) -> Seen:
    """The ledger, and what would have excused an error that a question had noticed.

    An entry is excused what its tolerance is, and its error bar: what blurs that blurs what questions see, and far less
    of one entry than of the sum of all. So both count.
    """
    blocks = ledger.problem.inputs.blocks
    smallest = hidden_in(ledger)
    if all(map(math.isinf, smallest)):  # what is not seen at all needs no question
        return Seen(tuple(smallest), MISS)
    beside, behind = excused_beside(ledger, smallest), hidden_behind_order_one(ledger.survey)
    for k, (block, excused_, still) in enumerate(zip(blocks, beside, behind, strict=True)):
        smallest[k] = max(smallest[k] + excused_, still, peak(ledger.between_sides[block.slice]))
    told = () if ledger.precise else tuple(number for number, block in enumerate(blocks) if _is_told(ledger, block))
    return Seen(tuple(smallest), MISS, told)


def _is_told(ledger: Ledger, block: Block) -> bool:
    """Whether some question tells what long segments are asked for in low precision: see `Seen.told`."""
    return any(
        _tells(shown.hidden, shown.pullback[block.slice], survey.direction[block.slice])
        for survey in ledger.surveys
        for shown in survey.entered
    )


def _tells(hidden: float, gradient: Vector, direction: Vector) -> bool:
    zero = gradient == 0.0
    if zero.all() or hidden > _TENTH * abs(float((gradient * direction).sum())):
        return False
    typical = norm(gradient) / math.sqrt(len(gradient) - int(zero.sum()))
    return not zero.any() or hidden <= _TYPICAL * typical * norm(direction[zero])


def _hidden(ledger: Ledger, block: Block) -> float:
    """The largest error of any coordinate of an input that no survey would have shown."""
    hides = [peak(survey.hides) for survey in ledger.surveys]
    if len(hides) == 1 and ledger.surveys[0] is ledger.survey:  # nearly always; it moves every coordinate
        return next((hides[0] / step if step else math.inf for held, step in ledger.steps if held is block), 0.0)
    largest = 0.0
    for part in parts(block.size):
        hidden = np.full(len(range(block.size)[part]), np.inf)
        for survey, error in zip(ledger.surveys, hides, strict=True):
            hidden = np.fmin(hidden, error / np.abs(survey.direction[block.slice][part]))
        largest = max(largest, float(hidden.max()))
    return largest


def excused_beside(ledger: Ledger, hidden: list[float]) -> list[float]:
    """What an entry of each input may be off by. A question is asked only if that may be more than is hidden anyway."""
    most = excused(ledger, bounded_entries(ledger))
    if all(allowed <= size for allowed, size in zip(most, hidden, strict=True)):
        return most
    return excused(ledger, largest_entries(ledger))


def hidden_in(ledger: Ledger) -> list[float]:
    """The largest error of each input that no survey would have shown."""
    return [_hidden(ledger, block) for block in ledger.problem.inputs.blocks]


def excused(ledger: Ledger, largest: list[float]) -> list[float]:
    """What an entry of each input may be off by, if the largest is this: by its tolerance, and by its error bar.

    Whatever accuses it, in the end each entry is judged by itself.
    """
    tolerances, blocks = ledger.tolerances, ledger.problem.inputs.blocks
    of_row = peak(tolerances.row_rtol)
    counts = BOUNDED if is_bounded(ledger) else 1.0
    return [
        tolerances.most_atol(number)
        + (peak(tolerances.rtol[block.slice]) + of_row) * counts * largest[number]
        + float(tolerances.blurred(number).max(initial=0.0))
        + tolerances.round_off_of_others * max(largest)
        if block.size
        else 0.0
        for number, block in enumerate(blocks)
    ]
