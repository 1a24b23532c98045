"""A sparse tensor as a pattern and its values: whatever the layout, every stored number knows its element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sparse_functions import COMPRESSED, DENSE, LAYOUTS, as_layout, sparse

from gradproof.backends.torch.tensors.sparse import Pattern, gather, is_sparse, layout_name, look_up, scatter, values_of

TENSORS: dict[str, torch.Tensor] = {layout: sparse(layout) for layout in LAYOUTS}
TENSORS |= {f"hybrid {layout}": as_layout(DENSE[..., None].expand(4, 6, 3), layout, 1) for layout in LAYOUTS}
TENSORS |= {f"batched {layout}": as_layout(torch.stack([DENSE, -DENSE, DENSE]), layout) for layout in COMPRESSED}
TENSORS |= {f"wide {layout}": as_layout(torch.stack([DENSE] * 2)[..., None], layout, 1) for layout in COMPRESSED}
TENSORS |= {
    "uncoalesced": torch.sparse_coo_tensor(torch.tensor([[1, 1, 0], [2, 2, 1]]), torch.arange(3.0) + 1, (2, 3)),
    "three dimensions": torch.stack([DENSE, 2 * DENSE]).to_sparse(),
    "empty": torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), (3, 2)),
    "oblong blocks": torch.arange(24.0).reshape(4, 6).to_sparse_bsr((2, 3)),
    "oblong blocks by column": torch.arange(24.0).reshape(4, 6).to_sparse_bsc((4, 1)),
}

every_tensor = pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)


@every_tensor
def test_each_stored_number_knows_its_element(tensor: torch.Tensor) -> None:
    pattern = Pattern.of(tensor)
    dense = np.zeros(tensor.numel())
    np.add.at(dense, pattern.flat(), pattern.model.double().numpy().reshape(-1))
    assert np.array_equal(dense.reshape(tensor.shape), tensor.detach().to_dense().numpy())


@every_tensor
def test_a_pattern_filled_with_its_values_is_the_tensor(tensor: torch.Tensor) -> None:
    pattern = Pattern.of(tensor)
    again = pattern.fill(pattern.model.clone())
    assert (again.layout, again.shape, again.dtype) == (tensor.layout, tensor.shape, tensor.dtype)
    assert torch.equal(again.to_dense(), tensor.detach().to_dense())
    assert pattern.has_indices_of(Pattern.of(again))
    if tensor.layout is torch.sparse_coo:
        assert again.is_coalesced() is tensor.is_coalesced()


@every_tensor
def test_a_pattern_without_holes_stores_every_element_once_in_the_same_form(tensor: torch.Tensor) -> None:
    pattern = Pattern.without_holes(tensor)
    assert sorted(pattern.flat().tolist()) == list(range(tensor.numel()))
    whole = pattern.fill(pattern.model)
    assert layout_name(whole) == layout_name(tensor)
    assert whole.dtype is tensor.dtype
    assert values_of(whole).dim() == values_of(tensor).dim()
    if "bs" in str(tensor.layout):
        at = 1 + tensor.dim() - tensor.sparse_dim() - tensor.dense_dim()
        assert values_of(whole).shape[at : at + 2] == values_of(tensor).shape[at : at + 2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_share_memory_and_know_no_graph(layout: str) -> None:
    x = sparse(layout, torch.complex128)
    values = values_of(x)
    assert not values.requires_grad
    version = x._version
    torch.view_as_real(values).numpy()[...] = 7.0
    assert bool((x.detach().to_dense() == 7.0 + 7.0j).any())
    assert x._version == version


def test_patterns_differ_by_their_indices_and_layout() -> None:
    csr, csc = Pattern.of(sparse("csr")), Pattern.of(sparse("csc"))
    assert csr.has_indices_of(Pattern.of(sparse("csr") * 2))
    assert not csr.has_indices_of(csc)
    assert not csr.has_indices_of(Pattern.of(as_layout(DENSE.flip(0), "csr")))


def test_only_sparse_tensors_are_sparse() -> None:
    values: list[Any] = [DENSE, None, 3, "sparse_coo", *map(sparse, LAYOUTS)]
    assert [is_sparse(value) for value in values] == [False] * 4 + [True] * 5


@given(
    stored=st.lists(st.integers(0, 20), max_size=30),
    wanted=st.lists(st.integers(0, 20), max_size=30),
    parts=st.sampled_from([1, 2]),
)
def test_looking_up_sums_what_is_stored_and_finds_zero_elsewhere(
    stored: list[int], wanted: list[int], parts: int
) -> None:
    numbers = np.arange(1.0, len(stored) * parts + 1).reshape(-1, parts)
    found = look_up(np.array(wanted, dtype=np.intp), np.array(stored, dtype=np.intp), numbers)
    expected = [
        [sum(n[k] for i, n in zip(stored, numbers, strict=True) if i == w) for k in range(parts)] for w in wanted
    ]
    assert np.array_equal(found, np.array(expected).reshape(-1, parts))


def test_gather_undoes_scatter_for_complex_elements() -> None:
    flat, values = np.array([4, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    whole = scatter(values, flat, 2, 5)
    assert whole.tolist() == [3, 4, 0, 0, 0, 0, 0, 0, 1, 2]
    assert gather(whole, flat, 2).tolist() == values.tolist()
