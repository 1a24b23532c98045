"""The door for users of SciPy: `check_grad` with SciPy's signature, and `check_problem` for a whole call of a solver.

>>> import numpy as np
>>> from scipy.optimize import minimize, rosen, rosen_der
>>> check_grad(rosen, rosen_der, [1.3, 0.7, 0.8]) < 1e-9
True
>>> report = check_problem(minimize, rosen, [1.3, 0.7, 0.8], jac=rosen_der)
>>> report.ok, [case.name for case in report.cases]
(True, ['fun at x0', 'fun near x0'])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.integrate  # pyright: ignore[reportMissingTypeStubs]
import scipy.optimize  # pyright: ignore[reportMissingTypeStubs]

from gradproof.api import check
from gradproof.backends.numpy.numeric import numeric_jacobian
from gradproof.backends.numpy.solvers import READERS, Reading, Subject, recognise
from gradproof.backends.random_states import HostGenerators
from gradproof.core.draws import random_probe
from gradproof.core.problem import NothingToCheckError
from gradproof.core.types import Matrix, Vector
from gradproof.results.sweep import CaseReport, SweepReport

__all__ = ["ProblemReport", "check_grad", "check_problem"]

_EPSILON = float(np.sqrt(np.finfo(np.float64).eps))
"""SciPy's default: it means that gradproof chooses the steps."""
_optimize: Any = scipy.optimize  # whose functions are annotated in part
_integrate: Any = scipy.integrate
_SOLVERS: dict[str, Callable[..., Any]] = {
    "minimize": _optimize.minimize,
    "least_squares": _optimize.least_squares,
    "root": _optimize.root,
    "solve_ivp": _integrate.solve_ivp,
}
_FURTHER = {
    "solve_ivp": frozenset({"first_step", "min_step", "max_step", "rtol", "atol", "jac_sparsity", "lband", "uband"})
}
"""Arguments that a solver hands on to its methods."""
# How far the second point is from the first, in units of max(|x|, 1): less, where the function has no value there.
_NEAR = (0.1, 0.01, 0.001)


def check_grad(
    func: Callable[..., Any],
    grad: Callable[..., Any],
    x0: Any,
    *args: Any,
    epsilon: Any = _EPSILON,
    direction: str = "all",
    rng: Any = None,
    seed: Any = None,
) -> float:
    """The 2-norm of the difference between `grad(x0, *args)` and the numerical gradient of `func`.

    Arguments and result are those of `scipy.optimize.check_grad`. At its default, `epsilon` means that steps are
    chosen, and what is left of a right gradient is the error of a ladder of steps or of a complex step; any other
    `epsilon` is the step of a plain forward difference, as in SciPy. With `direction="random"` the derivative
    along one random vector is compared; `rng` is what draws it (`seed` is its old name). On a kink, or nearer to one
    than round-off lets steps be, the difference is that to the nearest number between the slopes of the two sides.

    A number is no verdict: whether 1e-6 is much depends on the function. `gradproof.check` judges.

    >>> round(check_grad(lambda x: x[0] ** 2 - 0.5 * x[1] ** 3, lambda x: [2 * x[0], -1.5 * x[1] ** 2], [1.5, -1.5]), 9)
    0.0
    """
    if direction not in ("all", "random"):
        raise ValueError(f"{direction} is not a valid string for ``direction`` argument")
    point = np.atleast_1d(np.asarray(x0, dtype=np.float64))
    claimed = np.asarray(grad(point.copy(), *args), dtype=np.float64)
    along: Vector | None = None
    if direction == "random":
        if claimed.ndim > 1:
            raise ValueError("'random' can only be used with scalar valued func")
        along = _generator(seed if rng is None else rng).standard_normal(size=point.shape)
    if np.ndim(epsilon) or float(epsilon) != _EPSILON:
        numeric = _forward_differences(func, point, args, epsilon, along)
    else:
        numeric = numeric_jacobian(func, (point, *args), along=along, claimed=claimed)
    expected = claimed if along is None else np.dot(claimed, along)
    difference = expected - numeric.reshape(np.shape(expected))
    return float(np.sqrt(np.sum(np.square(difference))))


def _generator(rng: Any) -> Any:
    if isinstance(rng, np.random.RandomState | np.random.Generator):
        return rng
    return np.random.default_rng(rng)


def _forward_differences(
    func: Callable[..., Any], point: Vector, args: tuple[Any, ...], epsilon: Any, along: Vector | None
) -> Matrix:
    """Plain forward differences, one column for each element; or one along a vector."""
    here = np.atleast_1d(np.asarray(func(point.copy(), *args), dtype=np.float64))
    steps = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), point.shape)
    if along is not None:
        there = np.asarray(func(point + steps * along, *args), dtype=np.float64)
        return (there.reshape(-1) - here) / steps[0]
    columns = [
        (np.atleast_1d(np.asarray(func(point + unit * step, *args), dtype=np.float64)) - here) / step
        for unit, step in zip(np.eye(point.size), steps, strict=True)
    ]
    return np.stack(columns, axis=-1)


@dataclass(frozen=True, slots=True)
class ProblemReport(SweepReport):
    """One report for each function of a problem at each point, those that fail first; True only if all pass."""

    not_covered: tuple[str, ...] = ()
    """Points that were left out, with the reasons."""

    def __str__(self) -> str:
        told = SweepReport.__str__(self)
        return "\n".join([told, f"not covered: {'; '.join(self.not_covered)}"]) if self.not_covered else told


def check_problem(
    fun: Callable[..., Any],
    *arguments: Any,
    solver: str | Callable[..., Any] | None = None,
    points: Sequence[Any] | None = None,
    seed: int = 0,
    **keywords: Any,
) -> ProblemReport:
    """Check every derivative in the arguments of `minimize`, `least_squares`, `root` or `solve_ivp`.

    Write `check_problem(minimize, ` for `minimize(`, or name the solver in `solver=`, or give all arguments after `fun`
    and `x0` by their names: then it is told by them, and by whether `fun` returns one number. Checked are `jac` (also
    `jac=True`), `hess` and `hessp` of the objective, `jac` of constraints that are dictionaries, `jac` and `hess` of
    nonlinear ones, the matrix of linear ones, `jac` of residuals (also sparse, or an operator) and of a right-hand
    side, and the derivatives of a loss. No evaluation leaves `bounds`. An argument that the solver does not have is a
    `TypeError`.

    All are checked at `x0` and at a point near it: at `x0 = 0` many wrong derivatives are right. A right-hand side is
    checked at the initial time, and near `y0` after a tenth of `t_span`. `points` replaces both points. `seed` draws
    the second one, the probes, and the multipliers of a constraint's `hess`.

    >>> from scipy.optimize import minimize, rosen, rosen_der, rosen_hess
    >>> report = check_problem(minimize, rosen, [0.0, 0.5], jac=rosen_der, hess=lambda x: rosen_hess(x).T * 1.01)
    >>> report.failures[0].name, "of hess" in str(report)
    ('fun at x0', True)
    """
    name = _solver(solver) if solver is not None else _solver(fun)
    if solver is None and name:
        fun, *rest = arguments or (keywords.pop("fun"),)
        arguments = tuple(rest)
    name = name or recognise(fun, arguments, keywords)
    _require_known(name, keywords)
    reader = READERS[name]
    with np.errstate(all="ignore"):
        reading = reader(fun, *arguments, seed=seed, **keywords)
    if not reading.subjects:
        raise NothingToCheckError("there is nothing to check: no derivative was given as a function")
    points = None if points is None else _shaped(points, reading.point)
    left_out: list[str] = []
    cases = [case for subject in reading.subjects for case in _checked(reading, subject, points, seed, left_out)]
    ordered = SweepReport.of(f"{reading.solver} problem", cases)
    return ProblemReport(ordered.subject, ordered.cases, tuple(left_out))


def _solver(given: str | Callable[..., Any]) -> str:
    """The name of a solver; nothing for a function that is none."""
    if isinstance(given, str):
        if given not in READERS:
            raise ValueError(f"unknown solver {given!r}: choose from {list(READERS)}")
        return given
    of_scipy = getattr(given, "__module__", "").startswith("scipy.")
    return given.__name__ if of_scipy and getattr(given, "__name__", "") in READERS else ""


def _require_known(solver: str, keywords: Mapping[str, Any]) -> None:
    """A misspelt `hes=` would be a Hessian that nobody checks."""
    known = set(inspect.signature(READERS[solver]).parameters) - {"seed", "_"}
    named = inspect.signature(_SOLVERS[solver]).parameters.values()
    known |= {each.name for each in named if each.kind is not each.VAR_KEYWORD} | _FURTHER.get(solver, frozenset())
    unknown = sorted(set(keywords) - known)
    if unknown:
        raise TypeError(f"{solver} has no argument {', '.join(unknown)}: it has {', '.join(sorted(known))}")


def _shaped(points: Sequence[Any], start: Vector) -> list[Vector]:
    """The points, each in the shape of `x0`."""
    if not len(points):
        raise ValueError("points is empty: give at least one, or None for x0 and a point near it")
    found: list[Vector] = []
    for number, point in enumerate(points):
        values = np.asarray(point, dtype=start.dtype)
        if values.size != start.size:
            raise ValueError(f"points[{number}] has shape {values.shape}, x0 {start.shape}: they must agree")
        found.append(values.reshape(start.shape))
    return found


def _checked(
    reading: Reading, subject: Subject, points: Sequence[Vector] | None, seed: int, left_out: list[str]
) -> Iterator[CaseReport]:
    """The reports of one function, at each point. Points that are left out are added to `left_out`."""
    for where, point, tested in _points(reading, subject, points, seed, left_out):
        bounds = None if reading.bounds is None or tested.point is not None else list(zip(*reading.bounds, strict=True))
        report = check(
            tested.function,
            (point, *tested.args),
            tested.keywords,
            bounds=bounds,
            seed=seed,
            precision=tested.precision,
            **tested.derivatives,
        )
        yield CaseReport(f"{tested.name} {where}", point.size, report)


def _points(
    reading: Reading, subject: Subject, points: Sequence[Vector] | None, seed: int, left_out: list[str]
) -> Iterator[tuple[str, Vector, Subject]]:
    """Where a function is checked; near x0 it may be the function of a later time."""
    start = reading.point if subject.point is None else subject.point
    if points is not None and subject.point is None:
        for number, point in enumerate(points):
            yield f"at points[{number}]", point, subject
        return
    inside = _clipped(start, reading, subject)
    yield ("at x0" if np.array_equal(inside, start) else "at x0, moved into the bounds"), inside, subject
    for moved in (subject.later, subject):
        near = None if moved is None else _nearby(inside, reading, moved, seed)
        if moved is not None and near is not None:
            yield "near x0", near, moved
            return
    left_out.append(f"{subject.name} near x0 (it has no finite value there)")


def _clipped(point: Vector, reading: Reading, subject: Subject) -> Vector:
    if reading.bounds is None or subject.point is not None:
        return point
    lower, upper = (np.reshape(bound, point.shape) for bound in reading.bounds)
    return np.clip(point, lower, upper)


def _nearby(point: Vector, reading: Reading, subject: Subject, seed: int) -> Vector | None:
    """A point near another, within the bounds, where the function has a finite value; None: there is none."""
    generators = HostGenerators()
    for part in _NEAR:
        moved = point + part * np.maximum(np.abs(point), 1.0) * random_probe(point.size, seed).reshape(point.shape)
        moved = np.abs(moved) if subject.point is not None else _clipped(moved, reading, subject)  # squares
        try:
            with np.errstate(all="ignore"):
                value = subject.function(moved.copy(), *subject.args, **subject.keywords)
        except Exception:
            continue
        finally:
            generators.rewind()
        if np.isfinite(np.asarray(value, dtype=np.complex128)).all():
            return moved
    return None
