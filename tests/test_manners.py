"""Whatever happens inside a check, the user's tensors and random states are as before, bit for bit."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

import gradproof
from gradproof.torch import gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore:Input #0 requires gradient")


class OwnError(Exception):
    pass


def photograph(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """Everything of tensors and generators that a user could see change."""

    def bits(tensor: torch.Tensor | None) -> Any:
        if tensor is None:
            return None
        return id(tensor), bytes(tensor.untyped_storage()), tensor.stride(), tensor.storage_offset(), tensor.shape

    numpy = np.random.get_state()
    return (
        [(bits(t), bits(t.grad), t.requires_grad, t.is_leaf, t.is_conj(), t.is_neg(), t._version) for t in tensors],
        random.getstate(),
        (numpy[0], bytes(numpy[1]), *numpy[2:]),
        bytes(torch.get_rng_state().numpy()),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        list(warnings.filters),
    )


@contextmanager
def unharmed(*tensors: torch.Tensor) -> Iterator[None]:
    """Whatever the block raises goes by; what must not change did not."""
    before = photograph(*tensors)
    with suppress(Exception, KeyboardInterrupt):
        yield
    assert photograph(*tensors) == before


def play() -> None:
    """Use every random generator, as a function with noise in it does."""
    random.gauss(0, 1)
    np.random.normal()
    torch.default_generator.manual_seed(random.randrange(2**32))  # vmap takes this, but no random operation


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "float64": lambda: numbers(3),
    "bfloat16": lambda: numbers(3, dtype=torch.bfloat16),
    "complex128": lambda: numbers(2, dtype=torch.complex128),
    "conjugate": lambda: numbers(2, dtype=torch.complex128).detach().conj().requires_grad_(),
    "sliced": lambda: numbers(6).detach()[::2].requires_grad_(),
    "many": lambda: numbers(14),
}


def with_grad(x: torch.Tensor) -> torch.Tensor:
    x.grad = torch.full_like(x, 7.0)
    return x


class Saboteur:
    """x·x, in batches or not, until its k-th call does something terrible."""

    def __init__(self, at: int, deed: str) -> None:
        self.at, self.deed, self.calls = at, deed, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        play()
        if self.calls == self.at:
            if self.deed == "exception":
                raise OwnError
            if self.deed == "interrupt":
                raise KeyboardInterrupt
            if self.deed == "another shape":
                return torch.cat([x * x, x])
        return x * x


DEEDS = ["exception", "interrupt", "another shape"]


@pytest.mark.parametrize("forward", [False, True], ids=["reverse", "reverse and forward"])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("deed", DEEDS)
def test_a_deed_at_any_call_of_the_function_leaves_no_trace(deed: str, kind: str, forward: bool) -> None:
    x = with_grad(INPUTS[kind]())
    honest = Saboteur(0, deed)
    with unharmed(x):
        assert gradcheck(honest, x, check_forward_ad=forward)
    assert honest.calls >= 3
    for at in range(1, honest.calls + 1):
        saboteur = Saboteur(at, deed)
        with unharmed(x):
            gradcheck(saboteur, x, check_forward_ad=forward)
        assert saboteur.calls >= at


@pytest.mark.parametrize("deed", ["exception", "interrupt"])
@pytest.mark.parametrize("fast_mode", [False, True])
def test_an_exception_at_the_first_call_comes_out(deed: str, fast_mode: bool) -> None:
    with pytest.raises(OwnError if deed == "exception" else KeyboardInterrupt):
        gradcheck(Saboteur(1, deed), numbers(3), fast_mode=fast_mode)


@pytest.mark.parametrize("kind", INPUTS)
def test_an_interrupt_always_comes_out(kind: str) -> None:
    honest = Saboteur(0, "")
    assert gradcheck(honest, INPUTS[kind](), check_forward_ad=True)
    for at in range(1, honest.calls + 1):
        with pytest.raises(KeyboardInterrupt):
            gradcheck(Saboteur(at, "interrupt"), INPUTS[kind](), check_forward_ad=True)


def failing_at(at: int, which: str) -> tuple[Callable[..., Any], list[int]]:
    """x·x whose backward or jvp raises at its k-th call."""
    calls = [0]

    def rule(name: str) -> Callable[..., Any]:
        def apply(saved: Any, t: torch.Tensor) -> torch.Tensor:
            play()
            if name == which:
                calls[0] += 1
                if calls[0] == at:
                    raise OwnError
            return 2 * (saved[0].conj() if name == "backward" else saved[0]) * t

        return apply

    return custom(lambda x: x * x, rule("backward"), rule("jvp")), calls


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("which", ["backward", "jvp"])
def test_an_exception_at_any_call_of_a_derivative_leaves_no_trace(which: str, kind: str) -> None:
    x = with_grad(INPUTS[kind]())
    function, calls = failing_at(0, which)
    assert gradcheck(function, x, check_forward_ad=True)
    total = calls[0]
    assert total >= 2
    for at in range(1, total + 1):
        function, calls = failing_at(at, which)
        with unharmed(x):
            gradcheck(function, x, check_forward_ad=True)
        assert calls[0] >= at


@pytest.mark.parametrize("kind", INPUTS)
def test_a_wrong_gradient_leaves_no_trace(kind: str) -> None:
    x = with_grad(INPUTS[kind]())

    def wrong(x: torch.Tensor) -> torch.Tensor:
        play()
        return x * x.detach()

    with unharmed(x):
        assert not gradcheck(wrong, x, raise_exception=False, check_forward_ad=True)
    with unharmed(x):
        assert not gradproof.check(wrong, x)


@pytest.mark.parametrize("at", range(1, 12))
def test_second_order_leaves_no_trace(at: int) -> None:
    x, v = with_grad(numbers(2)), with_grad(numbers(2, seed=1))
    for deed in ("exception", "interrupt", "another shape"):
        with unharmed(x, v):
            gradgradcheck(Saboteur(at, deed), x, v)
        with unharmed(x):
            gradgradcheck(Saboteur(at, deed), x, check_fwd_over_rev=True)


@pytest.mark.parametrize("at", range(1, 12))
def test_the_full_interface_leaves_no_trace(at: int) -> None:
    x = with_grad(numbers(2))
    for deed in DEEDS:
        with unharmed(x):
            gradproof.check(Saboteur(at, deed), x)


def test_tensors_that_share_memory_are_put_back() -> None:
    x = numbers(4)
    views = x, x[1:]
    with unharmed(x):
        assert gradcheck(lambda a, b: b.sin(), views)
    with unharmed(x):
        gradcheck(lambda a, b: Saboteur(5, "exception")(b), views)


OUTSIDE = numbers(3)
LAYER = torch.nn.Linear(3, 2).double()


def backward_inside(x: torch.Tensor) -> torch.Tensor:
    """Takes gradients of itself, of a tensor around it and of a module, and adds them up where they are."""
    (x * OUTSIDE).sum().backward()
    LAYER(x).sum().backward()
    return torch.sin(x)


def raising_after_backward(x: torch.Tensor) -> torch.Tensor:
    backward_inside(x)
    raise ValueError("after a backward")


def reading_its_gradient(x: torch.Tensor) -> torch.Tensor:
    """Depends on what it finds, so every call must find the same."""
    (2 * x).sum().backward()
    assert x.grad is not None
    return x * x.grad.detach().clone()


DOORS: dict[str, Callable[..., Any]] = {
    "check": gradproof.check,
    "entries": lambda func, x: gradproof.check(func, x, strategy="entries", order=2),
    "gradcheck": gradcheck,
    "gradgradcheck": gradgradcheck,
    "audit": gradproof.torch.audit,
    "regimes": gradproof.torch.regimes,
}


@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.parametrize("func", [backward_inside, raising_after_backward, reading_its_gradient])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_gradients_stay_what_and_where_they_were(
    door: str, func: Callable[[torch.Tensor], torch.Tensor], has_gradients: bool
) -> None:
    x = numbers(3)
    leaves = [x, OUTSIDE, *LAYER.parameters()]
    for leaf in leaves:
        leaf.grad = torch.full_like(leaf, 0.5) if has_gradients else None
    before = [leaf.grad for leaf in leaves]
    with suppress(Exception):
        DOORS[door](func, x)
    for leaf, gradient in zip(leaves, before, strict=True):
        assert leaf.grad is gradient
        assert gradient is None or bool((gradient == 0.5).all())


def test_a_function_that_adds_to_its_gradient_finds_it_as_it_was() -> None:
    x = numbers(3)
    report = gradproof.check(reading_its_gradient, x, modes="reverse")
    assert report.ok, str(report)
    assert x.grad is None


def test_a_graph_built_before_the_check_is_still_valid() -> None:
    x = numbers(3)
    before = (x**3).sum()
    assert gradcheck(torch.sin, x)
    before.backward()
    assert torch.allclose(x.grad, 3 * x.detach() ** 2)


def test_a_stored_gaussian_of_numpy_is_kept() -> None:
    np.random.seed(0)
    np.random.normal()  # the second of the pair is stored
    state = np.random.get_state()
    assert state[3] == 1
    assert gradcheck(lambda x: (play(), x.sin())[1], numbers(3))
    after = np.random.get_state()
    assert all(np.array_equal(one, other) for one, other in zip(state, after, strict=True))


def test_another_bit_generator_behind_numpys_global_state_is_kept() -> None:
    original = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        before = repr(np.random.get_state(legacy=False))
        assert gradcheck(lambda x: (play(), x.sin())[1], numbers(3))
        assert repr(np.random.get_state(legacy=False)) == before
    finally:
        np.random.set_bit_generator(original)


def test_flags_that_the_function_switches_are_switched_back() -> None:
    x = numbers(3)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        x.requires_grad_(False)
        x.requires_grad_(True)
        return y

    with unharmed(x):
        gradcheck(function, x)


def test_the_check_draws_nothing_from_the_users_generators() -> None:
    with unharmed():
        assert gradcheck(torch.sin, numbers(30), check_forward_ad=True)
        assert gradgradcheck(torch.sin, numbers(4))


def test_a_random_function_with_its_own_seed_is_checked_as_it_is() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        return torch.nn.functional.dropout(x, 0.5)

    x = numbers(30)
    with unharmed(x):
        assert gradcheck(function, x)
