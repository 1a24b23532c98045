"""torchkbnufft: interpolation with tables and with sparse matrices, and the transforms built on it."""

import torch

from wild_recipes.recipe import Recipe

TRITON = False


def values(*shape):
    return torch.randn(*shape, dtype=torch.complex128, requires_grad=True)


def places(count, dimensions=2):
    return (torch.rand(dimensions, count, dtype=torch.float64) * 2 - 1) * torch.pi


def interp(adjoint, matrices=False, count=5):
    def make():
        import torchkbnufft

        layer = torchkbnufft.KbInterpAdjoint if adjoint else torchkbnufft.KbInterp
        layer = layer(im_size=(4, 5), grid_size=(8, 10), numpoints=3, dtype=torch.float64)
        omega = places(count)
        extra = torchkbnufft.calc_tensor_spmatrix(omega, im_size=(4, 5), grid_size=(8, 10), numpoints=3)
        extra = tuple(matrix.to(torch.float64) for matrix in extra) if matrices else None
        x = values(1, 2, count) if adjoint else values(1, 2, 8, 10)
        return lambda x: layer(x, omega, extra), (x,)

    return make


def transform(adjoint, count=5, norm=None):
    def make():
        import torchkbnufft

        layer = torchkbnufft.KbNufftAdjoint if adjoint else torchkbnufft.KbNufft
        layer = layer(im_size=(4, 5), numpoints=3, dtype=torch.float64)
        omega = places(count)
        x = values(1, 1, count) if adjoint else values(1, 1, 4, 5)
        return lambda x: layer(x, omega, norm=norm), (x,)

    return make


def batched():
    import torchkbnufft

    layer = torchkbnufft.KbNufft(im_size=(4, 5), numpoints=3, dtype=torch.float64)
    omega = torch.stack([places(3), places(3)])
    return lambda x: layer(x, omega), (values(2, 1, 4, 5),)


RECIPES = [
    Recipe("KbInterp, table", interp(False)),
    Recipe("KbInterp, table, one place", interp(False, count=1)),
    Recipe("KbInterpAdjoint, table", interp(True)),
    Recipe("KbInterp, sparse matrices", interp(False, True)),
    Recipe("KbInterpAdjoint, sparse matrices", interp(True, True)),
    Recipe("KbNufft", transform(False)),
    Recipe("KbNufft, ortho, 7 places", transform(False, 7, "ortho")),
    Recipe("KbNufft, a trajectory for each image", batched),
    Recipe("KbNufftAdjoint", transform(True)),
    Recipe("KbNufftAdjoint, ortho", transform(True, 7, "ortho")),
]
