"""vmap of flat lists of tensors, without what torch wraps around it.

For a function that takes microseconds, torch's own wrapping (nested containers, dimensions to be checked, a look for
whoever may be exporting) is most of a batch. Left out, a batch costs what the batched operators cost. There are two
vmaps: that of `torch.func`, which evaluations go through, and the older one behind `is_grads_batched`, which alone can
be carried through the autograd engine and through dual tensors.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

# None of what is used of these has types.
_torch: Any = torch
_functorch: Any = _torch._C._functorch


def vmap(
    function: Callable[..., Sequence[torch.Tensor]],
    arguments: Sequence[torch.Tensor],
    single: Collection[int] = (),
) -> list[torch.Tensor]:
    """The function of each row of the arguments, as rows; those whose numbers are in `single` are no rows.

    >>> x, y = torch.arange(3.0), torch.tensor(10.0)
    >>> vmap(lambda x, y: [x * y], [x, y], single={1})
    [tensor([ 0., 10., 20.])]
    """
    _load()
    size = next(len(argument) for k, argument in enumerate(arguments) if k not in single)
    level = _functorch._vmap_increment_nesting(size, "same")
    try:
        rows = [
            argument if k in single else _functorch._add_batch_dim(argument, 0, level)
            for k, argument in enumerate(arguments)
        ]
        return [_functorch._remove_batch_dim(output, level, size, 0) for output in function(*rows)]
    finally:
        _functorch._vmap_decrement_nesting()


def vmap_derivative(
    function: Callable[..., Sequence[torch.Tensor | None]], arguments: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """The same for a function that differentiates, with all arguments in rows. What is None stays None."""
    size = len(arguments[0])
    level = _torch._C._vmapmode_increment_nesting()
    try:
        rows = [_torch._add_batch_dim(argument, 0, level) for argument in arguments]
        outputs = function(*rows)
        return [None if o is None else _torch._remove_batch_dim(o, level, size, 0) for o in outputs]
    finally:
        _torch._C._vmapmode_decrement_nesting()


@functools.cache
def _load() -> None:
    """The first vmap of torch.func loads batching rules that are written in Python."""
    torch.func.vmap(torch.neg)(torch.zeros(1))


@contextmanager
def quiet_vmap() -> Generator[None]:
    """No warnings: that a fallback of vmap is slow is no news here, and those of the function come from plain calls."""
    with warnings.catch_warnings(action="ignore"):
        yield
