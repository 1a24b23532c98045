"""Of 191 wrong backwards in three sizes, with three seeds: is the input right, and the first cause true?

    python benchmarks/causes.py [name ...]

A cause counts as true if it matches what is listed for its bug in `wrong_functions.py` or its sequels, as
none if the report names no cause, and as false otherwise.
"""

from __future__ import annotations

import re
import sys

import torch
from more_wrong_functions import MORE_BUGS
from other_wrong_functions import OTHER_BUGS
from unseen_wrong_kernels import UNSEEN_KERNELS
from unseen_wrong_layers import UNSEEN_LAYERS
from unseen_wrong_parts import UNSEEN_PARTS
from unseen_wrong_sums import UNSEEN_SUMS
from wrong_functions import BUGS

import gradproof

ALL = {**BUGS, **MORE_BUGS, **OTHER_BUGS, **UNSEEN_LAYERS, **UNSEEN_KERNELS, **UNSEEN_SUMS, **UNSEEN_PARTS}
SIZES = (24, 1_000, 100_000)
SEEDS = (0, 1, 2)


def judged(name: str, size: int, seed: int) -> tuple[bool, str, str, int]:
    """Whether the input is right; TRUE, none or FALSE; the cause; the evaluations."""
    case = ALL[name](size, torch.Generator().manual_seed(seed))
    report = gradproof.check(case.function, case.inputs, seed=seed, order=case.order)
    worst = report.findings[0]
    hint = worst.hint
    found = any(re.search(pattern, hint) for pattern in case.causes)
    nothing = not hint or hint.startswith("no usual cause fits")
    return worst.input in case.wrong, "TRUE" if found else "none" if nothing else "FALSE", hint, report.cost.evaluations


def main(names: list[str]) -> None:
    counts = {"TRUE": 0, "none": 0, "FALSE": 0}
    inputs = total = 0
    for name in names or ALL:
        for size in SIZES:
            for seed in SEEDS:
                placed, word, hint, evaluations = judged(name, size, seed)
                counts[word] += 1
                inputs += placed
                total += 1
                if word != "TRUE" or not placed or names:
                    where = "" if placed else ", WRONG INPUT"
                    print(f"{name} size {size} seed {seed}: {word}{where}: {hint}  [{evaluations}]")
    print(
        f"{total} checks: the input is right in {inputs}, the first cause true in {counts['TRUE']} "
        f"({100 * counts['TRUE'] / total:.0f} %), none named in {counts['none']}, false in {counts['FALSE']}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
