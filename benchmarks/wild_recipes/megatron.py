"""megatron-core: fused activations of a feed-forward layer, and a loss that is added by its gradient."""

import importlib

import torch

from wild_recipes.recipe import SURROGATE, Recipe, between, normal

TRITON = False


def fused(module, name, *shapes, after=()):
    def make():
        found = getattr(importlib.import_module(f"megatron.core.fusions.{module}"), name)
        return lambda *inputs: found.apply(*inputs, *after), tuple(normal(*shape) for shape in shapes)

    return make


def swiglu_float8():
    from megatron.core.fusions.fused_bias_swiglu import SwiGLUFunction

    return lambda x: SwiGLUFunction.apply(x, True, False), (normal(3, 10),)


def weighted(name, *shapes, after=()):
    return fused("fused_bias_geglu", name, *shapes, after=after)


def auxiliary():
    from megatron.core.transformer.moe.moe_utils import MoEAuxLossAutoScaler

    return MoEAuxLossAutoScaler.apply, (normal(3, 4), normal(1))


def far():
    from megatron.core.fusions.fused_bias_geglu import GeGLUFunction

    return GeGLUFunction.apply, (between(-12, 12, 3, 14),)


RECIPES = [
    Recipe("SwiGLUFunction", fused("fused_bias_swiglu", "SwiGLUFunction", (3, 10), after=(False, False))),
    Recipe(
        "SwiGLUFunction, kept in float8", swiglu_float8, SURROGATE, "what is kept for the backward is rounded to float8"
    ),
    Recipe(
        "BiasSwiGLUFunction", fused("fused_bias_swiglu", "BiasSwiGLUFunction", (3, 10), (10,), after=(False, False))
    ),
    Recipe(
        "WeightedSwiGLUFunction", fused("fused_bias_swiglu", "WeightedSwiGLUFunction", (3, 10), (3, 1), after=(False,))
    ),
    Recipe("GeGLUFunction", fused("fused_bias_geglu", "GeGLUFunction", (3, 10))),
    Recipe("GeGLUFunction, −12 to 12", far),
    Recipe("BiasGeGLUFunction", fused("fused_bias_geglu", "BiasGeGLUFunction", (3, 10), (10,))),
    Recipe(
        "WeightedQuickGeGLUFunction",
        weighted("WeightedQuickGeGLUFunction", (3, 10), (3, 1), after=(False, torch.tensor(1.0))),
    ),
    Recipe(
        "WeightedBiasQuickGeGLUFunction",
        weighted("WeightedBiasQuickGeGLUFunction", (3, 10), (10,), (3, 1), after=(False, torch.tensor(1.0))),
    ),
    Recipe("GeLUFunction", fused("fused_bias_gelu", "GeLUFunction", (3, 7), (7,))),
    Recipe(
        "WeightedSquaredReLUFunction",
        fused("fused_weighted_squared_relu", "WeightedSquaredReLUFunction", (3, 7), (3, 1)),
    ),
    Recipe("MoEAuxLossAutoScaler", auxiliary, SURROGATE, "the gradient of a loss that the value leaves out"),
]
