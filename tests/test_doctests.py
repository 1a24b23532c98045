"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import gradproof

OPTIONAL = {"jax", "scipy"}


def modules() -> list[str]:
    found = pkgutil.walk_packages(gradproof.__path__, "gradproof.", onerror=lambda name: None)
    return ["gradproof", *sorted(module.name for module in found)]


def load(name: str) -> ModuleType:
    for framework in OPTIONAL & set(name.split(".")):
        pytest.importorskip(framework)
    return importlib.import_module(name)


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_are_true(name: str) -> None:
    assert doctest.testmod(load(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_there_are_examples_where_people_look() -> None:
    for name, least in [("gradproof.torch", 3), ("gradproof.api", 2), ("gradproof.core.space", 2)]:
        assert doctest.testmod(load(name), optionflags=doctest.ELLIPSIS).attempted >= least, name
