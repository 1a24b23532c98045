"""pypose: Lie groups. A gradient is one of the tangent space, so a chain from algebra to algebra is checked."""

import importlib

from wild_recipes.recipe import SURROGATE, Recipe, between, normal

TRITON = False
GROUPS = {"SO3": ("so3_Exp", 3), "SE3": ("se3_Exp", 6), "RxSO3": ("rxso3_Exp", 4), "Sim3": ("sim3_Exp", 7)}
SERIES = "pypose-sim3-series"
ADJOINT = "pypose-se3-adjt"


def operation(name):
    return getattr(importlib.import_module("pypose.lietensor.operation"), name).apply


def there_and_back(group):
    def make():
        exponential, size = GROUPS[group]
        exp, log = operation(exponential), operation(f"{group}_Log")
        return lambda x: log(exp(x)), (between(-0.8, 0.8, 2, size),)

    return make


def acting(group, name, count):
    def make():
        exponential, size = GROUPS[group]
        exp, act = operation(exponential), operation(f"{group}_{name}")
        return lambda x, point: act(exp(x), point), (between(-0.8, 0.8, 2, size), normal(2, count or size))

    return make


def between_two(group):
    def make():
        exponential, size = GROUPS[group]
        exp, log = operation(exponential), operation(f"{group}_Log")
        multiply, invert = operation(f"{group}_Mul"), operation(f"{group}_Inv")

        def run(x, y):
            return log(multiply(exp(x), invert(exp(y))))

        return run, (between(-0.8, 0.8, 2, size), between(-0.8, 0.8, 2, size))

    return make


def exponential_alone():
    return operation("so3_Exp"), (between(-1.0, 1.0, 2, 3),)


def recipes(group):
    whole = SERIES if group == "Sim3" else "right"
    turned = ADJOINT if group in ("SE3", "Sim3") else "right"
    return [
        Recipe(f"{group}_Log of Exp", there_and_back(group), whole),
        Recipe(f"{group}_Act", acting(group, "Act", 3), whole),
        Recipe(f"{group}_Act4", acting(group, "Act4", 4), whole),
        Recipe(f"{group}_Mul, {group}_Inv", between_two(group), whole),
        Recipe(f"{group}_AdjXa", acting(group, "AdjXa", None), whole),
        Recipe(f"{group}_AdjTXa", acting(group, "AdjTXa", None), turned),
    ]


RECIPES = [
    *(recipe for group in GROUPS for recipe in recipes(group)),
    Recipe("so3_Exp", exponential_alone, SURROGATE, "the gradient of a group element is one of its tangent space"),
]
