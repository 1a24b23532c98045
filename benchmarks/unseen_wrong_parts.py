"""Wrong backwards of scans, sparse products, attention and signal code, written to try causes unseen.

The third set that was written before anybody had looked at how causes are found. What may be said of each is in
`unseen_causes_of_parts.py`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from unseen_causes_of_parts import TRUE_CAUSES
from wrong_functions import Case, Maker, custom, matrix, normal

UNSEEN_PARTS: dict[str, Maker] = {}


def bug(maker: Maker) -> Maker:
    UNSEEN_PARTS[maker.__name__] = lambda size, rng: maker(size, rng)._replace(causes=TRUE_CAUSES[maker.__name__])
    return maker


def positive(rng: torch.Generator, *shape: int) -> Tensor:
    return (torch.rand(*shape, generator=rng, dtype=torch.float64) + 0.5).requires_grad_()


# scans


@bug
def decay_times_the_state_after(size: int, rng: torch.Generator) -> Case:
    """h_t = a_t h_(t-1) + b_t: the gradient of a_t takes h_t for h_(t-1)."""
    steps = 6
    width = max(2, size // (2 * steps))

    def states(a: Tensor, b: Tensor) -> Tensor:
        rows = [b[0]]
        for t in range(1, steps):
            rows.append(a[t] * rows[-1] + b[t])
        return torch.stack(rows)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        carried = [g[-1]]
        for t in range(steps - 2, -1, -1):
            carried.append(g[t] + a[t + 1] * carried[-1])
        db = torch.stack(carried[::-1])
        da = db * y
        da[0] = 0
        return da, db

    return Case(custom(states, backward), (positive(rng, steps, width), normal(rng, steps, width)), (0,), ())


@bug
def packed_sequences_run_together(size: int, rng: torch.Generator) -> Case:
    """Sums along three sequences in one array; the backward sums from the end of the last."""
    size = max(12, size)
    bounds = [0, size // 4, size // 2, size]

    def forward(x: Tensor) -> Tensor:
        return torch.cat([x[a:b].cumsum(0) for a, b in itertools.pairwise(bounds)])

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g.flip(0).cumsum(0).flip(0)

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def filtered_for_smoothed(size: int, rng: torch.Generator) -> Case:
    """The likelihood of a hidden Markov chain; the gradient has what was known at each step, not afterwards."""
    states = 3
    steps = max(4, size // states)
    transition = torch.randn(states, states, generator=rng, dtype=torch.float64).log_softmax(1)

    def alphas(x: Tensor) -> Tensor:
        rows = [x[0]]
        for t in range(1, len(x)):
            rows.append(x[t] + (rows[-1][:, None] + transition).logsumexp(0))
        return torch.stack(rows)

    def forward(x: Tensor) -> Tensor:
        chunks = x.split(8) if len(x) > 8 else (x,)
        return torch.stack([alphas(chunk)[-1].logsumexp(0) for chunk in chunks])

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        chunks = x.split(8) if len(x) > 8 else (x,)
        return torch.cat([g[k] * alphas(chunk).softmax(1) for k, chunk in enumerate(chunks)])

    return Case(custom(forward, backward), (normal(rng, min(steps, 2_000), states),), (0,), ())


# sparse


@bug
def values_with_the_row_of_the_column(size: int, rng: torch.Generator) -> Case:
    """A sparse matrix times a dense one: the gradient of the values takes row i of the dense one for row j."""
    rows = max(4, math.isqrt(size))
    entries = max(8, size // 2)
    i = torch.randint(0, rows, (entries,), generator=rng)
    j = torch.randint(0, rows, (entries,), generator=rng)

    def forward(values: Tensor, dense: Tensor) -> Tensor:
        return torch.zeros(rows, dense.shape[1], dtype=dense.dtype).index_add(0, i, values[:, None] * dense[j])

    def backward(g: Tensor, y: Tensor, values: Tensor, dense: Tensor) -> Any:
        return (g[i] * dense[i]).sum(1), torch.zeros_like(dense).index_add(0, j, values[:, None] * g[i])

    return Case(custom(forward, backward), (normal(rng, entries), normal(rng, rows, 4)), (0,), ())


@bug
def last_row_of_the_pointers(size: int, rng: torch.Generator) -> Case:
    """CSR times a vector: the loop of the backward ends one row early."""
    rows = max(4, size // 4)
    entries = 3 * rows
    row = torch.arange(rows).repeat_interleave(3)
    column = torch.randint(0, rows, (entries,), generator=rng)

    def forward(values: Tensor, x: Tensor) -> Tensor:
        return torch.zeros(rows, dtype=x.dtype).index_add(0, row, values * x[column])

    def backward(g: Tensor, y: Tensor, values: Tensor, x: Tensor) -> Any:
        seen = row < rows - 1
        return g[row] * x[column] * seen, torch.zeros_like(x).index_add(0, column, g[row] * values)

    return Case(custom(forward, backward), (normal(rng, entries), normal(rng, rows)), (0,), ())


@bug
def largest_of_segment_to_all(size: int, rng: torch.Generator) -> Case:
    """The largest of each segment; every member of it gets the gradient."""
    segments = max(3, size // 4)
    segment = torch.arange(4 * segments) // 4

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[segment]

    return Case(custom(lambda x: x.view(-1, 4).amax(1), backward), (normal(rng, 4 * segments),), (0,), ())


# convolution


@bug
def dilation_forgotten(size: int, rng: torch.Generator) -> Case:
    size = max(12, size)
    kernel = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)

    def forward(x: Tensor) -> Tensor:
        return functional.conv1d(x[None, None], kernel[None, None], padding=2, dilation=2)[0, 0]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return functional.conv_transpose1d(g[None, None], kernel[None, None], padding=1)[0, 0]

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def stride_forgotten(size: int, rng: torch.Generator) -> Case:
    """Every second place is convolved; the gradients are written side by side at the front."""
    size = 2 * max(8, size // 2)
    kernel = torch.tensor([0.5, 2.0], dtype=torch.float64)

    def forward(x: Tensor) -> Tensor:
        return functional.conv1d(x[None, None], kernel[None, None], stride=2)[0, 0]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        close = functional.conv_transpose1d(g[None, None], kernel[None, None])[0, 0]
        return functional.pad(close, (0, len(x) - len(close)))

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def causal_padding_not_removed(size: int, rng: torch.Generator) -> Case:
    """A causal convolution; the padded gradient is cut at the wrong end."""
    size = max(10, size)
    kernel = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)

    def forward(x: Tensor) -> Tensor:
        return functional.conv1d(functional.pad(x, (3, 0))[None, None], kernel[None, None])[0, 0]

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return functional.conv_transpose1d(g[None, None], kernel[None, None])[0, 0][: len(x)]

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


@bug
def weight_of_the_first_group(size: int, rng: torch.Generator) -> Case:
    """A grouped 1x1 convolution: each group's weight gets the gradient that the first group's has."""
    groups, inside = 3, 2
    places = max(4, size // (groups * inside))

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return torch.einsum("gip,goi->gop", x, w)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        first = torch.einsum("op,ip->oi", g[0], x[0])
        return torch.einsum("gop,goi->gip", g, w), first.expand_as(w).contiguous()

    return Case(
        custom(forward, backward), (normal(rng, groups, inside, places), normal(rng, groups, 2, inside)), (1,), ()
    )


@bug
def circular_border_as_zeros(size: int, rng: torch.Generator) -> Case:
    size = max(10, size)
    kernel = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)

    def forward(x: Tensor) -> Tensor:
        return kernel[0] * x.roll(1) + kernel[1] * x + kernel[2] * x.roll(-1)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        padded = functional.pad(g, (1, 1))
        return kernel[0] * padded[2:] + kernel[1] * g + kernel[2] * padded[:-2]

    return Case(custom(forward, backward), (normal(rng, size),), (0,), ())


# attention


def _heads(size: int, rng: torch.Generator) -> tuple[Tensor, ...]:
    tokens = max(4, min(64, math.isqrt(size // 2)))
    width = max(2, min(256, size // (3 * tokens)))
    return tuple(normal(rng, tokens, width) for _ in range(3))


@bug
def cap_of_the_scores_forgotten(size: int, rng: torch.Generator) -> Case:
    """Scores pass through cap·tanh(s / cap); the backward goes past it. The gradient of the values is right."""

    def scores(q: Tensor, k: Tensor) -> Tensor:
        return 2 * torch.tanh(q @ k.T / math.sqrt(q.shape[1]) / 2)

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scores(q, k).softmax(1) @ v

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        p = scores(q, k).softmax(1)
        dp = g @ v.T
        ds = p * (dp - (dp * p).sum(1, keepdim=True)) / math.sqrt(q.shape[1])
        return ds @ k, ds.T @ q, p.T @ g

    return Case(custom(forward, backward), _heads(size, rng), (0, 1), ())


@bug
def tiles_normalised_one_by_one(size: int, rng: torch.Generator) -> Case:
    """Probabilities of the backward are made of the sum of their own tile of keys, not of all."""

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.T / math.sqrt(q.shape[1])).softmax(1) @ v

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
        s = q @ k.T / math.sqrt(q.shape[1])
        half = s.shape[1] // 2
        p = torch.cat([s[:, :half].softmax(1), s[:, half:].softmax(1)], 1)
        right = s.softmax(1)
        dp = g @ v.T
        ds = right * (dp - (dp * right).sum(1, keepdim=True)) / math.sqrt(q.shape[1])
        return ds @ k, ds.T @ q, p.T @ g

    return Case(custom(forward, backward), _heads(size, rng), (2,), ())


@bug
def shared_keys_interleaved(size: int, rng: torch.Generator) -> Case:
    """Two key heads for four query heads: repeated as a whole forwards, each by itself backwards."""
    width = max(3, size // 6)

    def forward(q: Tensor, k: Tensor) -> Tensor:
        return q * k.repeat(2, 1)

    def backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor) -> Any:
        return g * k.repeat(2, 1), (g * q).view(2, 2, -1).sum(1)

    return Case(custom(forward, backward), (normal(rng, 4, width), normal(rng, 2, width)), (1,), ())


@bug
def position_bias_of_the_first_row(size: int, rng: torch.Generator) -> Case:
    """A bias for each distance of two positions; the gradient is read off the first row and the first column."""
    n = max(4, min(300, math.isqrt(size)))
    distance = torch.arange(n)[:, None] - torch.arange(n)[None, :] + n - 1

    def backward(g: Tensor, y: Tensor, s: Tensor, bias: Tensor) -> Any:
        return g, torch.cat([g[0].flip(0), g[1:, 0]])

    forward = lambda s, bias: s + bias[distance]  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, n, n), normal(rng, 2 * n - 1)), (1,), ())


@bug
def rotary_pairs_of_neighbours(size: int, rng: torch.Generator) -> Case:
    """Element i is rotated with i + d/2 forwards, with its neighbour backwards."""
    width = 8
    rows = max(3, size // width)
    angle = torch.rand(rows, width // 2, generator=rng, dtype=torch.float64) * 3
    cos, sin = angle.cos(), angle.sin()

    def forward(x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], 1)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        a, b = g[:, 0::2], g[:, 1::2]
        return torch.stack([a * cos + b * sin, b * cos - a * sin], 2).flatten(1)

    return Case(custom(forward, backward), (normal(rng, rows, width),), (0,), ())


# norms and reductions


@bug
def reduced_over_the_first_lanes(size: int, rng: torch.Generator) -> Case:
    """The sum in a softmax's backward runs over the first four columns only."""
    rows, columns = matrix(size)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return y * (g - (g * y)[:, :4].sum(1, keepdim=True))

    return Case(custom(lambda x: x.softmax(1), backward), (normal(rng, rows, max(6, columns)),), (0,), ())


@bug
def partial_sums_of_whole_blocks(size: int, rng: torch.Generator) -> Case:
    """The gradient of a scale is summed in blocks of four rows; rows of the last, partial block are lost."""
    rows, columns = matrix(size)
    rows = 4 * max(1, rows // 4) + 2

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        whole = rows // 4 * 4
        return g * w, (g * x)[:whole].sum(0)

    return Case(custom(lambda x, w: x * w, backward), (normal(rng, rows, columns), normal(rng, columns)), (1,), ())


@bug
def largest_taken_for_a_constant(size: int, rng: torch.Generator) -> Case:
    """Rows divided by their largest element, whose own gradient is forgotten."""

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g / x.amax(1, keepdim=True)

    return Case(custom(lambda x: x / x.amax(1, keepdim=True), backward), (positive(rng, *matrix(size)),), (0,), ())


@bug
def residual_forgotten(size: int, rng: torch.Generator) -> Case:
    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * (1 - x.tanh().square())

    return Case(custom(lambda x: x + x.tanh(), backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def block_scale_of_the_first_block(size: int, rng: torch.Generator) -> Case:
    """Numbers with a scale for each block of four; the backward multiplies all of them by the first scale."""
    blocks = max(3, size // 4)
    scale = torch.rand(blocks, generator=rng, dtype=torch.float64) + 0.5

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * scale[0]

    return Case(custom(lambda x: x * scale.repeat_interleave(4), backward), (normal(rng, 4 * blocks),), (0,), ())


@bug
def zero_point_forgotten(size: int, rng: torch.Generator) -> Case:
    """(q - 7)·scale: the gradient of the scale is that of q·scale."""
    rows, columns = matrix(size)
    q = torch.randint(0, 16, (rows, columns), generator=rng).double()

    def backward(g: Tensor, y: Tensor, scale: Tensor) -> Any:
        return (g * q).sum(1)

    return Case(custom(lambda s: (q - 7) * s[:, None], backward), (positive(rng, rows),), (0,), ())


# activations and losses


@bug
def steepness_forgotten_inside(size: int, rng: torch.Generator) -> Case:
    """softplus(3x)/3, whose derivative is taken for sigmoid(x)."""

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * x.sigmoid()

    return Case(custom(lambda x: functional.softplus(x, 3), backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def alpha_forgotten_below_zero(size: int, rng: torch.Generator) -> Case:
    """elu with alpha = 1.7: exp(x) below 0, without alpha."""

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.where(x > 0, g, g * x.exp())

    return Case(custom(lambda x: functional.elu(x, 1.7), backward), (normal(rng, *matrix(size)),), (0,), ())


@bug
def slope_counts_positive_inputs(size: int, rng: torch.Generator) -> Case:
    """A slope for each channel below zero; its gradient is summed over all elements."""
    rows, columns = matrix(size)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor) -> Any:
        return torch.where(x > 0, g, g * w), (g * x).sum(0)

    forward = lambda x, w: torch.where(x > 0, x, w * x)  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, rows, columns), normal(rng, columns)), (1,), ())


@bug
def quantile_weights_exchanged(size: int, rng: torch.Generator) -> Case:
    """The pinball loss at 0.8, with 0.2 above and 0.8 below."""
    target = torch.randn(max(6, size), generator=rng, dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return torch.where(target > x, -0.2 * g, 0.8 * g)

    forward = lambda x: torch.where(target > x, 0.8 * (target - x), 0.2 * (x - target))  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, max(6, size)),), (0,), ())


@bug
def last_chunk_by_the_size_of_a_chunk(size: int, rng: torch.Generator) -> Case:
    """A mean of squares in chunks of rows; the last chunk is divided by its own number of rows."""
    rows, columns = matrix(size)
    rows = max(5, rows)
    tail = rows // 5

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        gradient = 2 * g * x / rows
        gradient[-tail:] *= rows / tail
        return gradient

    return Case(custom(lambda x: x.square().sum(1).mean(), backward), (normal(rng, rows, columns),), (0,), ())


@bug
def penalty_of_the_partition_forgotten(size: int, rng: torch.Generator) -> Case:
    """Cross entropy and a tenth of the square of the log partition; the gradient has the first."""
    rows, columns = matrix(size)
    target = torch.randint(0, columns, (rows,), generator=rng)

    def forward(x: Tensor) -> Tensor:
        lse = x.logsumexp(1)
        return lse - x.gather(1, target[:, None])[:, 0] + 0.1 * lse.square()

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g[:, None] * (x.softmax(1) - functional.one_hot(target, columns))

    return Case(custom(forward, backward), (normal(rng, rows, columns),), (0,), ())


# samplers


@bug
def deviation_not_through_the_exponential(size: int, rng: torch.Generator) -> Case:
    """mean + exp(s)·noise: the gradient of s has no exp(s)."""
    noise = torch.randn(max(4, size), generator=rng, dtype=torch.float64)

    def backward(g: Tensor, y: Tensor, m: Tensor, s: Tensor) -> Any:
        return g, g * noise

    n = max(4, size)
    return Case(custom(lambda m, s: m + s.exp() * noise, backward), (normal(rng, n), normal(rng, n)), (1,), ())


@bug
def mask_drawn_again(size: int, rng: torch.Generator) -> Case:
    """Dropout, whose backward draws a mask of its own."""
    n = max(12, size)
    first = (torch.rand(n, generator=rng) < 0.5).double() * 2
    again = (torch.rand(n, generator=rng) < 0.5).double() * 2

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g * again

    return Case(custom(lambda x: x * first, backward), (normal(rng, n),), (0,), ())


@bug
def coordinates_as_height_and_width(size: int, rng: torch.Generator) -> Case:
    """Points in a smooth field: the gradients of x and y are written as y and x."""
    n = max(4, size // 2)

    def backward(g: Tensor, y: Tensor, p: Tensor) -> Any:
        return torch.stack([2 * g * p[:, 1], 3 * g * p[:, 0].cos()], 1)

    forward = lambda p: 3 * p[:, 0].sin() + p[:, 1].square()  # noqa: E731
    return Case(custom(forward, backward), (normal(rng, n, 2),), (0,), ())


# signals, complex numbers, matrices


@bug
def first_coefficient_not_halved(size: int, rng: torch.Generator) -> Case:
    """A cosine transform of rows with unit columns; the backward forgets that the first has a norm of its own."""
    n = 8
    k, i = torch.arange(n, dtype=torch.float64)[:, None], torch.arange(n, dtype=torch.float64)[None]
    raw = math.sqrt(2 / n) * torch.cos(math.pi * (i + 0.5) * k / n)
    unit = raw.clone()
    unit[0] /= math.sqrt(2)

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return g @ raw

    return Case(custom(lambda x: x @ unit.T, backward), (normal(rng, max(3, size // n), n),), (0,), ())


@bug
def window_forgotten(size: int, rng: torch.Generator) -> Case:
    """Overlapping frames times a window; the frames are added up without it."""
    size = max(16, size // 4 * 4)
    window = torch.hann_window(8, periodic=False, dtype=torch.float64) + 0.1

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        frames = g.T[None]
        return functional.fold(frames, (1, size), (1, 8), stride=(1, 4))[0, 0, 0]

    return Case(custom(lambda x: x.unfold(0, 8, 4) * window, backward), (normal(rng, size),), (0,), ())


@bug
def divisor_not_conjugated(size: int, rng: torch.Generator) -> Case:
    """a / b of complex numbers: the gradient of b lacks the conjugate of 1/b."""
    n = max(3, size // 4)

    def backward(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return g / b.conj(), -g * y.conj() / b

    inputs = normal(rng, n, dtype=torch.complex128), normal(rng, n, dtype=torch.complex128)
    return Case(custom(lambda a, b: a / b, backward), inputs, (1,), ())


@bug
def angle_without_its_quarter_turn(size: int, rng: torch.Generator) -> Case:
    """r·exp(i·t): the gradient of t lacks the factor i."""
    n = max(3, size // 2)

    def backward(g: Tensor, y: Tensor, r: Tensor, t: Tensor) -> Any:
        return (g * (y / r).conj()).real, (g * y.conj()).real

    return Case(custom(lambda r, t: torch.polar(r, t), backward), (positive(rng, n), normal(rng, n)), (1,), ())


@bug
def off_diagonal_of_matrix_function_lost(size: int, rng: torch.Generator) -> Case:
    """exp of a symmetric matrix by its eigenvalues; the eigenvectors are taken for constant."""
    n = max(3, min(100, math.isqrt(size)))

    def parts(a: Tensor) -> tuple[Tensor, Tensor]:
        return torch.linalg.eigh((a + a.T) / 2)

    def forward(a: Tensor) -> Tensor:
        values, vectors = parts(a)
        return vectors * values.exp() @ vectors.T

    def backward(g: Tensor, y: Tensor, a: Tensor) -> Any:
        values, vectors = parts(a)
        inner = (vectors.T @ g @ vectors).diagonal() * values.exp()
        return vectors * inner @ vectors.T

    a = (torch.randn(n, n, generator=rng, dtype=torch.float64) / math.sqrt(n)).requires_grad_()
    return Case(custom(forward, backward), (a,), (0,), ())


@bug
def diagonal_of_cholesky_not_halved(size: int, rng: torch.Generator) -> Case:
    n = max(3, min(60, math.isqrt(size)))

    def forward(a: Tensor) -> Tensor:
        return torch.linalg.cholesky((a + a.T) / 2)

    def backward(g: Tensor, y: Tensor, a: Tensor) -> Any:
        inner = (y.T @ g).tril()
        back = torch.linalg.solve_triangular(y.T, inner, upper=True)
        back = torch.linalg.solve_triangular(y, back, upper=False, left=False)
        return (back + back.T) / 2

    b = torch.randn(n, n, generator=rng, dtype=torch.float64) / math.sqrt(n)
    return Case(custom(forward, backward), ((b @ b.T + torch.eye(n).double()).requires_grad_(),), (0,), ())


@bug
def outer_product_of_sums(size: int, rng: torch.Generator) -> Case:
    """A bilinear form of a batch: the weight's gradient multiplies sums over the batch, not each pair."""
    width = max(2, min(60, math.isqrt(size // 3)))
    batch = max(3, size // (4 * width))

    def forward(x: Tensor, w: Tensor, z: Tensor) -> Tensor:
        return ((x @ w) * z).sum(1)

    def backward(g: Tensor, y: Tensor, x: Tensor, w: Tensor, z: Tensor) -> Any:
        c = g[:, None]
        return c * (z @ w.T), x.sum(0)[:, None] * (c * z).sum(0), c * (x @ w)

    return Case(
        custom(forward, backward),
        (normal(rng, batch, width), normal(rng, width, width), normal(rng, batch, width)),
        (1,),
        (),
    )


@bug
def length_scale_of_a_kernel(size: int, rng: torch.Generator) -> Case:
    """exp(-d² / 2l²) for each feature map: the gradient of l has d² / l² for d² / l³."""
    rows, columns = matrix(size)
    d = torch.rand(rows, columns, generator=rng, dtype=torch.float64) + 0.2

    def backward(g: Tensor, y: Tensor, length: Tensor) -> Any:
        return (g * y * d.square()).sum(1) / length.square()

    forward = lambda s: (-d.square() / (2 * s.square())[:, None]).exp()  # noqa: E731
    return Case(custom(forward, backward), (positive(rng, rows),), (0,), ())


@bug
def inverted_sample_not_squared(size: int, rng: torch.Generator) -> Case:
    """-log(1 - u) / rate: the gradient of the rate is divided by it once."""
    n = max(4, size)
    u = torch.rand(n, generator=rng, dtype=torch.float64) * 0.9

    def backward(g: Tensor, y: Tensor, rate: Tensor) -> Any:
        return g * (1 - u).log() / rate

    return Case(custom(lambda rate: -(1 - u).log() / rate, backward), (positive(rng, n),), (0,), ())


@bug
def channels_last_written_as_first(size: int, rng: torch.Generator) -> Case:
    """The kernel of the backward writes (H, W, C) into memory that is read as (C, H, W)."""
    channels, height = 3, max(2, math.isqrt(size // 3))
    width = height + 1
    scale = torch.rand(channels, height, width, generator=rng, dtype=torch.float64) + 0.5

    def backward(g: Tensor, y: Tensor, x: Tensor) -> Any:
        return (g * scale).permute(1, 2, 0).reshape(channels, height, width)

    return Case(custom(lambda x: x * scale, backward), (normal(rng, channels, height, width),), (0,), ())
