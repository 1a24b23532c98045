"""Wrong backwards of lookups, transforms, solvers and scans, written to try causes unseen."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from unseen_causes import TRUE_CAUSES
from wrong_functions import Case, Maker, custom, matrix, normal

UNSEEN_KERNELS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    UNSEEN_KERNELS[maker.__name__] = lambda size, rng: maker(size, rng)._replace(causes=TRUE_CAUSES[maker.__name__])
    return maker


# lookups


@bug
def scatter_not_gathered(size: int, rng: torch.Generator) -> Case:
    size = max(8, size)
    index = torch.randint(0, size, (size,), generator=rng)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * x.cos()

    forward = lambda x: torch.zeros_like(x).index_add(0, index, x.sin())  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def largest_few_at_the_front(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return functional.pad(g, (0, x.shape[1] - g.shape[1]))

    return Case(custom(lambda x: x.topk(2, 1).values, backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def bag_not_divided(size: int, rng: torch.Generator) -> Case:
    rows, width = max(6, size // 4), 4
    bags = torch.randint(0, rows, (rows, 3), generator=rng)

    def backward(g: Tensor, y: Tensor, w: Tensor) -> Any:
        return torch.zeros_like(w).index_add(0, bags.reshape(-1), g.repeat_interleave(3, 0))

    return Case(custom(lambda w: w[bags].mean(1), backward), (normal(rng, rows, width),), (0,), ())


@bug
def segments_summed_as_one(size: int, rng: torch.Generator) -> Case:
    size = max(9, size)
    segment = torch.arange(size) * 3 // size

    def forward(x: Tensor) -> Tensor:
        total = torch.zeros(3, dtype=x.dtype).index_add(0, segment, x.exp())
        return x.exp() / total[segment]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return y * (g - (g * y).sum())

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def padded_row_gets_a_gradient(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)
    index = torch.randint(0, rows, (2 * rows,), generator=rng)
    index[:2] = 0

    def forward(w: Tensor) -> Tensor:
        return w[index] * (index != 0)[:, None]

    def backward(g: Tensor, y: Tensor, w: Tensor) -> Any:
        return torch.zeros_like(w).index_add(0, index, g)

    return Case(custom(forward, backward), (normal(rng, rows, columns),), (0,), ())


# interpolation


@bug
def weights_of_neighbours_exchanged(size: int, rng: torch.Generator) -> Case:
    size = max(8, size)
    at = torch.rand(size, generator=rng, dtype=torch.float64) * (size - 1.001)
    low, part = at.floor().long(), at - at.floor()

    def backward(g: Tensor, y: Tensor, t: Tensor) -> Any:
        return torch.zeros_like(t).index_add(0, low, g * part).index_add(0, low + 1, g * (1 - part))

    forward = lambda t: t[low] * (1 - part) + t[low + 1] * part  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def spacing_of_table_forgotten(size: int, rng: torch.Generator) -> Case:
    table = torch.randn(17, generator=rng, dtype=torch.float64)

    def forward(x: Tensor) -> Tensor:
        at = (x * 16).clamp(0, 15.999)
        low = at.detach().floor().long()
        return table[low] + (at - low) * (table[low + 1] - table[low])

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        low = (x * 16).clamp(0, 15.999).floor().long()
        return g * (table[low + 1] - table[low])

    x = (torch.rand(size, generator=rng, dtype=torch.float64) * 0.98 + 0.01).requires_grad_()
    return Case(custom(forward, backward), (x,), (0,), ())


@bug
def border_sample_not_stopped(size: int, rng: torch.Generator) -> Case:
    size = max(16, size)
    slope = torch.linspace(1, 2, size, dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * slope

    return Case(custom(lambda x: slope * x.clamp(-1, 1), backward), (normal(rng, size),), (0,), ())


@bug
def downsampled_rows_only(size: int, rng: torch.Generator) -> Case:
    height = max(2, math.isqrt(size // 4))
    width = max(3, size // (4 * height))

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g.repeat_interleave(2, 0).repeat_interleave(2, 1) / 2

    forward = lambda x: functional.avg_pool2d(x[None, None], 2)[0, 0]  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, 2 * height, 2 * width),), (0,), ())


# transforms


@bug
def real_transform_counted_once(size: int, rng: torch.Generator) -> Case:
    rows, columns = matrix(size)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.fft.irfft(g, columns, dim=1) * columns

    return Case(custom(lambda x: torch.fft.rfft(x, dim=1), backward), (normal(rng, rows, columns),), (0,), ())


@bug
def shift_of_frequencies_repeated(size: int, rng: torch.Generator) -> Case:
    size = max(9, size // 2 * 2 + 1)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.fft.fftshift(g)

    return Case(custom(lambda x: torch.fft.fftshift(x), backward), (normal(rng, size),), (0,), ())


@bug
def circular_convolution_not_conjugated(size: int, rng: torch.Generator) -> Case:
    half = max(6, min(size // 2, 4000))

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(w), half)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        s = torch.fft.rfft(g)
        return torch.fft.irfft(s * torch.fft.rfft(w), half), torch.fft.irfft(s * torch.fft.rfft(x).conj(), half)

    return Case(custom(forward, backward), (normal(rng, half), normal(rng, half)), (0,), ())


# solvers


def _systems(size: int, rng: torch.Generator) -> Tensor:
    side = max(3, min(12, math.isqrt(size)))
    batch = max(1, size // (side * side + side))
    eye = torch.eye(side, dtype=torch.float64)
    return (torch.randn(batch, side, side, generator=rng, dtype=torch.float64) / side + eye).requires_grad_()


@bug
def solved_with_the_matrix_itself(size: int, rng: torch.Generator) -> Case:
    a = _systems(size, rng)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        db = torch.linalg.solve(a.mT, g)
        return -db[..., :, None] * y[..., None, :], torch.linalg.solve(a, g)

    return Case(custom(torch.linalg.solve, backward), (a, normal(rng, *a.shape[:2])), (1,), ())


@bug
def outer_product_of_a_solution_turned(size: int, rng: torch.Generator) -> Case:
    a = _systems(size, rng)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        db = torch.linalg.solve(a.mT, g)
        return -y[..., :, None] * db[..., None, :], db

    return Case(custom(torch.linalg.solve, backward), (a, normal(rng, *a.shape[:2])), (0,), ())


@bug
def determinant_factor_forgotten(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, a: Tensor) -> Any:
        return g[:, None, None] * torch.linalg.inv(a).mT

    return Case(custom(torch.linalg.det, backward), (_systems(size, rng),), (0,), ())


@bug
def log_determinant_inverse_not_turned(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, a: Tensor) -> Any:
        return g[:, None, None] * torch.linalg.inv(a)

    return Case(custom(lambda a: torch.linalg.slogdet(a)[1], backward), (_systems(size, rng),), (0,), ())


@bug
def fixed_point_one_step_only(size: int, rng: torch.Generator) -> Case:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for _ in range(60):
            y = torch.tanh(x + 0.5 * w * y)
        return y

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        d = 1 - y * y
        return g * d, g * d * 0.5 * y / (1 - 0.5 * w * d)

    half = max(5, size // 2)
    w = torch.rand(half, generator=rng, dtype=torch.float64).requires_grad_()
    return Case(custom(forward, backward), (normal(rng, half), w), (0,), ())


@bug
def triangular_gradient_is_full(size: int, rng: torch.Generator) -> Case:
    a = _systems(size, rng)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(a.tril(), b, upper=False)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        db = torch.linalg.solve_triangular(a.tril().mT, g, upper=True)
        return -db @ y.mT, db

    return Case(custom(forward, backward), (a, normal(rng, *a.shape[:2], 1)), (0,), ())


# scans


@bug
def running_maximum_of_the_end(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.zeros_like(x).scatter_(1, x.argmax(1, keepdim=True), g.sum(1, keepdim=True))

    return Case(custom(lambda x: x.cummax(1).values, backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def exclusive_sum_made_inclusive(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g.flip(1).cumsum(1).flip(1)

    return Case(custom(lambda x: x.cumsum(1) - x, backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def moving_average_without_its_memory(size: int, rng: torch.Generator) -> Case:
    rows, columns = 6, max(4, size // 6)

    def forward(x: Tensor) -> Tensor:
        h, states = torch.zeros_like(x[0]), []
        for t in range(rows):
            h = 0.8 * h + 0.2 * x[t]
            states.append(h)
        return torch.stack(states)

    return Case(custom(forward, lambda g, y, x: 0.2 * g), (normal(rng, rows, columns),), (0,), ())


@bug
def discounted_sum_forwards(size: int, rng: torch.Generator) -> Case:
    steps, width = 6, max(4, size // 6)

    def scan(x: Tensor) -> Tensor:
        total, states = torch.zeros_like(x[0]), []
        for t in reversed(range(steps)):
            total = x[t] + 0.9 * total
            states.append(total)
        return torch.stack(states[::-1])

    return Case(custom(scan, lambda g, y, x: scan(g)), (normal(rng, steps, width),), (0,), ())
