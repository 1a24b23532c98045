"""The examples of the pages run, what they show is what is printed, and links between pages lead somewhere."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gradproof
from gradproof.render.json import dump_run
from gradproof.render.terms import TERMS

ROOT = Path(__file__).parents[1]
ALL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


PAGES = [page.relative_to(ROOT).as_posix() for page in ALL if blocks(page.relative_to(ROOT).as_posix(), "python")]


def test_the_pages_with_examples_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/pytest.md", "docs/architecture.md"} <= set(PAGES)
    assert len(PAGES) >= 9


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # what torch says of the layout
@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")  # an example is about that
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in them too; those of what is wrong on purpose fail with the report."""
    monkeypatch.chdir(tmp_path)
    examples = blocks(page, "python")
    assert examples
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)
    for name, value in [*names.items()]:
        if name.startswith("test_"):
            for arguments in _arguments_of(value):
                with contextlib.suppress(gradproof.CheckFailedError):
                    value(**arguments)


def _arguments_of(test: Any) -> list[dict[str, Any]]:
    """What pytest would call a test with: the fixture of the plugin, and each of its parameters."""
    given = [(mark.args[0], mark.args[1]) for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    fixtures = set(inspect.signature(test).parameters) - {name for name, _ in given}
    known = {"gradproof": checked, "gradproof_check": checked, "gradproof_audit": audited}
    assert fixtures <= set(known), "a fixture that this test does not know"
    calls: list[dict[str, Any]] = [{name: known[name] for name in fixtures}]
    for name, values in given:
        calls = [{**call, name: value} for call in calls for value in values]
    return calls


def checked(*arguments: Any, **options: Any) -> gradproof.Report:
    """What the fixture of the plugin does."""
    report = gradproof.check(*arguments, **options)
    report.raise_for_failure()
    return report


def audited(*arguments: Any, **options: Any) -> Any:
    """What the fixture for audits does."""
    import gradproof.torch

    report = gradproof.torch.audit(*arguments, **options)
    report.raise_for_failure()
    return report


def commands() -> list[tuple[str, str]]:
    """Every command that a page shows, without remarks and what follows a pipe."""
    shown = [
        (page.name, line.removeprefix("$ ").partition("  #")[0].partition(" | ")[0].strip())
        for page in ALL
        for block in blocks(page.relative_to(ROOT).as_posix(), "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    return list(dict.fromkeys(shown))


TEST = """
import torch
from torch.autograd import gradcheck

def test_sine(gradproof):
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    gradproof(torch.sin, x)
    assert gradcheck(torch.sin, (x,))
"""


@pytest.mark.parametrize(("page", "command"), commands())
def test_the_commands_of_a_page_run(page: str, command: str, tmp_path: Path) -> None:
    """Those of gradproof and pytest are run; of the others what they name must be there."""
    program, *arguments = shlex.split(command)
    program = Path(program).name
    if program == "pip":
        extras = set(re.findall(r"\w+", arguments[1].partition("[")[2]))
        known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        assert arguments[0] == "install"
        assert extras <= set(known)
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    elif program == "python":
        script = (ROOT / arguments[0]).read_text(encoding="utf-8")
        assert all(f'"{option}"' in script for option in arguments[1:] if option.startswith("--"))
    else:
        assert program in ("gradproof", "pytest"), f"say here how {program!r} is tried out"
        _try_out(program, arguments, tmp_path)


def _try_out(program: str, arguments: list[str], directory: Path) -> None:
    """In a directory with the examples, a test, and the JSON of an earlier run."""
    shutil.copytree(ROOT / "examples", directory / "examples")
    shutil.copy(ROOT / "examples" / "cases.py", directory / "cases.py")
    (directory / "test_it.py").write_text(TEST, encoding="utf-8")
    (directory / "run.json").write_text(dump_run([]), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", program, *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if "--json" in arguments:
        assert json.loads(done.stdout)["reports"]


def test_the_tutorial_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = blocks("docs/tutorial.md", "text")
    exec(compile(blocks("docs/tutorial.md", "python")[0], "tutorial", "exec"), {})
    assert capsys.readouterr().out.splitlines()[:5] == shown.splitlines()


def test_the_readme_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, but for the time, and which of the entries that are as wrong as the worst one come first.

    These differ in their last digits, which are another processor's.
    """
    (shown,) = blocks("README.md", "text")
    (example,) = [example for example in blocks("README.md", "python") if "print(report)" in example]
    exec(compile(example, "README", "exec"), {})
    printed, shown = (
        re.sub(r"\d+\.\d+ s;", "… s;", re.sub(r"(?m)^  element .*", "  element …", text))
        for text in (capsys.readouterr().out, shown)
    )
    assert printed == shown
    assert "… s;" in shown


@pytest.mark.parametrize("page", ["docs/torch.md"])
def test_what_a_page_says_an_example_prints_is_printed(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A block of text after the word `prints` is what the example before it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n((?:(?!```).)*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert pairs
    names: dict[str, Any] = {}
    exec("import torch\nfrom gradproof.torch import gradcheck", names)
    for example, printed in pairs:
        exec(compile(example, page, "exec"), names)
        assert capsys.readouterr().out == printed


def test_the_short_summary_is_as_the_page_about_pytest_shows_it(tmp_path: Path) -> None:
    (shown,) = blocks("docs/pytest.md", "text")
    wrong = """
import torch
import gradproof

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, cotangent):
        return ctx.saved_tensors[0] * cotangent

def square(x):
    return Square.apply(x)

def test_square():
    assert gradproof.check(square, torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True))
"""
    (tmp_path / "test_square.py").write_text(wrong, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert shown.rstrip() in done.stdout.splitlines(), done.stdout


def test_every_term_of_a_report_is_explained() -> None:
    page = (ROOT / "docs" / "failed.md").read_text(encoding="utf-8")
    for term, meaning in TERMS.items():
        assert f"| {term} | {meaning} |" in page.replace("`", ""), term
    printed = {"would notice", "× allowed", "allowed", "ratio", "NOT SETTLED"}
    assert printed | {status.name for status in gradproof.Status} <= set(TERMS)


def test_the_page_about_backends_shows_the_example() -> None:
    example = (ROOT / "examples" / "autograd_backend.py").read_text(encoding="utf-8")
    assert blocks("docs/backends.md", "python")[0] == example


def test_the_cases_that_pages_name_are_there() -> None:
    cases = (ROOT / "examples" / "cases.py").read_text(encoding="utf-8")
    named = {name for page in ALL for name in re.findall(r"cases\.py:(\w+)", page.read_text(encoding="utf-8"))}
    assert named
    assert all(re.search(rf"^(def )?{name}\b", cases, re.MULTILINE) for name in named), named


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_links_and_pictures_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target
