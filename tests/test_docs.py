"""The examples of the pages run, what they show is what is printed, and links between pages lead somewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
ALL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    "docs/json.md",
    "docs/pytest.md",
    "docs/architecture.md",
    "docs/models.md",
    "docs/kernels.md",
    "docs/audit.md",
    "docs/torch.md",
]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # what torch says of the layout
@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")  # an example is about that
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in them too, where they need no fixture."""
    monkeypatch.chdir(tmp_path)
    examples = blocks(page, "python")
    assert examples
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)
    for name, value in [*names.items()]:
        if name.startswith("test_") and not inspect.signature(value).parameters:
            value()


def test_the_tutorial_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = blocks("docs/tutorial.md", "text")
    exec(compile(blocks("docs/tutorial.md", "python")[0], "tutorial", "exec"), {})
    assert capsys.readouterr().out.splitlines()[:5] == shown.splitlines()


def test_the_readme_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, but for the time it takes."""
    (shown,) = blocks("README.md", "text")
    (example,) = [example for example in blocks("README.md", "python") if "print(report)" in example]
    exec(compile(example, "README", "exec"), {})
    printed, shown = (re.sub(r"\d+\.\d+ s;", "… s;", text) for text in (capsys.readouterr().out, shown))
    assert printed == shown
    assert "… s;" in shown


def test_the_cases_that_pages_name_are_there() -> None:
    cases = (ROOT / "examples" / "cases.py").read_text(encoding="utf-8")
    named = {name for page in ALL for name in re.findall(r"cases\.py:(\w+)", page.read_text(encoding="utf-8"))}
    assert named
    assert all(re.search(rf"^(def )?{name}\b", cases, re.MULTILINE) for name in named), named


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_links_and_pictures_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target
