"""What things are called, in each mode."""

from __future__ import annotations

from gradproof.core.words import PLAIN, Words


def test_a_backend_may_have_words_of_its_own_for_each_mode() -> None:
    own = Words(reverse="backward", forward="jvp()", cotangent="grad_output", tangent="the dual part")
    assert [(own.rule(reverse), own.probe(reverse)) for reverse in (True, False)] == [
        ("backward", "grad_output"),
        ("jvp()", "the dual part"),
    ]


def test_the_advice_about_nonlinear_derivatives_names_the_probe() -> None:
    assert "the absolute value of grad_output" in PLAIN.nonlinear.format(probe="grad_output")
