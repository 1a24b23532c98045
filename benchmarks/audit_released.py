"""Models and operations of released packages, small and randomly initialised, for `benchmarks/audit.py released`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def tokens(size: int = 40) -> torch.Tensor:
    return torch.randint(2, size, (2, 7))


def language(config: Any, model: Any) -> Made:
    given = tokens()
    return model(config), (given,), {"labels": given}


def bert() -> Made:
    from transformers import BertConfig, BertForMaskedLM

    return language(BertConfig(vocab_size=40, max_position_embeddings=16, **SMALL), BertForMaskedLM)


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    return language(GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2), GPT2LMHeadModel)


def t5() -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0)
    return language(config, T5ForConditionalGeneration)


def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=40, max_position_embeddings=16, num_key_value_heads=1, use_cache=False, **SMALL)
    return language(config, LlamaForCausalLM)


def mistral() -> Made:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(vocab_size=40, max_position_embeddings=16, num_key_value_heads=1, use_cache=False, **SMALL)
    return language(config, MistralForCausalLM)


def opt() -> Made:
    """With padding at the end of a row: its embedding declares that the padding gets no gradient."""
    from transformers import OPTConfig, OPTForCausalLM

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24}
    config = OPTConfig(vocab_size=40, max_position_embeddings=16, word_embed_proj_dim=16, pad_token_id=1, **small)
    model, (given,), keywords = language(config, OPTForCausalLM)
    given[0, -2:] = 1
    return model, (given,), keywords


def vit() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(image_size=8, patch_size=4, num_channels=2, num_labels=3, **SMALL)
    return ViTForImageClassification(config), (torch.randn(2, 2, 8, 8),), {}


MODELS: dict[str, Callable[[], Made]] = {
    "BERT": bert,
    "GPT-2": gpt2,
    "T5": t5,
    "Llama": llama,
    "Mistral": mistral,
    "OPT": opt,
    "ViT": vit,
}


def torchdiffeq_adjoint() -> Made:
    """The adjoint method: one Function with a solver in its backward."""
    from torchdiffeq import odeint_adjoint

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.linear(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = Field()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            times = torch.linspace(0, 1, 3, dtype=x.dtype)
            return odeint_adjoint(self.field, x, times, rtol=1e-10, atol=1e-12)[-1]

    return Model(), (torch.randn(2, 3),), {}


def entmax() -> Made:
    from entmax import entmax15, sparsemax

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = self.linear(x)
            return entmax15(scores, dim=-1) @ sparsemax(scores, dim=-1).mT

    return Model(), (torch.randn(3, 4),), {}


def linear_operator() -> Made:
    """A product, a solve and a log determinant by Functions of linear_operator."""
    from linear_operator.operators import DenseLinearOperator

    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        operator = DenseLinearOperator(a @ a.mT).add_diagonal(torch.ones(4, dtype=a.dtype))
        quadratic, logdet = operator.inv_quad_logdet(b, logdet=True)
        return quadratic + logdet + (operator @ b).sum() + operator.solve(b).square().sum()

    return model, (torch.randn(4, 4), torch.randn(4, 2)), {}


def wavelets() -> Made:
    from pytorch_wavelets import DWTForward

    return DWTForward(J=1, mode="zero", wave="db2"), (torch.randn(1, 2, 8, 8),), {}


OPERATIONS: dict[str, tuple[str, Callable[[], Made]]] = {
    "torchdiffeq: odeint_adjoint": ("torchdiffeq", torchdiffeq_adjoint),
    "entmax: entmax15 and sparsemax": ("entmax", entmax),
    "linear_operator: inv_quad_logdet": ("linear_operator", linear_operator),
    "pytorch_wavelets: DWTForward": ("pytorch_wavelets", wavelets),
}


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def prepared(make: Callable[[], Made], dtype: torch.dtype, seed: int = 0) -> Made:
    """A model in some precision, with dropout off, and its inputs."""
    torch.manual_seed(seed)
    model, inputs, keywords = make()
    if isinstance(model, nn.Module):
        model = model.to(dtype).eval()
    cast = tuple(x.to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs)
    return model, cast, keywords
