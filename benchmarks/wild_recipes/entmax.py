"""entmax: sparse alternatives of softmax. Supports change at kinks; random logits are away from them."""

from wild_recipes.recipe import Recipe, between, normal, plain

TRITON = False


def sparsemax():
    from entmax import sparsemax

    return sparsemax, (normal(3, 7),)


def entmax15():
    from entmax import entmax15

    return entmax15, (normal(3, 7),)


def sparsemax_first_axis():
    from entmax import sparsemax

    return lambda x: sparsemax(x, dim=0, k=3), (normal(5, 3),)


def entmax15_top():
    from entmax import entmax15

    return lambda x: entmax15(x, dim=-1, k=4), (normal(2, 11),)


def entmax_bisect():
    from entmax import entmax_bisect

    return lambda x, alpha: entmax_bisect(x, alpha), (normal(3, 5), between(1.2, 1.9, 3, 1))


def sparsemax_bisect():
    from entmax import sparsemax_bisect

    return sparsemax_bisect, (normal(3, 5),)


def normmax_bisect():
    from entmax import normmax_bisect

    return lambda x: normmax_bisect(x, alpha=2), (normal(3, 5),)


def budget_bisect():
    from entmax import budget_bisect

    return lambda x: budget_bisect(x, budget=2), (normal(3, 5),)


def loss(name):
    def make():
        import entmax
        import torch

        target = torch.tensor([0, 4, 2])
        function = getattr(entmax, name)
        return lambda x: function(x, target), (normal(3, 5),)

    return make


def entmax_bisect_loss():
    import torch
    from entmax import entmax_bisect_loss

    target = torch.tensor([0, 4, 2])
    return lambda x: entmax_bisect_loss(x, target, 1.5), (normal(3, 5),)


def odd_alpha():
    from entmax import entmax_bisect

    alpha = plain(between(1.2, 1.9, 1))
    return lambda x: entmax_bisect(x, alpha), (normal(1, 17),)


RECIPES = [
    Recipe("sparsemax", sparsemax),
    Recipe("sparsemax, dim=0, k=3", sparsemax_first_axis),
    Recipe("entmax15", entmax15),
    Recipe("entmax15, k=4", entmax15_top),
    Recipe("entmax_bisect, alpha too", entmax_bisect),
    Recipe("entmax_bisect, 17 logits", odd_alpha),
    Recipe("sparsemax_bisect", sparsemax_bisect),
    Recipe("normmax_bisect", normmax_bisect),
    Recipe("budget_bisect", budget_bisect),
    Recipe("sparsemax_loss", loss("sparsemax_loss")),
    Recipe("entmax15_loss", loss("entmax15_loss")),
    Recipe("sparsemax_bisect_loss", loss("sparsemax_bisect_loss")),
    Recipe("entmax_bisect_loss", entmax_bisect_loss),
]
