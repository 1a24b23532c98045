"""The words that `check` understands, as types: a misspelling is red in the editor before anything runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

StrategyName = Literal["auto", "probes", "entries"]
ModeName = Literal["reverse", "forward"]
PropertyName = Literal[
    "unused",
    "jacobian",
    "repeatability",
    "mutation",
    "determinism",
    "metadata",
    "dtypes",
    "primal",
    "batched_forward",
    "batched_reverse",
    "linearity",
    "layout",
    "aliasing",
    "adjoint",
    "undefined",
    "symmetry",
    "compare",
]
"""The names of `gradproof.properties.PROPERTIES`; a test compares them."""

option_form: ContextVar[str] = ContextVar("option_form", default="{}=")
"""How the door that is used writes an option that bounds the work: messages name it so."""


@contextmanager
def options_written(form: str) -> Generator[None]:
    """Within this, `option_form` is that of another door.

    >>> with options_written("--{}"):
    ...     option_form.get().format("seconds")
    '--seconds'
    >>> option_form.get().format("seconds")
    'seconds='
    """
    before = option_form.set(form)
    try:
        yield
    finally:
        option_form.reset(before)
