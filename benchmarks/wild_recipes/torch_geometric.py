"""torch_geometric: cross-entropy with sparse labels."""

import torch

from wild_recipes.recipe import Recipe, normal

TRITON = False


def labelled(labels, weights=None):
    def make():
        from torch_geometric.utils import cross_entropy

        index = torch.tensor(labels).T
        weight = None if weights is None else torch.tensor(weights, dtype=torch.float64)
        return lambda x: cross_entropy.sparse_cross_entropy(x, index, weight), (normal(3, 4),)

    return make


LABELS = [[0, 1], [0, 3], [1, 0], [2, 2], [2, 3]]
TWICE = [[0, 1], [0, 1], [1, 0], [2, 2], [2, 3]]
RECIPES = [
    Recipe("SparseCrossEntropy", labelled(LABELS)),
    Recipe("SparseCrossEntropy, weights", labelled(LABELS, [1.0, 0.5, 2.0, 1.0, 0.7])),
    Recipe("SparseCrossEntropy, negative weights", labelled(LABELS, [1.0, -0.5, 2.0, 1.0, -2.7])),
    Recipe("SparseCrossEntropy, a label twice", labelled(TWICE), "torch-geometric-label-twice"),
]
