"""timm: memory-efficient activations. timm imports torchvision, whose compiled operators a CPU build of torch lacks."""

from wild_recipes.recipe import Recipe, between, normal

TRITON = False
_declared = []


def activation(name, *shape, low=None, high=None):
    def make():
        declare_operators()
        from timm.layers import activations_me

        x = normal(*shape) if low is None else between(low, high, *shape)
        return getattr(activations_me, name), (x,)

    return make


def declare_operators():
    """torchvision registers shape functions for operators that its compiled part would have declared."""
    import torch

    if not _declared:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)


RECIPES = [
    Recipe("swish_me", activation("swish_me", 3, 7)),
    Recipe("mish_me", activation("mish_me", 3, 7)),
    Recipe("hard_sigmoid_me", activation("hard_sigmoid_me", 3, 7)),
    Recipe("hard_sigmoid_me, beyond its corners", activation("hard_sigmoid_me", 31, low=-6.0, high=6.0)),
    Recipe("hard_swish_me", activation("hard_swish_me", 3, 7)),
    Recipe("hard_swish_me, beyond its corners", activation("hard_swish_me", 31, low=-6.0, high=6.0)),
    Recipe("hard_mish_me", activation("hard_mish_me", 3, 7)),
    Recipe("hard_mish_me, beyond its corners", activation("hard_mish_me", 31, low=-5.0, high=5.0)),
]
