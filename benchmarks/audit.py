"""Audits of small models: is the guilty operation ranked first, and do right models raise nothing?

    python benchmarks/audit.py planted --dtype float64 float32
    python benchmarks/audit.py planted --model gru --bug stale --reports
    python benchmarks/audit.py nonfinite
"""

from __future__ import annotations

import argparse
import time
import warnings

import torch
from audit_models import BUGS, MODELS, TRAPS, build, is_named, is_origin, trapped

import gradproof.torch


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
                told = f"{report.verdict.name}{'' if good else f' ({report.blamed[0].path if report.blamed else None})'}"
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
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    return args.run(args)


if __name__ == "__main__":
    raise SystemExit(bool(main()))
