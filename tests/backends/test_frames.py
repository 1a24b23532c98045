"""How tensors of any layout are seen as coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from functions import numbers
from sparse_functions import DENSE, HOLE, LAYOUTS, STORED, as_layout, sparse
from torch.masked import masked_tensor

from gradproof.backends.torch.tensors.frames import Frame, input_frame, output_frame, values_in_place, without_holes
from gradproof.core.space import Place, Space

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
both_masks = pytest.mark.parametrize("masked", [False, True])


def space(frame: Frame) -> Space:
    return Space((frame.block("input", 0, "", 0),))


def places(frame: Frame) -> list[Place]:
    whole = space(frame)
    return [whole.place(i) for i in range(whole.size)]


@every_layout
@both_masks
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_what_was_built_is_read_back(layout: str, masked: bool, dtype: torch.dtype) -> None:
    x = sparse(layout, dtype)
    frame = input_frame(x, masked)
    coordinates = np.random.default_rng(0).normal(size=space(frame).size)
    built = frame.build(coordinates)
    assert (built.layout, built.shape, built.dtype) == (x.layout, x.shape, x.dtype)
    assert np.array_equal(frame.read(built), coordinates)
    for place, value in zip(places(frame), coordinates, strict=True):
        element = built.to_dense()[place.element]
        assert value == (
            element.imag if place.part == "imaginary part" else element.real if dtype.is_complex else element
        )


@every_layout
def test_a_mask_leaves_the_specified_elements(layout: str) -> None:
    x = sparse(layout)
    under, without = places(input_frame(x, masked=True)), places(input_frame(x, masked=False))
    assert {place.remark for place in under} == {"specified"}
    assert HOLE not in {place.element for place in under}
    assert [place.element for place in without] == [(i, j) for i in range(4) for j in range(6)]
    remarks = {place.element: place.remark for place in without}
    assert (remarks[STORED], remarks[HOLE]) == ("specified", "unspecified")
    assert {place.element for place in under} == {e for e, remark in remarks.items() if remark == "specified"}


@every_layout
@both_masks
@pytest.mark.parametrize("other", [*LAYOUTS, "strided"])
def test_gradients_of_any_layout_and_pattern_are_read(layout: str, masked: bool, other: str) -> None:
    frame = input_frame(sparse(layout), masked)
    gradient = torch.arange(24.0, dtype=torch.float64).reshape(4, 6)
    gradient[STORED] = 0  # so that a sparse one does not store it
    stored = gradient if other == "strided" else as_layout(gradient, other)
    expected = [float(gradient[place.element]) for place in places(frame)]
    assert frame.read(stored).tolist() == expected


def test_what_an_output_stores_twice_is_one_coordinate_and_what_an_input_does_are_two() -> None:
    x = torch.sparse_coo_tensor(torch.tensor([[2, 2, 0]]), torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64), (3,))
    assert output_frame(x, masked=True).read(x).tolist() == [4, 3]
    assert [place.element for place in places(input_frame(x, masked=True))] == [(2,), (2,), (0,)]
    gradient = torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64)
    assert input_frame(x, masked=True).read(gradient).tolist() == [7, 7, 5]
    assert input_frame(x, masked=True).read(x).tolist() == [3, 3, 4]


@pytest.mark.parametrize(
    ("gradient", "flaw"),
    [
        (lambda g: g, None),
        (lambda g: g.to_sparse_csr(), None),
        (lambda g: g.to_sparse(), "layout"),
        (lambda g: g.to_sparse_csc(), "layout"),
        (lambda g: g.float(), "dtype"),
        (lambda g: g.to_sparse_csr().float(), "dtype"),
    ],
)
def test_a_gradient_may_be_strided_or_of_the_same_layout(gradient: Any, flaw: str | None) -> None:
    mismatch = input_frame(sparse("csr"), masked=True).mismatch(gradient(DENSE))
    if flaw is None:
        assert mismatch is None
    else:
        assert mismatch is not None
        wanted, got = mismatch
        aspects = [
            name for name in ("shape", "dtype", "layout", "device") if getattr(wanted, name) != getattr(got, name)
        ]
        assert aspects == [flaw]


def test_a_masked_tensor_is_read_and_built_where_its_mask_is_set() -> None:
    mask = torch.tensor([[True, False], [False, True]])
    x = masked_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64), mask)
    frame = input_frame(x, masked=False)
    assert frame.read(x).tolist() == [1, 4]
    assert [str(place) for place in places(frame)] == [
        "input 0, element [0, 0] (specified)",
        "input 0, element [1, 1] (specified)",
    ]
    built = frame.build(np.array([5.0, 6.0]))
    assert built.get_mask().tolist() == mask.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    assert frame.read(built).tolist() == [5, 6]
    half = masked_tensor(torch.ones(2, 2, dtype=torch.float64), torch.tensor([[True, True], [True, False]]))
    assert frame.read(half).tolist() == [1, 0]
    assert frame.read(torch.full((2, 2), 9.0)).tolist() == [9, 9]


@every_layout
def test_values_in_place_are_named_as_the_sparse_tensor_names_them(layout: str) -> None:
    x = sparse(layout)
    pattern, values = values_in_place(x)
    assert torch.equal(pattern.fill(values).to_dense(), DENSE)
    assert [str(p) for p in places(input_frame(values, False))] == [str(p) for p in places(input_frame(x, True))]


@every_layout
def test_a_tensor_without_holes_knows_which_elements_were_specified(layout: str) -> None:
    x = sparse(layout)
    whole = without_holes(x)
    assert torch.equal(whole.to_dense(), DENSE)
    expected = {place.element: place.remark for place in places(input_frame(x, masked=False))}
    assert {place.element: place.remark for place in places(input_frame(whole, masked=True))} == expected
    _, values = values_in_place(whole)
    assert {place.element: place.remark for place in places(input_frame(values, masked=True))} == expected


def test_strided_tensors_have_plain_names() -> None:
    assert [str(place) for place in places(input_frame(numbers(2), masked=True))] == [
        "input 0, element [0]",
        "input 0, element [1]",
    ]
