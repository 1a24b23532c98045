"""Thirty ordinary functions of thousands of numbers: right gradients, all of which must pass.

    python benchmarks/ordinary.py
    python benchmarks/ordinary.py --only log sort --sizes 2049 --seeds 20

Each function is drawn at 2,049, 9,000 and 100,000 inputs (or the nearest number that its shape allows), with several
seeds, and goes through `gradproof.torch.gradcheck` in both modes and through `gradproof.check`. Among so many random
numbers some are always hard: near a pole, near a kink, near a tie, near the end of the domain. The table has one row
for each function and size, with what the doors said over all seeds and the seconds of the slowest check. Everything but
a pass is printed below it. A pass of gradcheck with an `UnseenWarning` counts as one, and is counted apart.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

import gradproof
import gradproof.torch

SIZES = (2049, 9000, 100_000)
SEEDS = 5
DOORS = ("slow", "fast", "check")

Tensor = torch.Tensor
Function = Callable[[Tensor], Any]
Draw = Callable[[int, torch.Generator], tuple[Function, Tensor]]


def normal(*shape: int, by: torch.Generator) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=by)


def uniform(*shape: int, by: torch.Generator) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=by)


def of_normal(function: Function) -> Draw:
    """A function of a vector of normal numbers."""
    return lambda n, by: (function, normal(n, by=by))


def of_uniform(function: Function) -> Draw:
    """A function of a vector of numbers between 0 and 1."""
    return lambda n, by: (function, uniform(n, by=by))


def of_rows(function: Function, width: int = 16) -> Draw:
    """A function of a matrix with short rows."""
    return lambda n, by: (function, normal(-(-n // width), width, by=by))


def of_square(function: Function) -> Draw:
    """A function of one square matrix."""

    def draw(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
        side = math.ceil(math.sqrt(n))
        return function, normal(side, side, by=by)

    return draw


def of_images(function: Function, channels: int = 3, side: int = 16) -> Draw:
    """A function of a batch of images."""
    return lambda n, by: (function, normal(-(-n // (channels * side**2)), channels, side, side, by=by))


def cdist(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    others = normal(5, 3, by=by)
    return lambda x: torch.cdist(x, others), normal(-(-n // 3), 3, by=by)


def grid_sample(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    side = math.ceil(math.sqrt(n / 2))
    image = normal(1, 2, 8, 8, by=by)
    return lambda grid: torch.nn.functional.grid_sample(image, grid, align_corners=False), 2.2 * uniform(
        1, side, side, 2, by=by
    ) - 1.1


def convolutions(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    first, second = normal(4, 3, 3, 3, by=by), normal(2, 4, 3, 3, by=by)
    count = -(-n // (3 * 16 * 16))
    return lambda x: torch.nn.functional.conv2d(torch.nn.functional.conv2d(x, first).relu(), second), normal(
        count, 3, 16, 16, by=by
    )


def cross_entropy(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    count = -(-n // 10)
    labels = torch.randint(10, (count,), generator=by)
    return lambda x: torch.nn.functional.cross_entropy(x, labels), normal(count, 10, by=by)


def einsum(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    weight = normal(8, 6, by=by)
    return lambda x: torch.einsum("bij,jk,bil->bkl", x, weight, x), normal(-(-n // 32), 4, 8, by=by)


def index_add(n: int, by: torch.Generator) -> tuple[Function, Tensor]:
    where = torch.randint(n // 3, (n,), generator=by)
    return lambda x: torch.zeros(n // 3, dtype=x.dtype).index_add(0, where, x.square()), normal(n, by=by)


FUNCTIONS: dict[str, Draw] = {
    "log": of_uniform(torch.log),
    "1/x": of_normal(lambda x: 1 / x),
    "exp(5x)": of_normal(lambda x: (5 * x).exp()),
    "inv": of_square(torch.linalg.inv),
    "eigvalsh": of_square(lambda x: torch.linalg.eigvalsh(x + x.mT)),
    "sqrt": of_uniform(torch.sqrt),
    "acos": lambda n, by: (torch.acos, 2 * uniform(n, by=by) - 1),
    "svdvals": of_square(torch.linalg.svdvals),
    "sort": of_normal(lambda x: x.sort()[0]),
    "cdist": cdist,
    "grid_sample": grid_sample,
    "conv-relu-conv": convolutions,
    "clamp": of_normal(lambda x: x.clamp(-1, 1)),
    "erfinv": lambda n, by: (torch.erfinv, 2 * uniform(n, by=by) - 1),
    "logsumexp": of_rows(lambda x: x.logsumexp(-1)),
    "softmax": of_rows(lambda x: x.softmax(-1)),
    "layer_norm": of_rows(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])),
    "cumprod": of_rows(lambda x: x.cumprod(-1), 8),
    "norm": of_normal(lambda x: x.norm()),
    "cross_entropy": cross_entropy,
    "interpolate": of_images(lambda x: torch.nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear")),
    "max_pool2d": of_images(lambda x: torch.nn.functional.max_pool2d(x, 2)),
    "gelu": of_normal(torch.nn.functional.gelu),
    "atan2": of_rows(lambda x: torch.atan2(x[:, 0], x[:, 1]), 2),
    "matrix_exp": lambda n, by: (torch.matrix_exp, normal(-(-n // 16), 4, 4, by=by)),
    "einsum": einsum,
    "index_add": index_add,
    "median": of_rows(lambda x: x.median(-1)[0], 9),
    "prod": of_rows(lambda x: x.prod(-1), 6),
    "tanh": of_normal(torch.tanh),
}


@dataclass(frozen=True)
class Answer:
    """What one door said of one function at one draw."""

    function: str
    size: int
    seed: int
    door: str
    said: str
    seconds: float
    words: str = ""


def ask(door: str, function: Function, x: Tensor) -> tuple[str, str]:
    """What a door says: "pass", "unseen" (a pass with that warning), "inconclusive", "fail", "error"; and its words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if door == "check":
                report = gradproof.check(function, x)
                return report.verdict.name.lower(), "" if report else str(report)
            gradproof.torch.gradcheck(function, (x,), fast_mode=door == "fast")
        except gradproof.torch.GradcheckError as error:
            return "fail", str(error)
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"
    unseen = [str(each.message) for each in caught if issubclass(each.category, gradproof.torch.UnseenWarning)]
    return ("unseen", unseen[0]) if unseen else ("pass", "")


def run(name: str, size: int, seed: int, door: str) -> Answer:
    function, x = FUNCTIONS[name](size, torch.Generator().manual_seed(1000 * seed + 7))
    start = time.perf_counter()
    said, words = ask(door, function, x.requires_grad_())
    return Answer(name, size, seed, door, said, time.perf_counter() - start, words)


def row(answers: list[Answer]) -> str:
    """One line of the table."""
    cells = [f"{answers[0].function:15}{answers[0].size:8}"]
    for door in dict.fromkeys(answer.door for answer in answers):
        mine = [answer for answer in answers if answer.door == door]
        said = collections.Counter(answer.said for answer in mine)
        words = " ".join(f"{count} {word}" for word, count in said.items())
        cells.append(f"{door}: {words} ({max(answer.seconds for answer in mine):.2f} s)".ljust(34))
    return "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--doors", nargs="+", choices=DOORS, default=list(DOORS))
    parser.add_argument("--json", help="write every answer to this file")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    answers: list[Answer] = []
    for name in wanted.only:
        for size in wanted.sizes:
            here = [run(name, size, seed, door) for door in wanted.doors for seed in range(wanted.seeds)]
            print(row(here), flush=True)
            answers += here
    for answer in answers:
        if answer.said != "pass":
            told = answer.words if len(answer.words) < 600 else answer.words[:600] + " ..."
            print(f"\n{answer.function} at {answer.size}, seed {answer.seed}, {answer.door}: {answer.said}\n{told}")
    totals = {door: collections.Counter(each.said for each in answers if each.door == door) for door in wanted.doors}
    print()
    for door, said in totals.items():
        print(f"{door}: " + ", ".join(f"{count} {word}" for word, count in sorted(said.items())))
    if wanted.json:
        with open(wanted.json, "w") as file:
            json.dump([asdict(answer) for answer in answers], file, indent=1)


if __name__ == "__main__":
    main()
