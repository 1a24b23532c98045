"""False alarms: right gradients that gradproof does not accept, counted over torch's operator database.

    python benchmarks/false_alarms.py --minutes 10 --json numbers.json
    python benchmarks/false_alarms.py --op linalg.qr --first-seed 3 --rounds 1

torch describes its operators, with sample inputs for each, in the database that its own tests use (the import of it
needs the package expecttest). Small samples in float64 and complex128 are drawn again and again, each time from another
seed of the database, and so with other values. A sample counts as right if the slow mode of `torch.autograd.gradcheck`
accepts it, in forward mode too where the operator has one. Then it goes

- once through `gradproof.torch.gradcheck(fast_mode=True)`,
- and through `gradproof.check` with several seeds of its probes.

Everything but a pass is printed, with what is needed to draw the same sample again. Each call has a few seconds; one
that takes longer is counted apart.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from running import TooLongError, at_most
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.utils import _pytree as pytree

import gradproof.torch

DTYPES = (torch.float64, torch.complex128)
# A sample is small up to this many input elements and output elements.
SMALL = 64
# Samples of one operator that are looked at, and those of them that are checked for each seed.
LOOKED_AT, CHECKED = 60, 3
PROBE_SEEDS = 4
SECONDS = 5.0


@dataclass(frozen=True)
class Case:
    """An operator at one of its samples, as a function of the tensors that require a gradient."""

    op: str
    dtype: str
    sample: int
    seed: int
    function: Callable[..., Any] = field(compare=False)
    inputs: tuple[torch.Tensor, ...] = field(compare=False)
    forward: bool = False
    nondet_tol: float = 0.0

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} sample {self.sample}, database seed {self.seed}"


@dataclass(frozen=True)
class Event:
    """Something other than a pass."""

    kind: str
    checker: str
    op: str
    dtype: str
    sample: int
    seed: int
    probe_seed: int
    message: str

    def __str__(self) -> str:
        where = f"{self.op} {self.dtype} sample {self.sample}, database seed {self.seed}, probe seed {self.probe_seed}"
        return f"{self.kind}: {self.checker}: {where}: {self.message}"


@dataclass
class Tally:
    """Runs by checker and outcome, and the events among them."""

    counts: dict[str, collections.Counter[str]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    right: int = 0
    refused: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def runs(self) -> int:
        return sum(counter.total() for counter in self.counts.values())

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.started) / 60

    def add(self, case: Case, checker: str, probe_seed: int, kind: str, message: str) -> None:
        self.counts.setdefault(checker, collections.Counter())[kind] += 1
        if kind != "pass":
            event = Event(kind, checker, case.op, case.dtype, case.sample, case.seed, probe_seed, message)
            self.events.append(event)
            print(event, flush=True)


def small(samples: list[Any], most: int = SMALL) -> Iterator[tuple[int, Any]]:
    """The samples with dense tensors, some of which require a gradient, of at most this many elements.

    Those without any element are left out: nothing is checked of them, and `check` refuses to call that a pass.
    """
    for index, sample in enumerate(samples):
        tensors = [x for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if torch.is_tensor(x)]
        moved = [x for x in tensors if x.requires_grad]
        dense = all(x.layout is torch.strided for x in tensors)
        if moved and dense and 0 < sum(x.numel() for x in moved) <= most:
            yield index, sample


def as_case(op: Any, dtype: torch.dtype, index: int, sample: Any, seed: int) -> Case:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
    moved = [k for k, x in enumerate(leaves) if torch.is_tensor(x) and x.requires_grad]

    def function(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for k, tensor in zip(moved, tensors, strict=True):
            filled[k] = tensor
        first, rest, named = pytree.tree_unflatten(filled, spec)
        output = op.gradcheck_wrapper(op.get_op(), first, *rest, **named)
        return sample.output_process_fn_grad(output) if sample.output_process_fn_grad else output

    return Case(
        op=f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name,
        dtype=str(dtype).removeprefix("torch."),
        sample=index,
        seed=seed,
        function=function,
        inputs=tuple(leaves[k] for k in moved),
        forward=op.supports_forward_ad,
        nondet_tol=op.gradcheck_nondet_tol,
    )


def cases(op: Any, dtype: torch.dtype, seed: int) -> list[Case]:
    """Some small samples of one operator, the same for the same seed."""
    set_rng_seed(seed)
    try:
        with at_most(SECONDS):
            drawn = op.sample_inputs("cpu", dtype, requires_grad=True, set_seed=False)
            found = list(small(list(itertools.islice(drawn, LOOKED_AT))))
    except (Exception, TooLongError):  # needs a package or a library that is not there
        return []
    chosen = random.Random(seed).sample(found, min(CHECKED, len(found)))
    return [as_case(op, dtype, index, sample, seed) for index, sample in sorted(chosen, key=lambda pair: pair[0])]


def is_right(case: Case) -> bool:
    """Whether torch's slow mode accepts it. A sample with a large output, or without elements, is not looked at."""
    try:
        with at_most(SECONDS):
            outputs = [x for x in pytree.tree_leaves(case.function(*case.inputs)) if torch.is_tensor(x)]
            moved = sum(x.numel() for x in case.inputs)
            if not moved or not 0 < sum(x.numel() for x in outputs) <= SMALL:
                return False
            return torch.autograd.gradcheck(
                case.function,
                case.inputs,
                check_forward_ad=case.forward,
                nondet_tol=case.nondet_tol,
                raise_exception=False,
            )
    except (Exception, TooLongError):
        return False


def gradcheck(case: Case) -> tuple[str, str]:
    try:
        gradproof.torch.gradcheck(
            case.function, case.inputs, check_forward_ad=case.forward, nondet_tol=case.nondet_tol, fast_mode=True
        )
    except gradproof.torch.GradcheckError as error:
        return "failure", first_line(str(error))
    return "pass", ""


def check(case: Case, probe_seed: int) -> tuple[str, str]:
    modes = ("reverse", "forward") if case.forward else ("reverse",)
    report = gradproof.check(case.function, case.inputs, modes=modes, nondet_tol=case.nondet_tol, seed=probe_seed)
    if report:
        return "pass", ""
    kind = "failure" if report.verdict is gradproof.Verdict.FAIL else "inconclusive"
    return kind, first_line(report.findings[0].message)


def first_line(message: str) -> str:
    """The line that says what, and the first entry below it."""
    return " ".join(line.strip() for line in message.splitlines()[:3])


def guarded(run: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    try:
        with at_most(SECONDS):
            return run()
    except TooLongError:
        return "too long", f"more than {SECONDS:g} s"
    except Exception as error:
        return "failure", f"raised {type(error).__name__}: {first_line(str(error))}"


def examine(case: Case, tally: Tally) -> None:
    if not is_right(case):
        tally.refused += 1
        return
    tally.right += 1
    tally.add(case, "gradcheck", 0, *guarded(lambda: gradcheck(case)))
    for k in range(PROBE_SEEDS):
        probe_seed = 1000 * case.seed + k
        tally.add(case, "check", probe_seed, *guarded(lambda seed=probe_seed: check(case, seed)))


def survey(names: list[str], seeds: range, most_runs: int, minutes: float, tally: Tally) -> None:
    """Every operator for one seed, then for the next, until runs or minutes are spent."""
    ops = [op for op in op_db if op.supports_autograd and (not names or op.name in names)]
    for seed in seeds:
        random.Random(seed).shuffle(ops)
        for op, dtype in itertools.product(ops, DTYPES):
            if dtype not in op.supported_backward_dtypes("cpu"):
                continue
            for case in cases(op, dtype, seed):
                if tally.runs >= most_runs or tally.minutes >= minutes:
                    return
                examine(case, tally)


def table(tally: Tally) -> str:
    kinds = ("pass", "failure", "inconclusive", "too long")
    lines = ["| checker | runs | passes | failures | inconclusive | too long |", "|---|--:|--:|--:|--:|--:|"]
    for checker, counter in tally.counts.items():
        lines.append(f"| {checker} | {counter.total()} | " + " | ".join(str(counter[kind]) for kind in kinds) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="right gradients of torch's operators that gradproof does not accept")
    parser.add_argument("--runs", type=int, default=20_000, help="end after this many checks (default 20000)")
    parser.add_argument("--minutes", type=float, default=30.0, help="or after this many minutes (default 30)")
    parser.add_argument("--op", action="append", default=[], help="only this operator; may be repeated")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the database in the first round")
    parser.add_argument("--rounds", type=int, default=1000, help="how many seeds of the database")
    parser.add_argument("--json", metavar="FILE", help="write the counts and events there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tally = Tally()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.rounds)
    survey(arguments.op, seeds, arguments.runs, arguments.minutes, tally)
    print(f"\n{tally.right} right samples, {tally.refused} left out; {tally.minutes:.1f} minutes\n\n{table(tally)}")
    if arguments.json:
        numbers = {"counts": tally.counts, "right": tally.right, "events": [asdict(event) for event in tally.events]}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(numbers, file, indent=2)


if __name__ == "__main__":
    main()
