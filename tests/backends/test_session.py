"""Sessions: what each way in makes of a call, and that nothing of it is left."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers
from sparse_functions import sparse

from gradproof.backends import Session
from gradproof.backends.torch import (
    comparing_session,
    framework,
    gradcheck_session,
    gradgradcheck_session,
    recognises,
    session,
)
from gradproof.core.capabilities import Batching, Pairing, Reference
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode, Problem


def checking(function: Any, *inputs: Any, wrt: Any = None, masked: bool = False) -> Any:
    return session(function, inputs, {}, wrt=wrt, masked=masked)


def pulled(problem: Problem) -> Any:
    assert problem.vjp is not None
    return problem.vjp(np.ones(problem.outputs.size))


def test_tensors_and_modules_are_recognised_however_nested() -> None:
    assert framework == "torch"
    assert recognises([torch.nn.Linear(1, 1)])
    assert recognises([3, {"a": [torch.ones(1)]}])
    assert not recognises([3, "text", {"a": [None]}])


def test_every_session_is_one() -> None:
    x = numbers(3)
    made: list[Session] = [
        checking(torch.sin, x),
        gradcheck_session(torch.sin, (x,)),
        gradgradcheck_session(torch.sin, (x,)),
        comparing_session(torch.sin, torch.sin, (x,), {}),
    ]
    for one in made:
        assert (one.framework, one.notes, one.not_covered) == ("torch", (), ())


def test_a_check_has_a_first_and_a_second_order() -> None:
    x = numbers(3)
    with checking(lambda x: (x**3).sum(), x) as opened:
        first, second = opened.problem(), opened.second()
        assert opened.modes(Investigation(first)) == opened.modes(Investigation(second)) == tuple(Mode)
    np.testing.assert_allclose(pulled(first), 3 * x.detach().numpy() ** 2)
    assert [block.label for block in second.inputs.blocks] == ["input 0 `x`", "input 1 `grad_outputs[0]`"]
    assert [block.label for block in second.outputs.blocks] == ["output 0 `gradient of x`"]
    paired = second.capability(Pairing)
    assert paired is not None
    assert paired.inputs.tolist() == [0, 1, 2]
    assert first.capability(Pairing) is None


def test_only_the_gradient_of_one_number_is_paired() -> None:
    with checking(lambda x: x**3, numbers(3)) as opened:
        assert opened.second().capability(Pairing) is None


def test_what_is_learnt_on_the_way_is_not_covered() -> None:
    function = custom(lambda x: x * 2, lambda s, g: 2 * g)
    with checking(lambda x, n: (function(x), torch.ones(2)), numbers(3), 7) as opened:
        assert opened.not_covered == ("input 1 `n` (int, not differentiable)",)
        problem = opened.problem()
        assert opened.not_covered[1:] == ("output 1 (it has no graph)",)
        assert opened.modes(Investigation(problem)) == (Mode.REVERSE,)
        assert opened.not_covered[2].startswith("forward mode (")


def test_a_function_that_takes_gradients_itself_has_a_forward_mode() -> None:
    def force(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)[0]

    with checking(force, numbers(3)) as opened:
        investigation = Investigation(opened.problem())
        assert opened.modes(investigation) == tuple(Mode)
        np.testing.assert_allclose(
            investigation.pushforward, investigation.pullback * investigation.tangent / investigation.cotangent
        )


def test_no_output_with_a_graph_is_asked_in_reverse() -> None:
    with checking(lambda x: x.detach() * 2, numbers(3)) as opened:
        problem = opened.problem()
        assert not problem.connected
        assert opened.modes(Investigation(problem)) == (Mode.REVERSE,)
        assert pulled(problem).tolist() == [0, 0, 0]


def test_elements_that_share_memory_are_separated_with_a_note() -> None:
    expanded = torch.ones(1, dtype=torch.float64).expand(3).requires_grad_()
    with checking(lambda x: x * 2, expanded) as opened:
        assert opened.notes == ("input 0 `x` has elements that share memory: a copy of it was checked",)
        problem = opened.problem()
        assert problem.evaluate(np.array([1.0, 2.0, 3.0])).tolist() == [2, 4, 6]
    assert expanded.stride() == (0,)


def test_wrt_selects() -> None:
    module = torch.nn.Linear(2, 1).double()
    with checking(module, numbers(3, 2), wrt=["weight"]) as opened:
        assert [block.label for block in opened.problem().inputs.blocks] == ["parameter `weight`"]
        assert "parameter `bias` (not selected by wrt)" in opened.not_covered


def test_gradcheck_takes_strided_outputs_only() -> None:
    with (
        gradcheck_session(lambda x: x.to_sparse(), (numbers(3),)) as opened,
        pytest.raises(ValueError, match="Sparse output"),
    ):
        opened.problem()
    with checking(lambda x: x.to_sparse(), numbers(3)) as opened:
        assert opened.problem().outputs.size == 3


@pytest.mark.parametrize("make", [gradcheck_session, gradgradcheck_session])
def test_batches_start_where_they_are_told_to(make: Any) -> None:
    with make(torch.sin, (numbers(3),), least_products=2) as opened:
        batching = opened.problem().capability(Batching)
        assert (batching.least_evaluations, batching.least_products) == (12, 2)
    with make(torch.sin, (numbers(3),)) as opened:
        assert opened.problem().capability(Batching).least_products == 5


def test_low_precision_is_warned_about_at_the_users_line() -> None:
    with pytest.warns(UserWarning, match="Input #0 requires gradient") as caught:
        gradcheck_session(torch.sin, (numbers(3, dtype=torch.float32),))
    assert caught[0].filename == __file__


def test_forward_mode_of_sparse_inputs_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="forward mode AD does not support"):
        gradcheck_session(lambda x: x.to_dense(), (sparse("coo"),), forward=True)


@pytest.mark.parametrize("noncontiguous", [False, True])
def test_gradgradcheck_draws_cotangents_where_there_are_none(noncontiguous: bool) -> None:
    x, state = numbers(3), torch.get_rng_state()
    with gradgradcheck_session(lambda x: x**3, (x,), noncontiguous=noncontiguous) as opened:
        problem = opened.problem()
    cotangent = problem.point[3:]
    np.testing.assert_allclose(problem.value, 3 * problem.point[:3] ** 2 * cotangent)
    assert [block.label for block in problem.outputs.blocks] == ["output 0"]
    assert torch.equal(torch.get_rng_state(), state)


def test_gradgradcheck_takes_cotangents() -> None:
    x, v = numbers(3), numbers(3, seed=1)
    with gradgradcheck_session(lambda x: x**3, (x,), v) as opened:
        problem = opened.problem()
    np.testing.assert_allclose(problem.value, (3 * x**2 * v).detach().numpy())


def writing(x: torch.Tensor) -> torch.Tensor:
    """Changes whatever it can reach."""
    random.random()
    np.random.random()
    torch.rand(1)
    y = x.sin()
    x.data.add_(1.0)
    return y


@pytest.mark.parametrize("make", [gradcheck_session, gradgradcheck_session])
def test_everything_is_put_back(make: Any) -> None:
    x = numbers(3)
    before = x.detach().clone(), torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    with torch.no_grad(), make(writing, (x,)) as opened:
        assert torch.is_grad_enabled()
        opened.problem()
        x.data.mul_(2.0)
        x.requires_grad_(False)
    assert torch.equal(x, before[0])
    assert torch.equal(torch.get_rng_state(), before[1])
    assert (random.getstate(), repr(np.random.get_state())) == before[2:]
    assert x.requires_grad


# a kernel and a reference


def compared(function: Any, reference: Any, *inputs: Any) -> tuple[Problem, Reference]:
    with comparing_session(function, reference, inputs, {}) as opened:
        problem = opened.problem()
        assert opened.modes(Investigation(problem)) == (Mode.REVERSE,)
    found = problem.capability(Reference)
    assert found is not None
    return problem, found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_kernel_has_a_reference_and_a_truth(dtype: torch.dtype) -> None:
    x = numbers(4, dtype=dtype)
    problem, reference = compared(lambda x: 2 * x * x, lambda x: x * x, x)
    assert reference.misfits == ()
    assert reference.truth is not None
    assert problem.evaluates_in is None
    exact = problem.point**2
    assert reference.truth.value.tolist() == exact.tolist()
    np.testing.assert_array_equal(problem.value, 2 * reference.side.value)
    np.testing.assert_allclose(reference.side.value, exact, rtol=torch.finfo(dtype).eps)
    v = np.array([0.1, 0.2, 0.3, 0.4])
    rounded = torch.from_numpy(v).to(dtype).double().numpy()
    assert problem.vjp is not None
    np.testing.assert_array_equal(problem.vjp(v), 2 * reference.side.vjp(v))
    np.testing.assert_allclose(reference.truth.vjp(v), 2 * problem.point * rounded, rtol=1e-15)
    np.testing.assert_allclose(problem.evaluate(2 * problem.point), 4 * problem.value)


def test_all_floating_outputs_count_whether_connected_or_not() -> None:
    problem, reference = compared(
        lambda x: (x.detach() * 2, torch.arange(3), x * 3), lambda x: (x * 2, torch.arange(3), x * 3), numbers(2)
    )
    assert [block.label for block in problem.outputs.blocks] == ["output 0", "output 2"]
    assert problem.vjp is not None
    assert problem.vjp(np.ones(4)).tolist() == [3, 3]
    assert reference.side.vjp(np.ones(4)).tolist() == [5, 5]


def test_a_reference_that_does_not_run_in_float64_is_no_truth() -> None:
    def single(x: torch.Tensor) -> torch.Tensor:
        return x * torch.ones(3, dtype=torch.float32).mul_(x.detach().view(torch.float32)) if True else x

    x = numbers(3, dtype=torch.float32)
    assert compared(torch.sin, single, x)[1].truth is None

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        if g.dtype is torch.float64:
            raise TypeError
        return 2 * g

    assert compared(torch.sin, custom(lambda x: 2 * x, backward), x)[1].truth is None


@pytest.mark.parametrize(
    ("function", "misfits"),
    [
        (lambda x: (x, x), ((None, "The function returned 2 tensors, the reference 1."),)),
        (
            lambda x: torch.arange(3),
            ((0, "output 0 has shape (3,) and dtype torch.int64, that of the reference shape"),),
        ),
        (lambda x: x[:2], ((0, "output 0 has shape (2,) and dtype torch.float64, that of the reference shape (3,)"),)),
    ],
)
def test_outputs_that_do_not_fit_are_told(function: Any, misfits: Any) -> None:
    problem, reference = compared(function, torch.sin, numbers(3))
    assert [number for number, _ in reference.misfits] == [number for number, _ in misfits]
    assert all(told.startswith(start) for (_, told), (_, start) in zip(reference.misfits, misfits, strict=True))
    assert len(reference.side.value) == problem.outputs.size
    assert len(reference.side.vjp(problem.value)) == problem.inputs.size


def test_other_integers_do_not_fit() -> None:
    _, reference = compared(lambda x: (x, torch.ones(1).long()), lambda x: (x, torch.zeros(1).long()), numbers(2))
    assert reference.misfits == ((1, "output 1 differs: torch.int64."),)


def test_nothing_to_compare_is_refused() -> None:
    with (
        comparing_session(lambda x: None, lambda x: 3, (numbers(2),), {}) as opened,
        pytest.raises(ValueError, match="nothing"),
    ):
        opened.problem()


def test_a_comparison_leaves_the_users_tensors_alone() -> None:
    x = numbers(3)
    before = x.detach().clone(), x._version, torch.get_rng_state()
    compared(writing, writing, x)
    assert torch.equal(x, before[0])
    assert x._version == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
