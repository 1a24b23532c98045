"""What the torch side refuses, with an error that says what arrived and what to do."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from functions import numbers

from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.memory.sharing import overlaps
from gradproof.backends.torch.validate import validate_inputs, validate_outputs


def validate(*inputs: Any, forward: bool = False) -> None:
    validate_inputs(call_of(torch.sin, inputs), who="gradcheck", forward=forward, warn_precision=True)


@pytest.mark.parametrize("inputs", [(), (3.0,), (torch.ones(2),), (torch.ones(2, dtype=torch.int64), None)])
def test_nothing_to_differentiate_is_refused(inputs: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        validate(*inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_double_precision_is_taken_silently(dtype: torch.dtype) -> None:
    validate(numbers(3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64], ids=str)
def test_low_precision_is_warned_about_with_the_number_of_the_input(dtype: torch.dtype) -> None:
    with pytest.warns(UserWarning, match=rf"Input #2 requires gradient.*not a double precision.*{dtype}"):
        validate(numbers(3), "mode", numbers(3, dtype=dtype))


def test_low_precision_without_a_gradient_is_nobodys_business() -> None:
    validate(numbers(3), torch.ones(3, dtype=torch.float32))


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient")
def test_an_mkldnn_input_has_no_forward_mode() -> None:
    packed = torch.ones(2, 3).to_mkldnn().requires_grad_()
    validate(packed)
    with pytest.raises(ValueError, match=r"input 0 is an MKLDNN tensor.*forward mode"):
        validate(packed, forward=True)


def test_a_sparse_output_is_refused_by_its_number() -> None:
    with pytest.raises(ValueError, match=r"Sparse output.*output 1 has layout torch.sparse_coo"):
        validate_outputs([torch.ones(2), torch.ones(2).to_sparse()])
    with pytest.raises(ValueError, match="MKLDNN output"):
        validate_outputs([torch.ones(2, 2).to_mkldnn()])
    validate_outputs([torch.ones(2), None, 3, "text"])


OVERLAPPING = {
    "expanded": torch.ones(1).expand(3),
    "expanded rows": torch.ones(1, 3).expand(2, 3),
    "windows": torch.ones(5).as_strided((3, 3), (1, 1)),
    "windows in pairs": torch.ones(9).as_strided((4, 3), (2, 1)),
}
SEPARATE = {
    "contiguous": torch.ones(2, 3),
    "transposed": torch.ones(2, 3).mT,
    "sliced": torch.ones(6, 6)[::2, 1::3],
    "expanded to one": torch.ones(1).expand(1, 1),
    "0-d": torch.ones(()),
    "empty": torch.ones(0, 3),
    "empty and expanded": torch.ones(1, 0).expand(3, 0),
    "channels_last": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "interleaved": torch.ones(12).as_strided((2, 2, 3), (1, 6, 2)),
    "strides that look like an overlap": torch.ones(20).as_strided((2, 3), (3, 2)),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_elements_that_share_memory_are_refused(name: str) -> None:
    tensor = OVERLAPPING[name]
    assert overlaps(tensor)
    with pytest.raises(RuntimeError, match="input 1 has elements that share memory"):
        validate(numbers(2), tensor.double().detach().as_strided(tensor.shape, tensor.stride()).requires_grad_())


@pytest.mark.parametrize("name", SEPARATE)
def test_elements_with_their_own_memory_are_taken(name: str) -> None:
    assert not overlaps(SEPARATE[name])


def test_warnings_can_be_silenced_by_the_caller_of_the_backend() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call = call_of(torch.sin, (numbers(3, dtype=torch.float32),))
        validate_inputs(call, who="gradcheck", forward=False, warn_precision=False)


def test_a_warning_points_at_the_users_call() -> None:
    call = call_of(torch.sin, (numbers(3, dtype=torch.float32),))
    with pytest.warns(UserWarning, match="Input #0") as caught:
        validate_inputs(call, who="gradcheck", forward=False, warn_precision=True)
    assert caught[0].filename == __file__
