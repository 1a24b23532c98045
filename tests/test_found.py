"""The pages about defects of released packages: what they say is what happens, and the table names them all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "docs" / "found"
REQUIREMENTS = ROOT / "tests" / "found-requirements.txt"


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reproduce = _load(FOUND / "reproduce.py")
PINNED = {line.partition("==")[0] for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if "==" in line}
SMALL = [name for name in reproduce.PAGES if reproduce.subject(name)[0] in {"torch", *PINNED}]


@pytest.fixture(scope="module")
def said() -> str:
    """What `reproduce.py` says of the small pages, in one process of its own: packages patch what they import."""
    command = [sys.executable, str(FOUND / "reproduce.py"), *SMALL]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


@pytest.mark.parametrize("name", SMALL)
def test_a_page_shows_what_happens(name: str, said: str) -> None:
    """A package that is missing is a failure, not a skip: `make test` installs tests/found-requirements.txt."""
    assert f"{name}: shows what its page says" in said, f"{said}\n(make test installs what {REQUIREMENTS.name} lists)"


def test_enough_pages_are_run_here() -> None:
    assert len(SMALL) >= 8


def test_the_table_and_the_navigation_name_every_page() -> None:
    table = (FOUND / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in reproduce.PAGES:
        assert f"]({name}.md)" in table
        assert f"found/{name}.md" in navigation


def test_a_page_that_does_not_hold_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repaired function ends well, a missing package is named."""
    page = tmp_path / "repaired.md"
    page.write_text("# torch 2.13.0: x\n\n```python\nprint(1)\n```\n\n```text\n1\nAssertionError: x\n```\n")
    missing = tmp_path / "missing.md"
    missing.write_text("# no-such-package 1.0: x\n")
    monkeypatch.setattr(reproduce, "PAGES", {"repaired": page, "missing": missing})
    monkeypatch.setattr(reproduce, "version", _only_torch)
    assert reproduce.what_differs("repaired") == "it shows\n1\n(no exception)\n"
    assert reproduce.what_differs("missing") == "no-such-package is not installed"


def _only_torch(package: str) -> str:
    if package != "torch":
        raise reproduce.PackageNotFoundError(package)
    return "2.13.0+cpu"
