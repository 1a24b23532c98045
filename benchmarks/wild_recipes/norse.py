"""norse: spikes. A step has no slope; every backward here is a surrogate that the package names by its shape."""

import importlib

import torch

from wild_recipes.recipe import SURROGATE, Recipe, normal

TRITON = False


def spike(module, name, *after):
    def make():
        found = getattr(importlib.import_module(f"norse.torch.functional.{module}"), name)
        return lambda x: found.apply(x, *after), (normal(3, 5),)

    return make


def threshold(name):
    return spike("threshold", name, torch.tensor(2.0, dtype=torch.float64))


WHY = "the slope of a smooth function instead of that of a step"
RECIPES = [
    Recipe("HeaviErfc", threshold("HeaviErfc"), SURROGATE, WHY),
    Recipe("HeaviTanh", threshold("HeaviTanh"), SURROGATE, WHY),
    Recipe("HeaviCirc", threshold("HeaviCirc"), SURROGATE, WHY),
    Recipe("Triangle", threshold("Triangle"), SURROGATE, WHY),
    Recipe("SuperSpike", spike("superspike", "SuperSpike", torch.tensor(10.0)), SURROGATE, WHY),
]
