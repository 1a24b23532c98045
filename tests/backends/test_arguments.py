"""The call under test, with its tensors found wherever they are nested."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from functions import numbers

from gradproof.backends.torch.arguments import Call, flatten_outputs


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
    arguments, keywords = Call(echo, (A, [B, {"c": C}], 7), {"scale": 2})()
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
    call = Call(echo, arguments, keywords)
    assert call.origins == origins
    assert len(call.flat) == len(origins)


def test_values_are_replaced_by_position_at_any_depth() -> None:
    call = Call(echo, ({"q": A, "k": [B]}, C), {"scale": A})
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
    call = Call(echo, arguments, keywords)
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
    assert Call(function, arguments, keywords).names() == names


def test_keywords_out_of_alphabetical_order_keep_their_names() -> None:
    call = Call(weigh, (A,), {"weight": B, "bias": C})
    named = dict(zip(call.names(), call.flat, strict=True))
    assert named["weight"] is B
    assert named["bias"] is C
