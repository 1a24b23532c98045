"""What claims to be the derivative: functions that the user wrote, applied to coordinates.

    grad(x, *args), jac(x, *args), hess(x, *args)      an array, a sparse matrix or a linear operator
    vjp(x, v, *args), jvp(x, u, *args), hessp(x, p, *args)      its product with a vector

With respect to several inputs, `grad`, `jac` and `vjp` return a tuple, and `u` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from gradproof.backends.numpy.arrays import Array, Like, join, split
from gradproof.backends.numpy.matrices import Linear, Operator, Sparse, Stores, as_linear, vector
from gradproof.backends.numpy.setting import Setting
from gradproof.core.problem import MisshapenGradientError
from gradproof.core.types import Flags, Indices, Matrix, Vector


class Pulls(Protocol):
    """A derivative in reverse mode."""

    name: str

    def pull(self, cotangents: Matrix, overwritten: list[str] | None = None) -> Matrix:
        """J^T v for each row; what was written to is added to `overwritten`."""
        ...


class Pushes(Protocol):
    """A derivative in forward mode."""

    name: str

    def push(self, tangent: Vector) -> Vector:
        """J u."""
        ...


class MatrixClaim:
    """A derivative that is returned as a whole, or as one operator. Each question calls the function anew."""

    def __init__(self, name: str, given: Any, setting: Setting, outputs: Like) -> None:
        self.name, self._setting, self._outputs = name, setting, outputs
        self._function: Callable[..., Any] = given if callable(given) and not _is_matrix(given) else _constant(given)

    def linears(self, overwritten: list[str] | None = None) -> list[Linear]:
        """The Jacobian with respect to each input under test. Calls the function."""
        setting = self._setting
        value = setting.call(self._function, setting.point, overwritten=overwritten)
        values = _each(value, setting.likes, self.name)
        if self.name == "grad" and self._outputs.block.parts == 1:
            values = [each if np.isrealobj(each) else np.conj(each) for each in values]  # dL/da + i dL/db
        rows = self._outputs.array.shape
        return [
            as_linear(each, rows, like.array.shape, self.name) for each, like in zip(values, setting.likes, strict=True)
        ]

    def pull(self, cotangents: Matrix, overwritten: list[str] | None = None) -> Matrix:
        linears = self.linears(overwritten)
        rows = np.stack([np.reshape(self._outputs.write(row), -1) for row in cotangents])
        pulled = [linear.pull(rows) for linear in linears]
        return np.stack([self._read([each[k] for each in pulled]) for k in range(len(rows))])

    def _read(self, gradients: Sequence[Array]) -> Vector:
        likes = self._setting.likes
        return join([like.read(each.reshape(like.array.shape)) for like, each in zip(likes, gradients, strict=True)])

    def push(self, tangent: Vector) -> Vector:
        likes = self._setting.likes
        tangents = [like.write(part, elsewhere=False) for like, part in zip(likes, split(likes, tangent), strict=True)]
        pairs = zip(self.linears(), tangents, strict=True)
        pushed = sum(linear.push(np.reshape(each, -1)) for linear, each in pairs)
        return self._outputs.read(np.asarray(pushed).reshape(self._outputs.array.shape))

    def stores(self) -> Stores | None:
        """Which entries are in the pattern, where the Jacobian is sparse; None: it is not."""
        (linear, *others), (like, *_) = self.linears(), self._setting.likes
        if others or not isinstance(linear, Sparse):
            return None
        free, pattern = like.free, linear

        def stores(rows: Indices, columns: Indices) -> Flags:
            return pattern.stores(rows, columns if free is None else free[columns])

        return stores

    def operators(self) -> list[Operator]:
        """The linear operators among what it returns, of which each product is code of the user's."""
        return [linear for linear in self.linears() if isinstance(linear, Operator)]


class PullClaim:
    """A vjp."""

    def __init__(self, name: str, function: Callable[..., Any], setting: Setting, outputs: Like) -> None:
        self.name, self._function, self._setting, self._outputs = name, function, setting, outputs

    def pull(self, cotangents: Matrix, overwritten: list[str] | None = None) -> Matrix:
        return np.stack([self._pull(row, overwritten) for row in cotangents])

    def _pull(self, cotangent: Vector, overwritten: list[str] | None) -> Vector:
        setting = self._setting
        handed = self._outputs.write(cotangent)
        value = setting.call(self._function, setting.point, handed, overwritten=overwritten)
        if overwritten is not None and not np.array_equal(handed, self._outputs.write(cotangent), equal_nan=True):
            overwritten.append("the cotangent")
        pairs = zip(setting.likes, _each(value, setting.likes, self.name), strict=True)
        return join([like.read(vector(each, like.array.shape, self.name, "the input")) for like, each in pairs])


class PushClaim:
    """A jvp, or the product of a Hessian with a vector."""

    def __init__(self, name: str, function: Callable[..., Any], setting: Setting, outputs: Like) -> None:
        self.name, self._function, self._setting, self._outputs = name, function, setting, outputs

    def push(self, tangent: Vector) -> Vector:
        setting = self._setting
        parts = zip(setting.likes, split(setting.likes, tangent), strict=True)
        tangents = tuple(like.write(part, elsewhere=False) for like, part in parts)
        value = setting.call(self._function, setting.point, tangents[0] if len(tangents) == 1 else tangents)
        return self._outputs.read(vector(value, self._outputs.array.shape, self.name, "the function"))


def _each(value: Any, likes: Sequence[Like], name: str) -> Sequence[Any]:
    """What was returned for each input under test."""
    if len(likes) == 1:
        return (value,)
    if not isinstance(value, tuple) or len(cast(tuple[Any, ...], value)) != len(likes):
        raise MisshapenGradientError(f"{name} should return a tuple of {len(likes)}, one for each input", "form")
    return cast(tuple[Any, ...], value)


def _is_matrix(given: Any) -> bool:
    return hasattr(given, "shape")


def _constant(given: Any) -> Callable[..., Any]:
    def constant(*_: Any, **__: Any) -> Any:
        return given

    return constant
