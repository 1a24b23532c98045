"""Noise in half precision is there on a short walk, too; a function with kinks is straight along one.

The steps that noise is measured with in half precision are as long as the point itself. A network of rectifiers has so
many kinks on them that what a rung leaves unexplained hardly falls, as if there were noise. A short walk through the
point tells the two apart: the numbers of a coarser precision stand still on most of it, or leave the straight line by
as much as on long steps. Where an output goes along the line in small steps instead, there was none.

Each input is moved by itself, as well as all together: one that is rounded inside may be added to another that is not.
"""

from __future__ import annotations

import numpy as np

from gradproof.core.along import Along
from gradproof.core.investigation import Investigation
from gradproof.core.space import Block
from gradproof.core.types import Matrix, Vector

# The walk, in units of each coordinate's scale to either side, and its points; the step that shows what moves at all.
_SPAN, _POINTS, _LONG = 2.0**-5, 17, 0.5
# Noise leaves the straight line by this part of what it is at least, and what moves does so in this part of the steps.
_STAYS, _MOST = 0.25, 0.5
# Inputs that are looked at each by itself.
_EACH = 16


def is_straight(investigation: Investigation, output: Block, noise: float) -> bool:
    """Whether most of an output goes straight along short walks, by far less than this noise, whatever is moved."""
    blocks = [block.slice for block in investigation.problem.inputs.blocks if block.size]
    each = blocks[:_EACH] if len(blocks) > 1 else []
    return all(_goes_straight(investigation, moved, output, noise) for moved in (slice(None), *each))


def _goes_straight(investigation: Investigation, moved: slice, output: Block, noise: float) -> bool:
    """Whether most of an output goes straight along a walk, of what depends on what is moved."""
    along = Along(investigation, 0, moved)
    steps = np.linspace(-_SPAN, _SPAN, _POINTS)
    values, far = (along.values(at)[:, output.slice] for at in (steps, [-_LONG, 0.0, _LONG]))
    with np.errstate(invalid="ignore"):
        depends = (far != far[1]).any(axis=0)
        goes = (np.diff(values, axis=0) != 0.0).mean(axis=0) > _MOST
        straight = goes & (_off_line(values, steps) <= _STAYS * noise)
    return not depends.any() or bool(straight[depends].mean() > _MOST)


def _off_line(values: Matrix, steps: Vector) -> Vector:
    """How far each output is from the line that fits it best.

    >>> _off_line(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 3.0]]), np.array([-1.0, 0.0, 1.0]))
    array([0., 1.])
    """
    slopes = steps @ values / (steps @ steps)
    return np.abs(values - values.mean(axis=0) - np.multiply.outer(steps, slopes)).max(axis=0)
