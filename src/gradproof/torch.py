"""The torch front door: `torch.autograd.gradcheck` and its relatives, with their signatures and manners.

>>> import torch
>>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
>>> gradcheck(torch.sin, (x,))
True
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from torch.autograd.gradcheck import GradcheckError as TorchGradcheckError

from gradproof import audits
from gradproof.backends import Session, as_arguments
from gradproof.backends.notices import NonDifferentiableWarning, UnseenWarning, notify
from gradproof.backends.torch.helpers import (
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)
from gradproof.backends.torch.phrases import PHRASES
from gradproof.backends.torch.problem import LEAST_PRODUCTS
from gradproof.backends.torch.session import comparing_session, gradcheck_session, gradgradcheck_session
from gradproof.backends.torch.tensors.strided import StridedFunction, StridedOutputs
from gradproof.core.options import Options, Strategy, spacing_of
from gradproof.core.problem import Mode, Problem
from gradproof.core.status import Status
from gradproof.engine import Request, conclude, examine, explain, is_fatal, observers
from gradproof.names import PropertyName
from gradproof.properties import DEFAULT, known_properties
from gradproof.regimes import regimes
from gradproof.results.audit import AuditReport
from gradproof.results.called import name_of
from gradproof.results.finding import Finding
from gradproof.results.report import Report

__all__ = [
    "GradcheckError",
    "NonDifferentiableWarning",
    "UnseenWarning",
    "as_sparse_gradcheck",
    "audit",
    "compare",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
    "regimes",
]

_DEFAULT_EPS = 1e-6
# A function that is not repeatable gives itself away by a Jacobian mismatch; only then is it called again.
_PROPERTIES = DEFAULT - {"repeatability", "undefined", "dtypes", "primal", "symmetry"}


class GradcheckError(TorchGradcheckError):
    """The derivative of `subject` is wrong; `findings` says where. An `except` for torch's own class catches this."""

    def __init__(self, message: str, findings: Sequence[Finding] = (), subject: str = "") -> None:
        super().__init__(message)
        self.findings, self.subject = tuple(findings), subject


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = _DEFAULT_EPS,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` at `inputs` are right; a drop-in for `torch.autograd.gradcheck`.

    Every argument means what it means to torch, with one refinement: at its default, `eps` leaves the step to the
    ladder, which adapts it to the dtype, the scale of the input and the function; any other value is used as it is.

    >>> import torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> gradcheck(lambda x: x * x.detach(), (x,), raise_exception=False)
    False
    """
    _require(check_forward_ad or check_backward_ad, "at least one of check_forward_ad and check_backward_ad")
    _require(check_backward_ad or not check_batched_grad, "check_backward_ad=True for check_batched_grad=True")
    _require(
        check_forward_ad or not check_batched_forward_grad, "check_forward_ad=True for check_batched_forward_grad=True"
    )
    options = _options(
        Strategy.PROBES if fast_mode else Strategy.ENTRIES,
        (check_backward_ad, check_forward_ad),
        (check_undefined_grad, check_grad_dtypes, check_batched_grad, check_batched_forward_grad),
        (float(eps), float(atol), float(rtol), float(nondet_tol)),
    )
    session = gradcheck_session(
        func,
        as_arguments(inputs),
        masked=bool(masked),
        forward=check_forward_ad,
        least_products=_least_products(check_batched_grad),
    )
    with session as made:
        return _decide(made, options, func, raise_exception)


def _least_products(batched: bool) -> int:
    """From how many vjps on a batch is started: where it must be tested anyway, it is used as well."""
    return 2 if batched else LEAST_PRODUCTS


def _decide(
    session: Session, options: Options, func: Callable[..., Any], raise_exception: bool, what: str = "{}"
) -> bool:
    """True, False, or the exception that torch would raise. Observers get a whole report of `what` was checked."""
    subject = ""
    if observers:
        options, subject = dataclasses.replace(options, certify=True), what.format(name_of(func))
    request = Request(subject=subject, options=options, modes=options.modes, fit=_fit, decides=is_fatal)
    (round_,) = rounds = examine(session, request)
    if observers:
        conclude(session, request, rounds)
    for finding in round_.findings:
        if finding.status is Status.RAISED and finding.cause is not None:
            raise finding.cause
        if finding.status is Status.KINK:
            notify(str(finding), NonDifferentiableWarning, stacklevel=3)
        elif finding.status is Status.INCONCLUSIVE and not is_fatal(finding):
            notify(str(finding), UnseenWarning, stacklevel=3)
        elif finding.property == "undefined" and finding.mode is Mode.REVERSE:
            notify(_UNDEFINED_BY_DEFAULT, stacklevel=3)
    fatal = [finding for finding in round_.findings if is_fatal(finding)]
    if fatal and raise_exception:
        reasons = list(dict.fromkeys([*explain(round_), *fatal]))
        raise GradcheckError("\n".join(map(_told, reasons)), reasons, name_of(func)) from fatal[0].cause
    return not fatal


def _fit(problem: Problem, options: Options) -> Options:
    """Probes in place of every entry where there are too many of them."""
    chosen = options.for_size(problem.inputs.size, problem.outputs.size)
    if chosen is not options:
        _warn_once(
            f"{problem.inputs.size} inputs and {problem.outputs.size} outputs are too many to compare every entry of "
            "the Jacobian; gradcheck uses probes, as with fast_mode=True. They see every entry at once."
        )
    return chosen


@functools.cache
def _warn_once(message: str) -> None:
    notify(message, stacklevel=7)


_UNDEFINED_BY_DEFAULT = (
    "Backwards compatibility: gradients that are not there at all are checked too, unless check_undefined_grad=False."
)


def _told(finding: Finding) -> str:
    """A finding in torch's words first, then in our own."""
    phrase = PHRASES.get((finding.property, finding.kind, finding.mode), "")
    if finding.property == "jacobian" and finding.entries:
        where = f"output {finding.output} with respect to input {finding.input}"
        if finding.mode is Mode.FORWARD:
            phrase = f"Jacobian computed with forward mode mismatch for {where}"
        elif finding.status is Status.INCONCLUSIVE:  # beyond the tolerance by numbers that others take as they are
            phrase = f"Jacobian mismatch for {where}"
    return f"{phrase}: {finding}" if phrase else str(finding)


@functools.lru_cache(maxsize=64)
def _options(
    strategy: Strategy,
    modes: tuple[bool, bool],
    extras: tuple[bool, bool, bool, bool],
    numbers: tuple[float, float, float, float],
) -> Options:
    """torch's arguments as Options. Kept, because building them takes a part of a small check."""
    eps, atol, rtol, nondet_tol = numbers
    if not 0 < eps < math.inf:
        raise ValueError(f"eps must be a finite number > 0, got {eps!r}")
    names = ("undefined", "dtypes", "batched_reverse", "batched_forward")
    return Options(
        strategy=strategy,
        certify=False,  # nobody would see it
        modes=tuple(mode for mode, wanted in zip(Mode, modes, strict=True) if wanted),
        properties=_PROPERTIES | {name for name, wanted in zip(names, extras, strict=True) if wanted},
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        step=None if eps == _DEFAULT_EPS else eps,
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = _DEFAULT_EPS,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` are right; a drop-in for `torch.autograd.gradgradcheck`.

    The first derivative, as a function of `inputs` and `grad_outputs`, is given to `gradcheck`; its inputs are
    numbered on, `inputs` first. Gradients of sparse inputs may be sparse; where torch has no second derivative of a
    sparse operator, `NotImplementedError` names it.

    >>> import torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x**3, (x,))
    True
    """
    _require(check_fwd_over_rev or check_rev_over_rev, "at least one of check_fwd_over_rev and check_rev_over_rev")
    _require(check_rev_over_rev or not check_undefined_grad, "check_rev_over_rev=True for check_undefined_grad=True")
    _require(check_rev_over_rev or not check_batched_grad, "check_rev_over_rev=True for check_batched_grad=True")
    options = _options(
        Strategy.PROBES if fast_mode else Strategy.ENTRIES,
        (check_rev_over_rev, check_fwd_over_rev),
        (check_undefined_grad, check_grad_dtypes, check_batched_grad, False),
        (float(eps), float(atol), float(rtol), float(nondet_tol)),
    )
    session = gradgradcheck_session(
        func,
        as_arguments(inputs),
        None if grad_outputs is None else as_arguments(grad_outputs),
        masked=masked,
        forward=check_fwd_over_rev,
        least_products=_least_products(check_batched_grad),
        noncontiguous=gen_non_contig_grad_outputs,
    )
    with session as made:
        return _decide(made, options, func, raise_exception, "first derivative of {}")


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a `gradcheck` or `gradgradcheck`, ours or torch's, to functions that take or return sparse tensors.

    What it is given are the values of the sparse inputs, all of them strided, and sparse outputs made strided. Without
    `masked=True` every element of a sparse input has a value. Only our own `gradgradcheck` gets the sparse inputs
    themselves: torch cannot differentiate the construction of a sparse tensor twice.

    >>> import torch
    >>> x = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
    >>> as_sparse_gradcheck(gradcheck)(lambda x: x * 2, (x,), masked=True)
    True
    """

    @functools.wraps(gradcheck)
    def gradcheck_of_sparse(func: Callable[..., Any], inputs: Any, *rest: Any, **options: Any) -> Any:
        masked = bool(options.pop("masked", False))
        if _unwrapped(gradcheck) is gradgradcheck:
            strided = StridedOutputs(func, as_arguments(inputs), masked)
            options["masked"] = True  # what is to be looked at has a value by now
        else:
            strided = StridedFunction(func, as_arguments(inputs), masked)
        if "grad_outputs" in options:
            options["grad_outputs"] = strided.strided(options["grad_outputs"])
        return gradcheck(strided, strided.arguments, *map(strided.strided, rest), **options)

    return gradcheck_of_sparse


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind partial applications."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def compare(
    func: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    precision: Any = None,
    allow: PropertyName | Iterable[PropertyName] = (),
    seed: int = 0,
) -> Report:
    """Outputs and gradients of `func`, a kernel, against those of `reference` at the same inputs.

    Each has inputs and cotangents of its own. The allowed difference comes from the dtype and from how far the
    reference itself is from a float64 evaluation of it; each finding says which of the two is further from that truth.
    `precision` says what the kernel computes in, where that is lower than its dtype ("tfloat32", "bfloat16"; see
    `gradproof.check`); `atol` takes the place of what is derived, and `rtol` adds a part of each value. A kernel that
    writes to its inputs, to grad_output or to what it saved has a finding of `mutation`, unless `allow` names it.
    Nothing raises for a difference: the report says what differs.

    >>> import torch
    >>> x = torch.rand(100, dtype=torch.float32, requires_grad=True)
    >>> compare(lambda x: x.exp() / x.exp().sum(), lambda x: torch.softmax(x, 0), x).verdict.name
    'PASS'
    >>> compare(lambda x: 1.001 * x, lambda x: 1.0 * x, x).findings[0].output
    0
    """
    request = Request(
        subject=f"{name_of(func)} against {name_of(reference)}",
        options=Options(
            properties=frozenset({"compare"}),
            allow=known_properties(allow, "allow"),
            atol=atol,
            rtol=rtol,
            precision=spacing_of(precision),
            seed=seed,
        ),
        modes=(Mode.REVERSE,),
        repeat=lambda: f"gradproof.torch.compare({name_of(func)}, {name_of(reference)}, inputs, seed={seed})",
    )
    with comparing_session(func, reference, as_arguments(inputs), dict(kwargs or {}), seed=seed) as session:
        return conclude(session, request, examine(session, request))


def audit(
    model: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    deep: bool = False,
    budget: float | None = None,
    seed: int = 0,
    executor: Executor | None = None,
) -> AuditReport:
    """Which operation of a model has a wrong gradient, and where does a NaN come from?

    Records one call of `model(*inputs, **kwargs)` with its backward, checks the whole and every operation that is
    written by hand; all distinct operations where the whole does not pass, or with `deep`. `budget` is in seconds.
    `executor` is any `concurrent.futures.Executor`: operations are checked by its workers, and the report is the same.
    Nothing raises for what is wrong, or for an exception of the model: the report says it. The model, its gradients
    and random states are afterwards as before.

    >>> import torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, cotangent):
    ...         return 2 * ctx.saved_tensors[0] ** 2 * cotangent
    >>> x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    >>> report = audit(lambda x: Cube.apply(x.sin()).sum(), x)
    >>> report.verdict.name, report.guilty.name
    ('FAIL', 'Cube')
    """
    return audits.audit(model, inputs, kwargs, deep=deep, budget=budget, seed=seed, executor=executor)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(f"Expected {what}")
