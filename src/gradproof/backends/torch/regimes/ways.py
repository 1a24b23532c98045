"""The ways in which a function is run, as data: a name, what it is, and the comparisons that ask it."""

from __future__ import annotations

import itertools
import os
import shutil
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from gradproof.backends.torch.regimes import transforms
from gradproof.backends.torch.regimes.answers import answer_by_backward
from gradproof.backends.torch.regimes.comparing import Compared
from gradproof.backends.torch.regimes.operators import opcheck
from gradproof.backends.torch.regimes.regime import NotApplicableError, Regime
from gradproof.backends.torch.regimes.rounding import Rounding, rounded
from gradproof.backends.torch.regimes.subject import Subject, leaves_at

_EVERY_SUBSET = 3
"""Up to this many inputs, every subset of them is frozen in turn; of more, each alone and all but each."""
_AUTOCAST_RTOL = 2.0**-5
"""Of bfloat16, whose numbers are 2**-7 apart: a chain of a few operations loses two bits."""


class Way(NamedTuple):
    """A way of running a function. `comparisons` compares with eager mode, one variation after the other."""

    name: str
    what: str
    comparisons: Callable[[Regime], Iterator[Compared]]


def _frozen(regime: Regime) -> Iterator[Compared]:
    labels = regime.subject.labels
    if len(labels) == 1:
        raise NotApplicableError("only one input needs a gradient")
    for needed in _subsets(len(labels)):
        flags = [k in needed for k in range(len(labels))]
        frozen = ", ".join(label for label, flag in zip(labels, flags, strict=True) if not flag)
        only = ", ".join(label for label, flag in zip(labels, flags, strict=True) if flag)
        variation = f"only {only} needs a gradient" if len(needed) == 1 else f"{frozen} frozen"
        got = regime.ask(regime.subject, leaves_at(regime.point, flags))
        yield regime.yardstick.measure(variation, got, flags)


def _subsets(count: int) -> Iterator[frozenset[int]]:
    """Which inputs need a gradient: the fewest first."""
    sizes = range(1, count) if count <= _EVERY_SUBSET else (1, count - 1)
    for size in sizes:
        yield from map(frozenset, itertools.combinations(range(count), size))


def _checkpoint(regime: Regime) -> Iterator[Compared]:
    def function(*leaves: torch.Tensor) -> Sequence[torch.Tensor]:
        return _tuple(checkpoint(regime.subject, *leaves, use_reentrant=False))

    yield regime.yardstick.measure("", regime.ask(function, leaves_at(regime.point)))


def _checkpoint_reentrant(regime: Regime) -> Iterator[Compared]:
    def function(*leaves: torch.Tensor) -> Sequence[torch.Tensor]:
        return _tuple(checkpoint(regime.subject, *leaves, use_reentrant=True))

    before = [(tensor, tensor.grad) for tensor in regime.around]
    try:
        for tensor, _ in before:
            tensor.grad = None
        got = regime.ask(function, leaves_at(regime.point), by=answer_by_backward)
    finally:
        for tensor, gradient in before:
            tensor.grad = gradient
    yield regime.yardstick.measure("", got)


def _tuple(output: Any) -> Sequence[torch.Tensor]:
    return (output,) if isinstance(output, torch.Tensor) else output


def _autocast(regime: Regime) -> Iterator[Compared]:
    """Forward under autocast, backward outside, as training does; float64 inputs are float32 here.

    What bfloat16 may do to the result is measured: eager mode in its own precision, at the point rounded to bfloat16,
    and with every number that it computes rounded so.
    """
    device = regime.point[0].device.type
    point, cotangents = list(map(rounded, regime.point)), list(map(rounded, regime.cotangents))
    spread = [regime.eager(point, cotangents)]
    with Rounding():
        spread.append(regime.eager(point, cotangents))
    subject = regime.subject.in_single_precision()
    single = [leaf.to(torch.float32) if leaf.dtype == torch.float64 else leaf for leaf in regime.point]
    plain = regime.ask(subject, leaves_at(single))

    def function(*leaves: torch.Tensor) -> Sequence[torch.Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            return subject(*leaves)

    got = regime.ask(function, leaves_at(single))
    by_single = regime.by(plain, spread, rtol=_AUTOCAST_RTOL, dtypes=[torch.bfloat16])
    yield by_single.measure("", got)
    # the checked derivative has the last word: float32 may be wrong where float64 is right
    checked = regime.by(regime.truth, spread, rtol=_AUTOCAST_RTOL, any_dtype=True)
    yield checked.measure("against the checked derivative", got)


def _compiled(backend: str) -> Callable[[Regime], Iterator[Compared]]:
    def comparisons(regime: Regime) -> Iterator[Compared]:
        if backend == "inductor" and regime.point[0].device.type == "cpu" and not _has_compiler():
            raise NotApplicableError("no C++ compiler is here (CXX, g++, clang++)")
        function, note = _compile(regime, backend, whole=True), ""
        try:
            got = regime.ask(function, leaves_at(regime.point))
        except Exception as error:  # a break in the graph, or a failure that comes again
            function, note = _compile(regime, backend, whole=False), f"in parts: {_first_line(error)}"
            got = regime.ask(function, leaves_at(regime.point))
        yield regime.yardstick.measure("first call", got)._replace(note=note)
        for point, truth in regime.others[:1]:
            got = regime.ask(function, leaves_at(point))
            yield regime.by(truth).measure("called again with other values", got)._replace(note=note)

    return comparisons


def _compile(regime: Regime, backend: str, *, whole: bool) -> Subject:
    """The function, compiled; `whole`: as one graph, or not at all."""
    options: Any = {"fallback_random": True} if backend == "inductor" else None  # to draw eager's random numbers
    entry = _entry(regime.subject.function)
    compiled: Any = torch.compile(entry, backend=backend, dynamic=False, fullgraph=whole, options=options)
    return regime.subject.calling(compiled)


def _entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls this one, with code of its own: torch caches what it compiled by code, so not in theirs."""

    def entry(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    code = entry.__code__.replace()
    return types.FunctionType(code, entry.__globals__, entry.__name__, entry.__defaults__, entry.__closure__)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++", "cl") if name)


WAYS: tuple[Way, ...] = (
    Way("frozen", "some inputs need no gradient", _frozen),
    Way("checkpoint", "activation checkpointing, use_reentrant=False", _checkpoint),
    Way("checkpoint_reentrant", "activation checkpointing, use_reentrant=True", _checkpoint_reentrant),
    Way("autocast", "forward under torch.autocast in bfloat16", _autocast),
    Way("vjp", "torch.func.vjp", transforms.vjp),
    Way("jvp", "torch.func.jvp", transforms.jvp),
    Way("vmap", "torch.func.vmap, and vmap over vjp", transforms.vmap),
    Way("jacrev", "torch.func.jacrev", transforms.jacrev),
    Way("compile_aot_eager", 'torch.compile(backend="aot_eager")', _compiled("aot_eager")),
    Way("compile_inductor", 'torch.compile(backend="inductor")', _compiled("inductor")),
    Way("opcheck", "torch.library.opcheck of the custom operators it calls", opcheck),
)
"""In the order in which they are tried. Eager mode and its double backward are checked before, by `gradproof.check`."""
