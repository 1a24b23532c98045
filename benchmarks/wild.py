"""Checks hand-written Functions of released packages, in an environment of its own: `python benchmarks/wild.py`.

Prints a table and writes `build/wild.html`. A package that does not install is in the table too. The exit status is 1
if a verdict is not what its recipe says: a right Function that does not pass, or a failure that is neither a page of
docs/found, nor a surrogate, nor a mutation by design. `--only NAME ...` runs some of the packages, `--found [NAME ...]`
the reproducers of docs/found instead.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import resource
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wild_packages import PACKAGES, Package

HERE = Path(__file__).parent
ROOT = HERE.parent
FOUND = ROOT / "docs" / "found"
HOME = HERE / ".wild"
PYTHON = HOME / "bin" / "python"
SECONDS = 90
"""Of CPU time, for one recipe; the check inside has a budget of calls, which leads to a verdict."""


@dataclass
class Row:
    """One line of the table: a recipe and what came of it."""

    package: str
    version: str
    name: str
    verdict: str
    expected: str = ""
    told: str = ""
    why: str = ""
    seconds: float = 0.0
    evaluations: int | None = None
    vjps: int | None = None
    properties: list[str] = field(default_factory=list)

    @property
    def as_expected(self) -> bool:
        if self.expected == "right":
            return self.verdict == "PASS"
        known = self.expected in ("surrogate", "mutation by design") or (FOUND / f"{self.expected}.md").exists()
        return known and self.verdict == "FAIL"


def environment() -> dict[str, str]:
    """Kernels are interpreted, not compiled, and one thread is enough for small inputs."""
    paths = os.pathsep.join([str(HERE), str(ROOT / "src")])
    return os.environ | {"PYTHONPATH": paths, "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}


def install(packages: list[Package]) -> dict[str, str]:
    """Install what is missing, without dependencies; why a package could not be installed."""
    if not PYTHON.exists():
        venv.create(HOME, with_pip=True)
    (reused,) = HOME.glob("lib/python*/site-packages")
    import torch

    # torch itself, NumPy and what gradproof needs come from the environment that runs this.
    (reused / "running.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    problems = {}
    for package in packages:
        print(f"installing {', '.join(package.pinned)}", file=sys.stderr, flush=True)
        command = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*command, *package.pinned], capture_output=True, text=True, check=False)
        if done.returncode:
            problems[package.name] = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return problems


def rows(package: Package) -> Iterator[Row]:
    """Check the recipes of a package; a process that dies is started again behind the recipe that ended it."""
    done: set[str] = set()
    while True:
        begun = ""
        for line in _lines(package, done):
            if "begins" in line:
                begun = line["begins"]
            else:
                done.add(line["name"])
                begun = ""
                yield Row(package.name, package.version, **line)
        if not begun:
            return
        done.add(begun)
        yield Row(package.name, package.version, begun, "DIED", told="the process ended")


def _lines(package: Package, done: set[str]) -> Iterator[dict[str, Any]]:
    command = [str(PYTHON), "-m", "wild_recipes.worker", package.module, str(SECONDS), "skip", *sorted(done)]
    errors = HOME / f"{package.module}.log"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            command, env=environment(), cwd=HERE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        seen = False
        for line in process.stdout or ():
            if line.startswith("{"):
                seen = True
                yield json.loads(line)
    if process.returncode and not seen and not done:
        told = errors.read_text(errors="replace").strip().splitlines() or ["it failed"]
        yield {"name": "(all)", "verdict": "ERROR", "told": told[-1]}


def print_row(row: Row) -> None:
    mark = " " if row.as_expected else "!"
    cost = f"{row.seconds:7.2f} {row.evaluations if row.evaluations is not None else '-':>6} "
    cost += f"{row.vjps if row.vjps is not None else '-':>5}"
    told = "" if row.expected == "right" and row.as_expected else f"  {row.expected}"
    told += f": {row.told}"[:160] if not row.as_expected else ""
    print(f"{mark} {row.package:16} {row.version:8} {row.name:48} {row.verdict:12} {cost}{told}", flush=True)


def summary(table: list[Row], seconds: float) -> list[str]:
    right = [row for row in table if row.expected == "right" and row.verdict == "PASS"]
    cheap = [row for row in right if (row.evaluations or 0) <= 10 and (row.vjps or 0) <= 10]
    failed = [row for row in table if row.verdict == "FAIL"]
    kinds = {"a page of docs/found": 0, "surrogate": 0, "mutation by design": 0, "none of these": 0}
    for row in failed:
        known = row.expected if row.expected in kinds else "a page of docs/found"
        kinds[known if row.as_expected else "none of these"] += 1
    share = len(cheap) / max(len(right), 1)
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    return [
        f"{len(table)} recipes of {len({row.package for row in table})} packages in {seconds / 60:.1f} minutes, "
        f"{used / 60:.1f} of CPU time",
        f"{len(right)} of {sum(row.expected == 'right' for row in table)} right Functions pass; of these, {share:.0%} "
        "cost at most 10 evaluations and 10 vjps",
        f"{len(failed)} failures: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}",
        f"{sum(not row.as_expected for row in table)} rows are not what was expected",
    ]


def page(table: list[Row], told: list[str]) -> str:
    """The table as one page of HTML that needs nothing else."""
    cells = []
    for row in table:
        values = [row.package, row.version, row.name, row.verdict, row.expected, f"{row.seconds:.2f}"]
        values += ["" if number is None else str(number) for number in (row.evaluations, row.vjps)]
        values += [", ".join(row.properties), " · ".join(text for text in (row.why, row.told) if text)]
        kind = "good" if row.verdict == "PASS" else "known" if row.as_expected else "bad"
        kind = kind if row.as_expected else "bad"
        cells.append(f"<tr class={kind}>" + "".join(f"<td>{html.escape(value)}" for value in values))
    names = ["package", "version", "function", "verdict", "expected", "seconds", "evaluations", "vjps", "found by", ""]
    head = "".join(f"<th>{name}" for name in names)
    said = "".join(f"<p>{html.escape(line)}" for line in told)
    style = (
        "body{font:15px/1.4 system-ui,sans-serif;margin:2rem}table{border-collapse:collapse}"
        "td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}"
        ".good td:nth-child(4){color:#176b34}.known td:nth-child(4){color:#8a5a00}.bad{background:#fde8e8}"
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>gradproof in the wild</title><style>{style}</style>"
        f"<h1>Functions of released packages</h1>{said}<table><thead><tr>{head}<tbody>{''.join(cells)}</table></html>\n"
    )


def reproduce(names: list[str]) -> int:
    """Run the reproducers of docs/found, each group behind what its packages need here."""
    sys.path.insert(0, str(FOUND))
    import reproduce as pages

    chosen = names or list(pages.PAGES)
    install([package for package in PACKAGES if package.name in {pages.subject(name)[0] for name in chosen}])
    preludes = {package.name: package.prelude for package in PACKAGES}
    status = 0
    for prelude in dict.fromkeys(["", *preludes.values()]):
        group = [name for name in chosen if preludes.get(pages.subject(name)[0], "") == prelude]
        if group:
            code = f"import sys; sys.path.insert(0, {str(FOUND)!r}); {prelude}import reproduce; "
            code += f"sys.exit(reproduce.main({group!r}))"
            status |= subprocess.run(
                [str(PYTHON), "-W", "ignore", "-c", code], env=environment(), check=False
            ).returncode
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="PACKAGE")
    parser.add_argument("--found", nargs="*", metavar="PAGE")
    parser.add_argument("--html", type=Path, default=ROOT / "build" / "wild.html")
    options = parser.parse_args()
    if options.found is not None:
        return reproduce(options.found)
    began = time.perf_counter()
    packages = [package for package in PACKAGES if not options.only or package.name in options.only]
    problems = install(packages)
    table: list[Row] = []
    for package in packages:
        if package.name in problems:
            found = iter([Row(package.name, package.version, "(all)", "NO INSTALL", told=problems[package.name])])
        else:
            found = rows(package)
        for row in found:
            print_row(row)
            table.append(row)
    told = summary(table, time.perf_counter() - began)
    print(*told, sep="\n")
    options.html.parent.mkdir(parents=True, exist_ok=True)
    options.html.write_text(page(table, told), encoding="utf-8")
    return any(not row.as_expected for row in table)


if __name__ == "__main__":
    sys.exit(main())
