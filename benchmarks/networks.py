"""Networks with one layer written by hand: right ones, and such as lost a part of a gradient.

    python benchmarks/networks.py --seeds 20 --jobs 2
    python benchmarks/networks.py --no-twin
    python benchmarks/networks.py --network mlp --dtype float32 --seeds 3 --reports

Two networks, in float64 and float32: a LeakyReLU perceptron of 44,000 parameters, and convolutions with batch norm,
ReLU and max pooling. All layers but one are torch's; that one, another for each seed, is an autograd.Function, whose
backward is right or

- lost a neuron: one row of the weight's gradient is zero,
- lost the bias: its gradient is zero,
- is 3 % too large for the weight.

Right networks must PASS. The others must FAIL, and the first finding must name the parameter. Neurons and biases whose
gradient is zero anyway (a ReLU that is never active, a bias before a batch norm) are not chosen.

With `--no-twin` the layer's kernel refuses float64, and what is left of the precision is that of float32. A wrong
network may then be INCONCLUSIVE, but never PASS.
"""

from __future__ import annotations

import argparse
import collections
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from running import surveyed
from torch import nn
from torch.nn import functional

import gradproof
from gradproof import Report, Verdict

Tensor = torch.Tensor

DTYPES = {"float64": torch.float64, "float32": torch.float32}
VARIANTS = ("right", "lost neuron", "lost bias", "3 % on one layer")
# A part that is lost must have had a gradient: at least this fraction of the largest of its kind.
MATTERS = 1e-2


@dataclass
class Spoil:
    """What happens to the gradients of a layer written by hand."""

    variant: str = "right"
    neuron: int = 0
    refuses: torch.dtype | None = None

    @property
    def parameter(self) -> str:
        return "bias" if self.variant == "lost bias" else "weight"

    def __call__(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        if self.variant == "lost neuron":
            weight = weight.clone()
            weight[self.neuron] = 0
        elif self.variant == "3 % on one layer":
            weight = 1.03 * weight
        elif self.variant == "lost bias":
            bias = torch.zeros_like(bias)
        return weight, bias


class ByHand(torch.autograd.Function):
    """A layer with its derivative, some of which is spoiled afterwards."""

    @staticmethod
    def forward(
        ctx: Any, layer: Callable[..., Tensor], spoil: Spoil, x: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        if x.dtype is spoil.refuses:
            raise TypeError(f"this kernel does not know {x.dtype}")
        ctx.layer, ctx.spoil = layer, spoil
        ctx.save_for_backward(x, weight, bias)
        return layer(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        with torch.enable_grad():
            tensors = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            output = ctx.layer(*tensors)
        x, weight, bias = torch.autograd.grad(output, tensors, cotangents[0])
        return None, None, x, *ctx.spoil(weight, bias)


class Layer(nn.Module):
    """A linear layer or a convolution of torch's, with its parameters, computed by hand."""

    def __init__(self, module: nn.Linear | nn.Conv2d, spoil: Spoil) -> None:
        super().__init__()
        self.weight, self.bias, self.spoil = module.weight, module.bias, spoil
        self.convolves = isinstance(module, nn.Conv2d)

    def forward(self, x: Tensor) -> Tensor:
        return ByHand.apply(convolve if self.convolves else functional.linear, self.spoil, x, self.weight, self.bias)


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.conv2d(x, weight, bias, padding=1)


def mlp() -> tuple[nn.Sequential, tuple[int, ...]]:
    """LeakyReLU, 43,888 parameters; the shape of its input."""
    activation = nn.LeakyReLU
    layers = nn.Linear(64, 160), activation(), nn.Linear(160, 160), activation(), nn.Linear(160, 48)
    return nn.Sequential(*layers), (16, 64)


def convolutions() -> tuple[nn.Sequential, tuple[int, ...]]:
    """Two convolutions with batch norm, ReLU and max pooling, and a linear layer."""
    layers = (
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 10)),
    )
    return nn.Sequential(*layers), (4, 3, 16, 16)


NETWORKS = {"mlp": mlp, "convolutions": convolutions}


@dataclass(frozen=True)
class Job:
    network: str
    dtype: str
    variant: str
    seed: int
    twin: bool


def build(job: Job) -> tuple[nn.Sequential, Tensor, str | None]:
    """The network with one layer by hand, its input, and the name of the parameter that is spoiled."""
    torch.manual_seed(job.seed)
    network, shape = NETWORKS[job.network]()
    network = network.to(DTYPES[job.dtype])
    x = torch.randn(shape, dtype=torch.float64).to(DTYPES[job.dtype])
    spoil = Spoil(job.variant, refuses=None if job.twin else torch.float64)
    gradients = gradients_of(network, x)
    places = [k for k, module in enumerate(network) if isinstance(module, nn.Linear | nn.Conv2d)]
    largest = max(float(gradients[f"{k}.{spoil.parameter}"].norm()) for k in places)
    places = [k for k in places if gradients[f"{k}.{spoil.parameter}"].norm() > MATTERS * largest]
    place = places[job.seed % len(places)]
    rows = gradients[f"{place}.weight"].flatten(1).norm(dim=1)
    alive = (rows > MATTERS * rows.max()).nonzero().view(-1)
    spoil.neuron = int(alive[torch.randint(len(alive), ())])
    network[place] = Layer(network[place], spoil)
    return network, x.requires_grad_(), None if job.variant == "right" else f"{place}.{spoil.parameter}"


def gradients_of(network: nn.Sequential, x: Tensor) -> dict[str, Tensor]:
    """Of a random sum of the outputs."""
    output = network(x)
    names, parameters = zip(*network.named_parameters(), strict=True)
    cotangent = torch.randn(output.shape, dtype=torch.float64).to(output.dtype)
    return dict(zip(names, torch.autograd.grad(output, parameters, cotangent), strict=True))


@dataclass
class Outcome:
    """What the seeds of one network, dtype and variant came to."""

    network: str
    dtype: str
    variant: str
    verdicts: collections.Counter[str] = field(default_factory=collections.Counter)
    named: int = 0
    good: int = 0
    seconds: float = 0.0
    events: list[str] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Outcome:
        for key in ("verdicts", "named", "good", "seconds", "events"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        return self

    @property
    def runs(self) -> int:
        return self.verdicts.total()


def run(job: Job, reports: bool) -> Outcome:
    outcome = Outcome(job.network, job.dtype, job.variant)
    network, x, parameter = build(job)
    where = f"{job.network}, {job.dtype}, {job.variant} ({parameter}), seed {job.seed}"
    started = time.perf_counter()
    try:
        report = gradproof.check(network, x, modes="reverse", seed=job.seed)
    except Exception as error:
        outcome.verdicts[type(error).__name__] += 1
        outcome.events.append(f"{where}: {type(error).__name__}: {str(error).splitlines()[0]}")
        return outcome
    outcome.seconds = time.perf_counter() - started
    outcome.verdicts[report.verdict.name] += 1
    accused = report.findings[0].input if report.findings else None
    outcome.named = int(report.verdict is Verdict.FAIL and accused == parameter)
    outcome.good = int(good(report, parameter, job.twin))
    if not outcome.good:
        outcome.events.append(f"{where}: {report.verdict.name}: {summary(report)}" + (f"\n{report}" if reports else ""))
    return outcome


def good(report: Report, parameter: str | None, twin: bool) -> bool:
    if parameter is None:
        return report.verdict is Verdict.PASS
    if report.verdict is Verdict.INCONCLUSIVE:
        return not twin
    return report.verdict is Verdict.FAIL and report.findings[0].input == parameter


def summary(report: Report) -> str:
    if not report.findings:
        return str(report.certificate)
    return " ".join(line.strip() for line in report.findings[0].message.splitlines()[:3])


def line(outcome: Outcome) -> str:
    counts = " | ".join(str(outcome.verdicts[verdict.name]) for verdict in Verdict)
    other = outcome.runs - sum(outcome.verdicts[verdict.name] for verdict in Verdict)
    named = "" if outcome.variant == "right" else outcome.named
    seconds = outcome.seconds / max(outcome.runs, 1)
    return (
        f"| {outcome.network} | {outcome.dtype} | {outcome.variant} | {outcome.runs} | {counts} | {other} | {named} "
        f"| {outcome.runs - outcome.good} | {seconds:.2f} |"
    )


def table(outcomes: list[Outcome]) -> str:
    head = (
        "| network | dtype | gradient | runs | PASS | FAIL | INCONCLUSIVE | raised | right parameter named "
        "| not as wanted | seconds each |"
    )
    return "\n".join([head, "|---|---|---|" + "--:|" * 8, *map(line, outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(description="networks with one layer written by hand, right and wrong")
    parser.add_argument("--seeds", type=int, default=20, help="of each network, dtype and variant (default 20)")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="only this one; may be repeated")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="only this one; may be repeated")
    parser.add_argument("--no-twin", action="store_true", help="the layer refuses float64; float32 only")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--reports", action="store_true", help="print the whole report where it is not as wanted")
    parser.add_argument("--json", metavar="FILE", help="write the outcomes there")
    arguments = parser.parse_args()
    dtypes = ["float32"] if arguments.no_twin else arguments.dtype or list(DTYPES)
    work = [
        Job(network, dtype, variant, seed, not arguments.no_twin)
        for network in arguments.network or NETWORKS
        for dtype in dtypes
        for variant in VARIANTS
        for seed in range(arguments.seeds)
    ]
    outcomes = {(job.network, job.dtype, job.variant): Outcome(job.network, job.dtype, job.variant) for job in work}
    for part in surveyed(run, work, arguments.jobs, arguments.reports):
        outcomes[part.network, part.dtype, part.variant] += part
        for event in part.events:
            print(event, flush=True)
    rows = list(outcomes.values())
    bad = sum(outcome.runs - outcome.good for outcome in rows)
    print(f"\n{table(rows)}\n\n{len(work)} runs, {bad} of them not as wanted")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([vars(outcome) for outcome in rows], file, indent=2)
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
