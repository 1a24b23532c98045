"""From a user's call to a Problem to findings to a Report."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradproof.backends import as_arguments, find_backend
from gradproof.core.diagnose import eliminate
from gradproof.core.exhibits import draw_exhibits, draw_maps
from gradproof.core.finding import Finding, Status
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import BudgetExhausted, Mode, Problem
from gradproof.core.report import Report, Spent
from gradproof.properties import DEFAULT, EXPLANATIONS, PROPERTIES
from gradproof.report.progress import watching

observers: list[Callable[[Report], None]] = []
"""Called with every report; the pytest plugin collects them here."""


def check(
    func: Callable[..., Any],
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    strategy: str = "auto",
    modes: str | Iterable[str] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    nondet_tol: float = 0.0,
    seed: int = 0,
    budget: float | None = None,
    properties: Iterable[str] | None = None,
    **torch_names: bool,
) -> Report:
    """Check the derivatives of `func(*inputs, **kwargs)` with respect to every input that requires a gradient.

    `inputs` is one tensor or a tuple of arguments, nested as they may be. `strategy` is "probes" (which "auto" takes)
    or "entries" for a comparison of every entry. `modes` names what is compared with the numerical derivative:
    "reverse", "forward" or both; None takes reverse mode, and forward mode where the function supports it. `atol` and
    `rtol` bound the difference of each Jacobian entry; None derives them from the dtype, the error bars and, for
    `atol`, the largest entry. `budget` bounds the work: an int the evaluations, a float the seconds; what it did not
    suffice for is inconclusive. `properties` names what is checked (see `gradproof.properties`).

    torch's names for some of this (`check_forward_ad`, `check_batched_grad`, `check_batched_forward_grad`,
    `check_undefined_grad`, `check_grad_dtypes`) are understood too, so that calls can be moved over.

    A wrong derivative does not raise: the report says what is wrong. A call that checks nothing does raise.

    >>> import torch
    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> report = check(lambda x: x * x.detach(), x)
    >>> report.verdict
    <Verdict.FAIL: 'a derivative is wrong, or cannot be computed'>
    >>> report.findings[0].input_element == report.findings[0].output_element
    True
    """
    arguments = as_arguments(inputs)
    keywords = dict(kwargs or {})
    wanted, chosen = _named_modes(modes), _named_strategy(strategy)
    names = DEFAULT if properties is None else _named_properties(properties)
    wanted, names = _translated(torch_names, wanted, names)
    backend = find_backend(arguments, keywords)
    occasion = Occasion(name_of(func), backend.framework)
    findings: list[Finding] = []
    with backend.session(func, arguments, keywords) as session:
        try:
            problem = session.problem(seed)
        except Exception as error:
            failed = Options(seed=seed)
            return conclude(None, [raised("evaluate", error)], failed, occasion)
        _require_coverage(problem, names)
        _limit(problem, budget, occasion.started)
        options = Options(
            strategy=chosen,
            modes=wanted or session.modes(problem),
            properties=names,
            atol=atol,
            rtol=rtol,
            nondet_tol=nondet_tol,
            seed=seed,
        )
        with watching(problem.cost, occasion.subject):
            for found in investigate(problem, options):
                findings += found
            return conclude(problem, findings, options, occasion)


def investigate(problem: Problem, options: Options) -> Iterator[list[Finding]]:
    """The findings of each property wanted, in the fixed order; an exception of user code is a finding too."""
    for name, examine in PROPERTIES.items():
        if name in options.properties:
            findings: list[Finding] = []
            try:
                findings.extend(examine(problem, options))
            except BudgetExhausted:
                findings.append(_exhausted(name))
            except Exception as error:
                findings.append(raised(name, error))
            yield findings
            if findings and findings[-1].status is Status.RAISED:
                return


def explain(problem: Problem, options: Options) -> list[Finding]:
    """What may stand behind a wrong Jacobian, apart from a wrong formula."""
    return [finding for name in EXPLANATIONS for finding in PROPERTIES[name](problem, options)]


def raised(name: str, error: Exception) -> Finding:
    """The finding for an exception in user code."""
    return Finding(
        property=name,
        status=Status.RAISED,
        message=f"While `{name}` was checked, user code raised {type(error).__name__}: {error}",
        cause=error,
    )


def _require_coverage(problem: Problem, properties: frozenset[str]) -> None:
    """A check that covers nothing is an error, never a pass."""
    if not problem.outputs.blocks:
        raise ValueError("there is nothing to check: the function returned no floating-point tensor")
    if not problem.has_graph and "unused" not in properties:
        raise ValueError("there is nothing to check: no output has a graph, and the property `unused` is switched off")


def _limit(problem: Problem, budget: float | None, started: float) -> None:
    """A whole number bounds the evaluations, any other number the seconds."""
    if budget is None:
        return
    if isinstance(budget, bool) or not budget > 0:
        raise ValueError(f"budget must be positive, an int (evaluations) or a float (seconds): got {budget!r}")
    if isinstance(budget, int):
        problem.cost.most_evaluations = budget
    else:
        problem.cost.deadline = started + budget


def _exhausted(name: str) -> Finding:
    return Finding(
        property=name,
        status=Status.INCONCLUSIVE,
        message=f"The budget was used up before the property `{name}` was checked.",
        hint="raise budget=, or check fewer inputs at a time",
    )


@dataclass(frozen=True, slots=True)
class Occasion:
    """What is checked, for which framework, and since when."""

    subject: str
    framework: str
    started: float = field(default_factory=time.perf_counter)


def name_of(func: Callable[..., Any]) -> str:
    """What a reader would call a function.

    >>> name_of(functools.partial(divmod, 3))
    'divmod'
    """
    while isinstance(func, functools.partial):
        func = func.func
    name = str(getattr(func, "__name__", type(func).__qualname__))
    owner = getattr(func, "__self__", None)
    return f"{owner.__qualname__}.{name}" if isinstance(owner, type) and not owner.__name__.startswith("_") else name


def conclude(problem: Problem | None, findings: list[Finding], options: Options, occasion: Occasion) -> Report:
    """The report, with pictures if there is something wrong; whoever listens hears of it."""
    report = _bare(problem, findings, options, occasion)
    if problem is not None and not report:
        report = _illustrated(problem, report)
    report = _settled(report, problem, occasion)
    for observe in observers:
        observe(report)
    return report


def _bare(problem: Problem | None, findings: list[Finding], options: Options, occasion: Occasion) -> Report:
    inputs, outputs = (problem.inputs.blocks, problem.outputs.blocks) if problem else ((), ())
    return Report(
        findings=tuple(sorted(findings, key=lambda f: (-f.status.rank, f.property not in EXPLANATIONS))),
        modes=options.modes,
        covered=tuple(block.label for block in inputs),
        entries=problem.inputs.size * problem.outputs.size if problem else 0,
        certificate=problem.certificate if problem else None,
        cost=Spent(1, 0, 0, 0.0),
        seed=options.seed,
        versions=tuple((name, _version(name)) for name in ("gradproof", "numpy", occasion.framework)),
        subject=occasion.subject,
        inputs=inputs,
        outputs=outputs,
    )


@functools.cache
def _version(package: str) -> str:
    from importlib.metadata import version  # takes a tenth of the time that importing gradproof may take

    return version(package)


def _illustrated(problem: Problem, report: Report) -> Report:
    """With slices, ladders and maps, and a cause by elimination where no suspect fits."""
    maps = draw_maps(report.findings)
    pairs = report.pairs
    hints = {(pair.output, pair.input): eliminate(pairs, pair) for pair in pairs if pair.status is Status.WRONG}
    findings = tuple(
        replace(f, hint=hints.get((f.entries[0].output.block, f.entries[0].input.block), ""))
        if f.entries and not f.hint and f.status is Status.WRONG
        else f
        for f in report.findings
    )
    return replace(report, findings=findings, maps=maps, exhibits=draw_exhibits(problem, findings))


def _settled(report: Report, problem: Problem | None, occasion: Occasion) -> Report:
    """With its cost, which ends here, and without what was needed on the way."""
    seconds = time.perf_counter() - occasion.started
    cost = problem.cost if problem else None
    return replace(
        report,
        findings=tuple(replace(f, spots=None) if f.spots is not None else f for f in report.findings),
        cost=Spent(cost.evaluations, cost.vjps, cost.jvps, seconds) if cost else Spent(1, 0, 0, seconds),
    )


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
            modes = modes or ((Mode.REVERSE, Mode.FORWARD) if value else (Mode.REVERSE,))
        elif name in _TORCH_NAMES:
            properties = properties | {_TORCH_NAMES[name]} if value else properties - {_TORCH_NAMES[name]}
        else:
            raise TypeError(f"check() got an unexpected keyword argument {name!r}")
    return modes, properties


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


def _named_properties(properties: Iterable[str]) -> frozenset[str]:
    names = frozenset([properties] if isinstance(properties, str) else properties)
    unknown = sorted(names - set(PROPERTIES))
    if unknown or not names:
        what = f"unknown properties {unknown}" if unknown else "properties is empty"
        raise ValueError(f"{what}: choose from {list(PROPERTIES)}")
    return names
