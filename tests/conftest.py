"""Set up before any test module is imported. Frameworks are imported only by the tests that need them."""

from __future__ import annotations

import os

from hypothesis import settings

# Two workers on a small machine: one thread each is faster than two that wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("gradproof", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("gradproof")
