"""gpytorch: covariances with hand-written gradients, and Functions of variational inference."""

import torch

from wild_recipes.linear_operator import positive
from wild_recipes.recipe import SURROGATE, Recipe, between, leaf, normal, plain

TRITON = False


def squared(a, b):
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)


def distance(a, b):
    return squared(a, b).clamp_min(1e-30).sqrt()


def rbf(count):
    def make():
        from gpytorch.functions import RBFCovariance

        x, y = plain(normal(count, 2)), plain(normal(4, 2))
        return lambda scale: RBFCovariance.apply(x, y, scale, squared), (between(0.5, 2.0, 1, 1),)

    return make


def matern(nu):
    def make():
        from gpytorch.functions import MaternCovariance

        x, y = plain(normal(3, 2)), plain(normal(4, 2))
        return lambda scale: MaternCovariance.apply(x, y, scale, nu, distance), (between(0.5, 2.0, 1, 1),)

    return make


def log_normal_cdf(low, high):
    def make():
        from gpytorch.functions import log_normal_cdf

        return log_normal_cdf, (between(low, high, 9),)

    return make


def quadratic_form():
    from gpytorch.variational.large_batch_variational_strategy import QuadFormDiagonal

    return lambda matrix, right: QuadFormDiagonal.apply((matrix + matrix.mT) / 2, right), (positive(3, 3), normal(3, 7))


def predictive_updates():
    from gpytorch.variational.variational_strategy import ComputePredictiveUpdates

    def run(chol, covariance, middle, values):
        return ComputePredictiveUpdates.apply(chol.tril(), covariance, (middle + middle.mT) / 2, values)

    chol = leaf(torch.linalg.cholesky(positive(3, 3)))
    return run, (chol, normal(3, 5), positive(3, 3), normal(3))


def natural():
    from gpytorch.variational.natural_variational_distribution import _NaturalToMuVarSqrt

    return lambda mean, matrix: _NaturalToMuVarSqrt.apply(mean, matrix), (normal(3), leaf(-0.5 * positive(3, 3)))


def natural_triangle():
    from gpytorch.variational.tril_natural_variational_distribution import _TrilNaturalToMuVarSqrt

    chol = leaf(torch.linalg.cholesky(positive(3, 3)))
    return lambda mean, matrix: _TrilNaturalToMuVarSqrt.apply(mean, matrix), (normal(3), chol)


NATURAL = "natural gradients: those of the expectation parameters"
RECIPES = [
    Recipe("RBFCovariance", rbf(3)),
    Recipe("RBFCovariance, one point", rbf(1)),
    Recipe("MaternCovariance, 1/2", matern(0.5)),
    Recipe("MaternCovariance, 3/2", matern(1.5)),
    Recipe("MaternCovariance, 5/2", matern(2.5)),
    Recipe("LogNormalCDF, above −1", log_normal_cdf(-0.99, 3.0)),
    Recipe("LogNormalCDF, below −1", log_normal_cdf(-1.3, -1.01), "gpytorch-log-normal-cdf"),
    Recipe("QuadFormDiagonal", quadratic_form),
    Recipe("ComputePredictiveUpdates", predictive_updates),
    Recipe("_NaturalToMuVarSqrt", natural, SURROGATE, NATURAL),
    Recipe("_TrilNaturalToMuVarSqrt", natural_triangle, SURROGATE, NATURAL),
]
