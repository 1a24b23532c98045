"""Checks the recipes of one package: `python -m wild_recipes.worker MODULE SECONDS [only|skip NAME ...]`.

It prints two lines of JSON for each recipe: its name when it begins, and then what came of it.
It runs in the environment that `wild.py` made, one process for each package.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
import traceback
import warnings
from typing import Any

EVALUATIONS = 3000  # for one Function: a number of calls, so that a busy machine leads to the same verdict


class OutOfTime(BaseException):
    """Not an `Exception`, so that neither a package nor the checker takes it for an error of the function."""


def main(module: str, seconds: int, which: str, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    if importlib.import_module(f"wild_recipes.{module}").TRITON:
        from wild_recipes import interpreter

        interpreter.install()
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, _stop)
    for recipe in importlib.import_module(f"wild_recipes.{module}").RECIPES:
        if (recipe.name in names) is (which == "only"):
            print(json.dumps({"begins": recipe.name}), flush=True)
            print(json.dumps(_outcome(recipe, seconds)), flush=True)


def _stop(_number: int, _frame: Any) -> None:
    raise OutOfTime


def _outcome(recipe: Any, seconds: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    outcome: dict[str, Any] = {"name": recipe.name, "expected": recipe.expected, "why": recipe.why}
    began = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of CPU time
    try:
        outcome |= _checked(recipe)
    except OutOfTime:
        outcome |= {"verdict": "OUT OF TIME", "told": f"more than {seconds} s"}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({last.filename.rpartition('/')[2]}:{last.lineno})"
        outcome |= {"verdict": "ERROR", "told": " ".join(told.split())[:300]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return outcome | {"seconds": round(time.perf_counter() - began, 2)}


def _checked(recipe: Any) -> dict[str, Any]:
    import gradproof

    function, inputs = recipe.make()
    report = gradproof.check(function, inputs, **{"budget": EVALUATIONS, **recipe.options})
    properties = list(dict.fromkeys(finding.property for finding in report.findings))
    return {
        "verdict": report.verdict.name,
        "evaluations": report.cost.evaluations,
        "vjps": report.cost.vjps,
        "properties": properties,
        "told": " ".join(report.findings[0].headline.split())[:300] if report.findings else "",
    }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["skip"])[0], sys.argv[4:])
