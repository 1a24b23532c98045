"""torchrl: the hyperbolic tangent and its inverse, kept away from their ends."""

from wild_recipes.recipe import SURROGATE, Recipe, between, normal

TRITON = False


def bounded(name, make_input, *after):
    def make():
        from torchrl.modules.distributions import utils

        return lambda x: getattr(utils, name).apply(x, *after), (make_input(),)

    return make


def inside():
    return between(-0.9, 0.9, 7)


WHY = "values are clamped, and the gradient stays that of the bound instead of 0"
RECIPES = [
    Recipe("_SafeTanh", bounded("_SafeTanh", lambda: normal(3, 5), 1e-6)),
    Recipe("_SafeTanh, −12 to 12", bounded("_SafeTanh", lambda: between(-12, 12, 17), 1e-6), SURROGATE, WHY),
    Recipe("_SafeTanhNoEps", bounded("_SafeTanhNoEps", lambda: normal(3, 5))),
    Recipe("_SafeaTanh", bounded("_SafeaTanh", inside, 1e-6)),
    Recipe("_SafeaTanh, beyond 1", bounded("_SafeaTanh", lambda: between(-1.5, 1.5, 17), 1e-6), SURROGATE, WHY),
    Recipe("_SafeaTanh, no eps", bounded("_SafeaTanh", inside, None), "torchrl-safeatanh-eps"),
    Recipe("_SafeaTanhNoEps", bounded("_SafeaTanhNoEps", inside)),
]
