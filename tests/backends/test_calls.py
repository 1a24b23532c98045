"""The call under test, with its tensors found wherever they are nested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from functions import numbers

from gradproof.backends.calls import Arrays, Call
from gradproof.backends.torch.calls import call_of, flatten_outputs


class Pair(NamedTuple):
    left: Any
    right: Any


A, B, C = numbers(1), numbers(2), numbers(3)


@pytest.mark.parametrize(
    ("output", "flat"),
    [
        (A, [A]),
        ((A, B), [A, B]),
        ([A, None, 3], [A, None, 3]),
        ((A, (B, [C])), [A, B, C]),
        ({"x": A, "y": (B, None)}, [A, B, None]),
        (Pair(A, B), [A, B]),
        ((Pair(A, None), "text"), [A, None, "text"]),
        ((), []),
        (None, [None]),
        (2.5, [2.5]),
    ],
)
def test_what_a_function_returned_is_flattened_in_order(output: Any, flat: list[Any]) -> None:
    found = flatten_outputs(output)
    assert len(found) == len(flat)
    assert all(one is other for one, other in zip(found, flat, strict=True))


def echo(*arguments: Any, **keywords: Any) -> Any:
    return arguments, keywords


def test_a_call_calls_with_the_very_arguments() -> None:
    arguments, keywords = call_of(echo, (A, [B, {"c": C}], 7), {"scale": 2})()
    assert arguments[0] is A
    assert arguments[1][1]["c"] is C
    assert arguments[2] == 7
    assert keywords == {"scale": 2}


@pytest.mark.parametrize(
    ("arguments", "keywords", "origins"),
    [
        ((A, 2, B), {}, [0, 1, 2]),
        ((A, (B, C)), {}, [0, 1, 1]),
        (({"q": A, "k": B}, C), {"scale": C, "bias": (A, B)}, [0, 0, 1, 2, 3, 3]),
        ((A, None), {"b": None}, [0, 1, 2]),
    ],
)
def test_each_value_knows_the_argument_it_came_with(
    arguments: tuple[Any, ...], keywords: dict[str, Any], origins: list[int]
) -> None:
    call = call_of(echo, arguments, keywords)
    assert call.origins == origins
    assert len(call.flat) == len(origins)


def test_values_are_replaced_by_position_at_any_depth() -> None:
    call = call_of(echo, ({"q": A, "k": [B]}, C), {"scale": A})
    at = next(i for i, value in enumerate(call.flat) if value is B)
    scale = call.origins.index(2)
    arguments, keywords = call.with_values({at: "new", scale: "scaled"})
    assert arguments[0]["k"] == ["new"]
    assert arguments[0]["q"] is A
    assert arguments[1] is C
    assert keywords == {"scale": "scaled"}


@pytest.mark.parametrize(
    ("arguments", "keywords"), [((A, B), {}), ((A, (B, C)), {}), ((A,), {"zeta": B, "alpha": {"y": C, "b": A}})]
)
def test_positions_agree_between_flat_values_origins_and_replacement(
    arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Replace each flat value by itself: the call must not notice."""
    call = call_of(echo, arguments, keywords)
    got = call.with_values(dict(enumerate(call.flat)))
    assert flatten_outputs(got) == flatten_outputs((arguments, keywords))


def weigh(x: Any, weight: Any = None, *, bias: Any = None) -> Any:
    return x, weight, bias


class Layer(torch.nn.Module):
    def forward(self, query: Any, key: Any) -> Any:
        return query * key


class Method:
    def apply(self, first: Any) -> Any:
        return first


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "names"),
    [
        (weigh, (A, B), {"bias": C}, ["x", "weight", "bias"]),
        (weigh, (A, (B, C)), {}, ["x", "weight[0]", "weight[1]"]),
        (Layer(), (A, B), {}, ["query", "key"]),
        (Method().apply, (A,), {}, ["first"]),
        (torch.sin, (A,), {}, [""]),
        (echo, (A, B), {"z": C}, ["", "", "z"]),
    ],
)
def test_values_are_named_after_their_parameters(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], names: list[str]
) -> None:
    assert call_of(function, arguments, keywords).names() == names


def test_keywords_out_of_alphabetical_order_keep_their_names() -> None:
    call = call_of(weigh, (A,), {"weight": B, "bias": C})
    named = dict(zip(call.names(), call.flat, strict=True))
    assert named["weight"] is B
    assert named["bias"] is C


def test_copies_leave_the_call_as_it_is() -> None:
    call = call_of(echo, (A, [B]), {"scale": C})
    replaced, chosen = call.replacing({1: C}), call.choosing({0})
    assert [value is other for value, other in zip(replaced.flat, (A, C, C), strict=True)] == [True, True, True]
    assert replaced()[0][1][0] is C
    assert call()[0][1][0] is B
    assert (call.differentiable(), chosen.differentiable()) == ([0, 1, 2], [0])


def test_a_keeper_undoes_after_each_run_whatever_happens() -> None:
    class Keeper:
        undone = 0

        def put_back(self) -> None:
            self.undone += 1

    def failing(x: Any) -> Any:
        raise ArithmeticError

    for function, count in ((echo, 2), (failing, 2)):
        call, keeper = call_of(function, (A,)), Keeper()
        kept = call.kept_by(keeper)
        for run in (kept, lambda kept=kept: kept.with_values({0: B}), call):
            try:
                run()
            except ArithmeticError:
                assert function is failing
        assert keeper.undone == count


@dataclass(frozen=True)
class Dual:
    """An array of a framework that is not torch."""

    value: float
    wanted: bool


DUALS = Arrays((Dual,), lambda v: isinstance(v, Dual) and v.wanted, lambda kind, v: "constant", lambda f: f)


def test_a_call_knows_no_framework() -> None:
    x, y = Dual(1.0, True), Dual(2.0, False)
    call = Call(weigh, (x, [y, x]), {"bias": y}, DUALS)
    assert call.differentiable() == [0, 2]
    assert call.names() == ["x", "weight[0]", "weight[1]", "bias"]
    assert call.with_values({2: y}) == (x, [y, y], y)


def test_arrays_in_what_cannot_be_put_together_again_are_refused() -> None:
    with pytest.raises(ValueError, match="an input of type set holds arrays that need a gradient"):
        call_of(echo, ({A},))


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * weight


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * weight

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)


class Decorated(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * weight


@pytest.mark.parametrize("function", [WithContext, WithSetup, Decorated])
def test_the_apply_of_a_function_has_the_names_of_its_forward(function: type[torch.autograd.Function]) -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert call_of(function.apply, (x, x)).names() == ["x", "weight"]
