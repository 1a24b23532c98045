"""What an audit records of a run: every operation once, with its module, its line, its values and its place."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradproof.backends.torch.audit.operation import Operation, Replay
from gradproof.backends.torch.audit.places import ModulePaths
from gradproof.backends.torch.audit.run import Recording
from gradproof.backends.torch.audit.session import AuditSession


def recorded(model: Any, *inputs: Any, **keywords: Any) -> Recording:
    return AuditSession(model, inputs, keywords).record(0)


def names(model: Any, *inputs: Any) -> list[str]:
    return [operation.path for operation in recorded(model, *inputs).operations]


def x(*shape: int) -> torch.Tensor:
    return (
        torch.linspace(0.5, 2.0, max(1, int(torch.Size(shape).numel())), dtype=torch.float64)
        .reshape(shape)
        .requires_grad_()
    )


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
        return 2 * cotangents[0]


double = Double.apply


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return double(x).sin()


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Inner(), Inner()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x + 1


def test_operations_have_the_path_of_their_module_and_the_users_line() -> None:
    operations = recorded(Outer(), x(3)).operations
    paths = ["layers.0.Double", "layers.0.sin", "layers.1.Double", "layers.1.sin", "add"]
    assert [operation.path for operation in operations] == paths
    assert all(operation.line.startswith("tests/backends/test_audit_recorder.py:") for operation in operations)
    assert operations[0].definition.startswith("tests/backends/test_audit_recorder.py:")
    assert [operation.kind.by_hand for operation in operations] == [True, False, True, False, False]


def test_what_is_inside_of_a_function_is_not_recorded() -> None:
    assert names(lambda x: double(x), x(3)) == ["Double"]


def test_values_are_those_of_the_call_whatever_is_written_afterwards() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        z = y.sin()
        y = y.detach()
        y.zero_()
        return z

    operations = {operation.name: operation for operation in recorded(model, x(3)).operations}
    assert torch.equal(operations["sin"].leaves[0].value, x(3).detach())
    assert operations["zero_"].written == (0,)


def test_operations_in_place_and_views_are_called_again_on_copies() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].mul_(3.0)
        y[1:] = y[:1] * 2
        return y.sum()

    recording = recorded(model, x(3))
    for operation in recording.operations:
        replay = Replay(operation)
        outputs = replay(*replay.inputs())
        assert len(outputs) == len(operation.outputs), operation.name
        for output, given in zip(outputs, operation.outputs, strict=True):
            assert torch.equal(output, given.value), operation.name
    assert {operation.name for operation in recording.operations} >= {"mul_", "__setitem__"}


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_recomputed_is_not_recorded_twice(reentrant: bool) -> None:
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()

    def model(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(inner, x, use_reentrant=reentrant).sum()

    recording = recorded(model, x(2, 3))
    assert [operation.name for operation in recording.operations] == ["linear", "tanh", "sum"]
    assert recording.raised is None


def test_autocast_is_recorded_and_called_again_in() -> None:
    layer = nn.Linear(4, 4)

    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(layer(x)).float().sum()

    torch.backends.mkldnn.enabled, before = False, torch.backends.mkldnn.enabled
    try:
        linear = next(o for o in recorded(model, torch.rand(2, 4, requires_grad=True)).operations if o.name == "linear")
        assert [cast.dtype for cast in linear.autocast] == [torch.bfloat16]
        replay = Replay(linear)
        (output,) = replay(*replay.inputs())
        assert output.dtype is torch.bfloat16
        assert torch.equal(output, linear.outputs[0].value)
    finally:
        torch.backends.mkldnn.enabled = before


def test_random_numbers_are_drawn_again() -> None:
    recording = recorded(nn.Dropout(0.5), x(100))
    (dropout,) = recording.operations
    assert dropout.random is not None
    replay = Replay(dropout)
    state = torch.get_rng_state()
    (output,) = replay(*replay.inputs())
    torch.set_rng_state(state)
    assert torch.equal(output, dropout.outputs[0].value)


def test_equal_calls_have_equal_keys() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:2].sin() + x[1:].sin() + x[:2].clamp(0, 1) + x[:2].clamp(0, 2)

    by_name: dict[str, list[Operation]] = {}
    for operation in recorded(model, x(3)).operations:
        by_name.setdefault(operation.name, []).append(operation)
    assert len({operation.key for operation in by_name["sin"]}) == 1
    assert len({operation.key for operation in by_name["clamp"]}) == 2


def test_hooks_and_code_are_taken_away_again_after_an_exception() -> None:
    from torch.nn.modules import module

    def model(x: torch.Tensor) -> torch.Tensor:
        double(x)
        raise KeyError("inside")

    hooks = len(module._global_forward_hooks), len(module._global_forward_pre_hooks)
    code = torch.autograd.Function.apply.__func__.__code__
    assert isinstance(recorded(model, x(2)).raised, KeyError)
    assert (len(module._global_forward_hooks), len(module._global_forward_pre_hooks)) == hooks
    assert torch.autograd.Function.apply.__func__.__code__ is code


def test_functions_of_other_threads_are_left_alone() -> None:
    found: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=lambda: found.append(double(torch.ones(2, requires_grad=True))))
        thread.start()
        thread.join()
        return double(x)

    assert names(model, x(2)) == ["Double"]
    assert found[0].tolist() == [2.0, 2.0]


def test_a_transform_inside_is_said_not_to_be_recorded() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.sin)(x).sum()

    recording = recorded(model, x(3))
    assert recording.raised is None
    assert any("torch.func" in missed for missed in recording.missed)


def test_contributions_add_up_to_the_deviation_of_the_whole() -> None:
    class Off(Double):
        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            return 2.1 * cotangents[0]

    layer = nn.Linear(4, 4).double()

    def model(x: torch.Tensor) -> torch.Tensor:
        y = Off.apply(layer(x)).relu()
        y = y + layer(y).detach().tanh()
        return Off.apply(y).cumsum(0)

    session = AuditSession(model, (x(3, 4),), {})
    session.record(0)
    made = session.account(0)
    assert made is not None
    total = sum(made.contributions.values()) + sum(made.cuts.values())
    assert abs(made.deviation) > 1e3 * made.significant
    assert total == pytest.approx(made.deviation, rel=1e-6)
    assert made.unknown == []


def test_modules_that_are_not_known_go_by_their_class() -> None:
    paths = ModulePaths([])
    layer = nn.Linear(2, 2)
    seen: list[str] = []
    layer.register_forward_pre_hook(lambda *_: seen.append(paths.current))
    with paths.followed():
        layer(torch.ones(1, 2))
    assert seen == ["Linear"]
    assert paths.current == ""
