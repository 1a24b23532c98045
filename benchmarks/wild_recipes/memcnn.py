"""memcnn: reversible couplings that compute their inputs again in the backward."""

import torch

from wild_recipes.recipe import Recipe, normal

TRITON = False


class Turned(torch.nn.Module):
    """The inverse of a coupling as a module, so that its parameters are checked too."""

    def __init__(self, coupling):
        super().__init__()
        self.coupling = coupling

    def forward(self, y):
        return self.coupling.inverse(y)


def coupling(name, implementation, *, turned=False, **options):
    def make():
        import memcnn

        network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()).double()
        if name == "AffineCoupling":
            options["adapter"] = memcnn.AffineAdapterNaive
        made = getattr(memcnn, name)(
            network, implementation_fwd=implementation, implementation_bwd=implementation, **options
        )
        return Turned(made) if turned else made, (normal(2, 6),)

    return make


HALVES = "memcnn-inverse-halves"
SCALE = "memcnn-affine-scale"
RECIPES = [
    Recipe("AdditiveBlockFunction", coupling("AdditiveCoupling", 0)),
    Recipe("AdditiveBlockFunction2", coupling("AdditiveCoupling", 1)),
    Recipe("AdditiveBlockInverseFunction", coupling("AdditiveCoupling", 0, turned=True), HALVES),
    Recipe("AdditiveBlockInverseFunction2", coupling("AdditiveCoupling", 1, turned=True)),
    Recipe("AffineBlockFunction", coupling("AffineCoupling", 0)),
    Recipe("AffineBlockFunction2", coupling("AffineCoupling", 1), SCALE),
    Recipe("AffineBlockInverseFunction", coupling("AffineCoupling", 0, turned=True), HALVES),
    Recipe("AffineBlockInverseFunction2", coupling("AffineCoupling", 1, turned=True), SCALE),
]
