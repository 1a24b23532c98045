"""Mistakes in rules of custom_vjp and custom_jvp are caught, with the right leaf and element; the right rules pass."""

from __future__ import annotations

import pytest
from jax_bugs import BUGS, Bug

import gradproof

CASES = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)


def test_there_are_enough() -> None:
    assert len(BUGS) >= 24
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@CASES
def test_the_right_rule_passes(bug: Bug) -> None:
    function, inputs = bug.make(False)
    report = gradproof.check(function, inputs, **bug.options)
    assert report.ok, str(report)


@CASES
def test_the_mistake_is_named(bug: Bug) -> None:
    function, inputs = bug.make(True)
    report = gradproof.check(function, inputs, **bug.options)
    assert report.verdict is gradproof.Verdict.FAIL
    found = [finding for finding in report.findings if finding.property == bug.property]
    assert found, str(report)
    for finding in found:
        assert not bug.leaf or f"`{bug.leaf}`" in finding.headline
        for entry in finding.entries:
            assert entry.input.block.name == bug.leaf
            assert bug.elements is None or entry.input.element in bug.elements
