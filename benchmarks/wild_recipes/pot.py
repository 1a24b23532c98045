"""POT: optimal transport, and the square root of a matrix."""

import torch

from wild_recipes.recipe import Recipe, between, leaf, normal

TRITON = False


def square_root():
    from ot.backend import TorchBackend

    a = normal(4, 4)
    return TorchBackend().MatrixSqrtFunction.apply, (leaf(a @ a.T + torch.eye(4, dtype=torch.float64)),)


def costs():
    import ot

    weights = torch.full((4,), 0.25, dtype=torch.float64)
    return lambda cost: ot.emd2(weights, weights, cost), (between(0.0, 1.0, 4, 4),)


def weights():
    import ot

    cost = torch.rand(4, 5, dtype=torch.float64)
    return lambda a, b: ot.emd2(a / a.sum(), b / b.sum(), cost), (between(0.5, 1.0, 4), between(0.5, 1.0, 5))


RECIPES = [
    Recipe("MatrixSqrtFunction", square_root),
    Recipe("ValFunction, costs of emd2", costs),
    Recipe("ValFunction, weights of emd2", weights),
]
