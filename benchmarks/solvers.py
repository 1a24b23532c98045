"""Solvers that stop at a tolerance, with implicit derivatives: functions of `certified_functions.py`."""

from __future__ import annotations

import math
from typing import Any

import torch

Tensor = torch.Tensor


class Root(torch.autograd.Function):
    """The square root by bisection of [0, 4] to a tolerance; the derivative is that of the root."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tolerance: float) -> Tensor:
        low, high = torch.zeros_like(x), torch.full_like(x, 4.0)
        while (high - low).max() > tolerance:
            middle = (low + high) / 2
            below = middle * middle < x
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        y = (low + high) / 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return cotangents[0] / (2 * y), None


class FixedPoint(torch.autograd.Function):
    """z = tanh(W z + x) by iteration, which stops at a tolerance; the derivative is the implicit one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, tolerance: float) -> Tensor:
        z, change = torch.zeros_like(x), math.inf
        while change > tolerance:
            following = torch.tanh(weight @ z + x)
            change, z = float((following - z).abs().max()), following
        ctx.save_for_backward(z, weight)
        return z

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        z, weight = ctx.saved_tensors
        slope = 1 - z * z
        matrix = torch.eye(len(z), dtype=z.dtype) - slope[:, None] * weight
        adjoint = slope * torch.linalg.solve(matrix.T, cotangents[0])
        return adjoint, torch.outer(adjoint, z), None


class ConjugateGradients(torch.autograd.Function):
    """A^-1 b by a few steps of conjugate gradients, to a tolerance of the residual."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, b: Tensor, tolerance: float) -> Tensor:
        x, r = torch.zeros_like(b), b.clone()
        p = r
        while r.norm() > tolerance * b.norm():
            product = matrix @ p
            step = r.dot(r) / p.dot(product)
            x, rest = x + step * p, r - step * product
            p, r = rest + rest.dot(rest) / r.dot(r) * p, rest
        ctx.save_for_backward(matrix, x)
        return x

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        matrix, x = ctx.saved_tensors
        adjoint = torch.linalg.solve(matrix.T, cotangents[0])
        return -torch.outer(adjoint, x), adjoint, None
