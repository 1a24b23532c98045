"""Sparse inputs of every layout, and a function of them whose gradient can be wrong in one place or in its layout."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from functions import custom

LAYOUTS = {
    "coo": torch.sparse_coo,
    "csr": torch.sparse_csr,
    "csc": torch.sparse_csc,
    "bsr": torch.sparse_bsr,
    "bsc": torch.sparse_bsc,
}
COMPRESSED = [name for name in LAYOUTS if name != "coo"]
# Rows and columns differ, and one block of 2 x 2 holds nothing, so that every layout has holes.
DENSE = torch.tensor(
    [[1.5, 0, 0, 0, 2, 0], [0, 0.5, 0, 0, 0, 1], [0, 3, 0, 0, 0.25, 0], [4, 0, 0, 0, 0, 5]], dtype=torch.float64
)
with warnings.catch_warnings():  # what torch says once in each process: CSR is in beta, indices are not checked
    warnings.simplefilter("ignore")
    DENSE.to_sparse_csr()
    torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.long), torch.zeros(0), (1,))

STORED, HOLE = (2, 1), (1, 2)
"""An element that every layout stores, and one that none does."""


def as_layout(dense: torch.Tensor, layout: str, dense_dim: int = 0) -> torch.Tensor:
    if layout == "coo":
        return dense.to_sparse(dense.dim() - dense_dim)
    blocks = (2, 2) if layout.startswith("bs") else None
    return dense.to_sparse(layout=LAYOUTS[layout], blocksize=blocks, dense_dim=dense_dim)


def sparse(layout: str, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    values = DENSE.to(dtype) * (1 - 0.5j) if dtype.is_complex else DENSE.to(dtype)
    return as_layout(values, layout).requires_grad_()


def polynomial(
    *, wrong_at: tuple[int, ...] | None = None, gradient_as: Callable[[torch.Tensor, torch.Tensor], Any] | None = None
) -> Callable[..., Any]:
    """x*x + 3x of a sparse x, strided. The gradient may be wrong at one element; `gradient_as(gradient, x)` says how it
    is stored (default: strided)."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        dense = x.to_dense()
        return dense * dense + 3 * dense

    def backward(saved: Any, cotangent: torch.Tensor) -> Any:
        (x,) = saved
        gradient = (2 * x.to_dense() + 3).conj() * cotangent
        if wrong_at is not None:
            gradient[wrong_at] *= 1.25
        return gradient if gradient_as is None else gradient_as(gradient, x)

    return custom(forward, backward)


def on_its_pattern(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient.sparse_mask(x)


def in_another_layout(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient.to_sparse_csr() if x.layout is torch.sparse_coo else gradient.to_sparse_coo()
