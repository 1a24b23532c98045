"""Audits of operations whose options declare a gradient: judged by what they declare, and still judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch.utils.checkpoint
from torch import nn

from gradproof import Verdict
from gradproof.results.audit import AuditReport, NoticeKind
from gradproof.torch import audit

IDS = torch.tensor([[0, 1, 2, 2], [3, 0, 2, 1]])
EMBEDDINGS: list[tuple[Callable[..., nn.Module], dict[str, Any], str]] = [
    (nn.Embedding, {"padding_idx": 0}, "padding_idx=0"),
    (nn.Embedding, {"padding_idx": -3}, "padding_idx=2"),
    (nn.Embedding, {"padding_idx": 4}, ""),  # which no index meets
    (nn.Embedding, {"padding_idx": 0, "sparse": True}, "padding_idx=0"),
    (nn.Embedding, {"scale_grad_by_freq": True}, "scale_grad_by_freq=True"),
    (nn.Embedding, {"max_norm": 0.5}, "max_norm=0.5"),
    (nn.Embedding, {"max_norm": 9.0, "norm_type": 1.0}, "max_norm=9.0"),
    (
        nn.Embedding,
        {"padding_idx": 0, "scale_grad_by_freq": True, "max_norm": 1.0},
        "padding_idx=0, scale_grad_by_freq=True, max_norm=1.0",
    ),
    (nn.EmbeddingBag, {"padding_idx": 0}, ""),  # which leaves it out of the values too
    (nn.EmbeddingBag, {"max_norm": 0.5, "mode": "mean"}, "max_norm=0.5"),
    (nn.EmbeddingBag, {"max_norm": 0.5, "mode": "max"}, "max_norm=0.5"),
]


class Model(nn.Module):
    """An embedding, and something after it."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding, self.linear = embedding, nn.Linear(3, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(self.embedding(ids)))


def prepared(model: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """With numbers everywhere: a padding row is made of zeros at first."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.to(dtype)


def declared(report: AuditReport) -> list[str]:
    return [notice.options for notice in report.notices if notice.kind is NoticeKind.DECLARED]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("make", "options", "told"), EMBEDDINGS, ids=str)
def test_what_an_option_declares_is_no_mistake(
    make: Callable[..., nn.Module], options: dict[str, Any], told: str, dtype: torch.dtype
) -> None:
    model = prepared(Model(make(5, 3, **options)), dtype)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for deep in (False, True):
        report = audit(model, IDS, deep=deep)
        assert report.verdict is Verdict.PASS, str(report)
        assert declared(report) == ([told] if told else [])
        assert not told or told in str(report)
        assert AuditReport.from_json(report.to_json()).notices == report.notices
    for parameter, value in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.detach(), value)


class Twice(nn.Module):
    """Two embeddings that meet the same indices, the second with a weight that is computed, and one tied to it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(5, 3, padding_idx=0), nn.Embedding(5, 3, padding_idx=0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        computed = torch.sin(self.second.weight)
        sum_ = self.first(ids) + F.embedding(ids, computed, padding_idx=0)
        return torch.tanh(sum_) @ self.second.weight.mT


class InCheckpoint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model(nn.Embedding(5, 3, padding_idx=0))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(self.model, ids, use_reentrant=False)


@pytest.mark.parametrize("make", [Twice, InCheckpoint])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_several_are_told_apart(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    report = audit(prepared(make(), dtype), IDS)
    assert report.verdict is Verdict.PASS, str(report)
    assert set(declared(report)) == {"padding_idx=0"}


def test_a_weight_of_a_closure_and_a_sample() -> None:
    torch.manual_seed(1)
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

    def model(ids: torch.Tensor) -> torch.Tensor:
        return F.gumbel_softmax(torch.sin(F.embedding(ids, weight, padding_idx=0)), hard=True).square() * weight.sum()

    report = audit(model, IDS)
    assert report.verdict is Verdict.PASS, str(report)
    assert declared(report) == ["padding_idx=0", "hard=True"]


# what is wrong stays wrong


class Unpadded(torch.autograd.Function):
    """An embedding that hands nothing on to row 0, and has no option that says so."""

    @staticmethod
    def forward(ctx: Any, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.rows = len(weight)
        return weight[ids]

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[None, torch.Tensor]:
        (ids,) = ctx.saved_tensors
        gradient = cotangent.new_zeros(ctx.rows, cotangent.shape[-1])
        gradient.index_put_((ids,), cotangent, accumulate=True)
        gradient[0] = 0
        return None, gradient


class Scaled(torch.autograd.Function):
    """Hands on 1.05 times the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return 1.05 * cotangent


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(5, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return Unpadded.apply(ids, self.weight)


class ThenScaled(nn.Embedding):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return Scaled.apply(super().forward(input))


class Wide(nn.Module):
    """The same behaviour, detached by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(5, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.weight[ids]
        return torch.where((ids == 0)[..., None], rows.detach(), rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("embedding", "guilty"),
    [(ByHand, "Unpadded"), (lambda: ThenScaled(5, 3, padding_idx=0), "Scaled"), (Wide, "detach")],
)
def test_without_the_option_it_is_wrong(embedding: Callable[[], nn.Module], guilty: str, dtype: torch.dtype) -> None:
    report = audit(prepared(Model(embedding()), dtype), IDS)
    assert report.verdict is Verdict.FAIL
    assert report.guilty is not None
    assert report.guilty.name == guilty


def test_a_wrong_gradient_of_the_declared_kind_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real backward is compared with the declaration, not left out: here it forgets the last row."""
    real = torch.embedding

    def forgetful(weight: torch.Tensor, *arguments: Any) -> torch.Tensor:
        return real(torch.cat([weight[:3], weight[3:].detach()]), *arguments)

    monkeypatch.setattr(torch, "embedding", forgetful)
    report = audit(prepared(Model(nn.Embedding(5, 3, padding_idx=0))), IDS)
    assert report.verdict is Verdict.FAIL
    assert report.guilty is not None
    assert report.guilty.name == "embedding"
    assert declared(report) == ["padding_idx=0"]


def test_torch_divides_by_the_wrong_counts_in_a_bag() -> None:
    """docs/found/torch-embedding-bag-frequency.md: the declaration is not kept, and that is a finding."""
    model = prepared(Model(nn.EmbeddingBag(5, 3, mode="sum", scale_grad_by_freq=True)))
    report = audit(model, torch.tensor([[0, 2, 2, 2, 4]]))
    assert report.verdict is Verdict.FAIL
    assert report.guilty is not None
    assert report.guilty.name == "embedding_bag"
    assert audit(model, torch.tensor([[0, 1, 2, 3, 4]])).verdict is Verdict.PASS
