"""The one line that repeats a check, for the end of a failing report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

_FLAGS = {"modes": "--mode", "properties": "--property"}


def call_line(door: str, subject: str, keywords: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """A call of a door with what was said to it; the seed always, since everything random follows from it.

    >>> call_line("gradproof.check", "linear", {}, {"seed": 0, "order": 2, "atol": None})
    'gradproof.check(linear, inputs, seed=0, order=2)'
    """
    func = subject if re.fullmatch(r"[^\W\d]\w*(\.\w+)*", subject) else "func"
    parts = [func, "inputs", *(["kwargs"] if keywords else [])]
    parts += [f"{name}={_told(value)}" for name, value in given.items() if value is not None]
    return f"{door}({', '.join(parts)})"


def command_line(target: str, case: str, options: Mapping[str, Any]) -> str:
    """The command that checks one case again, and others that its function or collection makes.

    >>> command_line("cases.py", "case_layers[1]", {"seed": 0, "strategy": "auto", "modes": ["forward"]})
    'gradproof check cases.py:case_layers --seed 0 --mode forward'
    """
    _, colon, name = target.rpartition(":")
    place = target if colon and "/" not in name and "\\" not in name else f"{target}:{case.partition('[')[0]}"
    seed = ["--seed", str(options.get("seed", 0))]
    return shlex.join(["gradproof", "check", place, *seed, *_flags(options)])


def _flags(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is None or value in ((), "auto") or name == "seed" or (name, value) == ("order", 1):
            continue
        flag = _FLAGS.get(name, f"--{name}")
        if name == "budget":
            flag = "--evaluations" if isinstance(value, int) else "--seconds"
        for each in cast(Sequence[Any], value) if isinstance(value, (list, tuple)) else [value]:
            yield from (flag, str(each))


def _told(value: Any) -> str:
    return str(getattr(value, "__name__", value)) if callable(value) else repr(value)
