"""The arguments of SciPy's solvers, read as functions with their derivatives.

A reader has the signature of its solver, as far as derivatives are concerned, and gives a `Subject` for each function
that a derivative was given for. SciPy is not imported: its constraints are known by their attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from gradproof.backends.numpy.arrays import Array, as_numbers
from gradproof.backends.numpy.bounds import read_bounds
from gradproof.backends.numpy.numeric import NUMERIC_GRADIENT, numeric_gradient
from gradproof.core.draws import random_probe

_LATER = 0.1
"""The part of its time span after which a right-hand side is checked once more."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One function `function(x, *args, **keywords)` and the derivatives given for it, by the words of `check`."""

    name: str
    function: Callable[..., Any]
    derivatives: Mapping[str, Any]
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    point: Array | None = None
    """Where it is checked; None: where the solver starts."""
    precision: float | None = None
    """The relative precision that it is computed in; None: that of its numbers."""
    later: Subject | None = None
    """The same of a later time, for another point; None: it does not depend on time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call of a solver comes to: functions to be checked at a point, within bounds."""

    solver: str
    point: Array
    subjects: tuple[Subject, ...]
    bounds: tuple[Array, Array] | None = None


def read_minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    seed: int = 0,
    **_: Any,
) -> Reading:
    """`scipy.optimize.minimize`: the objective and every constraint."""
    point, args = _point(x0), _tuple(args)
    fun, jac = _paired(fun, jac)
    subjects: list[Subject] = []
    second = {name: given for name, given in (("hess", hess), ("hessp", hessp)) if _is_written(given)}
    if _is_written(jac):
        subjects.append(Subject("fun", fun, {"jac": jac, **second}, args))
    elif second:  # without a gradient to differentiate, a numerical one
        words = {"hess": "jac", "hessp": "jvp"}
        given = {words[name]: derivative for name, derivative in second.items()}
        subjects.append(
            Subject(f"{' and '.join(second)} of fun", numeric_gradient(fun), given, args, precision=NUMERIC_GRADIENT)
        )
    for number, constraint in enumerate(_constraints(constraints)):
        subjects += _constraint(f"constraints[{number}]", constraint, point, seed)
    return Reading("minimize", point, tuple(subjects), _box(bounds, point))


def read_least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = None,
    method: Any = None,
    *,
    loss: Any = "linear",
    f_scale: float = 1.0,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    **_: Any,
) -> Reading:
    """`scipy.optimize.least_squares`: the residuals, and a loss that is a function."""
    point, args, keywords = _point(x0), _tuple(args), dict(kwargs or {})
    subjects = [Subject("fun", fun, {"jac": jac}, args, keywords)] if _is_written(jac) else []
    if callable(loss):
        residuals = np.atleast_1d(fun(point.copy(), *args, **keywords))
        subjects += _losses(loss, np.square(residuals / f_scale))
    if bounds is not None and not hasattr(bounds, "lb"):
        lower, upper = (np.broadcast_to(np.asarray(each, dtype=np.float64), point.shape) for each in bounds)
        bounds = list(zip(lower.reshape(-1), upper.reshape(-1), strict=True))
    return Reading("least_squares", point, tuple(subjects), _box(bounds, point))


def read_root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = "hybr",
    jac: Any = None,
    tol: Any = None,
    callback: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    **_: Any,
) -> Reading:
    """`scipy.optimize.root`."""
    fun, jac = _paired(fun, jac)
    if _is_written(jac) and (options or {}).get("col_deriv"):
        jac = _transposed(jac)
    subjects = (Subject("fun", fun, {"jac": jac}, _tuple(args)),) if _is_written(jac) else ()
    return Reading("root", _point(x0), subjects)


def read_solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[float],
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    jac: Any = None,
    seed: int = 0,
    **_: Any,
) -> Reading:
    """`scipy.integrate.solve_ivp`: the right-hand side at the initial time and at a later one."""
    start, end = (float(t) for t in t_span)
    given = np.asarray(jac, dtype=np.float64) if isinstance(jac, list | tuple) else jac
    if not _is_written(given):
        return Reading("solve_ivp", _point(y0), ())
    later = _at_time(fun, given, start + _LATER * (end - start), _tuple(args or ()))
    return Reading("solve_ivp", _point(y0), (replace(_at_time(fun, given, start, later.args), later=later),))


def _at_time(fun: Callable[..., Any], jac: Any, time: float, args: tuple[Any, ...]) -> Subject:
    """A right-hand side and its derivative, which may be a matrix, at one time."""

    def right_hand_side(y: Any, *further: Any) -> Any:
        return fun(time, y, *further)

    def derivative(y: Any, *further: Any) -> Any:
        return jac(time, y, *further)

    given = derivative if callable(jac) and not hasattr(jac, "shape") else jac
    return Subject("fun", right_hand_side, {"jac": given}, args)


READERS: dict[str, Callable[..., Reading]] = {
    "minimize": read_minimize,
    "least_squares": read_least_squares,
    "root": read_root,
    "solve_ivp": read_solve_ivp,
}


def recognise(fun: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Which solver arguments are for, where that is not said: by names that only one has, else by what `fun` returns.

    Positional arguments mean different things to different solvers: beyond `fun` and `x0`, the solver must be said.
    """
    if {"t_span", "y0"} & set(keywords):
        return "solve_ivp"
    if len(arguments) > 1:
        raise TypeError(
            "which solver are these arguments for? Name it first, check_problem(scipy.optimize.minimize, fun, ...), "
            "or give all after fun and x0 by their names"
        )
    only = {name: _own_names(name) for name in ("minimize", "least_squares")}
    fitting = [name for name, words in only.items() if words & set(keywords)]
    if len(fitting) == 1:
        return fitting[0]
    x0 = _point(arguments[0] if arguments else keywords["x0"])
    value = fun(x0, *_tuple(keywords.get("args", ())))
    value = value[0] if keywords.get("jac") is True else value
    if np.size(value) == 1 and np.ndim(value) <= 1 and not (x0.size == 1 and np.ndim(value) == 1):
        return "minimize"
    return "least_squares" if "bounds" in keywords else "root"


def _own_names(solver: str) -> set[str]:
    """The names of arguments that only this solver has."""
    others = {"bounds", *inspect.signature(read_root).parameters}
    return set(inspect.signature(READERS[solver]).parameters) - others


def _losses(written: Callable[..., Any], squares: Array) -> list[Subject]:
    """The derivatives of a loss: its rows are rho, rho' and rho''."""

    def row(number: int) -> Callable[..., Any]:
        def value(z: Any) -> Any:
            return np.asarray(written(z))[number]

        return value

    def times(number: int) -> Callable[..., Any]:
        def product(z: Any, v: Any) -> Any:
            return v * np.asarray(written(z))[number]

        return product

    return [Subject(f"loss, row {k}", row(k), {"vjp": times(k + 1)}, point=squares) for k in (0, 1)]


def _constraint(name: str, constraint: Any, point: Array, seed: int) -> list[Subject]:
    """The derivatives of one constraint: a dictionary, a nonlinear or a linear one."""
    if isinstance(constraint, Mapping):
        given = cast(Mapping[str, Any], constraint)
        fun, jac = _paired(given["fun"], given.get("jac"))
        return [Subject(name, fun, {"jac": jac}, _tuple(given.get("args", ())))] if _is_written(jac) else []
    if hasattr(constraint, "A"):
        matrix = constraint.A if hasattr(constraint.A, "tocsr") else np.atleast_2d(constraint.A)
        return [Subject(name, _times(matrix), {"jac": matrix})]
    if not hasattr(constraint, "fun"):
        raise TypeError(f"{name} is no constraint of SciPy's: {constraint!r}")
    fun, jac = constraint.fun, constraint.jac
    hess: Any = getattr(constraint, "hess", None)
    found = [Subject(name, fun, {"jac": jac})] if _is_written(jac) else []
    if not _is_written(hess):
        return found
    multipliers = random_probe(np.size(fun(point.copy())), seed)

    def weighted(x: Any) -> Any:
        return np.dot(multipliers, np.atleast_1d(fun(x)))

    def gradient(x: Any) -> Any:
        return np.asarray(np.reshape(multipliers, (1, -1)) @ _two_dimensional(jac(x))).reshape(-1)

    def hessian(x: Any) -> Any:
        return hess(x, multipliers)

    if found:
        return [*found, Subject(f"{name}.hess", weighted, {"jac": gradient, "hess": hessian})]
    return [Subject(f"{name}.hess", numeric_gradient(weighted), {"jac": hessian}, precision=NUMERIC_GRADIENT)]


def _times(matrix: Any) -> Callable[..., Any]:
    def product(x: Any) -> Any:
        return matrix @ x

    return product


def _two_dimensional(matrix: Any) -> Any:
    return matrix if hasattr(matrix, "tocsr") else np.atleast_2d(matrix)


def _constraints(constraints: Any) -> Iterable[Any]:
    if isinstance(constraints, Mapping) or hasattr(constraints, "fun") or hasattr(constraints, "A"):
        return (cast(Any, constraints),)
    return constraints or ()


def _paired(fun: Callable[..., Any], jac: Any) -> tuple[Callable[..., Any], Any]:
    """`jac=True` says that `fun` returns its value and its derivative."""
    if jac is not True:
        return fun, jac

    def value(x: Any, *further: Any) -> Any:
        return fun(x, *further)[0]

    def derivative(x: Any, *further: Any) -> Any:
        return fun(x, *further)[1]

    return value, derivative


def _transposed(jac: Callable[..., Any]) -> Callable[..., Any]:
    """Of a Jacobian with derivatives down its columns."""

    def transposed(x: Any, *further: Any) -> Any:
        return np.atleast_2d(jac(x, *further)).T

    return transposed


def _is_written(given: Any) -> bool:
    """Whether this is a derivative, and not the name of a scheme ("2-point") or an update formula."""
    return callable(given) or hasattr(given, "shape")


def _point(x0: Any) -> Array:
    return np.atleast_1d(as_numbers(x0, "x0")).copy()


def _tuple(args: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], args) if isinstance(args, tuple) else (args,)


def _box(bounds: Any, point: Array) -> tuple[Array, Array] | None:
    return None if bounds is None else read_bounds(bounds, point.size)
