"""What makes checks faster is tried once, and a public way is taken where it does not work."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

from gradproof.backends.notices import notify

T = TypeVar("T")


class PrivateNameWarning(UserWarning):
    """This version of torch lacks a private name that makes checks faster."""


def trusted(name: str, make: Callable[[], T], works: Callable[[T], bool], public: T) -> T:
    """What is made with a private name, if it is there and works; else the public way, and a warning."""
    try:
        with torch.enable_grad(), warnings.catch_warnings(action="ignore"):
            made = make()
            if works(made):
                return made
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    else:
        reason = "it does something else"
    notify(
        f"gradproof cannot use {name} of torch {torch.__version__} ({reason}) and takes a public way instead: "
        "checks are slower.",
        PrivateNameWarning,
        stacklevel=3,
    )
    return public
