"""The array types of the core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
"""One point, direction or cotangent: a flat array of real coordinates."""

Matrix = npt.NDArray[np.float64]
"""Several of them, one in each row."""

Flags = npt.NDArray[np.bool_]
"""Which coordinates something holds for."""

Indices = npt.NDArray[np.intp]
"""Positions of coordinates."""

ALL = slice(None)
"""Every coordinate."""
