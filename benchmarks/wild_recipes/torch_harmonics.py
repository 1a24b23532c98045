"""torch-harmonics: transforms and convolutions on the sphere."""

import torch

from wild_recipes.recipe import Recipe, normal

TRITON = False


def transform():
    from torch_harmonics import RealSHT

    return RealSHT(6, 8).double(), (normal(1, 6, 8),)


def inverse():
    from torch_harmonics import InverseRealSHT

    layer = InverseRealSHT(6, 8).double()
    return layer, (torch.randn(1, layer.lmax, layer.mmax, dtype=torch.complex128, requires_grad=True),)


def vector_transform():
    from torch_harmonics import RealVectorSHT

    return RealVectorSHT(6, 8).double(), (normal(1, 2, 6, 8),)


def contiguous():
    from torch_harmonics.utils import ensure_contiguous

    return lambda x: ensure_contiguous(x.mT), (normal(3, 5),)


def convolution(transposed):
    def make():
        import torch_harmonics

        kind = "DiscreteContinuousConvTransposeS2" if transposed else "DiscreteContinuousConvS2"
        layer = getattr(torch_harmonics, kind)(1, 1, (4, 6), (4, 6), kernel_shape=(2,), theta_cutoff=1.2)
        return layer.double(), (normal(1, 1, 4, 6),)

    return make


DISCO = "torch-harmonics-disco"
BOTH = {"modes": ("reverse", "forward")}  # unless asked for, forward mode of such an operator is not covered
RECIPES = [
    Recipe("RealSHT", transform),
    Recipe("InverseRealSHT", inverse),
    Recipe("RealVectorSHT", vector_transform),
    Recipe("ensure_contiguous, of a transpose", contiguous),
    Recipe("DiscreteContinuousConvS2", convolution(False)),
    Recipe("DiscreteContinuousConvS2, forward mode too", convolution(False), DISCO, options=BOTH),
    Recipe("DiscreteContinuousConvTransposeS2", convolution(True)),
    Recipe("DiscreteContinuousConvTransposeS2, forward mode too", convolution(True), DISCO, options=BOTH),
]
