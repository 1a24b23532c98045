"""Sparse inputs and outputs: every layout, with and without a mask, real and complex, every entry and probes."""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers
from sparse_functions import (
    COMPRESSED,
    DENSE,
    HOLE,
    LAYOUTS,
    STORED,
    as_layout,
    in_another_layout,
    on_its_pattern,
    polynomial,
    sparse,
)

import gradproof
from gradproof.core.status import Status
from gradproof.results.finding import Finding
from gradproof.torch import GradcheckError, as_sparse_gradcheck, gradcheck

pytestmark = pytest.mark.filterwarnings(
    "ignore:The PyTorch API of MaskedTensors", "ignore:It is not recommended to create a MaskedTensor"
)

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
both_masks = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
both_modes = pytest.mark.parametrize("fast_mode", [False, True], ids=["entries", "probes"])


def matrix(test: Any) -> Any:
    return functools.reduce(lambda f, mark: mark(f), (every_layout, both_masks, both_dtypes, both_modes), test)


def findings(function: Any, x: torch.Tensor, **options: Any) -> tuple[Finding, ...]:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, x, **options)
    assert not gradcheck(function, x, raise_exception=False, **options)
    return caught.value.findings


# the matrix: what is right passes, what is wrong is named at its dense index


@matrix
def test_a_right_gradient_passes(layout: str, masked: bool, dtype: torch.dtype, fast_mode: bool) -> None:
    x = sparse(layout, dtype)
    assert gradcheck(polynomial(), x, masked=masked, fast_mode=fast_mode)
    report = gradproof.check(polynomial(), x, masked=masked, strategy="probes" if fast_mode else "entries")
    assert report, str(report)


@matrix
def test_a_wrong_stored_element_is_named(layout: str, masked: bool, dtype: torch.dtype, fast_mode: bool) -> None:
    function = polynomial(wrong_at=STORED, gradient_as=on_its_pattern if masked else None)
    first, *others = findings(function, sparse(layout, dtype), masked=masked, fast_mode=fast_mode)
    assert not others
    assert (first.property, first.status, first.input) == ("jacobian", Status.WRONG, 0)
    assert (first.input_element, first.output_element) == (STORED, STORED)
    assert "element [2, 1] (specified)" in first.message
    assert {entry.input.element for entry in first.entries} == {STORED}


@matrix
def test_a_wrong_unspecified_element_counts_unless_masked(
    layout: str, masked: bool, dtype: torch.dtype, fast_mode: bool
) -> None:
    function, x = polynomial(wrong_at=HOLE), sparse(layout, dtype)
    if masked:
        assert gradcheck(function, x, masked=True, fast_mode=fast_mode)
        return
    (first,) = findings(function, x, masked=False, fast_mode=fast_mode)
    assert (first.property, first.status, first.input) == ("jacobian", Status.WRONG, 0)
    assert (first.input_element, first.output_element) == (HOLE, HOLE)
    assert "element [1, 2] (unspecified)" in first.message


@matrix
def test_a_gradient_of_another_layout_is_a_finding(
    layout: str, masked: bool, dtype: torch.dtype, fast_mode: bool
) -> None:
    function = polynomial(gradient_as=in_another_layout)
    (first,) = findings(function, sparse(layout, dtype), masked=masked, fast_mode=fast_mode)
    assert (first.property, first.status) == ("metadata", Status.WRONG)
    assert "A gradient has another layout" in first.message
    if layout == "coo":  # torch's engine itself refuses it, and does not say for which input
        assert "gradient at index 0 - expected layout Sparse but got SparseCsr" in first.message
    else:
        assert first.input == 0
        assert f"has layout sparse_{layout} " in first.message
        assert "its gradient sparse_coo " in first.message


# what a gradient may leave out


@every_layout
@both_modes
def test_a_gradient_on_the_pattern_alone_passes_masked_only(layout: str, fast_mode: bool) -> None:
    function = polynomial(gradient_as=on_its_pattern)
    assert gradcheck(function, sparse(layout), masked=True, fast_mode=fast_mode)
    (first, *_) = findings(function, sparse(layout), masked=False, fast_mode=fast_mode)
    assert first.analytic == 0.0
    assert "(unspecified)" in first.message


@both_modes
@both_masks
def test_a_specified_element_that_the_gradient_leaves_out_counts_as_zero(masked: bool, fast_mode: bool) -> None:
    def without_stored(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        gradient[STORED] = 0
        return gradient.to_sparse()

    (first,) = findings(polynomial(gradient_as=without_stored), sparse("coo"), masked=masked, fast_mode=fast_mode)
    assert (first.input_element, first.analytic) == (STORED, 0.0)
    assert "not stored" in first.hint


def test_dimensions_divided_otherwise_are_another_layout() -> None:
    function = polynomial(gradient_as=lambda gradient, x: gradient.to_sparse(1))
    (first,) = findings(function, sparse("coo"), masked=True)
    assert "sparse_coo (sparse_dim 2, dense_dim 0), its gradient sparse_coo (sparse_dim 1, dense_dim 1)" in str(first)


def test_a_gradient_of_another_dtype_has_no_other_layout() -> None:
    to_dense = custom(lambda x: x.to_dense().to(torch.float32), lambda s, g: g)
    report = gradproof.check(to_dense, sparse("coo"), masked=True, properties=["metadata"])
    assert report, str(report)


# hybrid, batched and uncoalesced tensors


@every_layout
@both_masks
@both_modes
@pytest.mark.parametrize("stored_wrong", [False, True])
def test_hybrid_tensors(layout: str, masked: bool, fast_mode: bool, stored_wrong: bool) -> None:
    dense = DENSE[..., None] * torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    x = as_layout(dense, layout, dense_dim=1).requires_grad_()
    if not stored_wrong:
        assert gradcheck(polynomial(), x, masked=masked, fast_mode=fast_mode)
        return
    (first,) = findings(polynomial(wrong_at=(*STORED, 2)), x, masked=masked, fast_mode=fast_mode)
    assert first.input_element == (*STORED, 2)


@pytest.mark.parametrize("layout", COMPRESSED)
@both_masks
@pytest.mark.parametrize("wrong", [False, True])
def test_batched_tensors(layout: str, masked: bool, wrong: bool) -> None:
    x = as_layout(torch.stack([DENSE, 2 * DENSE, -DENSE]), layout).requires_grad_()
    report = gradproof.check(polynomial(wrong_at=(1, *STORED) if wrong else None), x, masked=masked)
    assert report.ok is not wrong
    assert [finding.input_element for finding in report.findings] == [(1, *STORED)] * wrong


def uncoalesced() -> torch.Tensor:
    where = torch.tensor([[0, 0, 1], [1, 1, 0]])
    return torch.sparse_coo_tensor(where, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), (2, 2)).requires_grad_()


@both_masks
@both_modes
def test_every_stored_value_of_an_uncoalesced_tensor_is_a_coordinate(masked: bool, fast_mode: bool) -> None:
    x = uncoalesced()
    strategy = "probes" if fast_mode else "entries"
    report = gradproof.check(lambda s: s.to_dense(masked_grad=masked) ** 2, x, masked=masked, strategy=strategy)
    assert report, str(report)
    assert report.entries == (3 if masked else 4) * 4
    assert not x.is_coalesced()


# outputs


@every_layout
@both_masks
@pytest.mark.parametrize("strategy", ["entries", "probes"])
def test_check_compares_sparse_outputs_on_their_own_coordinates(layout: str, masked: bool, strategy: str) -> None:
    x = sparse(layout)
    report = gradproof.check(lambda s: s * 2, x, masked=masked, strategy=strategy)
    assert report, str(report)
    stored = x.detach()._values() if layout == "coo" else x.detach().values()
    assert report.entries == (stored.numel() if masked else x.numel()) ** 2


@every_layout
@both_masks
def test_a_wrong_gradient_of_a_sparse_output_is_named(layout: str, masked: bool) -> None:
    def backward(saved: Any, cotangent: torch.Tensor) -> torch.Tensor:
        gradient = 2 * cotangent.to_dense()
        gradient[STORED] *= 1.5
        return gradient

    report = gradproof.check(custom(lambda s: s * 2, backward), sparse(layout), masked=masked)
    (finding,) = report.findings
    assert (finding.input_element, finding.output_element) == (STORED, STORED)
    assert finding.message.count("element [2, 1] (specified)") == 2


def test_the_pattern_of_an_output_may_be_another_one_elsewhere() -> None:
    x = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradproof.check(lambda x: (x * 2).to_sparse(), x, masked=True)
    assert gradproof.check(lambda x: (x * 2).to_sparse(), x, masked=False)


@pytest.mark.parametrize("raise_exception", [False, True])
def test_plain_gradcheck_refuses_sparse_outputs(raise_exception: bool) -> None:
    with pytest.raises(ValueError, match="Sparse output is not supported at gradcheck"):
        gradcheck(lambda s: s * 2, sparse("coo"), masked=True, raise_exception=raise_exception)


# manners


@every_layout
@both_masks
@pytest.mark.parametrize("throws", [False, True])
def test_a_sparse_input_is_left_as_it_was(layout: str, masked: bool, throws: bool) -> None:
    x = sparse(layout)
    version, before = x._version, x.detach().clone()
    calls = itertools.count()

    def function(s: torch.Tensor) -> torch.Tensor:
        if throws and next(calls) > 1:
            raise KeyError("user")
        return s.to_dense(masked_grad=masked) ** 2

    if throws:
        with pytest.raises(KeyError):
            gradcheck(function, x, masked=masked)
    else:
        assert gradcheck(function, x, masked=masked)
    assert (x.requires_grad, x.grad, x.layout, x._version) == (True, None, LAYOUTS[layout], version)
    assert torch.equal(x.detach().to_dense(), before.to_dense())
    assert x._nnz() == before._nnz()


@every_layout
def test_a_function_that_reads_its_input_by_closure_is_checked_masked(layout: str) -> None:
    x = sparse(layout)
    assert gradcheck(lambda _: x.to_dense() ** 2, x, masked=True)
    assert not gradcheck(lambda _: (x.to_dense() ** 2).detach() + x.to_dense(), x, masked=True, raise_exception=False)


@every_layout
@both_masks
def test_a_tensor_passed_twice_moves_twice(layout: str, masked: bool) -> None:
    x = sparse(layout)

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return custom(lambda a, b: a.to_dense() * b.to_dense(), backward)(a, b)

    def backward(saved: Any, g: torch.Tensor) -> Any:
        a, b = (part.to_dense() for part in saved)
        return g * b, g * a

    report = gradproof.check(function, (x, x), masked=masked)
    assert report, str(report)


def test_the_default_counts_every_element() -> None:
    on_pattern = polynomial(gradient_as=on_its_pattern)
    for options in ({}, {"masked": None}, {"masked": False}):
        assert not gradcheck(on_pattern, sparse("csr"), raise_exception=False, **options)
    assert not gradproof.check(on_pattern, sparse("csr"))


def test_forward_mode_is_refused_by_name_and_left_out_by_check() -> None:
    with pytest.raises(ValueError, match=r"input 0 is a sparse_bsr .* tensor, which forward mode AD does not support"):
        gradcheck(lambda s: s.to_dense(), sparse("bsr"), masked=True, check_forward_ad=True)
    report = gradproof.check(lambda s: s.to_dense(), sparse("bsr"), masked=True)
    assert [mode.value for mode in report.modes] == ["reverse"]


def test_batched_gradients_of_sparse_inputs_fail_with_the_reason() -> None:
    (finding,) = findings(lambda s: s.to_dense(), sparse("coo"), masked=True, check_batched_grad=True)
    assert finding.property == "batched_reverse"
    assert "vmap carries strided tensors only" in finding.message


def test_a_function_of_the_stored_values_asks_for_a_mask() -> None:
    assert gradcheck(lambda s: s.values() ** 2, sparse("csr"), masked=True)
    with pytest.raises(RuntimeError, match=r"shape \(8,\).*shape \(24,\).*masked=True"):
        gradcheck(lambda s: s.values() ** 2, sparse("csr"), masked=False)


def test_values_that_share_memory_are_refused() -> None:
    values = torch.ones(1, dtype=torch.float64).expand(2)
    x = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), values, (3,)).requires_grad_()
    with pytest.raises(RuntimeError, match="input 0 has elements that share memory"):
        gradcheck(lambda s: s.to_dense(), x, masked=True)


# MaskedTensor


def masked_numbers() -> Any:
    from torch.masked import masked_tensor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mask = torch.tensor([[True, False, True], [False, True, True]])
        return masked_tensor(numbers(2, 3).detach(), mask, requires_grad=True)


@pytest.mark.parametrize("strategy", ["entries", "probes"])
@pytest.mark.parametrize(
    "function",
    [lambda x: x.sin(), lambda x: x * x, lambda x: x.sum(), lambda x: x.amax(1), lambda x: (x * x).to_tensor(0.0)],
    ids=["sin", "square", "sum", "amax", "to_tensor"],
)
def test_masked_tensors(function: Any, strategy: str) -> None:
    x = masked_numbers()
    before = x.get_data().detach().clone()
    report = gradproof.check(function, x, strategy=strategy)
    assert report, str(report)
    assert torch.equal(x.get_data(), before)


@both_modes
def test_a_wrong_element_of_a_masked_tensor_is_named_and_a_masked_one_does_not_count(fast_mode: bool) -> None:
    def backward_of(*at: int) -> Any:
        def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
            gradient = 2 * g
            gradient[at] *= 2
            return gradient

        return custom(lambda x: 2 * x, backward)

    right, wrong = backward_of(0, 1), backward_of(1, 1)
    assert gradcheck(lambda x: right(x.to_tensor(0.0)), masked_numbers(), fast_mode=fast_mode)
    (first,) = findings(lambda x: wrong(x.to_tensor(0.0)), masked_numbers(), fast_mode=fast_mode)
    assert first.input_element == (1, 1)
    assert "element [1, 1] (specified)" in first.message


def test_a_masked_tensor_that_is_sparse_is_refused() -> None:
    from torch.masked import masked_tensor

    data = torch.eye(3, dtype=torch.float64).to_sparse()
    x = masked_tensor(data, data.bool(), requires_grad=True)
    with pytest.raises(ValueError, match=r"input 0 is a MaskedTensor of layout torch.sparse_coo, which cannot"):
        gradcheck(lambda x: x.to_tensor(0.0), x)


def test_a_masked_output_of_a_strided_input() -> None:
    from torch.masked import as_masked_tensor

    mask = torch.tensor([True, False, True])
    report = gradproof.check(lambda x: as_masked_tensor(x, mask).sin(), numbers(3))
    assert report, str(report)
    assert report.entries == 2 * 3


# as_sparse_gradcheck


@every_layout
@both_masks
@pytest.mark.parametrize("checker", [gradcheck, torch.autograd.gradcheck], ids=["ours", "torch's"])
def test_as_sparse_gradcheck_takes_and_returns_sparse_tensors(layout: str, masked: bool, checker: Any) -> None:
    check = as_sparse_gradcheck(checker)
    assert check(lambda s: s * 2, (sparse(layout),), masked=masked)
    assert check(lambda s: s.to_dense(), sparse(layout), masked=masked)
    wrong = custom(lambda x: x * 2, lambda s, g: 3 * g)
    assert not check(lambda s: wrong(s.to_dense()), sparse(layout), masked=masked, raise_exception=False)


@every_layout
@both_masks
@both_modes
def test_as_sparse_gradcheck_names_elements_as_the_sparse_tensor_has_them(
    layout: str, masked: bool, fast_mode: bool
) -> None:
    factor = torch.ones_like(DENSE)
    factor[STORED] = 1.5
    wrong = custom(lambda x: x * 2, lambda s, g: 2 * g * factor)
    with pytest.raises(GradcheckError) as caught:
        as_sparse_gradcheck(gradcheck)(
            lambda s: wrong(s.to_dense()), sparse(layout), masked=masked, fast_mode=fast_mode
        )
    (finding,) = caught.value.findings
    assert (finding.input, finding.input_element, finding.output_element) == (0, STORED, STORED)
    assert "input 0 `s`" in finding.message
    assert "element [2, 1] (specified)" in finding.message


def test_as_sparse_gradcheck_says_what_was_not_specified() -> None:
    factor = torch.ones_like(DENSE)
    factor[HOLE] = 1.5
    wrong = custom(lambda x: x * 2, lambda s, g: 2 * g * factor)
    for layout in LAYOUTS:
        check = functools.partial(as_sparse_gradcheck(gradcheck), lambda s: wrong(s.to_dense()), sparse(layout))
        assert check(masked=True)
        with pytest.raises(GradcheckError, match=r"element \[1, 2\] \(unspecified\)"):
            check(masked=False)


def test_as_sparse_gradcheck_of_a_partial_and_of_anything() -> None:
    assert as_sparse_gradcheck(functools.partial(gradcheck, fast_mode=True))(lambda s: s, (sparse("csc"),)) is True
    seen: list[Any] = []

    def stub(function: Any, inputs: Any, **options: Any) -> str:
        seen.extend([inputs, function(*inputs), options])
        return "verdict"

    x, constant = sparse("bsr"), sparse("csr").detach()
    answer = as_sparse_gradcheck(stub)(lambda s, c, n: [s, {"c": c}], (x, constant, np.ones(3)), masked=True, eps=0.5)
    inputs, outputs, options = seen
    assert answer == "verdict"
    assert options == {"eps": 0.5}
    assert inputs[0].layout is torch.strided
    assert inputs[0].requires_grad
    assert inputs[0].data_ptr() == x.detach().values().data_ptr()
    assert inputs[1] is constant
    assert outputs[0].layout is torch.strided
    assert torch.equal(outputs[1]["c"], constant.to_dense())
    assert not hasattr(x, "_gradproof_places")
