"""What is public is what `__all__` says, no more and no less."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

WARNINGS = "gradproof.backends.notices"
"""Where the warnings of several doors are defined; its function is nobody else's."""
NAMES = ["gradproof", "gradproof.jax", "gradproof.scipy", "gradproof.torch"]
PARTS = {"gradproof.torch": {"gradproof.torch", "gradproof.regimes", "gradproof.backends.torch.helpers", WARNINGS}}
"""A door whose functions stand in several modules."""


def defined(module: ModuleType) -> set[str]:
    """The classes and functions a module offers as its own: not its submodules, not what other packages made."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and (
            value.__module__ in PARTS.get(module.__name__, {module.__name__, WARNINGS})
            if module.__name__ != "gradproof"
            else True
        )
        and name != "notify"
    }


@pytest.mark.parametrize("name", NAMES)
def test_all_names_what_is_public(name: str) -> None:
    module = importlib.import_module(name)
    assert set(module.__all__) == defined(module)


@pytest.mark.parametrize("name", NAMES)
def test_all_is_sorted_and_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__))
    undocumented = [member for member in module.__all__ if not inspect.getdoc(getattr(module, member))]
    assert undocumented == []


def test_names_that_scripts_rely_on_are_there() -> None:
    import gradproof
    import gradproof.torch

    assert {"check", "Report", "Finding", "Status", "Verdict"} <= set(gradproof.__all__)
    assert {"gradcheck", "gradgradcheck", "GradcheckError"} <= set(gradproof.torch.__all__)
