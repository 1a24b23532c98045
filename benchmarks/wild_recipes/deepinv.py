"""deepinv: splines, a denoiser, and least squares. It imports torchvision, as timm does."""

import torch

from wild_recipes.recipe import Recipe, between, normal
from wild_recipes.timm import declare_operators

TRITON = False


def spline(name, *shape):
    def make():
        declare_operators()
        from deepinv.models import deal

        low, high = (torch.tensor([end], dtype=torch.float64) for end in (-1.0, 1.0))
        first = torch.arange(2) * 7

        def run(x, coefficients):
            return getattr(deal, name).apply(x, coefficients, low, high, 7, first)

        return run, (between(-0.9, 0.6, 1, 2, 1, 3, 3), normal(*shape))

    return make


def denoiser():
    declare_operators()
    from deepinv.models.mmse import MMSEFunction

    data = torch.randn(6, 1, 3, 3, dtype=torch.float64)

    def run(x, sigma):
        return MMSEFunction.apply(x, sigma, data, "cpu", torch.float64, False)

    return run, (normal(2, 1, 3, 3), between(1.0, 2.0, 2, 1))


def least_squares(solver, samples):
    def make():
        declare_operators()
        import deepinv
        from deepinv.optim.linear.least_squares import least_squares_implicit_backward

        matrix = torch.randn(5, 5, dtype=torch.float64)
        physics = deepinv.physics.LinearPhysics(A=lambda x, **_: x @ matrix.T, A_adjoint=lambda y, **_: y @ matrix)

        def run(y, z, gamma):
            return least_squares_implicit_backward(physics, y, z, gamma=gamma, solver=solver, tol=1e-14, max_iter=200)

        return run, (normal(samples, 5), normal(samples, 5), between(1.0, 2.0, samples))

    return make


RECIPES = [
    Recipe("LinearSplineFunc", spline("LinearSplineFunc", 2, 7)),
    Recipe("LinearSplineDerivativeFunc", spline("LinearSplineDerivativeFunc", 14), "deepinv-spline-derivative"),
    Recipe("QuadraticSplineFunc", spline("QuadraticSplineFunc", 2, 7)),
    Recipe("MMSEFunction", denoiser, "deepinv-mmse-layout"),
    Recipe("LeastSquaresSolver, lsqr", least_squares("lsqr", 1)),
    Recipe("LeastSquaresSolver, lsqr, two samples", least_squares("lsqr", 2), "deepinv-lsqr-batch"),
]
