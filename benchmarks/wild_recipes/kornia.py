"""kornia: the logarithm of one class's softmax, and a null space that the five-point algorithm uses."""

import torch

from wild_recipes.recipe import SURROGATE, Recipe, normal

TRITON = False


def target(masked):
    def make():
        from kornia.losses.focal import _TargetLogSoftmax

        classes = torch.randint(0, 4, (2, 1, 3, 3))
        valid = torch.rand(2, 1, 3, 3) > 0.3 if masked else None
        return lambda x: _TargetLogSoftmax.apply(x, classes, valid), (normal(2, 4, 3, 3),)

    return make


def focal_loss():
    from kornia.losses import focal_loss

    classes = torch.randint(0, 4, (2, 3, 3))
    return lambda x: focal_loss(x, classes, alpha=0.5, gamma=2.0, reduction="mean"), (normal(2, 4, 3, 3),)


def null_space(projector):
    def make():
        from kornia.geometry.epipolar.essential import _NullSpaceBasis

        def run(x):
            basis = _NullSpaceBasis.apply(x)[0]
            return basis @ basis.transpose(-2, -1) if projector else basis

        return run, (normal(2, 5, 9),)

    return make


RECIPES = [
    Recipe("_TargetLogSoftmax", target(masked=False)),
    Recipe("_TargetLogSoftmax, with invalid pixels", target(masked=True)),
    Recipe("focal_loss", focal_loss),
    Recipe("_NullSpaceBasis, its projector", null_space(projector=True)),
    Recipe("_NullSpaceBasis", null_space(projector=False), SURROGATE, "the derivative of the space, not of its basis"),
]
