"""How long collectives wait while a check runs: one that never comes must not hold up the rest for half an hour."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist

from gradproof.backends.torch.private import process_groups


@contextmanager
def patience(group: dist.ProcessGroup, seconds: float) -> Generator[None]:
    """All groups of this process wait so long at most; afterwards as long as before."""
    before = [(backend, waits) for backend, waits in process_groups(group) if waits is not None]
    for backend, _ in before:
        backend.set_timeout(timedelta(seconds=seconds))
    try:
        yield
    finally:
        for backend, waits in before:
            with suppress(Exception):  # a group that broke meanwhile
                backend.set_timeout(waits)
