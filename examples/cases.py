"""Cases for the command line.

gradproof check examples/cases.py
gradproof check examples/cases.py:CASES
gradproof check examples/cases.py:case_product --html report.html
"""

from __future__ import annotations

import torch


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def case_product():
    """A function that returns the function to check and its inputs."""
    return torch.matmul, (tensor(3, 4), tensor(4, 2, seed=1))


def case_layers():
    """A generator of cases."""
    for n in (1, 3):
        yield torch.nn.Linear(n, 2).double(), tensor(5, n)


CASES = {
    "sine": (torch.sin, tensor(5)),
    "softmax": (torch.softmax, tensor(3, 4), {"dim": -1}),
}
