"""e3nn: its one hand-written Function, alone and inside the radial bases that use it."""

from wild_recipes.recipe import Recipe, between, normal

TRITON = False


def soft_unit_step(*shape):
    def make():
        from e3nn.math import soft_unit_step

        return soft_unit_step, (normal(*shape),)

    return make


def far_from_zero():
    from e3nn.math import soft_unit_step

    return soft_unit_step, (between(0.05, 30.0, 13),)


def smooth_basis():
    from e3nn.math import soft_one_hot_linspace

    return lambda x: soft_one_hot_linspace(x, 0.0, 2.0, 5, basis="smooth_finite", cutoff=True), (between(0.1, 1.9, 7),)


def cutoff():
    from e3nn.math import soft_unit_step

    return lambda r: soft_unit_step(2 * (1 - r / 1.5)), (between(0.1, 2.5, 11),)


RECIPES = [
    Recipe("soft_unit_step", soft_unit_step(3, 7)),
    Recipe("soft_unit_step, one number", soft_unit_step(1)),
    Recipe("soft_unit_step, 0.05 to 30", far_from_zero),
    Recipe("soft_unit_step as a cutoff", cutoff),
    Recipe("soft_one_hot_linspace, smooth_finite", smooth_basis),
]
