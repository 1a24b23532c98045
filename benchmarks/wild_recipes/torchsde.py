"""torchsde: plain solvers, and the adjoint of reversible Heun, which promises the gradient of its discretisation."""

import torch

from wild_recipes.recipe import SURROGATE, Recipe, normal

TRITON = False


class Equation(torch.nn.Module):
    def __init__(self, noise_type, sde_type, rate):
        super().__init__()
        self.noise_type, self.sde_type, self.rate = noise_type, sde_type, rate

    def f(self, t, y):
        return torch.sin(self.rate * y)

    def g(self, t, y):
        noise = 0.5 * torch.cos(self.rate * y)
        return noise if self.noise_type == "diagonal" else noise.unsqueeze(-1).expand(*y.shape, 2)


def solution(method, dt, adjoint="", noise_type="diagonal", sde_type="stratonovich"):
    def make():
        import torchsde

        area = "space-time" if method == "srk" else "none"
        times = torch.tensor([0.0, 1.0], dtype=torch.float64)

        def run(y, rate):
            motion = torchsde.BrownianInterval(
                0.0, 1.0, size=(2, 2), dtype=torch.float64, entropy=3, levy_area_approximation=area
            )
            equation = Equation(noise_type, sde_type, rate)
            if not adjoint:
                return torchsde.sdeint(equation, y, times, bm=motion, dt=dt, method=method)
            return torchsde.sdeint_adjoint(
                equation, y, times, bm=motion, dt=dt, method=method, adjoint_method=adjoint, adjoint_params=(rate,)
            )

        return run, (normal(2, 2), torch.tensor(0.8, dtype=torch.float64, requires_grad=True))

    return make


ITO = {"sde_type": "ito"}
RECIPES = [
    Recipe("sdeint euler", solution("euler", 0.25, **ITO)),
    Recipe("sdeint milstein", solution("milstein", 0.25, **ITO), "torchsde-milstein-jvp"),
    Recipe("sdeint milstein, reverse mode", solution("milstein", 0.25, **ITO), options={"modes": "reverse"}),
    Recipe("sdeint srk", solution("srk", 0.25, **ITO)),
    Recipe("sdeint heun", solution("heun", 0.25)),
    Recipe("sdeint midpoint, general noise", solution("midpoint", 0.25, noise_type="general")),
    Recipe("sdeint reversible_heun", solution("reversible_heun", 0.125)),
    Recipe("sdeint_adjoint reversible_heun, dt = 1/8", solution("reversible_heun", 0.125, "adjoint_reversible_heun")),
    Recipe(
        "sdeint_adjoint reversible_heun, general noise",
        solution("reversible_heun", 0.25, "adjoint_reversible_heun", "general"),
    ),
    Recipe(
        "sdeint_adjoint reversible_heun, dt = 0.1",
        solution("reversible_heun", 0.1, "adjoint_reversible_heun"),
        "torchsde-reversible-heun",
    ),
    Recipe(
        "sdeint_adjoint midpoint, dt = 1/8",
        solution("midpoint", 0.125, "midpoint"),
        SURROGATE,
        "the continuous adjoint of a coarse grid",
    ),
]
