"""Audits of small models: is the guilty operation ranked first, and do right models raise nothing?

python benchmarks/audit.py planted --dtype float64 float32
python benchmarks/audit.py planted --model gru --bug stale --reports
python benchmarks/audit.py nonfinite
python benchmarks/audit.py released --deep
python benchmarks/audit.py cost
"""

from __future__ import annotations

import argparse
import collections
import functools
import time
import warnings
from collections.abc import Callable

import torch
from audit_models import BUGS, MODELS, TRAPS, build, is_named, is_origin, trapped
from audit_released import MODELS as RELEASED
from audit_released import OPERATIONS, is_installed, prepared

import gradproof.torch
from gradproof import Verdict
from gradproof.backends.torch.audit.operation import Given
from gradproof.backends.torch.audit.session import AuditSession


def planted(args: argparse.Namespace) -> int:
    """Every model with every bug, and without."""
    missed = 0
    for name in args.model or MODELS:
        for dtype in args.dtype:
            row: list[str] = []
            for bug in args.bug or ("", *BUGS):
                model, inputs = build(name, bug, getattr(torch, dtype), args.seed)
                started = time.perf_counter()
                report = gradproof.torch.audit(model, inputs, deep=args.deep)
                good = is_named(report, bug) if bug else report.ok
                missed += not good
                told = (
                    f"{report.verdict.name}{'' if good else f' ({report.blamed[0].path if report.blamed else None})'}"
                )
                row.append(f"{'' if good else 'MISSED '}{bug or 'right'}: {told} {time.perf_counter() - started:.1f} s")
                if args.reports or not good:
                    print(report)
            print(f"{name}, {dtype}: {'; '.join(row)}", flush=True)
    print(f"missed: {missed}")
    return missed


def nonfinite(args: argparse.Namespace) -> int:
    """Every origin of a value that is no number."""
    missed = 0
    for name in args.origin or TRAPS:
        for dtype in args.dtype:
            model, inputs = build(trapped(name), name, getattr(torch, dtype), args.seed)
            report = gradproof.torch.audit(model, inputs)
            good = is_origin(report, name)
            missed += not good
            told = [
                f"{o.phase.name} {report.operations[o.operation].path if o.operation is not None else ''} {o.element}"
                for o in report.origins
            ]
            print(f"{'' if good else 'MISSED '}{name} in {trapped(name)}, {dtype}: {'; '.join(told)}", flush=True)
            if args.reports or not good:
                print(report)
    print(f"missed: {missed}")
    return missed


def released(args: argparse.Namespace) -> int:
    """Models and operations of released packages: nothing may be blamed."""
    torch.backends.mkldnn.enabled = False  # bfloat16 products fail in it on some processors
    alarms = 0
    operations = {name: make for name, (package, make) in OPERATIONS.items() if is_installed(package)}
    absent = [name for name in OPERATIONS if name not in operations]
    chosen = {**({} if not is_installed("transformers") else RELEASED), **operations}
    for name, make in chosen.items():
        if args.name and name not in args.name:
            continue
        for dtype in args.dtype if name in RELEASED else ["float64"]:
            model, inputs, keywords = prepared(make, getattr(torch, dtype), args.seed)
            started = time.perf_counter()
            report = gradproof.torch.audit(model, inputs, keywords, deep=args.deep)
            seconds = time.perf_counter() - started
            alarm = report.verdict is Verdict.FAIL
            alarms += alarm
            by_hand = sum(operation.by_hand for operation in report.operations)
            whole = report.whole.verdict.name if report.whole is not None else "none"
            statuses = collections.Counter(operation.word for operation in report.operations if operation.word)
            told = ", ".join(f"{count} {word}" for word, count in statuses.items())
            print(
                f"{'ALARM ' if alarm else ''}{name}, {dtype}: {report.verdict.name}, whole {whole}, "
                f"{len(report.operations)} operations, {by_hand} by hand ({told}), {seconds:.1f} s",
                flush=True,
            )
            if args.reports or alarm:
                print(report)
    print(f"alarms: {alarms}" + (f"; not installed: {', '.join(absent)}" if absent else ""))
    return alarms


def cost(args: argparse.Namespace) -> int:
    """An encoder of four layers: the processor time of an audit against one forward and backward, and its copies."""
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 4)
    x = torch.randn(4, 16, 64, requires_grad=True)
    gradproof.torch.audit(model, x)
    over = 0
    for deep in (False, True):
        rounds: list[tuple[float, float]] = []
        for _ in range(args.rounds):
            once = min(_timed(lambda: model(x).sum().backward()) for _ in range(10))
            taken = _timed(functools.partial(gradproof.torch.audit, model, x, deep=deep))
            rounds.append((taken, once))
        taken, once = min(rounds)
        over += taken > 60 * once + 3
        name = "deep" if deep else "default"
        print(f"{name}: {taken:.2f} s; once {1e3 * once:.1f} ms; allowed {60 * once + 3:.2f} s")
    operations = AuditSession(model, (x,), {}).record(0).operations
    given = [leaf for o in operations for leaf in (*o.leaves, *o.outputs) if isinstance(leaf, Given)]
    copies = {leaf.value.data_ptr(): leaf.value.untyped_storage().nbytes() for leaf in given}
    outputs = sum(out.value.untyped_storage().nbytes() for o in operations for out in o.outputs)
    print(f"copies: {sum(copies.values()) / 2**20:.1f} MiB; outputs of all operations: {outputs / 2**20:.1f} MiB")
    return over


def _timed(run: Callable[[], object]) -> float:
    """Processor time, which other jobs on the machine do not add to."""
    started = time.process_time()
    run()
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    of_planted = parts.add_parser("planted")
    of_planted.add_argument("--model", nargs="*")
    of_planted.add_argument("--bug", nargs="*")
    of_planted.add_argument("--dtype", nargs="*", default=["float64", "float32"])
    of_planted.add_argument("--seed", type=int, default=0)
    of_planted.add_argument("--deep", action="store_true")
    of_planted.add_argument("--reports", action="store_true")
    of_planted.set_defaults(run=planted)
    of_nonfinite = parts.add_parser("nonfinite")
    of_nonfinite.add_argument("--origin", nargs="*")
    of_nonfinite.add_argument("--dtype", nargs="*", default=["float64", "float32"])
    of_nonfinite.add_argument("--seed", type=int, default=0)
    of_nonfinite.add_argument("--reports", action="store_true")
    of_nonfinite.set_defaults(run=nonfinite)
    of_released = parts.add_parser("released")
    of_released.add_argument("--name", nargs="*")
    of_released.add_argument("--dtype", nargs="*", default=["float32", "bfloat16"])
    of_released.add_argument("--seed", type=int, default=0)
    of_released.add_argument("--deep", action="store_true")
    of_released.add_argument("--reports", action="store_true")
    of_released.set_defaults(run=released)
    of_cost = parts.add_parser("cost")
    of_cost.add_argument("--rounds", type=int, default=3)
    of_cost.set_defaults(run=cost)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    return args.run(args)


if __name__ == "__main__":
    raise SystemExit(bool(main()))
