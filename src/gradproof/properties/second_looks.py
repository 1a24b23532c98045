"""All second looks of the Jacobian, in their order: who asks once more, and what of.

Of each list the first look that has a reason is the only one. What a comparison calls wrong is looked at first; what
then cannot be judged, by longer steps. At last noise is measured, of what any property finds, and that property is
asked again: see `examination.py`.
"""

from __future__ import annotations

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.properties.drowned import in_round_off, still_by_round_off
from gradproof.properties.gridded import behind_grid
from gradproof.properties.longer_steps import (
    from_further,
    is_in_half_precision,
    may_be_blurred,
    may_be_small,
    unblurred,
    undoubted,
)
from gradproof.properties.on_waves import among_waves, may_be_on_waves
from gradproof.properties.second_look import SecondLook
from gradproof.properties.swallowed import in_grid_noise


def _may_be_noisy(_: Investigation, options: Options) -> bool:
    """Whether steps are chosen here, and nobody has said how precise the function is."""
    return options.step is None and options.precision is None


# Steps that were blind to what they call wrong.
AT_WHAT_IS_WRONG = (
    SecondLook(among_waves, may_be_on_waves, keeps_seen=True),  # all steps were longer than waves
    SecondLook(from_further, may_be_small),  # they were as short as a small input, beside large outputs
    SecondLook(still_by_round_off, _may_be_noisy, keeps_seen=True),  # nothing moves, and round-off alone is claimed
    SecondLook(in_grid_noise, _may_be_noisy),  # they stayed on one grid point
    SecondLook(behind_grid, _may_be_noisy),  # they were between two lines of a grid, and have seen another slope
    SecondLook(in_round_off, _may_be_noisy),  # round-off of larger numbers than the outputs explains all
)
# Steps that were too short for what round-off leaves to see: in double precision, and where noise is known.
AT_WHAT_IS_BLURRED = (SecondLook(unblurred, may_be_blurred, keeps_seen=True),)
AT_WHAT_IS_NOISY = (SecondLook(undoubted, is_in_half_precision, keeps_seen=True),)  # an error must be seen by both
