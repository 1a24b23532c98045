"""Ripples that are finer than the steps that noise is measured with, told from noise.

A wave of 1e-7 with a length of 1e-7 leaves as much unexplained on every rung of a ladder as round-off to single
precision does. But it can be resolved: at points close enough to each other its differences of higher order vanish,
though it leaves the straight line over the whole walk. Those of noise are larger than the noise, however close the
points are; and a staircase either stands still, or leaps between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradproof.core.along import Along
from gradproof.core.space import Block
from gradproof.core.types import Flags, Indices, Matrix, Vector

# Part of the noise by which a walk leaves the line at least, and most that differences of this order leave of it.
_LEAVES, _VANISHES, _ORDER = 0.25, 0.125, 4
# Steps of a walk to each side. Each walk is half as long as the one before, so that every other point is known.
_STEPS = 8
# The rung of the shortest walk: what is shorter than its steps may as well be noise.
_SHORTEST = 36
# Outputs looked at, of one array; the others are as most of these.
_MOST = 2**12


def ripples(along: Along, blocks: Sequence[Block], noise: Vector, first: int) -> Flags:
    """Which outputs have a ripple, and no noise: `noise` is what they were taken to have.

    `first` is the rung of the longest walk.
    """
    sampled = [_sample(block, noise) for block in blocks]
    chosen = np.concatenate(sampled)
    smooth, known = np.zeros(len(chosen), dtype=np.bool_), dict[float, Vector]()
    for rung in range(first, _SHORTEST + 1):
        steps = [2.0**-rung * step / _STEPS for step in range(-_STEPS, _STEPS + 1)]
        known = {step: known[step] if step in known else along.values([step])[0][chosen] for step in steps}
        values = np.stack(list(known.values()))
        if (values == values[_STEPS]).all():  # between two steps of a staircase
            break
        smooth |= _is_resolved(values, noise[chosen])
        if smooth.all():
            break
    found = np.zeros(len(noise), dtype=np.bool_)
    found[chosen] = smooth
    for block, some in zip(blocks, sampled, strict=True):
        if len(some) == _MOST and found[some].mean() > 0.5:
            found[block.slice] = True
    return found


def _sample(block: Block, noise: Vector) -> Indices:
    """Some of the noisy outputs of an array, spread over it."""
    noisy = np.flatnonzero(noise[block.slice]) + block.start
    return noisy if len(noisy) <= _MOST else noisy[np.linspace(0, len(noisy) - 1, _MOST).astype(np.intp)]


def _is_resolved(values: Matrix, noise: Vector) -> Flags:
    """Which outputs leave the line on a walk, one row of values for each of its points, and are smooth between them.

    >>> wave, steps = np.sin(np.linspace(-2.0, 2.0, 17)), np.linspace(-2.0, 2.0, 17).round()
    >>> _is_resolved(np.stack([wave, steps], axis=1), np.array([0.5, 0.5]))
    array([ True, False])
    """
    along = np.linspace(-1.0, 1.0, len(values))
    with np.errstate(invalid="ignore"):
        line = (values[0] + values[-1]) / 2.0 + np.multiply.outer(along, (values[-1] - values[0]) / 2.0)
        leaves = np.abs(values - line).max(axis=0) >= _LEAVES * noise
        return leaves & (np.abs(np.diff(values, n=_ORDER, axis=0)).max(axis=0) <= _VANISHES * noise)
