"""Blocks of public models, in the precision in which they run: right as they are, and spoiled.

    python -m pip install transformers
    python benchmarks/blocks.py --jobs 2
    python benchmarks/blocks.py --block "Llama RMS norm" --reports

The blocks are built from small configurations with random weights; nothing is downloaded. Many compute a part in
another precision than their inputs: norms and the softmax of an attention in float32, autocast products in bfloat16.
Each runs in float64, where that part is the noise, in float32 and in bfloat16, or in those of them that it is used in.

As they are they must PASS. Spoiled in one of four ways they must FAIL:

- x 1.2: what comes back from the output is too large,
- sign: the gradient of a parameter (of the input, if there is none) has the wrong sign,
- missing term: what comes back from the output loses its mean, like a norm's backward that forgot it,
- lost row: one row of the gradient of a parameter (or of the input) is zero.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from running import surveyed
from torch import nn

import gradproof
from gradproof import Verdict

Tensor = torch.Tensor

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
USUAL = ("float64", "float32", "bfloat16")
VARIANTS = ("right", "x 1.2", "sign", "missing term", "lost row")
BATCH, LENGTH, WIDTH, HEADS = 2, 6, 32, 4
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "vocab_size": 50,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}


def of(model: str, name: str) -> Any:
    """A class of transformers by the name of its model."""
    return getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)


def config(model: str, name: str, **values: Any) -> Any:
    """A configuration with attention in plain torch, as it is written in the model's file."""
    made = getattr(importlib.import_module(f"transformers.models.{model}.configuration_{model}"), name)(**values)
    made._attn_implementation = "eager"
    return made


class Calls(nn.Module):
    """A block with the arguments that do not change, which gives one tensor."""

    def __init__(self, block: nn.Module, **arguments: Any) -> None:
        super().__init__()
        self.block, self.arguments = block, arguments

    def forward(self, x: Tensor) -> Tensor:
        arguments = {
            name: tuple(part.to(x.dtype) for part in value) if isinstance(value, tuple) else value
            for name, value in self.arguments.items()
        }
        result = self.block(x, **arguments)
        return result[0] if isinstance(result, tuple) else result


class Autocast(nn.Module):
    """A block under autocast to bfloat16."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.block(x)


def angles() -> tuple[Tensor, Tensor]:
    """cos and sin of a rotary embedding."""
    width = WIDTH // HEADS
    speeds = 100.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turned = torch.outer(torch.arange(LENGTH, dtype=torch.float64), speeds).repeat(1, 2)[None]
    return turned.cos(), turned.sin()


def rotary(model: str, name: str, made: Any, **arguments: Any) -> nn.Module:
    block = of(model, name)(made, layer_idx=0)
    return Calls(block, position_embeddings=angles(), attention_mask=None, **arguments)


def llama() -> Any:
    return config("llama", "LlamaConfig", **GROUPED)


def gpt2() -> Any:
    none = dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.0)
    return config("gpt2", "GPT2Config", n_embd=WIDTH, n_head=HEADS, n_layer=1, n_positions=16, vocab_size=50, **none)


def t5() -> Any:
    sizes = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 48, "num_layers": 1, "num_heads": HEADS}
    return config("t5", "T5Config", **sizes, vocab_size=50, dropout_rate=0.0, feed_forward_proj="gated-gelu")


def bert() -> Any:
    return config("bert", "BertConfig", **SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def opt() -> Any:
    sizes = {"hidden_size": WIDTH, "ffn_dim": 48, "num_attention_heads": HEADS, "num_hidden_layers": 1}
    return config("opt", "OPTConfig", **sizes, vocab_size=50, dropout=0.0, word_embed_proj_dim=WIDTH)


def whisper() -> Any:
    sizes = {"d_model": WIDTH, "encoder_attention_heads": HEADS, "encoder_ffn_dim": 48, "encoder_layers": 1}
    return config("whisper", "WhisperConfig", **sizes, dropout=0.0)


def activation(name: str) -> nn.Module:
    return importlib.import_module("transformers.activations").ACT2FN[name]


def mixtral() -> nn.Module:
    made = config("mixtral", "MixtralConfig", **GROUPED, num_local_experts=4, num_experts_per_tok=2)
    made._experts_implementation = "eager"
    return Calls(of("mixtral", "MixtralSparseMoeBlock")(made))


def neox_layer() -> nn.Module:
    made = config("gpt_neox", "GPTNeoXConfig", **SIZES)
    width = int(WIDTH // HEADS * made.rope_parameters.get("partial_rotary_factor", 1.0))
    turned = tuple(part[..., :width] for part in angles())
    return Calls(of("gpt_neox", "GPTNeoXLayer")(made, layer_idx=0), attention_mask=None, position_embeddings=turned)


@dataclass(frozen=True)
class Block:
    build: Callable[[], nn.Module]
    dtypes: tuple[str, ...] = USUAL


BLOCKS = {
    "Llama RMS norm": Block(lambda: of("llama", "LlamaRMSNorm")(WIDTH)),
    "T5 layer norm": Block(lambda: of("t5", "T5LayerNorm")(WIDTH)),
    "Gemma RMS norm": Block(lambda: of("gemma", "GemmaRMSNorm")(WIDTH)),
    "Llama attention": Block(lambda: rotary("llama", "LlamaAttention", llama())),
    "Mistral attention": Block(
        lambda: rotary("mistral", "MistralAttention", config("mistral", "MistralConfig", **GROUPED))
    ),
    "Qwen2 attention": Block(lambda: rotary("qwen2", "Qwen2Attention", config("qwen2", "Qwen2Config", **GROUPED))),
    "Llama MLP": Block(lambda: of("llama", "LlamaMLP")(llama())),
    "Llama decoder layer": Block(lambda: rotary("llama", "LlamaDecoderLayer", llama())),
    "T5 gated MLP": Block(lambda: of("t5", "T5DenseGatedActDense")(t5())),
    "T5 self-attention": Block(lambda: Calls(of("t5", "T5LayerSelfAttention")(t5(), has_relative_attention_bias=True))),
    "GPT-2 attention": Block(lambda: Calls(of("gpt2", "GPT2Attention")(gpt2(), layer_idx=0))),
    "GPT-2 MLP": Block(lambda: of("gpt2", "GPT2MLP")(48, gpt2())),
    "GPT-2 block": Block(lambda: Calls(of("gpt2", "GPT2Block")(gpt2(), layer_idx=0))),
    "BERT intermediate": Block(lambda: of("bert", "BertIntermediate")(bert())),
    "BERT layer": Block(lambda: Calls(of("bert", "BertLayer")(bert()))),
    "ViT layer": Block(lambda: Calls(of("vit", "ViTLayer")(config("vit", "ViTConfig", **SIZES)))),
    "CLIP encoder layer": Block(
        lambda: Calls(of("clip", "CLIPEncoderLayer")(config("clip", "CLIPVisionConfig", **SIZES)), attention_mask=None)
    ),
    "GPT-NeoX layer": Block(neox_layer),
    "OPT decoder layer": Block(lambda: Calls(of("opt", "OPTDecoderLayer")(opt(), layer_idx=0))),
    "Whisper encoder layer": Block(lambda: Calls(of("whisper", "WhisperEncoderLayer")(whisper()), attention_mask=None)),
    "Mixtral experts": Block(mixtral),
    "Bloom gelu, by hand": Block(lambda: of("bloom", "BloomGelu")()),
    "gelu_new": Block(lambda: activation("gelu_new"), (*USUAL, "float16")),
    "quick gelu": Block(lambda: activation("quick_gelu"), (*USUAL, "float16")),
    "gelu": Block(nn.GELU, (*USUAL, "float16")),
    "autocast linear": Block(lambda: Autocast(nn.Linear(WIDTH, 24)), ("float32",)),
    "autocast Llama MLP": Block(lambda: Autocast(of("llama", "LlamaMLP")(llama())), ("float32",)),
    "autocast BERT layer": Block(lambda: Autocast(Calls(of("bert", "BertLayer")(bert()))), ("float32",)),
}


class Twist(torch.autograd.Function):
    """A tensor as it is, whose gradient is changed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        return ctx.change(cotangents[0]), None


class Spoiled(nn.Module):
    """A block whose output, input or parameter is twisted."""

    def __init__(self, block: nn.Module, where: str, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.block, self.where, self.change = block, where, change

    def forward(self, x: Tensor) -> Tensor:
        if self.where == "output":
            return Twist.apply(self.block(x), self.change)
        if self.where == "input":
            return self.block(Twist.apply(x, self.change))
        twisted = Twist.apply(self.block.get_parameter(self.where), self.change)
        return torch.func.functional_call(self.block, {self.where: twisted}, (x,))


def without_row(row: int) -> Callable[[Tensor], Tensor]:
    def change(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient[row] = 0
        return gradient

    return change


@dataclass(frozen=True)
class Job:
    block: str
    dtype: str
    variant: str
    seed: int


def build(job: Job) -> tuple[nn.Module, Tensor, int | str | None]:
    """The block, its input, and what a report should name; None: anything."""
    torch.manual_seed(job.seed)
    dtype = DTYPES[job.dtype]
    block = BLOCKS[job.block].build().eval().requires_grad_()
    with torch.no_grad():
        for parameter in block.parameters():
            drawn = torch.randn(parameter.shape)
            parameter.copy_(1 + 0.2 * drawn if parameter.ndim == 1 else drawn / math.sqrt(parameter.shape[-1]))
    block = block.to(dtype)
    x = torch.randn(BATCH, LENGTH, WIDTH).to(dtype).requires_grad_()
    if job.variant == "right":
        return block, x, None
    if job.variant == "x 1.2":
        return Spoiled(block, "output", lambda gradient: 1.2 * gradient), x, None
    if job.variant == "missing term":
        return Spoiled(block, "output", lambda gradient: gradient - gradient.mean(-1, keepdim=True)), x, None
    where, rows = place(block, x, job.seed)
    change = torch.neg if job.variant == "sign" else without_row(rows)
    return Spoiled(block, where, change), x, 0 if where == "input" else f"block.{where}"


def place(block: nn.Module, x: Tensor, seed: int) -> tuple[str, int]:
    """A parameter that matters, another for each seed, and the row of its gradient that is largest."""
    names = [name for name, _ in block.named_parameters()]
    tensors = [*block.parameters()] or [x]
    output = block(x)
    gradients = torch.autograd.grad(output, tensors, torch.randn(output.shape).to(output.dtype), allow_unused=True)
    sizes = [0.0 if gradient is None else float(gradient.double().norm()) for gradient in gradients]
    alive = [k for k, size in enumerate(sizes) if size > 1e-2 * max(sizes)]
    k = alive[seed % len(alive)]
    rows = gradients[k].double().flatten(1).norm(dim=1) if gradients[k].ndim > 1 else gradients[k].double().abs()
    return (names[k] if names else "input"), int(rows.argmax())


@dataclass
class Outcome:
    """What the seeds of one block in one dtype came to, by variant."""

    block: str
    dtype: str
    verdicts: dict[str, collections.Counter[str]] = field(default_factory=dict)
    misnamed: int = 0
    seconds: float = 0.0
    events: list[str] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Outcome:
        for variant, counter in other.verdicts.items():
            self.verdicts.setdefault(variant, collections.Counter()).update(counter)
        for key in ("misnamed", "seconds", "events"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        return self

    @property
    def bad(self) -> int:
        return sum(counter.total() - counter[wanted(variant).name] for variant, counter in self.verdicts.items())


def wanted(variant: str) -> Verdict:
    return Verdict.PASS if variant == "right" else Verdict.FAIL


def run(job: Job, reports: bool) -> Outcome:
    outcome = Outcome(job.block, job.dtype)
    where, started = f"{job.block}, {job.dtype}, {job.variant}, seed {job.seed}", time.perf_counter()
    try:
        block, x, name = build(job)
        report = gradproof.check(block, x, modes="reverse", seed=job.seed)
    except Exception as error:
        outcome.verdicts[job.variant] = collections.Counter([type(error).__name__])
        outcome.events.append(f"{where}: raised {type(error).__name__}: {' '.join(str(error).splitlines()[:2])}")
        return outcome
    outcome.seconds = time.perf_counter() - started
    outcome.verdicts[job.variant] = collections.Counter([report.verdict.name])
    finding = report.findings[0] if report.findings else None
    outcome.misnamed = int(report.verdict is Verdict.FAIL and name is not None and finding.input != name)
    if outcome.bad or outcome.misnamed:
        said = " ".join(line.strip() for line in finding.message.splitlines()[:3]) if finding else report.certificate
        named = f" (should name {name})" if outcome.misnamed else ""
        outcome.events.append(f"{where}: {report.verdict.name}{named}: {said}" + (f"\n{report}" if reports else ""))
    return outcome


def line(outcome: Outcome) -> str:
    cells = [
        ", ".join(f"{count} {verdict}" for verdict, count in outcome.verdicts.get(variant, {}).items())
        for variant in VARIANTS
    ]
    return (
        f"| {outcome.block} | {outcome.dtype} | " + " | ".join(cells) + f" | {outcome.bad} | {outcome.misnamed} "
        f"| {outcome.seconds:.1f} |"
    )


def table(outcomes: list[Outcome]) -> str:
    head = "| block | dtype | " + " | ".join(VARIANTS) + " | not as wanted | other parameter named | seconds |"
    return "\n".join([head, "|---|---|" + "---|" * len(VARIANTS) + "--:|--:|--:|", *map(line, outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(description="blocks of public models, right and spoiled")
    parser.add_argument("--seeds", type=int, default=1, help="of each block, dtype and variant (default 1)")
    parser.add_argument("--block", choices=BLOCKS, action="append", help="only this one; may be repeated")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--reports", action="store_true", help="print the whole report where it is not as wanted")
    parser.add_argument("--json", metavar="FILE", help="write the outcomes there")
    arguments = parser.parse_args()
    if importlib.util.find_spec("transformers") is None:
        parser.exit(2, "the package transformers is not installed: python -m pip install transformers\n")
    work = [
        Job(name, dtype, variant, seed)
        for name in arguments.block or BLOCKS
        for dtype in BLOCKS[name].dtypes
        if dtype in (arguments.dtype or DTYPES)
        for variant in VARIANTS
        for seed in range(arguments.seeds)
    ]
    outcomes = {(job.block, job.dtype): Outcome(job.block, job.dtype) for job in work}
    for part in surveyed(run, work, arguments.jobs, arguments.reports):
        outcomes[part.block, part.dtype] += part
        for event in part.events:
            print(event, flush=True)
    rows = list(outcomes.values())
    print(f"\n{table(rows)}\n\n{len({job.block for job in work})} blocks, {len(work)} runs, ", end="")
    print(f"{sum(row.bad for row in rows)} not as wanted, {sum(row.misnamed for row in rows)} naming another parameter")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([vars(outcome) for outcome in rows], file, indent=2)
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
