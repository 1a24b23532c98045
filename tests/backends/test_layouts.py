"""Cotangents with the same values in other arrangements of memory."""

from __future__ import annotations

import pytest
import torch

from gradproof.backends.torch.layouts import arrange, possible
from gradproof.core.problem import Layout

SHAPES = [(3,), (2, 3), (2, 3, 4), (2, 3, 2, 2), (2, 3, 2, 2, 2)]
EVERY = [layout for layout in Layout if layout is not Layout.EXPANDED]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", EVERY)
def test_the_values_are_the_same(layout: Layout, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    assert torch.equal(arrange(tensor, layout), tensor)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_memory_is_arranged_as_its_name_says(shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape)
    constant = arrange(torch.full(shape, 2.5), Layout.EXPANDED)
    assert torch.equal(constant, torch.full(shape, 2.5))
    assert set(constant.stride()) == {0}
    sliced = arrange(tensor, Layout.SLICED)
    assert (sliced.storage_offset(), sliced.stride()[-1]) == (1, 2)
    assert arrange(tensor, Layout.TRANSPOSED).stride()[0] == 1
    assert arrange(tensor, Layout.CONTIGUOUS) is tensor


def test_channels_last_is_torchs_own() -> None:
    assert arrange(torch.rand(SHAPES[3]), Layout.CHANNELS_LAST).is_contiguous(memory_format=torch.channels_last)
    assert arrange(torch.rand(SHAPES[4]), Layout.CHANNELS_LAST).is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize(
    ("shape", "missing"),
    [
        ((), set(Layout)),
        ((1, 1), set(Layout)),
        ((0, 3), set(Layout)),
        ((3,), {Layout.TRANSPOSED, Layout.CHANNELS_LAST}),
        ((1, 3), {Layout.TRANSPOSED, Layout.CHANNELS_LAST}),
        ((2, 3), {Layout.CHANNELS_LAST}),
        ((2, 3, 2, 2), set()),
        ((2, 3, 2, 2, 2), set()),
    ],
)
def test_only_layouts_that_make_a_difference_are_possible(shape: tuple[int, ...], missing: set[Layout]) -> None:
    assert possible([torch.rand(shape)]) == set(Layout) - {Layout.CONTIGUOUS} - missing


def test_a_lone_element_stays_as_it_is() -> None:
    tensor = torch.rand(1)
    assert all(arrange(tensor, layout) is tensor for layout in Layout)
