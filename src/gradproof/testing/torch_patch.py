"""torch's checkers, changed from within: whoever holds them, under whatever name, calls gradproof."""

from __future__ import annotations

import functools
import importlib
import inspect
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradproof.testing.recorder import Recorder

_CHECKERS = ("gradcheck", "gradgradcheck")
_OURS = Path(__file__).parents[1]


class TorchPatch:
    """A test may have imported the function, wrapped it in a partial or made it a default argument before anybody
    could replace a module's attribute. So the function objects stay, and their code is exchanged.
    """

    def __init__(self, recorder: Recorder, compares: bool) -> None:
        self._recorder, self._compares = recorder, compares
        self._patched: list[tuple[types.FunctionType, types.CodeType]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        theirs = importlib.import_module("torch.autograd.gradcheck")
        mine = importlib.import_module("gradproof.torch")
        originals = _copies(theirs)
        redirects = {name: functools.partial(self._run, getattr(mine, name), originals[name]) for name in _CHECKERS}
        theirs.__dict__["_gradproof_redirects"] = redirects
        for name, template in zip(_CHECKERS, (_gradcheck, _gradgradcheck), strict=True):
            function: Any = getattr(theirs, name)
            self._patched.append((function, function.__code__))
            function.__signature__ = inspect.signature(function)
            function.__code__ = template.__code__

    def pytest_unconfigure(self) -> None:
        for function, code in self._patched:
            function.__code__ = code
            del function.__signature__  # pyright: ignore[reportFunctionMemberAccess]
        self._patched.clear()

    def _run(self, mine: Callable[..., bool], theirs: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
        __tracebackhide__ = True
        with self._recorder.one_call() as made:
            outcome = _outcome(mine, *args, **kwargs)
        other = _without_traces(theirs, *args, **kwargs) if self._compares else None
        if other is not None:
            for each in made:
                each.torch, each.torch_seconds = other.word, other.seconds
        self._recorder.note(
            {
                "function": mine.__name__,
                "torch": other.word if other else "",
                "torch_seconds": other.seconds if other else 0.0,
                "gradproof": outcome.word,
                "gradproof_seconds": outcome.seconds,
            }
        )
        return outcome.deliver()


def _gradcheck(*args: Any, **kwargs: Any) -> bool:
    __tracebackhide__ = True
    return globals()["_gradproof_redirects"]["gradcheck"](*args, **kwargs)  # the globals are torch's


def _gradgradcheck(*args: Any, **kwargs: Any) -> bool:
    __tracebackhide__ = True
    return globals()["_gradproof_redirects"]["gradgradcheck"](*args, **kwargs)


def _copies(module: types.ModuleType) -> dict[str, Callable[..., bool]]:
    """The checkers as they were, in a namespace in which they call each other, not gradproof."""
    namespace = dict(vars(module))
    for name in _CHECKERS:
        function = getattr(module, name)
        copy = types.FunctionType(function.__code__, namespace, name, function.__defaults__)
        copy.__kwdefaults__ = function.__kwdefaults__
        namespace[name] = copy
    return {name: namespace[name] for name in _CHECKERS}


class _Outcome:
    """What a checker did: returned, or raised, in how many seconds."""

    def __init__(self, value: bool, error: Exception | None, seconds: float) -> None:
        self._value, self._error, self.seconds = value, error, seconds

    @property
    def word(self) -> str:
        if self._error is None:
            return "pass" if self._value else "fail"
        wrong = importlib.import_module("torch.autograd.gradcheck").GradcheckError
        return "fail" if isinstance(self._error, wrong) else f"raises {type(self._error).__name__}"

    def deliver(self) -> bool:
        __tracebackhide__ = True
        if self._error is not None:
            raise self._error.with_traceback(without_ours(self._error.__traceback__))
        return self._value


def without_ours(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of gradproof: what is left is the user's own code, if any raised."""
    if traceback is None:
        return None
    rest = without_ours(traceback.tb_next)
    if Path(traceback.tb_frame.f_code.co_filename).is_relative_to(_OURS):
        return rest
    return types.TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def _outcome(checker: Callable[..., bool], *args: Any, **kwargs: Any) -> _Outcome:
    started = time.perf_counter()
    try:
        value, error = checker(*args, **kwargs), None
    except Exception as raised:
        value, error = False, raised
    return _Outcome(value, error, time.perf_counter() - started)


def _without_traces(checker: Callable[..., bool], *args: Any, **kwargs: Any) -> _Outcome:
    """torch's own, with what it would leave changed put back: random states, and inputs if the function raises."""
    import warnings

    import torch

    from gradproof.backends import as_arguments
    from gradproof.backends.torch.state import preserved

    arguments = as_arguments(args[1] if len(args) > 1 else kwargs.get("inputs", ()))
    dense = [x for x in arguments if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    values = [x.detach().clone() for x in dense]
    with preserved([]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _outcome(checker, *args, **kwargs)
        for tensor, value in zip(dense, values, strict=True):
            if not torch.equal(tensor, value) and not torch.isnan(value).any():
                tensor.detach().copy_(value)
    return outcome
