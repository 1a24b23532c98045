"""Imports point one way, and `import gradproof` imports no framework."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradproof

SOURCE = Path(gradproof.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
FRAMEWORKS = {"torch", "jax", "jaxlib", "functorch", "optree"}
FRONT_DOORS = {"__init__.py", "__main__.py", "torch.py", "jax.py", "scipy.py", "cli.py", "demo.py"}


def imported_by(path: Path) -> Iterator[str]:
    """The full names of the modules a file imports, at any depth."""
    package = ["gradproof", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer(path: Path) -> str:
    """core, properties, backends, report: the folder; else the file itself."""
    return path.relative_to(SOURCE).parts[0]


def own(path: Path) -> set[str]:
    """The layers of gradproof that a file imports."""
    parts = [name.split(".") for name in imported_by(path)]
    return {names[1] for names in parts if names[0] == "gradproof" and len(names) > 1}


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    ["import gradproof", "from gradproof import *", "import gradproof.properties, gradproof.core.entries"],
)
def test_importing_gradproof_imports_no_framework(statement: str) -> None:
    loaded = loaded_after(statement)
    assert "gradproof" in loaded
    assert not loaded & FRAMEWORKS


def test_the_command_line_imports_no_framework() -> None:
    assert not loaded_after("import gradproof.cli, gradproof.__main__") & FRAMEWORKS


def test_a_call_without_a_framework_says_what_is_missing_and_imports_none() -> None:
    statement = (
        "import gradproof\n"
        "try:\n    gradproof.check(abs, 3.0)\n"
        "except TypeError as error:\n    assert 'nothing to differentiate' in str(error), error\n"
        "else:\n    raise SystemExit('accepted')"
    )
    assert not loaded_after(statement) & FRAMEWORKS


def test_the_walk_sees_the_source() -> None:
    """So that the tests below cannot pass by looking at nothing."""
    assert {"core", "properties", "backends"} <= {layer(path) for path in MODULES}
    assert "torch" in set(imported_by(SOURCE / "torch.py"))
    assert {"core", "properties", "backends"} <= own(SOURCE / "api.py")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_backends_and_front_doors_import_a_framework(path: Path) -> None:
    if layer(path) == "backends" or layer(path) in FRONT_DOORS - {"__init__.py"}:
        return
    assert not {name.partition(".")[0] for name in imported_by(path)} & FRAMEWORKS


ALLOWED = {
    "core": {"core"},
    "properties": {"core", "properties"},
    "backends": {"core", "backends"},
    "report": {"core", "report"},
    "api.py": {"core", "properties", "backends", "conclusion", "report"},
    "conclusion.py": {"core", "properties"},
    "targets.py": set(),
}
LAZY = {"core/report.py": {"report"}}
"""A Report renders itself, but the renderings are loaded only when they are asked for."""


@pytest.mark.parametrize("path", [path for path in MODULES if layer(path) not in FRONT_DOORS], ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    assert layer(path) in ALLOWED, f"say in ALLOWED what {layer(path)} may import"
    assert own(path) <= ALLOWED[layer(path)] | LAZY.get(relative(path), set())


def test_what_is_lazy_is_not_loaded_by_importing_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gradproof.core.report; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    loaded = done.stdout.split()
    assert "gradproof.core.report" in loaded
    assert not [name for name in loaded if name.startswith(("gradproof.report.json", "gradproof.report.html"))]


@pytest.mark.parametrize("statement", ["import gradproof", "import gradproof.report.html, gradproof.report.terminal"])
def test_what_renders_is_imported_only_to_render(statement: str) -> None:
    assert not loaded_after(statement) & {"rich", "typer", "jinja2", "plotly"}


def test_api_sees_of_the_backends_only_the_package() -> None:
    deeper = [name for name in imported_by(SOURCE / "api.py") if name.startswith("gradproof.backends.")]
    backends = {path.stem if path.is_file() else path.name for path in (SOURCE / "backends").iterdir()}
    assert not [name for name in deeper if name.split(".")[2] in backends]


def test_nothing_but_front_doors_imports_api() -> None:
    importers = {relative(path) for path in MODULES if "api" in own(path)}
    assert "__init__.py" in importers
    assert importers <= FRONT_DOORS


def test_the_tests_of_the_core_import_no_framework() -> None:
    for path in sorted((Path(__file__).parent / "core").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name.partition(".")[0] for name in names} & FRAMEWORKS, path.name
