"""Imports point one way, and `import gradproof` imports no framework."""

from __future__ import annotations

import ast
import os
import re
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
    """core, properties, backends, results, render: the folder; else the file itself."""
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
    assert {"core", "properties", "backends"} <= own(SOURCE / "engine.py")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_backends_and_front_doors_import_a_framework(path: Path) -> None:
    if layer(path) == "backends" or layer(path) in FRONT_DOORS - {"__init__.py"}:
        return
    assert not {name.partition(".")[0] for name in imported_by(path)} & FRAMEWORKS


ALLOWED = {
    "core": {"core"},
    "results": {"core", "results"},
    "properties": {"core", "results", "properties"},
    "backends": {"core", "backends"},
    "render": {"core", "results", "render"},
    "exhibits.py": {"core", "results"},
    "engine.py": {"core", "results", "properties", "backends", "exhibits", "render"},
    "api.py": {"core", "results", "properties", "backends", "engine"},
    "targets.py": set(),
}
LAZY = {"results/report.py": {"render"}}
"""A Report renders itself, but the renderings are loaded only when they are asked for."""


@pytest.mark.parametrize("path", [path for path in MODULES if layer(path) not in FRONT_DOORS], ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    assert layer(path) in ALLOWED, f"say in ALLOWED what {layer(path)} may import"
    assert own(path) <= ALLOWED[layer(path)] | LAZY.get(relative(path), set())


def test_what_is_lazy_is_not_loaded_by_importing_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gradproof.results.report; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    loaded = done.stdout.split()
    assert "gradproof.results.report" in loaded
    assert not [name for name in loaded if name.startswith(("gradproof.render.json", "gradproof.render.html"))]


@pytest.mark.parametrize("statement", ["import gradproof", "import gradproof.render.html, gradproof.render.terminal"])
def test_what_renders_is_imported_only_to_render(statement: str) -> None:
    assert not loaded_after(statement) & {"rich", "typer", "jinja2", "plotly"}


@pytest.mark.parametrize("name", ["api.py", "engine.py"])
def test_only_the_package_of_the_backends_is_seen_from_outside(name: str) -> None:
    deeper = [name for name in imported_by(SOURCE / name) if name.startswith("gradproof.backends.")]
    backends = {path.stem if path.is_file() else path.name for path in (SOURCE / "backends").iterdir()}
    assert not [name for name in deeper if name.split(".")[2] in backends]


WORDS_OF_FRAMEWORKS = (
    r"grad_output|grad_input|\bbackward\b|\bautograd\b|\bctx\b|mark_dirty|gradcheck|gradgradcheck|requires_grad|"
    r"zero_grad|\bclone\b|\.contiguous\(|\btorch\b|PyTorch|\bTensor\b|\btensors?\b|\boptimizer\b|\bvmap\b|staticmethod|"
    r"custom_vjp|custom_jvp|\bjax\b|\bjnp\b|\bpytree\b|\bscipy\b|Forward AD"
)
ROOMS_WITHOUT_A_FRAMEWORK = [path for path in MODULES if layer(path) in ("core", "properties", "results", "engine.py")]


@pytest.mark.parametrize("path", ROOMS_WITHOUT_A_FRAMEWORK, ids=relative)
def test_what_users_of_every_framework_read_speaks_the_words_of_none(path: Path) -> None:
    """Texts, docstrings apart: those are for readers of the code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]
    assert not [text for text in texts if re.search(WORDS_OF_FRAMEWORKS, text)]


def test_a_word_of_a_framework_would_be_noticed() -> None:
    assert re.search(WORDS_OF_FRAMEWORKS, "backward is not linear in grad_output")
    assert not re.search(WORDS_OF_FRAMEWORKS, "the vjp is not linear in the cotangent")
    assert len(ROOMS_WITHOUT_A_FRAMEWORK) > 30


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
