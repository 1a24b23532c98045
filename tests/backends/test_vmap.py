"""vmap without its wrapping does what torch's own does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import custom

from gradproof.backends.torch.derivative.vmap import map_rows, pull_rows, push_rows

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": lambda x, w: (x @ w,),
    "two outputs": lambda x, w: (x.sin(), (w * x[:, None]).sum(0)),
    "an output that is no row": lambda x, w: (x.cumsum(0), torch.ones(3)),
    "a rule written in Python": lambda x, w: (torch.nn.functional.glu(x, 0), torch.linalg.det(w)),
}


@pytest.mark.parametrize("single", [set[int](), {0}, {1}], ids=["both in rows", "first single", "second single"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_gives_what_torchs_own_gives(name: str, single: set[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(4,), (4, 4)]
    arguments = [
        torch.rand(shape if k in single else (5, *shape), generator=generator) for k, shape in enumerate(shapes)
    ]
    dims = tuple(None if k in single else 0 for k in range(2))
    expected = torch.func.vmap(FUNCTIONS[name], in_dims=dims)(*arguments)
    for ours, theirs in zip(map_rows(FUNCTIONS[name], arguments, single), expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs)


def test_random_numbers_are_the_same_in_each_row() -> None:
    (noise,) = map_rows(lambda x: [x * torch.rand(2)], [torch.ones(3, 2)])
    assert (noise == noise[0]).all()


def raising(*_: Any) -> Any:
    raise ArithmeticError("no")


@pytest.mark.parametrize("batch", [map_rows, push_rows])
def test_an_exception_leaves_no_level_of_batching_behind(batch: Callable[..., Any]) -> None:
    for _ in range(3):
        with pytest.raises(ArithmeticError):
            batch(raising, [torch.ones(3)])
    assert torch._C._functorch.maybe_current_level() is None
    assert torch._C._vmapmode_increment_nesting() == 1
    assert torch._C._vmapmode_decrement_nesting() == 0


def test_a_custom_function_without_a_rule_refuses() -> None:
    function = custom(torch.sin, lambda s, g: g * s[0].cos())
    with pytest.raises(RuntimeError, match="vmap"):
        map_rows(lambda x: [function(x)], [torch.ones(3, requires_grad=True)])


def test_derivatives_in_rows_are_those_of_is_grads_batched() -> None:
    x, unused = (torch.rand(4, requires_grad=True) for _ in range(2))
    y, cotangents = x.sin(), torch.rand(6, 4)
    expected, _ = torch.autograd.grad(
        y, (x, unused), cotangents, is_grads_batched=True, retain_graph=True, allow_unused=True
    )

    gradient, none = pull_rows([y], [x, unused], [cotangents])
    assert none is None
    assert gradient is not None
    torch.testing.assert_close(gradient, expected)
