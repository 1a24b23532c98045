"""Checks in several threads at once give the verdicts of one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import check
from gradproof.backends.torch.state import turns
from gradproof.torch import gradcheck

WRONG = custom(lambda x: x * x, lambda s, g: 3 * s[0] * g)


def noisy(x: torch.Tensor) -> torch.Tensor:
    """Draws random numbers: right as long as each call draws the same."""
    return torch.nn.functional.dropout(x.sin(), 0.5)


def functions() -> list[Callable[..., Any]]:
    return [torch.sin, torch.tanh, lambda x: x.softmax(0), noisy, WRONG, lambda x: x * x.detach()]


def verdicts(k: int) -> tuple[str, bool]:
    function = functions()[k % 6]
    x = numbers(6)
    forward = function is not WRONG
    return check(function, x).verdict.name, gradcheck(
        function, x, check_forward_ad=forward, fast_mode=bool(k % 2), raise_exception=False
    )


def test_four_threads_say_what_one_says() -> None:
    one = [verdicts(k) for k in range(60)]
    with ThreadPoolExecutor(4) as pool:
        four = list(pool.map(verdicts, range(60)))
    assert four == one
    assert {name for name, _ in one} == {"PASS", "FAIL"}


def test_the_random_state_is_that_of_before() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: check(noisy, numbers(5)).ok, range(12)))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_check_within_a_check_does_not_wait_for_itself() -> None:
    def nested(x: torch.Tensor) -> torch.Tensor:
        assert gradcheck(torch.sin, numbers(2))
        return x.cos()

    assert gradcheck(nested, numbers(2))


def test_a_check_in_a_thread_that_the_function_joins_does_not_wait_for_ever() -> None:
    said: list[bool] = []

    def joins(x: torch.Tensor) -> torch.Tensor:
        inner = threading.Thread(target=lambda: said.append(gradcheck(torch.sin, numbers(2))))
        inner.start()
        inner.join()
        return x.cos()

    assert gradcheck(joins, numbers(2))
    assert said
    assert all(said)


def test_nor_does_one_whose_result_the_function_waits_for() -> None:
    with ThreadPoolExecutor(1) as pool:

        def waits(x: torch.Tensor) -> torch.Tensor:
            assert pool.submit(gradcheck, torch.sin, numbers(2)).result()
            assert not pool.submit(gradcheck, WRONG, numbers(2), raise_exception=False).result()
            return x.cos()

        assert gradcheck(waits, numbers(2))


def test_where_it_cannot_be_told_who_is_waited_for_the_check_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_PATIENCE", 0.2)
    raised: list[str] = []

    def inner(done: threading.Event) -> None:
        try:
            gradcheck(torch.sin, numbers(2))
        except RuntimeError as error:
            raised.append(str(error))
        done.set()

    def waits(x: torch.Tensor) -> torch.Tensor:
        if not raised:
            done = threading.Event()
            threading.Thread(target=inner, args=(done,)).start()
            done.wait()
        return x.cos()

    assert gradcheck(waits, numbers(2))
    assert "waits for one in another thread" in raised[0]
