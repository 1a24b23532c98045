"""spikingjelly: spikes. Each surrogate has a primitive function, and the backward is checked against that one's."""

import importlib

import torch

from wild_recipes.recipe import SURROGATE, Recipe, normal

TRITON = False
SHAPES = {
    "PiecewiseQuadratic": {"alpha": 1.0},
    "PiecewiseExp": {"alpha": 1.0},
    "Sigmoid": {"alpha": 4.0},
    "SoftSign": {"alpha": 2.0},
    "ATan": {"alpha": 2.0},
    "NonzeroSignLogAbs": {"alpha": 1.0},
    "Erf": {"alpha": 2.0},
    "PiecewiseLeakyReLU": {"w": 1.0, "c": 0.01},
    "SquarewaveFourierSeries": {"n": 2, "T_period": 8},
    "QPseudoSpike": {"alpha": 2.0},
    "LeakyKReLU": {"leak": 0.0, "k": 1.0},
    "LogTailedReLU": {"alpha": 0.0},
    "Rect": {"alpha": 1.0},
}


def surrogate(name):
    return getattr(importlib.import_module("spikingjelly.activation_based.surrogate"), name)


def spike(name, **options):
    def make():
        return surrogate(name)(**options), (normal(3, 7),)

    return make


def primitive(name, **options):
    return lambda x: surrogate(name).primitive_function(x, **options)


def logarithm(x):
    """What S2NN's backward is the slope of; its own primitive function adds 1e-5 under the logarithm."""
    return torch.where(x < 0.0, torch.sigmoid(4.0 * x), torch.log1p(x.clamp(min=0.0)) + 0.5)


RECIPES = [
    *(
        Recipe(f"{name}, intended", spike(name, **options), options={"intended": primitive(name, **options)})
        for name, options in SHAPES.items()
    ),
    Recipe("S2NN, intended", spike("S2NN", alpha=4.0, beta=1.0), options={"intended": logarithm}),
    Recipe("Sigmoid", spike("Sigmoid", alpha=4.0), SURROGATE, "the slope of a sigmoid instead of that of a step"),
]
