"""The progress of a check: on a terminal, after a second, and without a remaining time that it does not know."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import pytest
import torch
from functions import numbers

from gradproof import check
from gradproof.core.cost import Cost
from gradproof.render import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_and_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")


def shown_while(action: Callable[[], Any]) -> str:
    screen = Terminal()
    with redirect_stderr(screen):
        action()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def slow(x: torch.Tensor) -> torch.Tensor:
    x.tolist()  # vmap refuses this, so that each call takes its time
    threading.Event().wait(0.002)
    return x.sin()


def test_a_long_check_shows_a_bar_with_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.02)
    monkeypatch.setattr(progress, "_PAUSE", 0.01)
    shown = shown_while(lambda: check(slow, numbers(150), strategy="entries", modes="reverse"))
    assert "gradproof slow" in shown
    assert re.search(r"remaining 0:00:\d\d", shown)


def test_a_short_check_shows_nothing() -> None:
    before = set(threading.enumerate())
    assert shown_while(lambda: check(torch.sin, numbers(3))) == ""
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile


def test_what_is_no_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    pipe = io.StringIO()
    with redirect_stderr(pipe):
        check(torch.sin, numbers(3))
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(("expected", "known"), [(100, True), (0, False)])
def test_the_remaining_time_is_known_only_if_the_work_is(expected: int, known: bool) -> None:
    cost, looks = Cost(expected=expected), iter(range(30))

    def over() -> bool:
        threading.Event().wait(0.02)
        cost.evaluations += 2
        return next(looks, None) is None

    shown = shown_while(lambda: progress.follow(cost, "f", over))
    assert "calls" in shown
    assert bool(re.search(r"remaining 0:00:\d\d", shown)) is known


def test_the_thread_ends_when_the_function_raises() -> None:
    before = set(threading.enumerate())

    def raises(x: Any) -> Any:
        raise RuntimeError("no")

    shown_while(lambda: check(raises, numbers(2)))
    assert set(threading.enumerate()) <= before
