"""Random vectors that hide no entry, and unit vectors."""

from __future__ import annotations

import functools

import numpy as np

from gradproof.core.norm import parts
from gradproof.core.types import Matrix, Vector


def random_probe(size: int, seed: int) -> Vector:
    """Random signs and magnitudes in [0.5, 1.5] from a private generator: no entry can hide. A lone one is 1."""
    return _draw(size, seed) if size > _KEPT else _draw_kept(size, seed)


def _draw(size: int, seed: int) -> Vector:
    generator = np.random.default_rng(seed)
    probe = generator.random(size)
    for part in parts(size):  # from -1 to 1, and then away from zero
        here = probe[part]
        here *= 2.0
        here -= 1.0
        here += np.copysign(0.5, here)
    if size == 1:
        probe[0] = 1.0
    probe.flags.writeable = False
    return probe


# Making a generator takes 15 µs, a tenth of the smallest check: short probes are kept.
_KEPT = 1024
_draw_kept = functools.lru_cache(maxsize=256)(_draw)


def basis(which: slice, size: int) -> Matrix:
    """The unit vectors of some coordinates, one in each row."""
    rows = np.zeros((which.stop - which.start, size))
    rows.reshape(-1)[which.start :: size + 1] = 1.0
    return rows
