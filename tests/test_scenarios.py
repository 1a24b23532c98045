"""The same scenarios on every backend that fits them, from a user's function to the report in every form."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradproof import Report, backends
from gradproof.testing import SCENARIOS, Adapter, Case, Scenario, conformance

NAMES = ["numpy", *backends.known()]
"""Every backend there is has its adapter, in tests/adapters."""


def adapter_of(name: str) -> Adapter:
    return importlib.import_module(f"adapters.{name}_adapter").ADAPTER


ADAPTERS = {name: adapter_of(name) for name in NAMES}
CASES = [case for adapter in ADAPTERS.values() for case in conformance(adapter)]
MISTAKE = next(scenario for scenario in SCENARIOS if scenario.name == "cube: one element, by 1e-5")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_backend_conforms(case: Case) -> None:
    case()


@pytest.mark.parametrize("name", NAMES)
def test_most_scenarios_fit(name: str) -> None:
    fitting = [scenario for scenario in SCENARIOS if ADAPTERS[name].fits(scenario)]
    assert len(fitting) >= 0.9 * len(SCENARIOS)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_has_every_form(name: str, tmp_path: Path) -> None:
    report = ADAPTERS[name].report(MISTAKE)
    assert Report.from_json(report.to_json()).findings[0].input_element == (2, 1)
    assert json.loads(report.to_json())
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "element [2, 1]" in page
    assert "<figure" in page
    assert "[2, 1]" in str(report)


FIXTURE = """
import sys
sys.path.insert(0, {tests!r})
import importlib
from gradproof.testing import SCENARIOS

adapter = importlib.import_module("adapters.{name}_adapter")
scenarios = {{scenario.name: scenario for scenario in SCENARIOS}}


def test_right(gradproof):
    assert adapter.check(scenarios["cube"], gradproof).ok


def test_wrong(gradproof):
    adapter.check(scenarios["cube: the sign"], gradproof)
"""


@pytest.mark.parametrize("name", NAMES)
def test_the_fixture_of_pytest(name: str, tmp_path: Path) -> None:
    """A right derivative passes the test, a wrong one fails it, and both are in the report of the run."""
    path = tmp_path / "test_it.py"
    path.write_text(FIXTURE.format(tests=str(Path(__file__).parent), name=name), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--gradproof-json", str(tmp_path / "run.json"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "the sign is wrong" in done.stdout
    reports = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["reports"]
    assert len(reports) == 2


@pytest.mark.parametrize("name", [name for name in NAMES if name != "torch"])
def test_no_words_of_torch_elsewhere(name: str) -> None:
    wrong = [scenario for scenario in SCENARIOS if not scenario.expected.verdict and ADAPTERS[name].fits(scenario)]
    for scenario in wrong:
        told = str(ADAPTERS[name].report(scenario))
        for word in ("backward", "grad_output", "autograd", "tensor", "requires_grad", "detach"):
            assert word not in told, f"{scenario}: {word}"


def test_scenarios_have_names_of_their_own() -> None:
    names = [str(scenario) for scenario in SCENARIOS]
    assert len(set(names)) == len(names) >= 20
    assert {type(scenario) for scenario in SCENARIOS} == {Scenario}
