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
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError as TorchGradcheckError

from gradproof.api import explain, investigate
from gradproof.backends import as_arguments
from gradproof.backends.torch import first_outputs, jacobians
from gradproof.backends.torch.arguments import Call, flatten_outputs
from gradproof.backends.torch.comparison import compare_calls
from gradproof.backends.torch.coverage import left_out
from gradproof.backends.torch.problem import TorchProblem
from gradproof.backends.torch.pull import pull
from gradproof.backends.torch.second import DerivativeCall, SecondProblem, draw_cotangents
from gradproof.backends.torch.state import preserved
from gradproof.backends.torch.strided import StridedFunction, StridedOutputs
from gradproof.backends.torch.validate import differentiable, validate_inputs, validate_outputs
from gradproof.conclusion import Occasion, Round, conclude, name_of, observers, version_of
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.report import Report, Spent
from gradproof.properties import DEFAULT

__all__ = [
    "GradcheckError",
    "NonDifferentiableWarning",
    "as_sparse_gradcheck",
    "compare",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]

_DEFAULT_EPS = 1e-6
# A function that is not repeatable gives itself away by a Jacobian mismatch; only then is it called again.
_PROPERTIES = DEFAULT - {"repeatability", "undefined", "dtypes", "symmetry"}


class NonDifferentiableWarning(UserWarning):
    """The check passed at a kink or a jump, where the gradient is a valid subgradient."""


class GradcheckError(TorchGradcheckError):
    """The derivative is wrong. `findings` says where; an `except` for torch's own class catches this too."""

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
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
    make = functools.partial(
        TorchProblem, masked=bool(masked), least_batch=(12, 2 if check_batched_grad else 5), dense_outputs=True
    )
    return _check(Call(func, as_arguments(inputs), {}), options, make, raise_exception)


def _check(call: Call, options: Options, make: Callable[[Call], TorchProblem], raise_exception: bool) -> bool:
    forward = Mode.FORWARD in options.modes
    with preserved(validate_inputs(call, who="gradcheck", forward=forward, warn_precision=True), call):
        problem = make(call)
        chosen = options.for_size(problem.inputs.size, problem.outputs.size)
        if chosen is not options:
            _warn_of_probes(problem)
        try:
            if observers:
                name = name_of(call.function)
                subject = f"first derivative of {name}" if isinstance(call, DerivativeCall) else name
                return _observed(problem, chosen, raise_exception, subject)
            return _decide(problem, chosen, raise_exception, investigate(problem, chosen))
        finally:
            problem.close()


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=5)


def _warn_of_probes(problem: TorchProblem) -> None:
    _warn_once(
        f"{problem.inputs.size} inputs and {problem.outputs.size} outputs are too many to compare every entry of the "
        "Jacobian; gradcheck uses probes, as with fast_mode=True. They see every entry at once."
    )


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


def _observed(problem: TorchProblem, options: Options, raise_exception: bool, subject: str) -> bool:
    """The same decision, and a report of it for whoever listens."""
    occasion, options = Occasion(subject, "torch"), dataclasses.replace(options, certify=True)
    seen: list[Finding] = []

    def investigated() -> Iterator[list[Finding]]:
        for findings in investigate(problem, options):
            seen.extend(findings)
            yield findings

    try:
        return _decide(problem, options, raise_exception, investigated())
    finally:
        lone = problem.inputs.size * problem.outputs.size == 1
        findings = [_undecided(f) if lone and f.status is Status.KINK else f for f in seen]
        conclude([Round(problem, options.modes, findings)], occasion)


def _undecided(finding: Finding) -> Finding:
    return dataclasses.replace(finding, status=Status.INCONCLUSIVE)


def _decide(
    problem: TorchProblem, options: Options, raise_exception: bool, investigation: Iterator[list[Finding]]
) -> bool:
    for findings in investigation:
        if not findings:
            continue
        for finding in findings:
            if finding.status is Status.RAISED and finding.cause is not None:
                raise finding.cause
            if finding.status is Status.KINK:
                warnings.warn(str(finding), NonDifferentiableWarning, stacklevel=4)
        # where the only entry there is lies on a kink nothing was verified, and that is no pass
        lone = problem.inputs.size * problem.outputs.size == 1
        fatal = [finding for finding in findings if _is_fatal(finding) or (lone and finding.status is Status.KINK)]
        if fatal:
            if raise_exception:
                reasons = list(dict.fromkeys([*explain(problem, options), *fatal]))
                text = "\n".join(map(str, reasons))
                if lone and fatal[0].status is Status.KINK:
                    text += "\nThis is the only entry there is: no derivative was verified, and that is no pass."
                raise GradcheckError(text, reasons) from fatal[0].cause
            return False
    return True


def _is_fatal(finding: Finding) -> bool:
    """Wrong, or beyond torch's tolerance by numbers too noisy to call it wrong."""
    if finding.status is Status.INCONCLUSIVE and finding.entries:
        return any(entry.difference > entry.tolerance for entry in finding.entries)
    return finding.status is not Status.KINK


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
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

    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x**3, (x,))
    True
    """
    _require(check_fwd_over_rev or check_rev_over_rev, "at least one of check_fwd_over_rev and check_rev_over_rev")
    _require(check_rev_over_rev or not check_undefined_grad, "check_rev_over_rev=True for check_undefined_grad=True")
    _require(check_rev_over_rev or not check_batched_grad, "check_rev_over_rev=True for check_batched_grad=True")
    call = Call(func, as_arguments(inputs), {})
    if grad_outputs is None:
        with preserved([tensor for _, tensor in differentiable(call)], call):
            outputs = first_outputs(call)
            validate_outputs(outputs)
        cotangents: tuple[Any, ...] = tuple(draw_cotangents(outputs, noncontiguous=gen_non_contig_grad_outputs))
    else:
        cotangents = as_arguments(grad_outputs)
    options = _options(
        Strategy.PROBES if fast_mode else Strategy.ENTRIES,
        (check_rev_over_rev, check_fwd_over_rev),
        (check_undefined_grad, check_grad_dtypes, check_batched_grad, False),
        (float(eps), float(atol), float(rtol), float(nondet_tol)),
    )
    make = functools.partial(SecondProblem, masked=masked, least_batch=(12, 2 if check_batched_grad else 5))
    return _check(DerivativeCall(call, cotangents), options, make, raise_exception)


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a `gradcheck` or `gradgradcheck`, ours or torch's, to functions that take or return sparse tensors.

    What it is given are the values of the sparse inputs, all of them strided, and sparse outputs made strided. Without
    `masked=True` every element of a sparse input has a value. Only our own `gradgradcheck` gets the sparse inputs
    themselves: torch cannot differentiate the construction of a sparse tensor twice.

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
    seed: int = 0,
) -> Report:
    """Outputs and gradients of `func`, a kernel, against those of `reference` at the same inputs.

    The allowed difference comes from the dtype and from how far the reference itself is from a float64 evaluation of
    it; each finding says which of the two is further from that truth. Nothing raises for a difference: the report
    says what differs.

    >>> x = torch.rand(100, dtype=torch.float32, requires_grad=True)
    >>> compare(lambda x: x.exp() / x.exp().sum(), lambda x: torch.softmax(x, 0), x).verdict.name
    'PASS'
    >>> compare(lambda x: 1.001 * x, lambda x: 1.0 * x, x).findings[0].output
    0
    """
    started = time.perf_counter()
    arguments, keywords = as_arguments(inputs), dict(kwargs or {})
    call, other = (Call(function, arguments, keywords) for function in (func, reference))
    tensors = validate_inputs(call, who="compare", forward=False, warn_precision=False)
    with preserved(tensors, call), preserved(tensors, other):
        findings, cost = compare_calls(call, other, seed)
    return Report(
        findings=tuple(findings),
        modes=(Mode.REVERSE,),
        covered=tuple(call.label(i) for i in call.differentiable()),
        entries=0,
        certificate=None,
        cost=Spent(cost.evaluations, cost.vjps, cost.jvps, time.perf_counter() - started),
        seed=seed,
        versions=tuple((name, version_of(name)) for name in ("gradproof", "numpy", "torch")),
        subject=f"{name_of(func)} against {name_of(reference)}",
        not_covered=left_out(call),
    )


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[torch.Tensor, ...]:
    """The numerical Jacobian of the first output of `fn(inputs)` for each tensor of `target` (default: `inputs`).

    Plain central differences with step `eps`; one row for each element of the input, one column for each of the
    output. `target` may be anything that `fn` reads, by argument or not.
    """
    _only_one(grad_out, "get_numerical_jacobian")
    packed = tuple(inputs) if isinstance(inputs, (tuple, list)) else inputs
    moved = as_arguments(packed if target is None else target)
    with preserved([x for x in moved if isinstance(x, torch.Tensor)]):
        found = jacobians.numerical(lambda *_: fn(packed), moved, eps)
    return tuple(per_output[0] for per_output in found)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Sequence[Any],
    outputs: Sequence[torch.Tensor],
    eps: float,
    input: torch.Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The numerical Jacobians of all outputs of `fn(*inputs)` for `inputs[input_idx]`, or for `input` if given.

    `outputs` and `is_forward_ad` are torch's; the outputs are read off the function itself.
    """
    moved = inputs[input_idx] if input is None else input
    if not moved.requires_grad:
        raise ValueError(f"input {input_idx} does not require a gradient: call requires_grad_() on it")
    with preserved([moved]):
        return tuple(jacobians.numerical(lambda *_: fn(*inputs), (moved,), eps)[0])


def get_analytical_jacobian(
    inputs: Any, output: torch.Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[torch.Tensor, ...], bool, bool, bool]:
    """The Jacobians of `output`, by its graph, for each tensor of `inputs` that requires a gradient.

    Returns them with three flags: the backward is repeatable to within `nondet_tol`; the gradients have the sizes
    of their inputs; they have their dtypes.
    """
    _only_one(grad_out, "get_analytical_jacobian")
    if output.is_complex():
        raise ValueError("Expected output to be non-complex: take its real or imaginary part first")
    sources = [x for x in flatten_outputs(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    first, second = (jacobians.analytical(sources, output) for _ in range(2))
    repeatable = all(not len(a) or bool((a - b).abs().max() <= nondet_tol) for a, b in zip(first, second, strict=True))
    gradients = pull([output.sum()], sources, [torch.ones_like(output.sum())])
    pairs = [(x, g) for x, g in zip(sources, gradients, strict=True) if g is not None]
    return (
        tuple(first),
        repeatable,
        all(x.shape == g.shape for x, g in pairs),
        all(x.dtype == g.dtype for x, g in pairs),
    )


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(f"Expected {what}")


def _only_one(grad_out: float, name: str) -> None:
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0: {name} takes no other value, got {grad_out!r}")
