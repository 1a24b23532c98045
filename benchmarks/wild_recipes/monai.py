"""monai: the Functions that need no compiled extension."""

from wild_recipes.recipe import SURROGATE, Recipe, between, normal

TRITON = False


def swish(*shape):
    def make():
        from monai.networks.blocks.activation import MemoryEfficientSwish

        return MemoryEfficientSwish(), (normal(*shape),)

    return make


def swish_far():
    from monai.networks.blocks.activation import SwishImplementation

    return SwishImplementation.apply, (between(-30, 30, 17),)


def guided_relu():
    from monai.visualize.gradient_based import _AutoGradReLU

    return _AutoGradReLU.apply, (normal(3, 5),)


RECIPES = [
    Recipe("MemoryEfficientSwish", swish(3, 7)),
    Recipe("MemoryEfficientSwish, 3d", swish(1, 2, 3, 3, 3)),
    Recipe("SwishImplementation, −30 to 30", swish_far),
    Recipe("_AutoGradReLU", guided_relu, SURROGATE, "guided backpropagation drops negative cotangents"),
]
