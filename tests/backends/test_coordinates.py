"""Between tensors and flat real coordinates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from functions import numbers

from gradproof.backends.torch.tensors.coordinates import build, build_batch, form, read, resolution
from gradproof.backends.torch.tensors.frames import Frame

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64]
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.mT,
    "sliced": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(3, -1),
    "0-d": lambda t: t[1, 2],
    "empty": lambda t: t[:0],
}


def listed(tensor: torch.Tensor) -> list[float]:
    """The coordinates by Python's own numbers."""
    flat = tensor.detach().reshape(-1).tolist()
    return [part for z in flat for part in (z.real, z.imag)] if tensor.is_complex() else flat


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reading_gives_every_element_in_order_as_float64(dtype: torch.dtype, view: str) -> None:
    tensor = VIEWS[view](numbers(4, 6, dtype=dtype))
    coordinates = read(tensor)
    assert coordinates.dtype == np.float64
    assert coordinates.tolist() == listed(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_channels_last_is_read_in_logical_order(dtype: torch.dtype) -> None:
    tensor = numbers(2, 3, 4, 5, dtype=dtype)
    assert read(tensor.to(memory_format=torch.channels_last)).tolist() == listed(tensor)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_building_undoes_reading(dtype: torch.dtype, view: str) -> None:
    tensor = VIEWS[view](numbers(4, 6, dtype=dtype))
    built = build(np.array(read(tensor)), tensor)
    assert (built.shape, built.dtype) == (tensor.shape, tensor.dtype)
    assert torch.equal(built, tensor)
    assert not built.requires_grad


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_batch_is_built_row_by_row(dtype: torch.dtype) -> None:
    like = numbers(2, 3, dtype=dtype)
    rows = np.stack([read(like), 2 * read(like)])
    batch = build_batch(rows, like)
    assert batch.shape == (2, 2, 3)
    assert torch.equal(batch[0], like)
    assert torch.equal(batch[1], 2 * like)


def test_what_is_built_shares_no_memory_with_the_coordinates() -> None:
    for dtype in DTYPES:
        like = numbers(3, dtype=dtype)
        coordinates = np.ones(3 * (1 + dtype.is_complex))
        build(coordinates, like).zero_()
        build_batch(coordinates[None], like).zero_()
        assert (coordinates == 1).all()


def test_lazy_conjugates_and_negations_are_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    assert z.conj().is_conj()
    assert read(z.conj()).tolist() == [1, -2, 3, 4]
    assert z.conj().imag.is_neg()
    assert read(z.conj().imag).tolist() == [-2, 4]


def test_a_zero_tensor_reads_as_zeros() -> None:
    zeros = torch._efficientzerotensor(3, dtype=torch.float64)
    assert zeros._is_zerotensor()
    assert read(zeros).tolist() == [0, 0, 0]


def test_other_layouts_are_read_densely() -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert read(dense.to_sparse()).tolist() == [0, 2, 3, 0]
    assert read(dense.to_mkldnn()).tolist() == [0, 2, 3, 0]


def test_the_form_is_in_torchs_words() -> None:
    shown = form(numbers(2, 3, dtype=torch.complex64))
    assert (shown.shape, shown.dtype, shown.layout, shown.device) == ((2, 3), "complex64", "strided", "cpu")


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 52), (torch.complex64, 23), (torch.bfloat16, 7)])
def test_resolution_is_the_spacing_of_the_parts(dtype: torch.dtype, digits: int) -> None:
    assert resolution(dtype) == 2.0**-digits


def test_a_complex_block_has_two_coordinates_an_element() -> None:
    made = Frame(numbers(2, 3, dtype=torch.complex64)).block("input", 3, "z", 10)
    assert (made.parts, made.start, made.stop, made.label) == (2, 10, 22, "input 3 `z`")
