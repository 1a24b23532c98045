"""The recipes of `benchmarks/wild.py` are complete: every expectation is known, and every package has some."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "docs" / "found"


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """By package; reading them imports none of these packages."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    packages = importlib.import_module("wild_packages").PACKAGES
    found = {package.name: importlib.import_module(f"wild_recipes.{package.module}").RECIPES for package in packages}
    assert not {"liger_kernel", "fla", "timm", "pyro"} & set(sys.modules)
    return found


def test_there_are_enough_of_them(recipes: dict[str, list]) -> None:
    assert len(recipes) >= 12
    assert sum(map(len, recipes.values())) >= 120


def test_what_is_expected_is_known(recipes: dict[str, list]) -> None:
    words = {"right", "surrogate", "mutation by design"}
    for package, rows in recipes.items():
        assert len({row.name for row in rows}) == len(rows), package
        for row in rows:
            assert row.expected in words or (FOUND / f"{row.expected}.md").exists(), (package, row.name)
            assert row.why or row.expected not in words - {"right"}, (package, row.name)


def test_every_page_is_about_torch_or_a_package_of_the_list(recipes: dict[str, list]) -> None:
    """So `wild.py --found` can install what a reproducer needs."""
    for page in FOUND.glob("*.md"):
        if page.stem != "index":
            assert page.read_text(encoding="utf-8").split()[1] in {"torch", *recipes}, page.stem
