"""`gradproof.check`: a user's words, understood and validated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from numbers import Integral, Real
from typing import Any, Literal

from gradproof.backends import Reconsiders, Session
from gradproof.core.capabilities import AccusedBefore, AccusedEntry
from gradproof.core.options import Options, Strategy, spacing_of
from gradproof.core.problem import Mode, NothingToCheckError, Problem
from gradproof.core.status import Status
from gradproof.dispatch import require_executor
from gradproof.engine import Request, Round, conclude, examine
from gradproof.names import ModeName, PropertyName, StrategyName, option_form
from gradproof.properties import DEFAULT, PROPERTIES, known_properties
from gradproof.results.called import name_of
from gradproof.results.repeat import call_line
from gradproof.results.report import Report
from gradproof.workers import Calling, Working


def check(
    func: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    strategy: StrategyName = "auto",
    modes: ModeName | Iterable[ModeName] | None = None,
    order: Literal[1, 2] = 1,
    masked: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    nondet_tol: float = 0.0,
    seed: int = 0,
    budget: float | None = None,
    evaluations: int | None = None,
    seconds: float | None = None,
    wrt: str | int | Iterable[str | int] | None = None,
    properties: PropertyName | Iterable[PropertyName] | None = None,
    allow: PropertyName | Iterable[PropertyName] = (),
    precision: Any = None,
    intended: Callable[..., Any] | None = None,
    executor: Executor | None = None,
    grad: Callable[..., Any] | None = None,
    jac: Any = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    hess: Any = None,
    hessp: Callable[..., Any] | None = None,
    bounds: Any = None,
    **torch_names: bool,
) -> Report:
    """Check the derivatives of `func(*inputs, **kwargs)` with respect to every input that requires a gradient.

    `inputs` is one tensor or a tuple of arguments, nested as they may be. Of a `torch.nn.Module` the parameters are
    checked too. `wrt` selects among both, by names or patterns (`"layers.*.weight"`) and by numbers of arguments.
    `strategy` is "probes" (which "auto" takes) or "entries" for a comparison of every entry. `modes` names what is
    compared with the numerical derivative: "reverse", "forward" or both; None takes reverse mode, and forward mode
    where the function supports it. `order=2` checks the first derivative and then the second: reverse and forward over
    reverse, and that the Hessian of a scalar function is symmetric. `masked` says that of sparse tensors only the
    specified elements count; by default all do. `atol` and `rtol` bound the difference of each Jacobian entry; None
    derives them from the dtype, the error bars and, for `atol`, the largest entry. `evaluations` and `seconds`
    bound the work; what they did not suffice for is inconclusive. `budget` is their older form: an int bounds the
    evaluations, a float the seconds. `properties` names what is checked
    (see `gradproof.properties`); what those named in `allow` find is intended, as `"mutation"` is of a kernel that
    works in place: it is noted, and fails nothing. `precision` says what the function is computed in, where that is
    lower than the dtype of its outputs: a dtype, the name of one ("bfloat16"), or the relative spacing of its numbers.
    Unless it is said, it is measured where the dtype does not explain what is seen. `intended` is the function whose
    derivative is meant, where that is not `func` itself (straight-through estimators, gradient reversal): it gets the
    same arguments, and its numerical derivative is what the derivative of `func` is compared with. `executor` is any
    `concurrent.futures.Executor`: calls that cannot be batched are mapped over its workers, and the report is the same.

    Of a function of NumPy arrays the derivative is a function of its own: `grad(x, *args)`, `jac(x, *args)` (an array,
    a sparse matrix or a linear operator), `vjp(x, v, *args)`, `jvp(x, u, *args)`; `hess(x, *args)` and
    `hessp(x, p, *args)` are checked as the derivative of the gradient. There `inputs` is `x`, or a tuple of `x` and
    further arguments; `wrt` selects other ones than the first. `bounds` are pairs (lower, upper) for the elements of
    `x`, or an object with `lb` and `ub`: no evaluation leaves them.

    torch's names for some of this (`check_forward_ad`, `check_batched_grad`, `check_batched_forward_grad`,
    `check_undefined_grad`, `check_grad_dtypes`) are understood too, so that calls can be moved over.

    A wrong derivative does not raise: the report says what is wrong. A call that checks nothing does raise.

    >>> import numpy as np
    >>> check(lambda x: (x**3).sum(), np.array([0.5, 2.0]), grad=lambda x: 3 * x**2).ok
    True
    >>> report = check(lambda x: (x**3).sum(), np.array([0.5, 2.0]), grad=lambda x: x**2)
    >>> report.findings[0].hint
    'analytic ≈ 0.3333 × numeric: a constant factor 1/3'
    >>> import torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> report = check(lambda x: x * x.detach(), x)
    >>> report.verdict
    <Verdict.FAIL: 'a derivative is wrong, or cannot be computed'>
    >>> report.findings[0].input_element == report.findings[0].output_element
    True
    >>> reversal = type("Reversal", (torch.autograd.Function,), {
    ...     "forward": staticmethod(lambda ctx, x: x.clone()), "backward": staticmethod(lambda ctx, g: -g),
    ... })
    >>> check(reversal.apply, x, intended=lambda x: -x).ok
    True
    """
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {order!r}")
    if not callable(func):
        raise TypeError(f"check expects a function or a module first, got {func!r}")
    if intended is not None and not callable(intended):
        raise TypeError(f"intended is the function whose derivative is meant, got {intended!r}")
    if operator.index(seed) < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    functions = {"grad": grad, "jac": jac, "vjp": vjp, "jvp": jvp, "hess": hess, "hessp": hessp}
    given = {name: function for name, function in functions.items() if function is not None}
    keywords = dict(kwargs or {})
    wanted, chosen = _named_modes(modes), _named_strategy(strategy)
    default = DEFAULT - _NOT_BY_HAND if given else DEFAULT
    names = default if properties is None else _named_properties(properties)
    wanted, names = _translated(torch_names, wanted, names)
    limits = limits_of(budget, evaluations, seconds)
    options = Options(
        strategy=chosen,
        properties=names,
        allow=known_properties(allow, "allow"),
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        seed=seed,
        precision=spacing_of(precision),
    )
    if given:
        order = _order_by_hand(given, order, intended)
    elif bounds is not None:
        raise ValueError("bounds= go with the derivatives of NumPy functions: grad=, jac=, vjp= or jvp=")
    calling = Calling(func, inputs, keywords, _named_inputs(wrt), masked, intended, given, bounds)
    said = {
        "seed": seed,
        "strategy": None if strategy == "auto" else strategy,
        "modes": None if modes is None else [mode.value for mode in wanted],
        "order": None if order == 1 else order,
        "masked": masked or None,
        "atol": atol,
        "rtol": rtol,
        "nondet_tol": nondet_tol or None,
        "budget": budget,
        "evaluations": evaluations,
        "seconds": seconds,
        "wrt": calling.wrt,
        "properties": None if properties is None else sorted(names),
        "allow": sorted(options.allow) or None,
        "precision": precision,
        "intended": intended,
        **given,
        "bounds": bounds,
        **torch_names,
    }
    if executor is not None:
        require_executor(executor)
    with calling.session() as session:
        if executor is not None:
            session = Working(session, executor, calling)
        request = Request(  # made inside: its clock does not run while another thread has its turn
            subject=name_of(func),
            options=options,
            modes=wanted,
            order=order,
            **limits,
            progress=True,
            repeat=lambda: call_line("gradproof.check", name_of(func), keywords, said),
            fit=_require_coverage,
        )
        return conclude(session, request, _examined(session, request))


_NOT_BY_HAND = frozenset({"undefined", "layout", "metadata", "dtypes", "aliasing"})
"""No questions about functions that are called with whole arrays and return new ones; a wrong shape is found anyway."""


def _order_by_hand(given: Mapping[str, Any], order: int, intended: Callable[..., Any] | None) -> Literal[1, 2]:
    """2, where a second derivative was given."""
    if intended is not None:
        raise ValueError(f"with {', '.join(given)}= pass the intended function itself")
    second = {"hess", "hessp"} & set(given)
    if order == 2 and not second:
        raise ValueError("order=2 needs the second derivative: hess= or hessp=")
    return 2 if second else 1


def _examined(session: Session, request: Request) -> list[Round]:
    """What a session finds; where that is no pass and it has another way to look at the call, what it finds so."""
    rounds = examine(session, request)
    if all(map(_passes, rounds)) or not isinstance(session, Reconsiders):
        return rounds
    again = session.reconsider({round_.order: _accused(round_) for round_ in rounds})
    return examine(session, request) if again else rounds


def _passes(round_: Round) -> bool:
    return all(finding.status.rank <= Status.KINK.rank for finding in round_.findings)


def _accused(round_: Round) -> AccusedBefore:
    """The entries that are wrong by a first look."""
    return AccusedBefore(
        tuple(
            AccusedEntry(finding.mode, entry.output.coordinate, entry.input.coordinate, entry.numeric, entry.tolerance)
            for finding in round_.findings
            if finding.mode is not None
            for entry in finding.entries
            if entry.status is Status.WRONG
        )
    )


def _require_coverage(problem: Problem, options: Options) -> Options:
    """A check that covers nothing is an error, never a pass."""
    if not problem.outputs.blocks:
        raise NothingToCheckError("there is nothing to check: the function returned no floating-point array")
    for space, whose in ((problem.inputs, "inputs"), (problem.outputs, "outputs")):
        if not space.size:
            raise NothingToCheckError(f"there is nothing to check: the {whose} have no elements")
    if not problem.connected and "unused" not in options.properties:
        raise NothingToCheckError(
            "there is nothing to check: no output is connected to an input, and the property `unused` is switched off"
        )
    return options


def limits_of(budget: float | None, evaluations: int | None, seconds: float | None) -> dict[str, Any]:
    """What bounds the work, and what the caller called it."""
    if budget is not None and (evaluations is not None or seconds is not None):
        raise ValueError("budget= is the older form of evaluations= and seconds=: give these, or budget= alone")
    limits = {"budget": budget, "evaluations": evaluations, "seconds": seconds}
    for name, value in limits.items():
        kind, forms = (Integral, "an int") if name == "evaluations" else (Real, "a number")
        forms = "an int (evaluations) or a float (seconds)" if name == "budget" else forms
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise TypeError(f"{name} must be {forms}: got {value!r}")
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be positive, {forms}: got {value!r}")
    if budget is not None:
        evaluations, seconds = (int(budget), None) if isinstance(budget, Integral) else (None, budget)
    given = [option_form.get().format(name) for name, value in limits.items() if value is not None]
    return {
        "evaluations": None if evaluations is None else int(evaluations),
        "seconds": None if seconds is None else float(seconds),
        "budget_option": " or ".join(dict.fromkeys(given)) or option_form.get().format("budget"),
    }


_TORCH_NAMES = {
    "check_batched_grad": "batched_reverse",
    "check_batched_forward_grad": "batched_forward",
    "check_undefined_grad": "undefined",
    "check_grad_dtypes": "dtypes",
}


def _translated(
    torch_names: Mapping[str, bool], modes: tuple[Mode, ...], properties: frozenset[str]
) -> tuple[tuple[Mode, ...], frozenset[str]]:
    """Modes and properties, changed as torch's names ask."""
    for name, value in torch_names.items():
        if name == "check_forward_ad":
            if modes and (Mode.FORWARD in modes) is not bool(value):
                raise ValueError(f"check_forward_ad={value} contradicts modes: leave one of them out")
            modes = modes or ((Mode.REVERSE, Mode.FORWARD) if value else (Mode.REVERSE,))
        elif name in _TORCH_NAMES:
            properties = properties | {_TORCH_NAMES[name]} if value else properties - {_TORCH_NAMES[name]}
        else:
            raise TypeError(f"check() got an unexpected keyword argument {name!r}")
    return modes, properties


def _named_inputs(wrt: str | int | Iterable[str | int] | None) -> tuple[str | int, ...] | None:
    if wrt is None:
        return None
    names = (wrt,) if isinstance(wrt, str | int) else tuple(wrt)
    if not names:
        raise ValueError("wrt is empty: name what to differentiate with respect to, or leave it out for everything")
    return names


def _named_strategy(name: str) -> Strategy:
    if name == "auto":
        return Strategy.PROBES
    try:
        return Strategy(name)
    except ValueError:
        raise ValueError(f"unknown strategy {name!r}: choose from 'auto', 'probes' and 'entries'") from None


def _named_modes(modes: str | Iterable[str] | None) -> tuple[Mode, ...]:
    names = (modes,) if isinstance(modes, str) else tuple(modes or ())
    known = [mode.value for mode in Mode]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown mode {name!r}: choose from {known}")
    if modes is not None and not names:
        raise ValueError(f"modes is empty: choose from {known}")
    return tuple(mode for mode in Mode if mode.value in names)


def _named_properties(properties: str | Iterable[str]) -> frozenset[str]:
    names = known_properties(properties, "properties")
    if not names:
        raise ValueError(f"properties is empty: choose from {list(PROPERTIES)}")
    return names
