"""What the properties beside the Jacobian cost, over torch's operator database.

    python benchmarks/properties.py --minutes 10 --json numbers.json
    python benchmarks/properties.py --op nn.functional.linear

The first two samples of each operator, in float64, with up to 4096 elements, go through `gradproof.check` with all
default properties and with `properties="jacobian"` alone, taking turns. A time is the best of three such turns. The
ratio of a sample is its time with all properties divided by its time with the Jacobian alone; the table has the ratio
of the totals and the geometric mean of the ratios. Forward mode is compared where the operator has it.

What does not pass with all properties on is printed, with the properties that object.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from false_alarms import LOOKED_AT, Case, as_case, first_line, set_rng_seed, small
from running import TooLongError, at_most
from torch.testing._internal.common_methods_invocations import op_db

import gradproof

SAMPLES = 2
# Elements that a sample may have.
MOST = 4096
TURNS = 3
SECONDS = 10.0
CHOICES: dict[str, Any] = {"all": None, "jacobian": "jacobian"}


@dataclass(frozen=True)
class Price:
    """What one check cost: the best time of several, and calls of user code."""

    seconds: float
    evaluations: int
    vjps: int
    jvps: int


@dataclass(frozen=True)
class Measured:
    """One sample, with all properties and with the Jacobian alone."""

    op: str
    sample: int
    alone: Price
    everything: Price
    verdict: str
    objections: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.everything.seconds / self.alone.seconds


def samples(op: Any, most: int) -> Iterator[Case]:
    """The first small samples of an operator in float64."""
    set_rng_seed(0)
    try:
        with at_most(SECONDS):
            drawn = op.sample_inputs("cpu", torch.float64, requires_grad=True, set_seed=False)
            found = list(small(list(itertools.islice(drawn, LOOKED_AT)), MOST))
    except (Exception, TooLongError):  # needs a package or a library that is not there
        return
    for index, sample in found[:most]:
        yield as_case(op, torch.float64, index, sample, 0)


def run(case: Case, properties: str | None) -> tuple[gradproof.Report, float]:
    modes = ("reverse", "forward") if case.forward else ("reverse",)
    started = time.perf_counter()
    report = gradproof.check(case.function, case.inputs, modes=modes, nondet_tol=case.nondet_tol, properties=properties)
    return report, time.perf_counter() - started


def measure(case: Case) -> Measured:
    """Both checks of one sample, taking turns."""
    seconds, reports = collections.defaultdict[str, list[float]](list), dict[str, gradproof.Report]()
    for _ in range(TURNS):
        for name, properties in CHOICES.items():
            reports[name], spent = run(case, properties)
            seconds[name].append(spent)
    everything, alone = (price(reports[name], min(seconds[name])) for name in CHOICES)
    found = [finding for finding in reports["all"].findings if finding.status is not gradproof.Status.KINK]
    objections = tuple(f"{finding.property}: {first_line(finding.message)}" for finding in found)
    return Measured(case.op, case.sample, alone, everything, reports["all"].verdict.name, objections)


def price(report: gradproof.Report, seconds: float) -> Price:
    return Price(seconds, report.cost.evaluations, report.cost.vjps, report.cost.jvps)


def survey(names: list[str], minutes: float) -> Iterator[Measured]:
    """Every sample that runs, until the minutes are spent."""
    started = time.monotonic()
    for op in op_db:
        if not op.supports_autograd or (names and op.name not in names):
            continue
        if torch.float64 not in op.supported_backward_dtypes("cpu"):
            continue
        for case in samples(op, SAMPLES):
            if time.monotonic() - started > 60 * minutes:
                return
            try:
                with at_most(SECONDS):
                    yield measure(case)
            except TooLongError:
                print(f"too long: {case}", flush=True)
            except Exception as error:
                print(f"refused: {case}: {type(error).__name__}: {first_line(str(error))}", flush=True)


def table(found: list[Measured]) -> str:
    lines = ["| properties | seconds | evaluations | vjps | jvps |", "|---|--:|--:|--:|--:|"]
    for name, prices in [("jacobian", [m.alone for m in found]), ("all defaults", [m.everything for m in found])]:
        seconds, counts = sum(p.seconds for p in prices), [(p.evaluations, p.vjps, p.jvps) for p in prices]
        lines.append(f"| {name} | {seconds:.2f} | " + " | ".join(str(sum(c)) for c in zip(*counts, strict=True)) + " |")
    return "\n".join(lines)


def ratios(found: list[Measured]) -> tuple[float, float]:
    """Of the totals, and the geometric mean."""
    total = sum(m.everything.seconds for m in found) / sum(m.alone.seconds for m in found)
    return total, math.exp(sum(math.log(m.ratio) for m in found) / len(found))


def main() -> None:
    parser = argparse.ArgumentParser(description="the cost of all default properties against the Jacobian alone")
    parser.add_argument("--minutes", type=float, default=15.0, help="end after this many minutes (default 15)")
    parser.add_argument("--op", action="append", default=[], help="only this operator; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write the numbers of each sample there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: list[Measured] = []
    for measured in survey(arguments.op, arguments.minutes):
        found.append(measured)
        if measured.verdict != "PASS":
            print(f"{measured.verdict}: {measured.op} sample {measured.sample}", *measured.objections, sep="\n  ")
    if not found:
        raise SystemExit("no sample was measured")
    total, mean = ratios(found)
    passes = sum(m.verdict == "PASS" for m in found)
    print(f"\n{len(found)} samples of {len({m.op for m in found})} operators, {passes} passes\n\n{table(found)}")
    print(f"\nratio of the total times {total:.2f}, geometric mean of the ratios {mean:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([asdict(m) for m in found], file, indent=2)


if __name__ == "__main__":
    main()
