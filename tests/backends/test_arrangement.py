"""Cotangents with the same values in other memory layouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradproof.backends.torch.memory.arrangement import arrange, build_in, possible
from gradproof.backends.torch.tensors.coordinates import build
from gradproof.core.capabilities import MemoryLayout

SHAPES = [(3,), (2, 3), (2, 3, 4), (2, 3, 2, 2), (2, 3, 2, 2, 2)]
EVERY = [layout for layout in MemoryLayout if layout is not MemoryLayout.EXPANDED]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", EVERY)
def test_the_values_are_the_same(layout: MemoryLayout, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    assert torch.equal(arrange(tensor, layout), tensor)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (1,), *SHAPES])
@pytest.mark.parametrize("layout", EVERY)
def test_what_is_built_is_what_would_be_arranged(
    layout: MemoryLayout, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    like = torch.zeros(shape, dtype=dtype)
    coordinates = np.arange(1.0, 1.0 + like.numel())
    built, arranged = build_in(layout, coordinates, like), arrange(build(coordinates, like), layout)
    assert torch.equal(built, arranged)
    assert built.dtype is dtype
    assert (built.stride(), built.storage_offset()) == (arranged.stride(), arranged.storage_offset())
    built.fill_(7.0)
    assert coordinates.max(initial=0.0) == like.numel()


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_memory_is_arranged_as_its_name_says(shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape)
    constant = arrange(torch.full(shape, 2.5), MemoryLayout.EXPANDED)
    assert torch.equal(constant, torch.full(shape, 2.5))
    assert set(constant.stride()) == {0}
    sliced = arrange(tensor, MemoryLayout.SLICED)
    assert (sliced.storage_offset(), sliced.stride()[-1]) == (1, 1)
    assert sliced.stride()[-2] == shape[-1] + 2
    assert arrange(tensor, MemoryLayout.TRANSPOSED).stride()[0] == 1
    assert arrange(tensor, MemoryLayout.CONTIGUOUS) is tensor


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_of_one_row_a_slice_takes_every_other_element(shape: tuple[int, ...]) -> None:
    sliced = arrange(torch.rand(shape), MemoryLayout.SLICED)
    assert (sliced.storage_offset(), sliced.stride()[-1]) == (1, 2)


def test_channels_last_is_torchs_own() -> None:
    assert arrange(torch.rand(SHAPES[3]), MemoryLayout.CHANNELS_LAST).is_contiguous(memory_format=torch.channels_last)
    assert arrange(torch.rand(SHAPES[4]), MemoryLayout.CHANNELS_LAST).is_contiguous(
        memory_format=torch.channels_last_3d
    )


@pytest.mark.parametrize(
    ("shape", "missing"),
    [
        ((), set(MemoryLayout)),
        ((1, 1), set(MemoryLayout)),
        ((0, 3), set(MemoryLayout)),
        ((3,), {MemoryLayout.TRANSPOSED, MemoryLayout.CHANNELS_LAST}),
        ((1, 3), {MemoryLayout.TRANSPOSED, MemoryLayout.CHANNELS_LAST}),
        ((2, 3), {MemoryLayout.CHANNELS_LAST}),
        ((2, 3, 2, 2), set()),
        ((2, 3, 2, 2, 2), set()),
    ],
)
def test_only_layouts_that_make_a_difference_are_possible(shape: tuple[int, ...], missing: set[MemoryLayout]) -> None:
    assert possible([torch.rand(shape)]) == set(MemoryLayout) - {MemoryLayout.CONTIGUOUS} - missing


def test_a_lone_element_stays_as_it_is() -> None:
    tensor = torch.rand(1)
    assert all(arrange(tensor, layout) is tensor for layout in MemoryLayout)
