"""Cases of a suite, for test_suites.py: many small ones, with some that fail, raise or end their worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch


def numbers() -> torch.Tensor:
    return torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)


def case_many() -> Iterator[Any]:
    """As many as GRADPROOF_TEST_CASES says; every seventh is wrong."""
    for number in range(int(os.environ.get("GRADPROOF_TEST_CASES", "14"))):
        yield (wrong if number % 7 == 6 else torch.sin), (numbers(),)


def wrong(x: torch.Tensor) -> torch.Tensor:
    return x * x.detach()


def case_raises() -> Any:
    raise ArithmeticError("no such case")


def case_with_options() -> Any:
    return torch.sin, (numbers(),), {}, {"strategy": "entries"}


def case_ends_its_worker() -> Any:
    return ends, (numbers(),)


def ends(x: torch.Tensor) -> torch.Tensor:
    if os.environ.get("GRADPROOF_TEST_MAIN") not in (None, str(os.getpid())):
        os._exit(1)
    return x * 2


def case_dies_once() -> Any:
    return dies_once, (numbers(),)


def dies_once(x: torch.Tensor) -> torch.Tensor:
    marker = os.environ.get("GRADPROOF_TEST_MARKER")
    if marker and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return x * 2


def case_hangs() -> Any:
    return hangs, (numbers(),)


def hangs(x: torch.Tensor) -> torch.Tensor:
    if os.environ.get("GRADPROOF_TEST_HANG"):
        time.sleep(600)
    return x * 2
