"""xitorch: implicit derivatives of linear systems, eigenvalues, roots, integrals and differential equations."""

import torch

from wild_recipes.recipe import SURROGATE, Recipe, between, leaf, normal

TRITON = False


def spread(count):
    return torch.diag(torch.arange(1.0, count + 1, dtype=torch.float64)) * 3


def solve(count, shifted=False, method=None):
    def make():
        import xitorch
        from xitorch.linalg import solve

        def run(a, b, *shift):
            return solve(xitorch.LinearOperator.m(a, is_hermitian=False), b, *shift, method=method)

        inputs = (leaf(normal(count, count) + spread(count)), normal(count, 2))
        return run, (*inputs, *([between(0.1, 0.5, 2)] if shifted else []))

    return make


def eigenvalues(count, wanted, method=None, vectors=False):
    def make():
        import xitorch
        from xitorch.linalg import symeig

        def run(a):
            symmetric = (a + a.transpose(-2, -1)) / 2
            values, found = symeig(xitorch.LinearOperator.m(symmetric, is_hermitian=True), wanted, method=method)
            return (values, found**2) if vectors else values

        return run, (leaf(normal(count, count) + spread(count)),)

    return make


def degenerate():
    from xitorch._impls.linalg.symeig import degen_symeig

    def run(a):
        values, vectors = degen_symeig.apply((a + a.transpose(-2, -1)) / 2)
        return values, vectors**2

    return run, (leaf(normal(4, 4) + spread(4)),)


def root(method=None):
    def make():
        from xitorch.optimize import rootfinder

        def residual(y, a):
            return torch.tanh(a @ y + 0.1) + y / 2.0

        def run(a):
            return rootfinder(residual, torch.zeros(3, 1, dtype=torch.float64), params=(a,), method=method, f_tol=1e-13)

        return run, (normal(3, 3),)

    return make


def equilibrium():
    from xitorch.optimize import equilibrium

    def run(a, b):
        start = torch.zeros(4, dtype=torch.float64)
        return equilibrium(lambda y, a, b: torch.tanh(0.3 * a @ y + b), start, params=(a, b), f_tol=1e-13)

    return run, (normal(4, 4), normal(4))


def minimum():
    from xitorch.optimize import minimize

    def run(a):
        start = torch.ones(3, dtype=torch.float64)
        return minimize(lambda y, a: ((y**2 + a) ** 2 / 4 + (y - a) ** 2).sum(), start, params=(a,), f_tol=1e-13)

    return run, (between(0.5, 1.5, 3),)


def quadrature():
    from xitorch.integrate import quad

    def run(low, high, rate):
        return quad(lambda x, rate: torch.exp(-rate * x**2), low, high, params=(rate,))

    return run, (between(-1.0, 0.0, 1), between(0.1, 1.0, 1), between(0.5, 1.5, 3))


def equation(method, **tolerances):
    def make():
        from xitorch.integrate import solve_ivp

        def run(times, start, rate):
            return solve_ivp(slope, times, start, params=(rate,), method=method, **tolerances)

        def slope(t, y, rate):
            return torch.sin(t) - rate * y

        times = torch.linspace(0.0, 1.0, 6, dtype=torch.float64).requires_grad_()
        return run, (times, normal(3), between(0.5, 1.5, 3))

    return make


RECIPES = [
    Recipe("solve", solve(4)),
    Recipe("solve, one equation", solve(1)),
    Recipe("solve, shifted", solve(3, shifted=True)),
    Recipe("solve, BiCGSTAB", solve(4, method="bicgstab")),
    Recipe("symeig, all values", eigenvalues(4, None)),
    Recipe("symeig, two values and their vectors", eigenvalues(5, 2, vectors=True)),
    Recipe("symeig, Davidson", eigenvalues(7, 2, method="davidson")),
    Recipe("degen_symeig", degenerate),
    Recipe("rootfinder", root()),
    Recipe("rootfinder, linear mixing", root("linearmixing")),
    Recipe("equilibrium", equilibrium),
    Recipe("minimize", minimum, options={"precision": 1e-10}),  # how near to the minimum its solver stops
    Recipe("quad", quadrature),
    Recipe("solve_ivp, rk4", equation("rk4"), SURROGATE, "the adjoint equation is solved by steps of its own"),
    Recipe("solve_ivp, rk45", equation("rk45", rtol=1e-11, atol=1e-12)),
]
