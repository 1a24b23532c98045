"""torchdiffeq: solvers and their adjoints. Tolerances are tight, so that the adjoint is the derivative."""

import torch

from wild_recipes.recipe import SURROGATE, Recipe, leaf, normal

TRITON = False


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(0.3 * torch.randn(3, 3, dtype=torch.float64))

    def forward(self, t, y):
        return torch.tanh(y @ self.matrix) - 0.1 * t


def times(*values):
    return torch.tensor(values, dtype=torch.float64)


def solution(method, adjoint, of_times=False, at=(0.0, 0.37, 1.0), **options):
    def make():
        import torchdiffeq

        solve = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint
        field = Field()
        tight = {"rtol": 1e-9, "atol": 1e-11}

        def run(y, t, matrix):
            keep = {"adjoint_params": (matrix,), "adjoint_rtol": 1e-9, "adjoint_atol": 1e-11} if adjoint else {}
            rhs = torch.nn.Module()
            rhs.forward = lambda s, z: torch.tanh(z @ matrix) - 0.1 * s
            return solve(rhs, y, t, method=method, **tight, **keep, **options)

        t = times(*at)
        return run, (normal(2, 3), leaf(t) if of_times else t, leaf(field.matrix))

    return make


def event():
    from torchdiffeq import odeint_event

    def run(y):
        def stop(t, state):
            return state[0] - 0.2

        t, states = odeint_event(
            lambda t, state: -state, y, torch.zeros((), dtype=torch.float64), event_fn=stop, atol=1e-10, rtol=1e-10
        )
        return t, states[-1]

    return run, (torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True),)


def next_after():
    from torchdiffeq._impl.misc import _StitchGradient

    return lambda x: _StitchGradient.apply(x, x.detach().clone()), (normal(3),)


RECIPES = [
    Recipe("odeint dopri5", solution("dopri5", False), options={"rtol": 1e-5}),
    Recipe("odeint rk4", solution("rk4", False)),
    Recipe("odeint rk4, of the times", solution("rk4", False, True)),
    Recipe(
        "odeint rk4, step_size, a time on the grid",
        solution("rk4", False, True, (0.0, 0.5, 1.0), options={"step_size": 0.25}),
        "torchdiffeq-grid-points",
    ),
    Recipe("odeint midpoint", solution("midpoint", False)),
    Recipe("odeint explicit_adams", solution("explicit_adams", False)),
    Recipe("odeint_adjoint dopri5", solution("dopri5", True), options={"rtol": 1e-5}),
    Recipe("odeint_adjoint dopri5, of the times too", solution("dopri5", True, of_times=True), options={"rtol": 1e-5}),
    Recipe(
        "odeint_adjoint rk4, a step of 1/8",
        solution("rk4", True, options={"step_size": 0.125}),
        SURROGATE,
        "the continuous adjoint of a coarse grid",
    ),
    Recipe("odeint_event", event, options={"rtol": 1e-5}),
    Recipe("_StitchGradient", next_after),
]
