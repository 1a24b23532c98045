"""What a Jacobian may be: a dense array, a sparse matrix or a linear operator of SciPy's, known by what they can do.

SciPy is not imported. All of them are seen as maps of rows: `pull` gives J^H v for each cotangent v, `push` J u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from gradproof.backends.numpy.arrays import Array, shape_words
from gradproof.core.problem import MisshapenGradientError
from gradproof.core.types import Flags, Indices


class Linear(Protocol):
    """A matrix of m rows and n columns."""

    def pull(self, cotangents: Array) -> Array:
        """J^H v for each row v of k by m numbers: k by n."""
        ...

    def push(self, tangent: Array) -> Array:
        """J u of n numbers."""
        ...


class Dense:
    """An array of m by n."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def pull(self, cotangents: Array) -> Array:
        if np.isfinite(self._array).all():
            return np.conj(np.conj(cotangents) @ self._array)
        asked = [row != 0 for row in cotangents]  # a NaN elsewhere is not asked for
        rows = [np.conj(row[part]) @ self._array[part] for row, part in zip(cotangents, asked, strict=True)]
        return np.conj(np.stack(rows))

    def push(self, tangent: Array) -> Array:
        return self._array[:, tangent != 0] @ tangent[tangent != 0]


class Sparse:
    """A sparse matrix, in rows."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix.tocsr()

    def pull(self, cotangents: Array) -> Array:
        return np.asarray((self._matrix.conj().T @ cotangents.T).T)

    def push(self, tangent: Array) -> Array:
        return np.asarray(self._matrix @ tangent)

    def stores(self, rows: Indices, columns: Indices) -> Flags:
        """Which of these entries are in the pattern, stored zeros among them."""
        pointers, indices = self._matrix.indptr, self._matrix.indices
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        return np.array([bool((indices[pointers[i] : pointers[i + 1]] == j).any()) for i, j in pairs], dtype=np.bool_)


class Operator:
    """A linear operator: what its author wrote of it is `matvec` and `rmatvec`."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def pull(self, cotangents: Array) -> Array:
        return np.stack([np.asarray(self._operator.rmatvec(row)).reshape(-1) for row in cotangents])

    def push(self, tangent: Array) -> Array:
        return np.asarray(self._operator.matvec(tangent)).reshape(-1)

    def can_pull(self) -> bool:
        """Whether there is an adjoint: without one, SciPy raises."""
        try:
            self._operator.rmatvec(np.zeros(self._operator.shape[0]))
        except (NotImplementedError, TypeError, AttributeError):
            return False
        except Exception:  # reported where it is asked for
            return True
        return True


def is_sparse(value: Any) -> bool:
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def is_operator(value: Any) -> bool:
    return hasattr(value, "matvec") and hasattr(value, "rmatvec") and not is_sparse(value)


def as_linear(value: Any, rows: Sequence[int], columns: Sequence[int], name: str) -> Linear:
    """A Jacobian of outputs and inputs of these shapes; `MisshapenGradientError` if it is none."""
    m, n = math.prod(rows), math.prod(columns)
    if is_sparse(value) or is_operator(value):
        if tuple(value.shape) != (m, n):
            raise misshapen(name, tuple(value.shape), rows, columns)
        return Sparse(value) if is_sparse(value) else Operator(value)
    array = _numbers(value, name)
    fitting = {(m, n), (*rows, *columns)}
    if m == 1:
        fitting |= {(n,), tuple(columns)}
    if n == 1:
        fitting |= {(m,), tuple(rows)}
    if array.shape not in fitting:
        raise misshapen(name, array.shape, rows, columns)
    return Dense(array.reshape(m, n))


def _numbers(value: Any, name: str) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise MisshapenGradientError(f"{name} returned {type(value).__name__}, not an array of numbers", "form")
    return array


def misshapen(name: str, got: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> MisshapenGradientError:
    m, n = math.prod(rows), math.prod(columns)
    if m == 1:
        wanted = f"{shape_words(columns)}, as the input"
    else:
        wanted = f"shape {(m, n)}: a row for each value of the function, a column for each element of the input"
    turned = ". It is the transpose of that" if m != n and tuple(got) == (n, m) else ""
    return MisshapenGradientError(f"{name} has {shape_words(got)} where it should have {wanted}{turned}", "shape")


def vector(value: Any, shape: Sequence[int], name: str, whose: str) -> Array:
    """What a vjp, jvp or hessp returned: as many numbers as its input or output has."""
    array = _numbers(value, name)
    size = math.prod(shape)
    if array.size != size or array.shape not in {tuple(shape), (size,), (1, size), (size, 1)}:
        raise MisshapenGradientError(
            f"{name} returned {shape_words(array.shape)} where it should return {shape_words(shape)}, as {whose}",
            "shape",
        )
    return array.reshape(shape)


Stores = Callable[[Indices, Indices], Flags]
"""Which entries are in the pattern of a sparse Jacobian, by rows and columns."""
