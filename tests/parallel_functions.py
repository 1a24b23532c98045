"""Functions that span the ranks of a process group, right and with one planted error each, for test_distributed.py.

`SCENARIOS` is data: each makes a function and this rank's inputs, and says what is declared and what must come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

Tensor = torch.Tensor


def rank() -> int:
    return dist.get_rank()


def world() -> int:
    return dist.get_world_size()


def shared(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """The same numbers on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def own(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Other numbers on each rank."""
    return shared(*shape, seed=1000 + 17 * seed + rank(), dtype=dtype)


def summed(x: Tensor) -> Tensor:
    x = x.clone()
    dist.all_reduce(x)
    return x


def gathered(x: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(x) for _ in range(world())]
    dist.all_gather(parts, x.contiguous())
    return parts


def shift(x: Tensor, by: int) -> Tensor:
    """What the rank `by` before this one has."""
    received = torch.empty_like(x)
    sent = dist.isend(x.contiguous(), (rank() + by) % world())
    dist.recv(received, (rank() - by) % world())
    sent.wait()
    return received


# the four regions of tensor parallelism: their forward and backward


class CopyRegion(Function):
    """Forward: nothing. Backward: the sum over ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return summed(g)


class CopyForgotten(CopyRegion):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class CopyAveraged(CopyRegion):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return summed(g) / world()


class ReduceRegion(Function):
    """Forward: the sum over ranks. Backward: nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return summed(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.clone()


class ReduceDoubled(ReduceRegion):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return summed(g)


class GatherRegion(Function):
    """Forward: all parts along the last axis. Backward: this rank's part of the cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.cat(gathered(x), dim=-1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.chunk(world(), dim=-1)[rank()].contiguous()


class GatherWrongRank(GatherRegion):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.chunk(world(), dim=-1)[(rank() + 1) % world()].contiguous()


class ScatterRegion(Function):
    """Forward: this rank's part along the last axis. Backward: all parts of the cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.chunk(world(), dim=-1)[rank()].contiguous()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return torch.cat(gathered(g), dim=-1)


class ScatterStale(ScatterRegion):
    """The parts of the other ranks are zeros that nobody filled."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        parts = [torch.zeros_like(g) for _ in range(world())]
        parts[rank()] = g
        return torch.cat(parts, dim=-1)


# layers


def column_parallel(x: Tensor, weight: Tensor, bias: Tensor, region: Any = CopyRegion) -> Tensor:
    return region.apply(x) @ weight.t() + bias


def row_parallel(x: Tensor, weight: Tensor, bias: Tensor, region: Any = ReduceRegion) -> Tensor:
    return region.apply(x @ weight.t()) + bias


class BiasOnEveryRank(Function):
    """A replicated bias inside the sum: each rank adds a share, and the gradient of it is summed: counted W times."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, bias: Tensor) -> Tensor:
        return y + bias

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        return g, summed(g.sum(0))


def row_parallel_counted(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return BiasOnEveryRank.apply(ReduceRegion.apply(x @ weight.t()), bias)


def embedding_parallel(tokens: Tensor, table: Tensor, shift_by: int = 0) -> Tensor:
    """Each rank holds some rows of the table; `shift_by` plants a wrong first row."""
    rows = table.shape[0]
    first = rank() * rows
    mine = (tokens >= first) & (tokens < first + rows)
    local = torch.where(mine, tokens - first, 0)
    found = Rows.apply(table, local, mine, shift_by)
    return ReduceRegion.apply(found)


class Rows(Function):
    """Rows of a table; zeros where another rank has them."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, local: Tensor, mine: Tensor, shift_by: int) -> Tensor:
        ctx.save_for_backward(local, mine)
        ctx.rows, ctx.shift_by = table.shape[0], shift_by
        return table[local] * mine[..., None]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        local, mine = ctx.saved_tensors
        gradient = g.new_zeros(ctx.rows, g.shape[-1])
        gradient.index_add_(0, ((local + ctx.shift_by) % ctx.rows).flatten(), (g * mine[..., None]).flatten(0, 1))
        return gradient, None, None, None


class VocabularyCrossEntropy(Function):
    """Cross-entropy of logits whose vocabulary is spread over the ranks."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, wrong: bool) -> Tensor:
        top = logits.max(-1).values
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        exponentials = (logits - top[:, None]).exp()
        total = summed(exponentials.sum(-1))
        size = logits.shape[-1]
        local = target - rank() * size
        mine = (local >= 0) & (local < size)
        local = local.clamp(0, size - 1)
        picked = torch.where(mine, logits.gather(-1, local[:, None])[:, 0] - top, 0.0)
        ctx.save_for_backward(exponentials, exponentials.sum(-1) if wrong else total, local, mine)
        return total.log() - summed(picked)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        exponentials, total, local, mine = ctx.saved_tensors
        gradient = exponentials / total[:, None]
        gradient[torch.arange(len(local)), local] -= mine.to(gradient.dtype)
        return gradient * g[:, None], None, None


def cross_entropy(logits: Tensor, wrong: bool = False) -> Tensor:
    target = torch.arange(5) % (logits.shape[-1] * world())
    return VocabularyCrossEntropy.apply(logits, target, wrong)


class SequenceNorm(Function):
    """A norm over positions that are spread over the ranks, with a replicated weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, reduces: bool) -> Tensor:
        count = x.shape[0] * world()
        scale = (summed((x * x).sum(0)) / count + 1e-3).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        ctx.count, ctx.reduces = count, reduces
        return x * scale * weight

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        inner = (g * weight * x).sum(0)
        inner = summed(inner) if ctx.reduces else inner
        gradient = g * weight * scale - x * scale**3 * inner / ctx.count
        return gradient, summed((g * x * scale).sum(0)), None


def sequence_norm(x: Tensor, weight: Tensor, reduces: bool = True) -> Tensor:
    return SequenceNorm.apply(x, weight, reduces)


class Ring(Function):
    """Passes a tensor on to the next rank; its cotangent comes back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, back: int) -> Tensor:
        ctx.back = back
        return shift(x, 1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return (shift(g, ctx.back) if ctx.back else g.clone()), None


def ring_attention(q: Tensor, k: Tensor, v: Tensor, back: int = -1) -> Tensor:
    """Attention of this rank's queries to everybody's keys, which go round."""
    scores, values = [], []
    for _ in range(world()):
        scores.append(q @ k.t() / math.sqrt(q.shape[-1]))
        values.append(v)
        k, v = Ring.apply(k, back), Ring.apply(v, back)
    return torch.cat(scores, -1).softmax(-1) @ torch.cat(values, 0)


class AllToAll(Function):
    """Sends uneven parts of the rows to every rank; the last rank gets the longer tail."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int], loses_tail: bool) -> Tensor:
        ctx.sizes, ctx.loses_tail = sizes, loses_tail
        received = x.new_empty(sizes[rank()] * world(), x.shape[1])
        dist.all_to_all_single(received, x.contiguous(), [sizes[rank()]] * world(), sizes)
        return received

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        sizes = ctx.sizes
        returned = g.new_empty(sum(sizes), g.shape[1])
        dist.all_to_all_single(returned, g.contiguous(), sizes, [sizes[rank()]] * world())
        if ctx.loses_tail:
            returned[-1] = 0.0
        return returned, None, None


def experts(x: Tensor, weight: Tensor, loses_tail: bool = False) -> Tensor:
    """Rows travel to their expert, through it, and stay there."""
    sizes = [2] * (world() - 1) + [3]
    return torch.tanh(AllToAll.apply(x, sizes, loses_tail) @ weight)


class Send(Function):
    """To the next rank; gives a token to pull on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        dist.send(x.contiguous(), rank() + 1)
        return x.new_zeros(1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        returned = g.new_empty(ctx.shape)
        dist.recv(returned, rank() + 1)
        return returned


class Receive(Function):
    """From the rank before; sends the cotangent back."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, shape: tuple[int, ...], factor: float) -> Tensor:
        ctx.factor = factor
        received = token.new_empty(shape)
        dist.recv(received, rank() - 1)
        return received

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        dist.send((g * ctx.factor).contiguous(), rank() - 1)
        return g.new_zeros(1), None, None


def pipeline(x: Tensor, weight: Tensor, factor: float = 1.0) -> Tensor:
    """One stage a rank; only the last one has the output."""
    if rank():
        token = torch.zeros(1, dtype=x.dtype, requires_grad=True)
        x = Receive.apply(token, tuple(x.shape), factor)
    y = torch.tanh(x @ weight)
    return y if rank() == world() - 1 else Send.apply(y)


class SyncBatchNorm(Function):
    """Batch statistics over all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean_for_sum: bool) -> Tensor:
        count = x.shape[0] * world()
        mean = summed(x.sum(0)) / count
        variance = summed(((x - mean) ** 2).sum(0)) / count
        normal = (x - mean) * (variance + 1e-3).rsqrt()
        ctx.save_for_backward(normal, weight, (variance + 1e-3).rsqrt())
        ctx.count, ctx.mean_for_sum = count, mean_for_sum
        return normal * weight + bias

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        normal, weight, scale = ctx.saved_tensors
        of_bias, of_weight = summed(g.sum(0)), summed((g * normal).sum(0))
        gradient = weight * scale * (g - (of_bias + normal * of_weight) / ctx.count)
        if ctx.mean_for_sum:
            of_weight = of_weight / world()
        return gradient, of_weight, of_bias, None


def sync_batch_norm(x: Tensor, weight: Tensor, bias: Tensor, mean_for_sum: bool = False) -> Tensor:
    return SyncBatchNorm.apply(x, weight, bias, mean_for_sum)


def dtensor_matmul() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world(),))
    x = distribute_tensor(shared(4, 6).detach(), mesh, [Replicate()]).requires_grad_()
    weight = distribute_tensor(shared(6, 8, seed=3).detach(), mesh, [Shard(1)]).requires_grad_()
    assert isinstance(x, DTensor)
    return (lambda x, weight: torch.tanh(x @ weight)), (x, weight)


class DoubledShard(Function):
    """The local part of a DTensor, with a backward that scales the last rank's cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * (2.0 if rank() == world() - 1 else 1.0)


def dtensor_doubled() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from torch.distributed.tensor import DTensor

    right, inputs = dtensor_matmul()

    def wrong(x: Any, weight: Any) -> Any:
        y = right(x, weight)
        local = DoubledShard.apply(y.to_local())
        return DTensor.from_local(local, y.device_mesh, y.placements, run_check=False)

    return wrong, inputs


@dataclass(frozen=True)
class Scenario:
    """What `make` gives is checked; `wrong` names the input that must be found, `cause` words of what is named."""

    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    declared: dict[str, Any] = field(default_factory=dict)
    wrong: str = ""
    cause: str = ""


def _plain(function: Callable[..., Any], *makers: Callable[[], Tensor], **options: Any) -> Callable[[], Any]:
    def make() -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
        import functools

        bound = functools.partial(function, **options) if options else function
        if options:
            code = function.__code__
            bound.parameter_names = code.co_varnames[: len(makers)]  # type: ignore[attr-defined]
        return bound, tuple(maker() for maker in makers)

    return make


def _tokens() -> Tensor:
    return torch.arange(6).reshape(2, 3) % (3 * world())


def _x() -> Tensor:
    return shared(4, 3)


def _own_x() -> Tensor:
    return own(4, 3)


def _weight() -> Tensor:
    return own(2, 3, seed=1)


def _own_bias() -> Tensor:
    return own(2, seed=2)


def _bias() -> Tensor:
    return shared(2, seed=2)


COLUMN = {"inputs_are": {"x": "replicated", "weight": "varying", "bias": "varying"}, "outputs_are": "varying"}
ROW = {"inputs_are": {"x": "varying", "weight": "varying", "bias": "replicated"}, "outputs_are": "replicated"}
SPREAD_ALL = {"inputs_are": "varying", "outputs_are": "varying"}
NORM = {"inputs_are": {"weight": "replicated", "*": "varying"}, "outputs_are": "varying"}
BATCH_NORM = {"inputs_are": ["varying", "replicated", "replicated"], "outputs_are": "varying"}

SCENARIOS: dict[str, Scenario] = {
    "column": Scenario(_plain(column_parallel, _x, _weight, _own_bias), COLUMN),
    "column, all-reduce missing": Scenario(
        _plain(column_parallel, _x, _weight, _own_bias, region=CopyForgotten),
        COLUMN,
        "every rank, input 0 `x`",
        "an all-reduce (sum) of this gradient is missing",
    ),
    "column, mean for sum": Scenario(
        _plain(column_parallel, _x, _weight, _own_bias, region=CopyAveraged),
        COLUMN,
        "every rank, input 0 `x`",
        "averaged over the ranks where it should be summed",
    ),
    "row": Scenario(_plain(row_parallel, _own_x, _weight, _bias), ROW),
    "row, all-reduce doubled": Scenario(
        _plain(row_parallel, _own_x, _weight, _bias, region=ReduceDoubled),
        ROW,
        "input 0 `x`",
        "a reduction too many in backward",
    ),
    "row, bias counted on every rank": Scenario(
        _plain(row_parallel_counted, _own_x, _weight, _bias),
        ROW,
        "every rank, input 2 `bias`",
        "a reduction too many in backward",
    ),
    "embedding": Scenario(_plain(embedding_parallel, _tokens, lambda: own(3, 2)), {"outputs_are": "replicated"}),
    "embedding, wrong row": Scenario(
        _plain(embedding_parallel, _tokens, lambda: own(3, 2), shift_by=1),
        {"outputs_are": "replicated"},
        "input 1 `table`",
    ),
    "cross-entropy": Scenario(_plain(cross_entropy, lambda: own(5, 3)), {"outputs_are": "replicated"}),
    "cross-entropy, local sum": Scenario(
        _plain(cross_entropy, lambda: own(5, 3), wrong=True), {"outputs_are": "replicated"}, "input 0 `logits`"
    ),
    "sequence norm": Scenario(_plain(sequence_norm, lambda: own(3, 4), lambda: shared(4, seed=5)), NORM),
    "sequence norm, reduction missing": Scenario(
        _plain(sequence_norm, lambda: own(3, 4), lambda: shared(4, seed=5), reduces=False),
        NORM,
        "input 0 `x`",
        "what the outputs of the other ranks send back is missing",
    ),
    "ring attention": Scenario(
        _plain(ring_attention, *(lambda seed=seed: own(3, 4, seed=seed) for seed in range(3))), SPREAD_ALL
    ),
    "ring attention, cotangent not sent back": Scenario(
        _plain(ring_attention, *(lambda seed=seed: own(3, 4, seed=seed) for seed in range(3)), back=0),
        SPREAD_ALL,
        "input",
    ),
    "experts": Scenario(_plain(experts, lambda: own(2 * world() + 1, 3), lambda: own(3, 2, seed=1)), SPREAD_ALL),
    "experts, tail lost": Scenario(
        _plain(experts, lambda: own(2 * world() + 1, 3), lambda: own(3, 2, seed=1), loses_tail=True),
        SPREAD_ALL,
        "input 0 `x`",
    ),
    "pipeline": Scenario(_plain(pipeline, lambda: own(2, 3), lambda: own(3, 3, seed=1)), SPREAD_ALL),
    "pipeline, halved": Scenario(
        _plain(pipeline, lambda: own(2, 3), lambda: own(3, 3, seed=1), factor=0.5), SPREAD_ALL, "rank 0, input"
    ),
    "sync batch norm": Scenario(
        _plain(sync_batch_norm, lambda: own(3, 4), lambda: shared(4, seed=5), lambda: shared(4, seed=6)), BATCH_NORM
    ),
    "sync batch norm, mean for sum": Scenario(
        _plain(
            sync_batch_norm, lambda: own(3, 4), lambda: shared(4, seed=5), lambda: shared(4, seed=6), mean_for_sum=True
        ),
        BATCH_NORM,
        "every rank, input 1 `weight`",
        "averaged over the ranks where it should be summed",
    ),
    "DTensor matmul": Scenario(dtensor_matmul),
    "DTensor matmul, last rank doubled": Scenario(dtensor_doubled, {}, "input"),
}


def run_scenarios(names: list[str]) -> dict[str, Any]:
    """On each rank: the report of each scenario."""
    import gradproof.distributed

    torch.set_num_threads(1)
    reports = {}
    for name in names:
        scenario = SCENARIOS[name]
        func, inputs = scenario.make()
        reports[name] = gradproof.distributed.check(func, inputs, timeout=20.0, **scenario.declared)
    return reports
