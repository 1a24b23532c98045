"""JAX's own checkers, kept where people know them: `check_grads`, `check_jvp`, `check_vjp`.

They take the arguments of `jax.test_util` and raise `AssertionError` where a derivative is wrong. What they compare are
all entries of the Jacobian, by probes that see each of them; `atol` and `rtol` are for one entry. What could not be
seen is an `UnseenWarning`, a valid subgradient at a kink a `NonDifferentiableWarning`.

>>> import jax.numpy as jnp
>>> check_grads(jnp.sin, (jnp.ones(3),), order=2)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradproof.backends.jax.arrays import is_floating
from gradproof.backends.jax.calls import JaxCall
from gradproof.backends.jax.problem import Derivative
from gradproof.backends.jax.session import JaxSession
from gradproof.backends.jax.supplied import supplied_jvp, supplied_vjp, zeros_for
from gradproof.backends.notices import NonDifferentiableWarning, UnseenWarning, notify
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode, NothingToCheckError, Problem
from gradproof.core.status import Status
from gradproof.engine import Request, conclude, examine, explain, is_fatal, observers
from gradproof.properties import DEFAULT
from gradproof.results.called import name_of

__all__ = ["NonDifferentiableWarning", "UnseenWarning", "check_grads", "check_jvp", "check_vjp"]

Tolerance = float | Mapping[Any, float] | None
"""A number, numbers by dtype, or None for those that `jax.test_util` has."""

_EPS = 1e-4
_TOLERANCES = {
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 2e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}
"""Those of `jax.test_util`, absolute and relative alike."""
_COARSEST = 1e-1
"""That of every dtype with fewer bits."""
_PROPERTIES = DEFAULT - {"undefined", "symmetry"}
_SAID = {Mode.FORWARD: "tangent", Mode.REVERSE: "cotangent projection"}
"""What `jax.test_util` calls what it compared."""


@dataclasses.dataclass(frozen=True)
class _Tolerances:
    """Absolute and relative, as they were given."""

    atol: Tolerance
    rtol: Tolerance

    def fit(self, dtypes: Iterable[Any]) -> tuple[float, float]:
        """The widest for these dtypes."""
        names = [str(np.dtype(dtype)) for dtype in dtypes]
        return _widest(self.atol, names), _widest(self.rtol, names)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: str | Iterable[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of `f` at `args` up to an order; a drop-in for `jax.test_util.check_grads`.

    `modes` are "fwd", "rev" and "lin" (forward mode by `jax.linearize`), one or several. Steps adapt to the
    dtype, the scale of the inputs and the function, so that `eps` is accepted and not needed.

    >>> x = jnp.array([0.5, 2.0])
    >>> check_grads(lambda x: x * jax.lax.stop_gradient(x), (x,), order=1, modes=["rev"])
    Traceback (most recent call last):
     ...
    AssertionError: VJP cotangent projection: Jacobian mismatch for output 0 with respect to input 0 `x`,
      2 of 4 entries differ; ...
    """
    _require_step(eps)
    wanted, tolerances = (modes,) if isinstance(modes, str) else tuple(modes), _Tolerances(atol, rtol)
    unknown = set(wanted) - {"fwd", "rev", "lin"}
    if unknown or not wanted:
        raise ValueError(f"unknown modes {sorted(unknown)}: choose from 'fwd', 'rev' and 'lin'")
    _check_grads(f, _as_arrays(tuple(args)), order, wanted, tolerances, "")


def _check_grads(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    order: int,
    modes: tuple[str, ...],
    tolerances: _Tolerances,
    before: str,
) -> None:
    """All modes, then those of the derivative by each mode as a function itself."""
    for name, said, derive in (("fwd", "JVP", _jvp_of), ("rev", "VJP", _vjp_of), ("lin", "LIN", _lin_of)):
        if name not in modes:
            continue
        said = f"{said} of {before}" if before else said
        mode = Mode.REVERSE if name == "rev" else Mode.FORWARD
        call = JaxCall(f, args, {})
        linear = supplied_jvp(_lin_of(f)[0], call, shows_values=True)
        derivative = Derivative(forward=linear) if name == "lin" else None
        _decide(call, derivative, mode, tolerances, said)
        if order > 1:
            derived, further = derive(f)
            _check_grads(derived, further(args), order - 1, modes, tolerances, said)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = _EPS,
    err_msg: str = "",
) -> None:
    """Check a jvp, in the form of `functools.partial(jax.jvp, f)`, against finite differences of `f`.

    A drop-in for `jax.test_util.check_jvp`.

    >>> f = lambda x: x**3
    >>> check_jvp(f, lambda primals, tangents: (f(*primals), 3 * primals[0] ** 2 * tangents[0]), (jnp.ones(3),))
    """
    call = _call_of(f, args, eps)
    outputs, tangents = f_jvp(call.arguments, jax.tree.map(_zeros, call.arguments))
    for output, tangent in zip(jax.tree.leaves(outputs), jax.tree.leaves(tangents), strict=True):
        if is_floating(output) and output.dtype != tangent.dtype:
            raise AssertionError(
                f"{_titled(err_msg)}an output has dtype {output.dtype}, its tangent {tangent.dtype}: they must agree"
            )
    derivative = Derivative(forward=supplied_jvp(f_jvp, call))
    _decide_supplied(call, derivative, Mode.FORWARD, outputs, _Tolerances(atol, rtol), err_msg)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = _EPS,
    err_msg: str = "",
) -> None:
    """Check a vjp, in the form of `functools.partial(jax.vjp, f)`, against finite differences of `f`.

    A drop-in for `jax.test_util.check_vjp`.

    >>> f = lambda x: x**3
    >>> check_vjp(f, lambda x: (f(x), lambda v: (3 * x**2 * v,)), (jnp.ones(3),))
    """
    call = _call_of(f, args, eps)
    derivative = Derivative(reverse=supplied_vjp(f_vjp, call))
    _decide_supplied(call, derivative, Mode.REVERSE, f_vjp(*call.arguments)[0], _Tolerances(atol, rtol), err_msg)


def _decide_supplied(
    call: JaxCall, derivative: Derivative, mode: Mode, outputs: Any, tolerances: _Tolerances, said: str
) -> None:
    """The same for a derivative that somebody hands over, and the outputs that came with it."""
    _require_same(outputs, call(), tolerances, said)
    _decide(call, derivative, mode, tolerances, said)


def _decide(call: JaxCall, derivative: Derivative | None, mode: Mode, tolerances: _Tolerances, said: str) -> None:
    """Return, or raise what `jax.test_util` would."""
    if not call.differentiable():
        raise NothingToCheckError("there is nothing to check: args hold no floating-point or complex number")
    options = Options(strategy=Strategy.PROBES, modes=(mode,), properties=_PROPERTIES, certify=bool(observers))
    with JaxSession(call, derivative=derivative) as session:

        def fit(problem: Problem, options: Options) -> Options:
            if not problem.outputs.size:
                raise NothingToCheckError("there is nothing to check: f returned no floating-point or complex number")
            atol, rtol = tolerances.fit(session.dtypes)
            return dataclasses.replace(options, atol=atol, rtol=rtol)

        request = Request(subject=name_of(call.function), options=options, modes=(mode,), fit=fit, decides=is_fatal)
        (round_,) = rounds = examine(session, request)
        if observers:
            conclude(session, request, rounds)
        for finding in round_.findings:
            if finding.status is Status.RAISED and finding.cause is not None:
                raise finding.cause
            if finding.status is Status.KINK:
                notify(str(finding), NonDifferentiableWarning, stacklevel=4)
            elif finding.kind == "unseen":
                notify(str(finding), UnseenWarning, stacklevel=4)
        fatal = [finding for finding in round_.findings if is_fatal(finding)]
        if fatal:
            reasons = list(dict.fromkeys([*explain(round_), *fatal]))
            title = f"{said} {_SAID[mode]}".strip()
            raise AssertionError("\n".join(f"{title}: {reason}" for reason in reasons)) from fatal[0].cause


# derivatives as functions themselves, and their arguments


def _jvp_of(f: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    return functools.partial(jax.jvp, f), lambda args: (args, jax.tree.map(_own_tangent, args))


def _lin_of(f: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    def f_lin(primals: Any, tangents: Any) -> tuple[Any, Any]:
        output, push = jax.linearize(f, *primals)
        return output, push(*tangents)

    return f_lin, lambda args: (args, jax.tree.map(_own_tangent, args))


def _vjp_of(f: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    def f_vjp(*args: Any) -> Any:
        output, pull = jax.vjp(f, *args)
        return pull(jax.tree.map(_own_tangent, output))

    return f_vjp, lambda args: args


def _own_tangent(value: Any) -> Any:
    """The value itself, where it can be its own tangent."""
    return value if is_floating(value) else zeros_for(value)


def _zeros(value: Any) -> Any:
    return jnp.zeros_like(value) if is_floating(value) else zeros_for(value)


# the arguments


def _as_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers of Python are differentiated too."""
    return jax.tree.map(lambda value: jnp.asarray(value) if isinstance(value, float | complex) else value, args)


def _call_of(f: Callable[..., Any], args: Sequence[Any], eps: float) -> JaxCall:
    _require_step(eps)
    return JaxCall(f, _as_arrays(tuple(args)), {})


def _require_step(eps: float | None) -> None:
    if eps is not None and not 0 < eps < np.inf:
        raise ValueError(f"eps must be a finite number > 0, got {eps!r}")


def _widest(given: Tolerance, dtypes: Sequence[str]) -> float:
    if given is not None and not isinstance(given, Mapping):
        return float(given)
    named = {str(np.dtype(dtype)): float(value) for dtype, value in (given or {}).items()}
    return max(named.get(dtype, _TOLERANCES.get(dtype, _COARSEST)) for dtype in dtypes)


def _require_same(outputs: Any, expected: Any, tolerances: _Tolerances, err_msg: str) -> None:
    """What a derivative returns beside itself are the values of the function."""
    if jax.tree.structure(outputs) != jax.tree.structure(expected):
        raise AssertionError(f"{_titled(err_msg)}primal: the outputs of the derivative are not those of the function")
    for output, wanted in zip(jax.tree.leaves(outputs), jax.tree.leaves(expected), strict=True):
        if is_floating(wanted):
            got, want = np.asarray(output), np.asarray(wanted)
            atol, rtol = tolerances.fit([got.dtype, want.dtype])
            wide = np.complex128 if np.iscomplexobj(want) else np.float64
            np.testing.assert_allclose(
                got.astype(wide), want.astype(wide), atol=atol, rtol=rtol, err_msg=f"{_titled(err_msg)}primal"
            )


def _titled(err_msg: str) -> str:
    return f"{err_msg} " if err_msg else ""
