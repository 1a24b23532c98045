"""A Jacobian whose function may be a staircase, by rounding inside or by design."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from gradproof.core.afar import change_of
from gradproof.core.flags import some
from gradproof.core.investigation import Investigation
from gradproof.core.noise import learn_noise
from gradproof.core.norm import norm
from gradproof.core.options import Options
from gradproof.core.precision import DOUBLE, USUAL_STEP
from gradproof.core.problem import Mode, Problem
from gradproof.core.seen import Note, Seen
from gradproof.core.space import Block
from gradproof.core.staircases import is_made_of_steps, step_width
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.properties.property import Compare, Found, Pause, at_once
from gradproof.properties.second_look import looked_twice
from gradproof.properties.second_looks import AT_WHAT_IS_BLURRED, AT_WHAT_IS_NOISY
from gradproof.results.finding import MISMATCH, UNJUDGED, Finding

_BETWEEN_STEPS = (
    "\n  The function is a staircase with steps of {eps:.2g}, relative to its values, as rounding inside makes: zero, "
    "which is\n  claimed everywhere, is its derivative between the steps, but not the slope behind them."
)
_STAIRCASE = "{output} is a staircase with steps of about {width:.2g} as {input} moves: "
_AS_ZERO = _STAIRCASE + "zero, which is claimed everywhere, was taken for the derivative between them"
_AS_SLOPE = _STAIRCASE + "what is claimed was compared with the slope behind them, and not with zero between them"
_SAY_WHICH = 'say precision="float64" if the steps are meant; else a gradient is lost, as behind a detached cast'

Lost = Callable[[Investigation, Options, list[Block], Vector], Iterator[Finding]]
"""What long steps find of inputs of which zeros are claimed, by what outputs change as these move."""


def in_noise(
    investigation: Investigation, options: Options, compared: Compare, lost: Lost
) -> Iterator[Finding | Seen | Note | Pause]:
    """What the ordinary comparison finds, with the noise that is known.

    A gradient that is zero for all of an input is the derivative between two steps of a staircase too: whether there is
    one is looked at before it passes. So is whether round-off of larger numbers hides that the function moves.
    """
    if investigation.problem is investigation.made or options.precision is not None:
        doubtful = False
        for found in looked_twice(investigation, options, compared, AT_WHAT_IS_BLURRED):
            doubtful |= isinstance(found, Finding)
            yield from _unless_made_of_steps(investigation, options, found)
        if options.precision is not None or doubtful:
            return
        zero = [block for block in investigation.problem.inputs.blocks if _is_zero(investigation, block)]
        change = change_of(investigation, zero) if zero else None
        if change is None:
            return
        if not learn_noise(investigation):
            if options.step is None and investigation.problem.coarsest_eps <= DOUBLE:
                yield from lost(investigation, options, zero, change)
            return
    all_found = at_once(looked_twice(investigation, options, compared, AT_WHAT_IS_NOISY))
    for found in all_found:
        yield from _between_steps(investigation, found)
    if not any(isinstance(found, Finding) for found in all_found):
        yield from _slopes_behind_steps(investigation)


def _unless_made_of_steps(
    investigation: Investigation, options: Options, found: Found
) -> Iterator[Finding | Seen | Note | Pause]:
    """What was found; but nothing is wrong with zeros that are claimed of a function that is made of steps."""
    if options.precision is None and isinstance(found, Finding) and found.mode is not None and found.entries:
        output, input_ = found.entries[0].output.block, found.entries[0].input.block
        if found.status is Status.WRONG and not any(entry.analytic for entry in found.entries):
            width = step_width(investigation, output, input_)
            if width is not None and _is_zero_in(investigation, found.mode, output, input_):
                yield Note(_AS_ZERO.format(output=output.label, width=width, input=input_.label))
                return
    yield found


def _slopes_behind_steps(investigation: Investigation) -> Iterator[Note]:
    """Of each pair that is a staircase, and of which no zero is claimed, that its slope was compared."""
    problem = investigation.problem
    for output, input_ in itertools.product(problem.outputs.blocks, problem.inputs.blocks):
        if output.eps > DOUBLE and input_.size and not _is_zero(investigation, input_):
            width = step_width(investigation, output, input_)
            if width is not None:
                yield Note(_AS_SLOPE.format(output=output.label, width=width, input=input_.label))


def _is_zero(investigation: Investigation, input_: Block) -> bool:
    """Whether the gradient of all outputs is zero for all of an input, as far as it is known."""
    if not input_.size:
        return False
    if investigation.rows is not None:
        return not some(investigation.rows[:, input_.slice])
    return investigation.is_pulled and not some(investigation.pullback[input_.slice])


def _is_zero_in(investigation: Investigation, mode: Mode, output: Block, input_: Block) -> bool:
    """Whether the derivative of an output is zero for all of an input."""
    if mode is Mode.FORWARD:
        tangent = np.zeros_like(investigation.tangent)
        tangent[input_.slice] = investigation.tangent[input_.slice]
        return not investigation.jvp(tangent)[output.slice].any()
    if investigation.rows is not None:
        return not investigation.rows[output.slice, input_.slice].any()
    cotangent = np.zeros_like(investigation.cotangent)
    cotangent[output.slice] = investigation.cotangent[output.slice]
    return not investigation.vjp(cotangent)[input_.slice].any()


def _between_steps(investigation: Investigation, found: Finding | Seen) -> Iterator[Finding | Seen | Note]:
    """What is said of a staircase whose derivative is claimed to be zero everywhere: that is true between its steps.

    So it passes if the function is made of steps, and cannot be judged if they look like those of a number format.
    """
    if not isinstance(found, Finding) or found.mode is None or not found.entries:
        yield found
        return
    output, input_ = found.entries[0].output.block, found.entries[0].input.block
    if not _is_zero_in(investigation, found.mode, output, input_):
        yield found
        return
    width = step_width(investigation, output, input_)
    if width is None and is_made_of_steps(investigation.problem, output, _spacing(investigation.made)):
        width = output.eps * norm(investigation.problem.value[output.slice]) / math.sqrt(output.size)
    if width is not None:
        yield Note(_AS_ZERO.format(output=output.label, width=width, input=input_.label))
    else:
        text, kind = _BETWEEN_STEPS.format(eps=output.eps), found.kind
        if _stands_still(investigation, found):
            kind = "staircase"
        headline = found.headline.replace(MISMATCH, UNJUDGED, 1) + text
        yield replace(found, status=Status.INCONCLUSIVE, kind=kind, headline=headline, hint=_SAY_WHICH)


def _spacing(made: Problem) -> float:
    """That of the numbers that a function is said to be computed with."""
    return made.coarsest_eps if made.evaluates_in is None else made.evaluates_in


def _stands_still(investigation: Investigation, found: Finding) -> bool:
    """Whether the worst entry is zero by the step that others check with: they call it right."""
    entry, problem = found.entries[0], investigation.problem
    step = np.zeros(problem.inputs.size)
    step[entry.input.coordinate] = USUAL_STEP
    values = [investigation.evaluate(problem.point + side * step)[entry.output.coordinate] for side in (1.0, -1.0)]
    return values[0] == values[1] == problem.value[entry.output.coordinate]
