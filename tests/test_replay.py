"""Random numbers and module state are put back before every evaluation: such functions are checked as they are."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers

from gradproof import Status, Verdict, check
from gradproof.torch import gradcheck

torch.set_num_threads(1)


def photograph(module: torch.nn.Module) -> Any:
    """All of a module that a user could see change."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return (
        [(name, id(tensor), tensor.detach().numpy().tobytes(), tensor.requires_grad) for name, tensor in tensors],
        [part.training for part in module.modules()],
        [parameter.grad is None for parameter in module.parameters()],
    )


# random numbers


RANDOM: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Python": lambda x: x * (1 + random.random()),
    "Python's gaussian": lambda x: x * random.gauss(5, 1),
    "NumPy": lambda x: x * float(1 + np.random.rand()),
    "NumPy's gaussian": lambda x: x * float(5 + np.random.normal()),
    "torch": lambda x: x * torch.rand(x.shape, dtype=torch.float64),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "all three": lambda x: x * random.random() * float(np.random.rand()) + torch.randn(x.shape, dtype=torch.float64),
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_function_is_checked_as_it_is(name: str) -> None:
    report = check(RANDOM[name], numbers(30))
    assert report.findings == (), str(report)
    assert gradcheck(RANDOM[name], numbers(5))


@pytest.mark.parametrize("name", RANDOM)
def test_a_wrong_gradient_of_a_random_function_is_wrong_and_not_noise(name: str) -> None:
    report = check(lambda x: RANDOM[name](x) * x.detach(), numbers(6))
    assert {finding.property for finding in report.findings} >= {"jacobian"}
    assert "repeatability" not in {finding.property for finding in report.findings}


def test_the_generators_of_the_user_do_not_move() -> None:
    def states() -> Any:
        return random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()

    before = states()
    assert check(RANDOM["all three"], numbers(6))
    assert states() == before


def test_noise_of_a_private_generator_is_told_apart_from_a_wrong_derivative() -> None:
    generator = np.random.default_rng(0)
    report = check(lambda x: x * (1 + 1e-6 * generator.random()), numbers(3))
    assert report.verdict is Verdict.FAIL
    finding, *others = [finding for finding in report.findings if finding.status is Status.WRONG]
    assert finding.property == "repeatability"
    assert {other.property for other in others} <= {"determinism", "adjoint"}  # whose numbers change with it
    assert (finding.output, len(finding.output_element or ())) == (0, 1)
    assert (
        "The function is not deterministic: called twice with the same inputs, output 0, element [" in finding.message
    )
    assert report.findings[0] is finding


def test_noise_in_a_backward_is_found_as_such() -> None:
    generator = torch.Generator().manual_seed(0)

    def backward(s: Any, g: torch.Tensor) -> torch.Tensor:
        return g * s[0].cos() * (1 + 1e-9 * torch.rand((), generator=generator, dtype=g.dtype))

    report = check(custom(torch.sin, backward), numbers(3))
    assert {finding.property for finding in report.findings} == {"determinism"}


# modules, however the function comes to them


class Counter(torch.nn.Module):
    """Changes buffers of every kind, and its own mode, in forward."""

    calls: torch.Tensor
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen = self.seen + x.detach()  # another tensor
        self.eval()
        return x * (1 + self.calls)


COUNTER = Counter()


def by_global(x: torch.Tensor) -> torch.Tensor:
    return COUNTER(x)


class Owner:
    """Not a module, but refers to one."""

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return COUNTER(x)


def ways() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    counter = COUNTER
    return {
        "the module": counter,
        "its forward": counter.forward,
        "a closure": lambda x: counter(x),
        "a global": by_global,
        "a partial": functools.partial(lambda module, x: module(x), counter),
        "a partial's keyword": functools.partial(lambda x, module: module(x), module=counter),
        "a method": Owner().method,
        "part of a module": torch.nn.Sequential(counter, torch.nn.Tanh()),
    }


@pytest.mark.parametrize("name", ways())
def test_buffers_and_modes_are_found_and_put_back(name: str) -> None:
    COUNTER.train()
    before = photograph(COUNTER)
    report = check(ways()[name], numbers(3))
    assert report.findings == (), str(report)
    assert photograph(COUNTER) == before
    assert int(COUNTER.calls) == 0


class Stop(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_batch_norm_is_untouched_by_exceptions(at: int, error: type[BaseException]) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)).double()
    calls = [0]

    def function(x: torch.Tensor) -> torch.Tensor:
        y = module(x)
        module.eval()
        calls[0] += 1
        if calls[0] >= at:
            raise error
        return y

    before = photograph(module)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            check(function, numbers(5, 3))
    else:
        assert any(isinstance(finding.cause, Stop) for finding in check(function, numbers(5, 3)).findings)
    assert calls[0] >= at
    assert photograph(module) == before


def test_a_batch_norm_in_train_mode_is_checked_and_its_statistics_stay() -> None:
    norm = torch.nn.BatchNorm1d(4).double()
    norm.running_mean.uniform_()
    before = photograph(norm)
    report = check(norm, numbers(6, 4))
    assert report.findings == (), str(report)
    assert photograph(norm) == before
    assert int(norm.num_batches_tracked) == 0
    assert norm.training
    assert gradcheck(lambda x: norm(x), numbers(3, 4))
    assert photograph(norm) == before


def test_a_constant_argument_that_the_function_writes_to_is_put_back() -> None:
    total = torch.zeros(3, dtype=torch.float64)

    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x.detach()
        return x * (1 + total)

    report = check(function, (numbers(3), total), modes="reverse")
    assert not total.any()
    assert "repeatability" not in {finding.property for finding in report.findings}
