"""pyro: pathwise gradients of samples and other hand-written Functions. The seed is put back before each evaluation."""

import torch

from wild_recipes.recipe import SURROGATE, Recipe, between, normal

TRITON = False


def safe_log():
    from pyro.ops.special import safe_log

    return safe_log, (between(0.1, 3.0, 3, 7),)


def ewma_log():
    from pyro.contrib.oed.eig import _ewma_log_fn

    average = torch.full((5,), 1.3, dtype=torch.float64)
    return lambda x: _ewma_log_fn(x, average), (between(0.5, 2.0, 5),)


def triangle(size):
    return (torch.tril(torch.randn(size, size, dtype=torch.float64)) + 3 * torch.eye(size)).requires_grad_()


def transported(size):
    def make():
        from pyro.distributions import OMTMultivariateNormal

        def sample(loc, scale):
            return OMTMultivariateNormal(loc, scale.tril()).rsample(torch.Size([3]))

        return sample, (normal(size), triangle(size))

    return make


def controlled():
    from pyro.distributions import AVFMultivariateNormal

    control = torch.randn(2, 2, 3, dtype=torch.float64)

    def sample(loc, scale):
        return AVFMultivariateNormal(loc, scale.tril(), control).rsample(torch.Size([3]))

    return sample, (normal(3), triangle(3))


def mixture(shared):
    def make():
        import pyro.distributions as d

        kind = d.MixtureOfDiagNormalsSharedCovariance if shared else d.MixtureOfDiagNormals
        scales = between(0.5, 1.5, 2) if shared else between(0.5, 1.5, 3, 2)

        def sample(locs, scales, logits):
            return kind(locs, scales, logits).rsample(torch.Size([4]))

        return sample, (normal(3, 2), scales, normal(3))

    return make


def scale_mixture():
    from pyro.distributions import GaussianScaleMixture

    parts = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)

    def sample(scales, logits):
        return GaussianScaleMixture(scales, logits, parts).rsample(torch.Size([4]))

    return sample, (between(0.5, 1.5, 2), normal(3))


def quantized(name, low, high):
    def make():
        from pyro.distributions import relaxed_straight_through

        return getattr(relaxed_straight_through, name).apply, (between(low, high, 3, 4),)

    return make


PATHWISE = "a velocity field with the right mean over samples, not the derivative of one sample"
RECIPES = [
    Recipe("safe_log", safe_log),
    Recipe("EwmaLog", ewma_log, SURROGATE, "the gradient divides by a moving average"),
    Recipe("OMTMultivariateNormal", transported(3), SURROGATE, PATHWISE),
    Recipe("OMTMultivariateNormal, one dimension", transported(1)),
    Recipe("AVFMultivariateNormal", controlled, SURROGATE, PATHWISE),
    Recipe("MixtureOfDiagNormals", mixture(False), SURROGATE, PATHWISE),
    Recipe("MixtureOfDiagNormalsSharedCovariance", mixture(True), SURROGATE, PATHWISE),
    Recipe("GaussianScaleMixture", scale_mixture, SURROGATE, PATHWISE),
    Recipe("QuantizeCategorical", quantized("QuantizeCategorical", 0.0, 1.0), SURROGATE, "straight-through"),
    Recipe("QuantizeBernoulli", quantized("QuantizeBernoulli", 0.1, 0.9), SURROGATE, "straight-through"),
]
