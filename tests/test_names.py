"""The words of `check` as types are those that it understands, so that an editor marks a misspelling."""

from __future__ import annotations

import inspect
import typing

import gradproof
from gradproof.core.options import Strategy
from gradproof.core.problem import Mode
from gradproof.names import ModeName, PropertyName, StrategyName
from gradproof.properties import PROPERTIES


def test_the_names_are_those_that_are_understood() -> None:
    assert set(typing.get_args(PropertyName)) == set(PROPERTIES)
    assert typing.get_args(ModeName) == tuple(mode.value for mode in Mode)
    assert set(typing.get_args(StrategyName)) == {"auto", *(strategy.value for strategy in Strategy)}


def test_check_takes_them_and_no_plain_strings() -> None:
    parameters = inspect.signature(gradproof.check, eval_str=True).parameters
    for name, literal in (("strategy", StrategyName), ("modes", ModeName), ("properties", PropertyName)):
        kinds = {parameters[name].annotation, *typing.get_args(parameters[name].annotation)}
        inner = {argument for kind in kinds for argument in typing.get_args(kind)}
        assert literal in kinds | inner, name
        assert str not in kinds | inner, name
