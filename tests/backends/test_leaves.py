"""Moving the user's own tensors, and putting them back bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from functions import numbers

from gradproof.backends.torch.tensors.coordinates import read
from gradproof.backends.torch.tensors.frames import input_frame
from gradproof.backends.torch.tensors.leaves import Leaf, make_leaf, move_together


def leaf_of(tensor: torch.Tensor) -> Leaf:
    frame = input_frame(tensor, masked=False)
    return make_leaf(tensor, 0, frame.block("input", 0, "", 0), frame)


def view_of(make: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return make(numbers(4, 6, dtype=dtype).detach()).requires_grad_()


class Tagged(torch.Tensor):
    pass


LEAVES: dict[str, Callable[[], torch.Tensor]] = {
    **{
        str(dtype): lambda dtype=dtype: numbers(3, 2, dtype=dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64)
    },
    "transposed": lambda: view_of(lambda t: t.mT),
    "sliced": lambda: view_of(lambda t: t[1:, ::2]),
    "sliced bfloat16": lambda: view_of(lambda t: t[1:, ::2], torch.bfloat16),
    "channels_last": lambda: numbers(2, 3, 4, 5).detach().to(memory_format=torch.channels_last).requires_grad_(),
    "conjugate": lambda: view_of(lambda t: t.conj(), torch.complex128),
    "negative": lambda: view_of(lambda t: t.conj().imag, torch.complex128),
    "0-d": lambda: numbers(),
    "empty": lambda: numbers(0, 3),
    "parameter": lambda: torch.nn.Parameter(numbers(3).detach()),
    "subclass": lambda: numbers(3).detach().as_subclass(Tagged).requires_grad_(),
    "special values": lambda: torch.tensor([0.0, -0.0, float("inf"), float("nan"), 5e-324]).double().requires_grad_(),
}


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.untyped_storage())


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_is_moved_in_place_and_put_back_bit_for_bit(name: str) -> None:
    tensor = LEAVES[name]()
    before, strides, version = raw(tensor), tensor.stride(), tensor._version
    leaf = leaf_of(tensor)
    np.testing.assert_array_equal(leaf.base, read(tensor))
    target = np.where(np.isfinite(leaf.base), 2 * leaf.base, 1.0)
    leaf.write(target)
    np.testing.assert_array_equal(read(tensor), target)
    leaf.restore()
    assert raw(tensor) == before
    assert tensor.stride() == strides
    assert tensor._version == version
    assert tensor.requires_grad


def test_the_memory_around_a_slice_is_left_alone() -> None:
    whole = torch.arange(8.0, dtype=torch.float64)
    leaf = leaf_of(whole[2:6:2].requires_grad_())
    leaf.write(np.array([-1.0, -2.0]))
    assert whole.tolist() == [0, 1, -1, 3, -2, 5, 6, 7]
    leaf.restore()
    assert whole.tolist() == list(range(8))


def test_moving_a_leaf_does_not_move_its_base() -> None:
    tensor = numbers(3)
    leaf = leaf_of(tensor)
    base = leaf.base.copy()
    leaf.write(base + 1)
    np.testing.assert_array_equal(leaf.base, base)


def test_an_mkldnn_leaf_has_a_stand_in_while_it_is_moved() -> None:
    tensor = torch.tensor([[1.0, 2.0]]).to_mkldnn().requires_grad_()
    leaf = leaf_of(tensor)
    leaf.write(np.array([5.0, 6.0]))
    assert leaf.moved is not None
    assert leaf.moved.layout == tensor.layout
    assert leaf.moved.to_dense().tolist() == [[5.0, 6.0]]
    assert tensor.to_dense().tolist() == [[1.0, 2.0]]
    leaf.restore()
    assert leaf.moved is None


def test_leaves_of_one_storage_are_known_to_share_it() -> None:
    x, y = numbers(4), numbers(4, seed=1)
    assert not move_together([leaf_of(x), leaf_of(y)])
    assert move_together([leaf_of(x), leaf_of(x)])
    assert move_together([leaf_of(x), leaf_of(y), leaf_of(x[1:])])
    assert not move_together([])


def test_a_long_leaf_steps_to_where_numpy_would_put_it() -> None:
    draw = np.random.default_rng(0)
    tensor = torch.from_numpy(draw.standard_normal(2**15 + 5)).requires_grad_()
    leaf, before = leaf_of(tensor), tensor.detach().numpy().copy()
    direction = np.ldexp(np.rint(draw.standard_normal(len(before)) * 2.0**10), -10)  # so short that steps are exact
    direction[::3] = 0.0
    version = tensor._version
    for step in (2.0**-8, -(2.0**-14)):
        leaf.step(direction, step)
        np.testing.assert_array_equal(tensor.detach().numpy(), before + step * direction)
    leaf.restore()
    np.testing.assert_array_equal(tensor.detach().numpy(), before)
    assert tensor._version == version
