"""The core and the properties are asked here without the engine, which tells NumPy to be quiet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet_as_in_the_engine() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
