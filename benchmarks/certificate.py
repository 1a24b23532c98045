"""Whether a certificate is true, and whether it is idle.

    python benchmarks/certificate.py --jobs 2
    python benchmarks/certificate.py --trials 2000 --minutes 10 --json numbers.json
    python benchmarks/certificate.py --function "sin, 300" --trials 50

A report says how large an error of a lone entry would have been noticed. For each function of `certified_functions.py`,
a right derivative is checked first. Then 1.2 times what its report says is added to one entry of the Jacobian, at
random, and the check of the same seed must be a FAIL: a trial. An entry is drawn in two ways in turn: among all, and
among those of a random row that are not zero. In low precision, and where a function computes in one inside, half of
the errors are there only then, and not in float64, in which the function is checked too. A trial that ends otherwise is
*missed*; those among them that are INCONCLUSIVE are counted apart too, in brackets. Not counted as missed, but as
*rounded*, is an error of which the precision of the gradient leaves less than the certificate. Where the report claims
nothing (an infinite number) there is no trial: *no claim*. Points are taken by turns, one of each function, and only
the property `jacobian` is examined. A function that has used up its share of the minutes has no more turns; the others
go on until there are enough trials.

A certificate is *idle* if much smaller errors are caught. For some seeds the smallest error that a check catches is
found by bisection; the median of its ratio to the certificate should not be below 1/20. It is *hollow* if the check
passed but would not have noticed an error as large as the largest entry of the row: the table has the median of the
certificate in units of that entry.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import math
import os
import re
import statistics
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from typing import Any

import torch
from certified_functions import CASES, Case, Function, Tensor
from running import TooLongError, at_most, pool_of

import gradproof
from gradproof import Report, Verdict

FACTOR = 1.2
IDLE = 1 / 20
# Functions with casts to a lower precision inside, by name.
INSIDE = re.compile(r"(float32|bfloat16|float16) (inside|softmax in)")
# Errors planted for one point and one seed of the check.
PLANTS = 8
# Every function has so many turns, whatever they cost.
TURNS = 3
# The bisection goes down in at most this many steps of a square root of two, to a thousandth of what must be caught.
DEEPEST = 20
SECONDS = 120.0


@dataclass(frozen=True)
class Plant:
    """An error of one entry: of an element of one output with respect to one of an input."""

    output: int
    input: int
    j: int
    i: int
    error: float
    low: bool = False
    """Whether it is there only in a low precision, of the input or inside, and not in float64 throughout."""

    def into(self, function: Function, like: Tensor) -> Function:
        """The function with this error in its derivative; `like` its output."""
        here = torch.zeros(like.numel(), dtype=like.dtype)
        here[self.j] = 1

        def spoiled(*inputs: Tensor) -> tuple[Tensor, ...]:
            results = as_tuple(function(*inputs))
            if self.low and is_double(inputs[self.input]):
                return results
            result, x = results[self.output], inputs[self.input].reshape(-1)[self.i]
            nothing = self.error * (x - x.detach())  # which has a derivative
            wrong = result + here.view(result.shape) * nothing.to(result.dtype)
            return (*results[: self.output], wrong, *results[self.output + 1 :])

        return spoiled

    def times(self, factor: float) -> Plant:
        return dataclasses.replace(self, error=factor * self.error)

    def __str__(self) -> str:
        where = f"output {self.output} element {self.j}, input {self.input} element {self.i}"
        return f"{where}, error {self.error:.3e}{' in low precision only' if self.low else ''}"


def is_double(x: Tensor) -> bool:
    """Whether all is computed in float64: then a cast to a lower precision does not lower it."""
    return x.dtype is torch.float64 and x.detach().to(torch.float32).dtype is torch.float64


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def row(function: Function, inputs: tuple[Tensor, ...], output: int, j: int, input_: int) -> Tensor:
    """What the derivative claims of one element of an output with respect to an input, in float64."""
    element = as_tuple(function(*inputs))[output].reshape(-1)[j]
    (gradient,) = torch.autograd.grad(element, inputs[input_], allow_unused=True)
    return (torch.zeros_like(inputs[input_]) if gradient is None else gradient).reshape(-1).double()


class Subject:
    """A function at a point, and entries of its Jacobian at random.

    All pairs of an output and an input are drawn alike; every other time the entry is one that is not zero.
    """

    def __init__(self, case: Case, seed: int) -> None:
        self.function, self.inputs = case.at(seed)
        self.outputs = as_tuple(self.function(*self.inputs))
        self.given, self.seed = case.given, seed
        self._rounds_inside = INSIDE.search(case.name) is not None
        self.generator = torch.Generator().manual_seed(zlib.crc32(f"{case.name} {seed}".encode()))

    def below(self, n: int) -> int:
        return int(torch.randint(n, (), generator=self.generator))

    def entry(self, nonzero: bool) -> Plant:
        """A plant of +-1."""
        output, input_ = self.below(len(self.outputs)), self.below(len(self.inputs))
        j = self.below(self.outputs[output].numel())
        i = self.below(self.inputs[input_].numel())
        if nonzero:
            filled = row(self.function, self.inputs, output, j, input_).nonzero().view(-1)
            i = int(filled[self.below(len(filled))]) if len(filled) else i
        low = self._is_low(input_) and bool(self.below(2))
        return Plant(output, input_, j, i, 1.0 - 2.0 * self.below(2), low)

    def _is_low(self, input_: int) -> bool:
        """Whether there is a lower precision that a function may be wrong in, and right in float64."""
        return self._rounds_inside or self.inputs[input_].dtype is not torch.float64

    def spoiled(self, plant: Plant) -> Function:
        return plant.into(self.function, self.outputs[plant.output])

    def check(self, plant: Plant) -> Report:
        with at_most(SECONDS):
            return gradproof.check(
                self.spoiled(plant), self.inputs, properties="jacobian", modes="reverse", seed=self.seed, **self.given
            )

    def verdict(self, plant: Plant) -> str:
        """The verdict, or the name of what was raised."""
        try:
            return self.check(plant).verdict.name
        except (Exception, TooLongError) as error:
            return type(error).__name__

    def row(self, plant: Plant) -> Tensor:
        """The row of a plant, without it."""
        return row(self.function, self.inputs, plant.output, plant.j, plant.input)

    def left(self, plant: Plant) -> float:
        """What the precision of the gradient leaves of an error."""
        wrong = row(self.spoiled(plant), self.inputs, plant.output, plant.j, plant.input)
        return float((wrong - self.row(plant)).abs()[plant.i])


@dataclass
class Outcome:
    """What the trials of one function came to."""

    name: str
    kind: str
    certificates: list[float] = field(default_factory=list)
    relative: list[float] = field(default_factory=list)
    verdicts: collections.Counter[str] = field(default_factory=collections.Counter)
    trials: int = 0
    missed: int = 0
    undecided: int = 0
    rounded: int = 0
    silent: int = 0
    ratios: list[float] = field(default_factory=list)
    seconds: float = 0.0
    events: list[str] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Outcome:
        for key, value in vars(other).items():
            if key not in ("name", "kind"):
                setattr(self, key, getattr(self, key) + value)
        return self

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios) if self.ratios else math.nan

    @property
    def hollow(self) -> bool:
        return bool(self.verdicts["PASS"] and self.relative and statistics.median(self.relative) > 1)

    @property
    def accused(self) -> int:
        """Right derivatives that failed, or of which the check raised or did not end."""
        return sum(count for verdict, count in self.verdicts.items() if verdict not in ("PASS", "INCONCLUSIVE"))


def claim(report: Report, plant: Plant) -> float:
    """What the report says would be noticed in the pair of a plant."""
    for pair in report.pairs:
        if (pair.output.index, pair.input.index) == (plant.output, plant.input):
            return math.inf if pair.smallest is None else pair.smallest
    return math.inf


def examine(name: str, seed: int, plants: int, bisect: bool) -> Outcome:
    """One point, a right derivative, and errors planted into it."""
    case = CASES[name]
    outcome, started = Outcome(name, case.kind), time.perf_counter()
    subject = Subject(case, seed)
    try:
        report = subject.check(subject.entry(nonzero=False).times(0.0))
    except (Exception, TooLongError) as error:
        outcome.verdicts[type(error).__name__] += 1
        outcome.events.append(f"{name}, seed {seed}: the right one: {type(error).__name__}: {first_line(str(error))}")
        outcome.seconds = time.perf_counter() - started
        return outcome
    outcome.verdicts[report.verdict.name] += 1
    if report.verdict is not Verdict.PASS:
        message = first_line(report.findings[0].message)
        outcome.events.append(f"{name}, seed {seed}: the right one: {report.verdict.name}: {message}")
    if report.verdict is not Verdict.FAIL:
        for number in range(plants):
            try_out(subject, subject.entry(nonzero=bool(number % 2)), report, outcome, bisect and number < 2)
    outcome.seconds = time.perf_counter() - started
    return outcome


def try_out(subject: Subject, unit: Plant, report: Report, outcome: Outcome, bisect: bool) -> None:
    """A trial; afterwards, for some, the bisection."""
    size = claim(report, unit)
    if not 0 < size < math.inf:
        outcome.silent += 1
        return
    outcome.certificates.append(size)
    if largest := float(subject.row(unit).abs().max()):
        outcome.relative.append(size / largest)
    outcome.trials += 1
    plant = unit.times(FACTOR * size)
    verdict = subject.verdict(plant)
    if verdict == "FAIL":
        if bisect:
            outcome.ratios.append(smallest_caught(subject, unit.times(size)))
    elif verdict in ("PASS", "INCONCLUSIVE") and subject.left(plant) < size:
        outcome.rounded += 1
    else:
        outcome.missed += 1
        outcome.undecided += verdict == "INCONCLUSIVE"
        outcome.events.append(
            f"{outcome.name}, seed {subject.seed}: missed: {verdict}: {plant}, certificate {size:.3e}, "
            f"true entry {float(subject.row(plant)[plant.i]):.3e}"
        )


def smallest_caught(subject: Subject, certificate: Plant) -> float:
    """In units of the certificate, by bisection from `FACTOR` downwards."""
    caught, passed = 0, DEEPEST + 1
    while passed - caught > 1:
        middle = (caught + passed) // 2
        if subject.verdict(certificate.times(FACTOR * 2 ** (-middle / 2))) == "FAIL":
            caught = middle
        else:
            passed = middle
    return FACTOR * 2 ** (-caught / 2)


def first_line(message: str) -> str:
    """The line that says what, and the first entry below it."""
    return " ".join(line.strip() for line in message.splitlines()[:3])


def survey(names: list[str], trials: int, seeds: int, jobs: int, minutes: float) -> Iterator[Outcome]:
    """Parts of the outcomes, as they come: a turn is one point of each function that has not used up its share."""
    share, left = 60.0 * minutes * jobs / len(names), trials
    spent: collections.Counter[str] = collections.Counter()
    with pool_of(jobs) as pool:
        for turn in itertools.count():
            asked = [name for name in names if turn < TURNS or spent[name] < share]
            plants = min(PLANTS, math.ceil(left / len(asked))) if asked else 0
            if plants <= 0:
                return
            for done in as_completed([pool.submit(examine, name, turn, plants, turn < seeds) for name in asked]):
                part = done.result()
                spent[part.name] += part.seconds
                left -= part.trials
                yield part


def line(outcome: Outcome) -> str:
    certificate = f"{statistics.median(outcome.certificates):.1e}" if outcome.certificates else "none"
    relative = f"{statistics.median(outcome.relative):.1e}" if outcome.relative else ""
    missed = f"{outcome.missed}" + (f" ({outcome.undecided})" if outcome.undecided else "")
    ratio = f"{outcome.ratio:.2g}" if outcome.ratios else ""
    right = ", ".join(f"{count} {verdict}" for verdict, count in outcome.verdicts.most_common())
    return (
        f"| {outcome.name} | {outcome.kind} | {right} | {certificate} | {relative} | {outcome.trials} | {missed} "
        f"| {outcome.rounded} | {outcome.silent} | {ratio} | {outcome.seconds:.0f} |"
    )


def table(outcomes: list[Outcome]) -> str:
    head = (
        "| function | kind | the right one | certificate | in units of the largest entry | trials | missed | rounded "
        "| no claim | smallest caught / certificate | seconds |"
    )
    return "\n".join([head, "|---|---|---|" + "--:|" * 8, *map(line, outcomes)])


def totals(outcomes: list[Outcome]) -> str:
    trials, missed, undecided, silent, accused = (
        sum(getattr(outcome, name) for outcome in outcomes)
        for name in ("trials", "missed", "undecided", "silent", "accused")
    )
    ratios = [outcome.ratio for outcome in outcomes if outcome.ratios]
    idle = [outcome.name for outcome in outcomes if outcome.ratio < IDLE]
    middle = f"{statistics.median(ratios):.2g}" if ratios else "not measured"
    return (
        f"{len(outcomes)} functions, {trials} trials: {missed} missed ({undecided} of them INCONCLUSIVE), "
        f"{silent} without a claim; {accused} right derivatives refused\n"
        f"smallest error caught / certificate, median of the functions: {middle} (wanted: at least {IDLE:g}); "
        f"below that: {', '.join(idle) or 'none'}\n"
        f"hollow: {', '.join(outcome.name for outcome in outcomes if outcome.hollow) or 'none'}"
    )


def write(outcomes: list[Outcome], path: str) -> None:
    """Whole or not at all, since a run may be stopped."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump([vars(outcome) for outcome in outcomes], file, indent=2)
    os.replace(f"{path}.part", path)


def main() -> int:
    parser = argparse.ArgumentParser(description="errors planted just above what a report says would be noticed")
    parser.add_argument("--trials", type=int, default=20_000, help="errors planted in all (default 20000)")
    parser.add_argument("--seeds", type=int, default=3, help="points of each function for the bisection (default 3)")
    parser.add_argument("--minutes", type=float, default=40.0, help="of all functions, about (default 40)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--function", action="append", default=[], help="only this function; may be repeated")
    parser.add_argument("--kind", action="append", default=[], help="only functions of this kind; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write the outcomes there")
    arguments = parser.parse_args()
    wanted = [
        case
        for case in CASES.values()
        if (not arguments.function or case.name in arguments.function)
        and (not arguments.kind or case.kind in arguments.kind)
    ]
    if not wanted:
        parser.error("there is no such function: see benchmarks/certified_functions.py")
    started = time.monotonic()
    outcomes = {case.name: Outcome(case.name, case.kind) for case in wanted}
    for part in survey(list(outcomes), arguments.trials, arguments.seeds, arguments.jobs, arguments.minutes):
        outcomes[part.name] += part
        if arguments.json:
            write(list(outcomes.values()), arguments.json)
        for event in part.events:
            print(event, flush=True)
    rows = list(outcomes.values())
    print(f"\n{table(rows)}\n\n{totals(rows)}\n{(time.monotonic() - started) / 60:.1f} minutes")
    return int(any(outcome.missed or outcome.accused for outcome in rows))


if __name__ == "__main__":
    raise SystemExit(main())
