"""`gradproof suite`: cases by name, rows as they finish, workers that die, runs that go on after a kill."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradproof.cli import app
from gradproof.collecting import collect, collect_apart
from gradproof.results.suite import Row, changes, summary
from gradproof.suites import Journal, Suite, processes
from gradproof.targets import TargetError

CASES = str(Path(__file__).parent / "suite_cases.py")
EXPECTED = {"many": 14, "raises": 1, "with_options": 1, "ends_its_worker": 1, "dies_once": 1, "hangs": 1}


def words(rows: dict[str, Row]) -> dict[str, str]:
    return {name.rpartition("::case_")[2]: row.word for name, row in rows.items()}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gradproof", "suite", *arguments]


def test_collecting_names_every_case_once() -> None:
    names = [case.name for case in collect([CASES])]
    assert len(names) == len(set(names)) == sum(EXPECTED.values())
    assert names[0] == f"{CASES}::case_many[0]"


def test_a_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import torch\ncase_a = (torch.sin, torch.ones(2, requires_grad=True).double())\n")
    (tmp_path / "other.py").write_text("raise SystemExit('not run: it has no cases')\n")
    (named,) = collect([str(tmp_path)])
    assert named.name.endswith("one.py::case_a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TargetError, match="there are no cases"):
        collect([str(tmp_path / "empty")])


CASE = "import torch\ncase_a = (torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))\n"
BROKEN = {
    "raises.py": ("case_text = {}['missing']\n", "could not be run: KeyError"),
    "syntax.py": ("case_a = (\n", "could not be run: SyntaxError"),
    "exits.py": ("case_a = 1\nraise SystemExit(3)\n", "could not be run: SystemExit"),
}


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("alone", [True, False])
def test_what_is_no_case_is_a_row_and_the_others_of_its_file_are_checked(
    tmp_path: Path, alone: bool, workers: str
) -> None:
    folder, results = tmp_path / "cases", tmp_path / "run.jsonl"
    folder.mkdir()
    (folder / "malformed.py").write_text(f"{CASE}case_b = 3\ncase_c = case_a\n")
    if not alone:
        (folder / "zuletzt.py").write_text(CASE)
    done = subprocess.run(
        command(str(folder), "--results", str(results), "--workers", workers), capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    rows = {name.rpartition("/")[2]: row for name, row in Journal(results).rows().items()}
    words = {"malformed.py::case_a": "PASS", "malformed.py::case_b": "REFUSED", "malformed.py::case_c": "PASS"}
    assert {name: row.word for name, row in rows.items()} == words | ({} if alone else {"zuletzt.py::case_a": "PASS"})
    assert (
        rows["malformed.py::case_b"].cause == "this is no case: expected (func, inputs), got int"
    )  # as `check` has it


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_broken_file_is_a_row_and_stops_no_other(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, (text, _) in BROKEN.items():
        (folder / name).write_text(text)
    (folder / "zuletzt.py").write_text(CASE)
    results = tmp_path / "run.jsonl"
    done = subprocess.run(
        command(str(folder), "--results", str(results), "--workers", workers), capture_output=True, text=True
    )
    assert done.returncode == 4, done.stderr
    rows = Journal(results).rows()
    for name, (_, why) in BROKEN.items():
        row = rows[f"{(folder / name).as_posix()}::(its cases)"]
        assert row.word == "RAISED"
        assert why in row.cause
    right = f"{(folder / 'zuletzt.py').as_posix()}::case_a"
    assert [name for name, row in rows.items() if row.word == "PASS"] == [right]
    again = subprocess.run(command(str(folder), "--results", str(results), "--resume"), capture_output=True, text=True)
    assert again.returncode == 4, again.stderr
    assert Journal(results).rows() == rows


ENDS = """import os, torch
def case_all():
    yield torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True)
    os._exit(7)
"""


def test_a_case_that_ends_its_process_while_it_is_made_is_a_row(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, text in {
        "a.py": CASE,
        "ends.py": ENDS,
        "import.py": "# case_a\nimport os; os._exit(7)\n",
        "z.py": CASE,
    }.items():
        (folder / name).write_text(text)
    results = tmp_path / "run.jsonl"
    done = subprocess.run(
        command(str(folder), "--results", str(results), "--workers", "2"), capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    told = {name.removeprefix(f"{folder.as_posix()}/"): row.word for name, row in Journal(results).rows().items()}
    assert told == {
        "a.py::case_a": "PASS",
        "ends.py::case_all[0]": "PASS",
        "ends.py::(its cases)": "LOST",
        "import.py::(its cases)": "LOST",
        "z.py::case_a": "PASS",
    }


def test_apart_the_same_cases_are_found_and_the_same_is_refused(tmp_path: Path) -> None:
    assert collect_apart([CASES]) == collect([CASES])
    with pytest.raises(TargetError, match="there is no file"):
        collect_apart([CASES, str(tmp_path / "missing.py")])
    (tmp_path / "ends.py").write_text("# case_a\nimport os; os._exit(7)\n")
    with pytest.raises(TargetError, match=r"ended its process while its cases were made \(exit code 7\)"):
        collect_apart([str(tmp_path / "ends.py")])


def test_a_broken_file_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(BROKEN["raises.py"][0])
    with pytest.raises(TargetError, match="could not be run: KeyError"):
        collect([str(tmp_path / "raises.py")])
    with pytest.raises(TargetError, match="there is no file"):
        collect([CASES, str(tmp_path / "missing.py")])


def test_here_and_on_workers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in collect([CASES]) if "hangs" not in case.name]
    here = {row.case: row for row in Suite(cases, {}).here()}
    there = {row.case: row for row in Suite(cases, {}).on(processes(2), 2)}
    assert words(here) == words(there)
    assert words(here)["many[6]"] == "FAIL"
    assert here[cases[6].name].cause
    assert "element [" in here[cases[6].name].detail
    assert words(here)["raises"] == "RAISED"
    assert "no such case" in here[cases[14].name].cause


def test_a_case_that_ends_its_worker_takes_no_other_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADPROOF_TEST_MAIN", str(os.getpid()))
    monkeypatch.setenv("GRADPROOF_TEST_MARKER", str(tmp_path / "died"))
    cases = [case for case in collect([CASES]) if "hangs" not in case.name]
    found = [*Suite(cases, {}).on(processes(2), 2)]
    assert sorted(row.case for row in found) == sorted(case.name for case in cases)
    told = words({row.case: row for row in found})
    assert told["ends_its_worker"] == "LOST"
    assert told["dies_once"] == "PASS"
    assert told["many[0]"] == "PASS"
    assert (tmp_path / "died").exists()


def test_a_case_that_hangs_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADPROOF_TEST_HANG", "1")
    cases = [case for case in collect([CASES]) if "hangs" in case.name or "options" in case.name]
    told = words({row.case: row for row in Suite(cases, {}, case_timeout=12.0).on(processes(2), 2)})
    assert told == {"hangs": "LOST", "with_options": "PASS"}


def test_a_dask_cluster_runs_a_suite(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        done = subprocess.run(
            command(f"{CASES}:case_many", "--scheduler", cluster.scheduler_address, "--results", "run.jsonl"),
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 1, done.stderr
    assert "14 cases: 2 FAIL, 12 PASS" in done.stdout


def test_killed_and_resumed_every_case_is_there_once(tmp_path: Path) -> None:
    environment = {**os.environ, "GRADPROOF_TEST_CASES": "600"}
    results = tmp_path / "run.jsonl"
    arguments = command(f"{CASES}:case_many", "--results", str(results), "--resume", "--workers", "2")
    chance = random.Random(0)
    kills = 0
    for _ in range(10):
        process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60.0
        wanted = size(results) + chance.randrange(1, 20_000)  # bytes after which it is killed: wherever a line is then
        while size(results) < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is not None:
            break
        kills += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    header, *lines = results.read_text().splitlines()
    names = [json.loads(line)["case"] for line in lines]
    assert json.loads(header)["schema"] == "gradproof.suite/1"
    assert len(names) == len(set(names)) == 600
    assert kills


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_line_that_was_cut_off_is_taken_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    assert [*journal.write([Row("a", "PASS"), Row("b", "FAIL", "cause")])]
    with (tmp_path / "run.jsonl").open("a") as file:
        file.write('{"case": "c", "wo')
    assert [*journal.rows()] == ["a", "b"]
    assert [*journal.write([Row("c", "PASS")])]
    assert [*journal.rows()] == ["a", "b", "c"]


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text('{"schema": "other"}\n')
    with pytest.raises(ValueError, match="is no file of a suite"):
        Journal(tmp_path / "run.jsonl").rows()


def test_changes_against_an_earlier_run() -> None:
    before = {"a": Row("a", "PASS", seconds=0.1), "b": Row("b", "FAIL"), "c": Row("c", "PASS", seconds=1.0)}
    now = [Row("a", "PASS", seconds=0.11), Row("b", "PASS"), Row("c", "PASS", seconds=4.0), Row("d", "FAIL")]
    assert changes(now, before) == {"b": "fixed", "c": "4.0 times slower", "d": "new"}
    assert summary(now) == "4 cases: 1 FAIL, 3 PASS"


def test_the_command_writes_a_page_with_changes(tmp_path: Path) -> None:
    first = subprocess.run(command(f"{CASES}:case_many", "--results", "one.jsonl"), cwd=tmp_path, capture_output=True)
    assert first.returncode == 1
    done = subprocess.run(
        command(CASES, "--results", "two.jsonl", "--html", "run.html", "--baseline", "one.jsonl"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "FAIL" in done.stderr
    page = (tmp_path / "run.html").read_text()
    (data,) = re.findall(r'id="cases">(.*?)</script>', page)
    rows = json.loads(data)
    assert len(rows) == sum(EXPECTED.values())
    assert [row[1] for row in rows[:3]] == ["FAIL", "FAIL", "RAISED"]
    assert {row[3] for row in rows} == {"", "new"}
    assert "element [" in rows[0][-1]


@pytest.mark.parametrize("option", [["--strategy", "foo"], ["--order", "3"]])
def test_options_that_are_refused_leave_the_results_of_an_earlier_run(tmp_path: Path, option: list[str]) -> None:
    cases, results = tmp_path / "cases.py", tmp_path / "results.jsonl"
    cases.write_text("")
    results.write_text("{}\n")
    done = CliRunner().invoke(app, ["suite", str(cases), "--results", str(results), *option])
    assert done.exit_code == 2
    assert option[0] in done.output
    assert results.read_text() == "{}\n"
