"""Memory is taken over without a copy where nobody else can write to it, and only there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gradproof
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.memory import holders
from gradproof.backends.torch.memory.holders import is_ours, is_sole
from gradproof.backends.torch.problem import first_order
from gradproof.backends.torch.trusted import PrivateNameWarning
from gradproof.core.capabilities import Walk
from gradproof.core.norm import PART

LONG = PART + 9
kept: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    is_sole.cache_clear()
    kept.clear()
    yield
    is_sole.cache_clear()
    kept.clear()


def new(size: int = LONG) -> torch.Tensor:
    return torch.full((size,), 0.5, dtype=torch.float64)


def numbers(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(LONG)).requires_grad_()


ALONE: dict[str, Callable[[], torch.Tensor]] = {
    "new": new,
    "of an operator": lambda: new() * 2.0,
    "of a backward": lambda: torch.autograd.grad(torch.sin(x := numbers()), x, new())[0],
    "with a graph": lambda: numbers().sin(),
}


def keep(tensor: torch.Tensor, how: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    kept["it"] = how(tensor)
    return tensor


SHARED: dict[str, Callable[[], torch.Tensor]] = {
    "a name": lambda: keep(new(), lambda tensor: tensor),
    "a view": lambda: keep(new(), lambda tensor: tensor[1:]),
    "detached": lambda: keep(new(), lambda tensor: tensor.detach()),
    "a weak reference": lambda: keep(new(), weakref.ref),
    "an array": lambda: keep(new(), lambda tensor: tensor.numpy()),
    "the storage": lambda: keep(new(), lambda tensor: tensor.untyped_storage()),
    "a capsule": lambda: keep(new(), torch.utils.dlpack.to_dlpack),
    "a graph": lambda: keep(numbers().exp(), lambda tensor: tensor.grad_fn),
    "is a view": lambda: new(2 * LONG)[:LONG],
    "an array's memory": lambda: torch.from_numpy(kept.setdefault("array", np.ones(LONG))),
    "a buffer's memory": lambda: torch.frombuffer(kept.setdefault("bytes", bytearray(8 * LONG)), dtype=torch.float64),
    "other processes": lambda: new().share_memory_(),
    "expanded": lambda: new(1).expand(LONG),
    "not in order": lambda: torch.ones(2, LONG, dtype=torch.float64).t(),
    "another dtype": lambda: torch.ones(LONG),
    "short": lambda: new(PART),
}


@pytest.mark.parametrize("case", ALONE)
def test_what_nobody_else_holds_is_ours(case: str) -> None:
    assert is_ours([ALONE[case]()])
    assert is_ours((ALONE[case](),))


@pytest.mark.parametrize("case", SHARED)
def test_what_somebody_else_holds_is_not(case: str) -> None:
    tensors = [SHARED[case]()]
    assert not is_ours(tensors)


def test_what_its_caller_has_a_name_for_is_not() -> None:
    tensor = new()
    tensors = [tensor]
    assert not is_ours(tensors)
    del tensor
    assert is_ours(tensors)


@pytest.mark.parametrize("answer", [True, False])
def test_a_count_that_does_not_tell_is_not_used(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "_private_is_sole", lambda: lambda _: answer)
    with pytest.warns(PrivateNameWarning, match="_storage_Use_Count .*it does something else"):
        assert not is_ours([new()])


class Reused(torch.autograd.Function):
    """sin whose backward, or forward, returns the same memory each time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, backward: bool, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x.detach().clone())
        ctx.backward, ctx.factor = backward, factor
        if backward:
            return x.sin()
        return torch.from_numpy(np.sin(x.detach().numpy(), out=kept.setdefault("values", np.empty(LONG))))

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (x,) = ctx.saved_tensors
        gradient = x.cos() * cotangent
        gradient[LONG // 2] *= ctx.factor
        return (kept.setdefault("gradient", new()).copy_(gradient) if ctx.backward else gradient), None, None


def test_a_gradient_that_the_next_backward_overwrites_is_copied() -> None:
    problem = first_order(call_of(lambda x: Reused.apply(x, True, 1.0), (numbers(),))).problem
    assert problem.vjp is not None
    first = problem.vjp(np.ones(LONG))
    before = first.copy()
    problem.vjp(np.zeros(LONG))
    np.testing.assert_array_equal(first, before)


def test_values_in_memory_that_is_used_again_are_not_written_to() -> None:
    x = numbers()
    problem = first_order(call_of(lambda x: Reused.apply(x, False, 1.0), (x,))).problem
    seen: list[tuple[bool, np.ndarray[Any, Any]]] = []
    walk = problem.capability(Walk)
    assert walk is not None
    walk.visit(np.ones(LONG), (0.5, -0.5), lambda value: seen.append((value.flags.writeable, value.copy())))
    assert [writeable for writeable, _ in seen] == [False, False]
    for (_, value), step in zip(seen, (0.5, -0.5), strict=True):
        np.testing.assert_allclose(value, np.sin(x.detach().numpy() + step), rtol=1e-13)


def test_new_values_may_be_kept_and_written_to() -> None:
    problem = first_order(call_of(torch.sin, (numbers(),))).problem
    walk, seen = problem.capability(Walk), list[np.ndarray[Any, Any]]()
    assert walk is not None
    walk.visit(np.ones(LONG), (0.5, -0.5), seen.append)
    assert all(value.flags.writeable for value in seen)
    assert not np.shares_memory(*seen)
    seen[0][:] = 0.0
    np.testing.assert_allclose(seen[1], np.sin(numbers().detach().numpy() - 0.5), rtol=1e-13)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_memory_that_is_used_again_changes_no_verdict_about_values(backward: bool, factor: float) -> None:
    report = gradproof.check(
        lambda x: Reused.apply(x, backward, factor), numbers(), modes="reverse", properties=["jacobian"]
    )
    assert report.ok is (factor == 1.0)
    if factor != 1.0:
        assert report.findings[0].input_element == (LONG // 2,)
