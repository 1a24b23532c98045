"""zuko: implicit gradients of a root, and of an integral's bounds and parameters."""

import torch

from wild_recipes.recipe import Recipe, between

TRITON = False


def bisection(count):
    def make():
        from zuko.utils import bisection

        def run(y, rate):
            return bisection(lambda x: x + rate * x**3, y, -5.0, 5.0, n=60, phi=(rate,))

        return run, (between(-2.0, 2.0, count), between(0.5, 1.5, 1))

    return make


def quadrature(count):
    def make():
        from zuko.utils import gauss_legendre

        def run(a, b, rate):
            return gauss_legendre(lambda x: torch.exp(-rate * x**2), a, b, n=8, phi=(rate,))

        return run, (between(-1.0, 0.0, count), between(0.1, 1.0, count), between(0.5, 1.5, 1))

    return make


RECIPES = [
    Recipe("Bisection", bisection(5)),
    Recipe("Bisection, one number", bisection(1)),
    Recipe("GaussLegendre", quadrature(3)),
    Recipe("GaussLegendre, one number", quadrature(1)),
]
