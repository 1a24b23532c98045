"""Checks in several threads at once give the verdicts of one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from functions import custom, numbers

from gradproof import check
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
