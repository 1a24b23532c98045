"""Set up before any test module is imported. Frameworks are imported only by the tests that need them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest
from hypothesis import settings

# Two workers on a small machine: one thread each is faster than two that wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("gradproof", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("gradproof")


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """The client of a Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as found,
        distributed.Client(found) as client,
    ):
        yield client


@pytest.fixture
def main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that end a worker leave this process alone."""
    monkeypatch.setenv("GRADPROOF_TEST_MAIN", str(os.getpid()))
