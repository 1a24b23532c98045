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
import gradproof_pytest

SOURCE = Path(gradproof.__file__).parent
PLUGIN = Path(gradproof_pytest.__file__)
MODULES = [*sorted(SOURCE.rglob("*.py")), PLUGIN]
FRAMEWORKS = {"torch", "jax", "jaxlib", "functorch", "optree", "scipy"}
MAY_IMPORT_A_FRAMEWORK = {"backends", "torch.py", "jax.py", "distributed.py", "scipy.py", "demo", "testing"}


def imported_by(path: Path) -> Iterator[str]:
    """The full names of the modules a file imports, at any depth and by whatever statement."""
    package = [] if path == PLUGIN else ["gradproof", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (word.value for word in node.args if isinstance(word, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer(path: Path) -> str:
    """core, properties, backends, results, render: the folder; else the file itself."""
    return path.name if path == PLUGIN else path.relative_to(SOURCE).parts[0]


LAYERS = {Path(layer(path)).stem for path in MODULES}


def own(path: Path) -> set[str]:
    """The layers of gradproof that a file imports; `__init__` for what the package itself offers."""
    parts = [name.split(".") for name in imported_by(path)]
    names = {names[1] for names in parts if names[0] == "gradproof" and len(names) > 1}
    return {name if name in LAYERS else "__init__" for name in names}


def relative(path: Path) -> str:
    return path.name if path == PLUGIN else path.relative_to(SOURCE).as_posix()


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
    assert "torch" in {name.partition(".")[0] for name in imported_by(SOURCE / "torch.py")}
    assert {"core", "properties", "backends"} <= own(SOURCE / "engine.py")
    assert {"__init__", "render", "testing"} <= own(PLUGIN)
    assert {layer(path) for path in MODULES} == set(ALLOWED)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_some_import_a_framework(path: Path) -> None:
    if layer(path) not in MAY_IMPORT_A_FRAMEWORK:
        assert not {name.partition(".")[0] for name in imported_by(path)} & FRAMEWORKS


def test_those_that_may_import_a_framework_do() -> None:
    importers = {layer(path) for path in MODULES if {name.partition(".")[0] for name in imported_by(path)} & FRAMEWORKS}
    assert importers == MAY_IMPORT_A_FRAMEWORK


ALLOWED = {
    "core": {"core"},
    "results": {"core", "results"},
    "properties": {"core", "results", "properties"},
    "backends": {"core", "backends"},
    "render": {"core", "results", "render"},
    "causes": {"core", "results", "causes"},
    "exhibits.py": {"core", "results"},
    "examination.py": {"core", "results", "properties"},
    "engine.py": {"core", "results", "properties", "backends", "causes", "examination", "exhibits", "render"},
    "dispatch.py": set(),
    "workers.py": {"core", "backends", "dispatch"},
    "distributed.py": {"core", "results", "properties", "backends", "engine", "api"},
    "names.py": set(),
    "api.py": {"core", "results", "properties", "backends", "engine", "names", "dispatch", "workers"},
    "regimes.py": {"core", "results", "backends", "engine", "api"},
    "operations.py": {"core", "results", "backends", "render", "api", "dispatch"},
    "blame.py": {"core", "results", "backends"},
    "audits.py": {"names", "core", "results", "backends", "render", "engine", "api", "dispatch", "operations", "blame"},
    "torch.py": {"core", "results", "properties", "backends", "engine", "names", "audits", "regimes"},
    "jax.py": {"core", "results", "properties", "backends", "engine"},
    "sweeps.py": {"core", "results", "backends", "engine", "api", "torch"},
    "shrinking": {"core", "results", "properties", "backends", "engine", "api", "shrinking"},
    "targets.py": {"results"},
    "running.py": {"names", "results", "render", "api", "shrinking", "targets"},
    "collecting.py": {"targets"},
    "suites.py": {"results", "collecting", "running", "targets"},
    "scipy.py": {"core", "results", "backends", "api"},
    "demo": {"results", "render", "api", "torch", "demo"},
    "cli.py": {"names", "results", "render", "__init__", "torch", "demo", "targets", "running", "collecting", "suites"},
    "__init__.py": {"core", "results", "api", "shrinking", "sweeps"},
    "__main__.py": {"cli"},
    "testing": {"core", "results", "render", "backends", "engine", "torch", "testing"},
    "gradproof_pytest.py": {"__init__", "render", "results", "torch", "testing"},
}
LAZY = {
    name: {"render"} for name in ("results/report.py", "results/sweep.py", "results/audit.py", "results/regimes.py")
}
"""A Report renders itself, but the renderings are loaded only when they are asked for."""


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    assert layer(path) in ALLOWED, f"say in ALLOWED what {layer(path)} may import"
    assert own(path) <= ALLOWED[layer(path)] | LAZY.get(relative(path), set())


def test_nothing_is_imported_by_what_it_imports() -> None:
    """What ALLOWED says points one way indeed."""
    left = {Path(name).stem: allowed - {Path(name).stem} for name, allowed in ALLOWED.items()}
    while left:
        lowest = {name for name, allowed in left.items() if not allowed & set(left)}
        assert lowest, f"these import each other: {sorted(left)}"
        left = {name: allowed for name, allowed in left.items() if name not in lowest}


def test_the_page_about_the_architecture_says_the_same() -> None:
    page = Path(__file__).parents[1] / "docs" / "architecture.md"
    rows = re.findall(r"^\| `([\w.]+)/?` \| .* \| ?(.*)\|$", page.read_text(encoding="utf-8").split("\n## ")[1], re.M)
    said = {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in rows}
    assert said == {name: allowed - {name} for name, allowed in ALLOWED.items()}


def test_the_engine_takes_the_progress_bar_only() -> None:
    rendering = {name for name in imported_by(SOURCE / "engine.py") if name.startswith("gradproof.render")}
    assert {name.split(".")[2] for name in rendering} == {"progress"}


def test_what_the_plugin_takes_from_below_the_doors() -> None:
    rooms = ("gradproof.engine.", "gradproof.backends.")
    paths = [PLUGIN, *sorted((SOURCE / "testing").glob("*.py"))]
    below = {name for path in paths for name in imported_by(path) if name.startswith(rooms)}
    assert below == {
        "gradproof.engine.observers",
        "gradproof.engine.check_problem",  # of the conformance suite
        "gradproof.backends.as_arguments",
        "gradproof.backends.torch.state",
        "gradproof.backends.torch.state.preserved",
    }


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
    assert not loaded_after(statement) & {"rich", "typer", "jinja2"}


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
ROOMS_WITHOUT_A_FRAMEWORK = [
    path for path in MODULES if layer(path) in ("core", "properties", "results", "causes", "engine.py")
]


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


def test_the_tests_of_the_core_import_no_framework() -> None:
    for path in sorted((Path(__file__).parent / "core").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name.partition(".")[0] for name in names} & FRAMEWORKS, path.name


@pytest.mark.parametrize("room", ["core", "causes"])
def test_the_page_about_the_architecture_names_every_module_of(room: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    modules = {path.name for path in (SOURCE / room).glob("*.py")} - {"__init__.py"}
    named = set(re.findall(r"\b(\w+\.py)\b", page))
    assert sorted(modules - named) == []
