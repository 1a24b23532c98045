"""Certificates as values: what they are about, in words and in sums."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from report_samples import CERTIFICATE, WEIGHT, X

from gradproof import Certificate
from gradproof.core.seen import Seen
from gradproof.render.text import noticed
from gradproof.results.certificate import About

NOTHING = replace(X, index=2, name="nothing", shape=(0, 3), start=10)


def test_it_has_a_number_for_each_input_with_coordinates() -> None:
    certificate = Certificate.of(Seen((3e-8, 4e-8, 0.0), 1e-12), (X, WEIGHT, NOTHING))
    assert certificate == CERTIFICATE
    assert [about.input for about, _ in certificate.smallest] == [X, WEIGHT]


def test_a_number_for_each_input_no_more_and_no_less() -> None:
    with pytest.raises(ValueError, match="zip"):
        Certificate.of(Seen((3e-8,), 1e-12), (X, WEIGHT))


def test_it_can_be_asked_about_an_input_and_an_order() -> None:
    both = CERTIFICATE + Certificate(((About(X, 2), 5e-7),), 0.0)
    assert (both.of_input(X), both.of_input(WEIGHT), both.of_input(NOTHING)) == (3e-8, 4e-8, None)
    assert (both.of_input(X, 2), both.of_input(WEIGHT, 2)) == (5e-7, None)


def test_inputs_with_the_same_label_are_not_mixed_up() -> None:
    first, second = replace(X, start=0), replace(X, start=6)
    assert first.label == second.label
    certificate = Certificate.of(Seen((1e-8, 1e-3), 0.0), (first, second))
    assert (certificate.of_input(first), certificate.of_input(second)) == (1e-8, 1e-3)


def test_the_orders_together_have_the_larger_probability_of_a_miss() -> None:
    second = Certificate(((About(X, 2), 5e-7),), 0.0)
    assert (CERTIFICATE + second).smallest == (*CERTIFICATE.smallest, *second.smallest)
    assert (CERTIFICATE + second).miss == (second + CERTIFICATE).miss == 1e-12


def test_it_reads_well() -> None:
    assert str(Certificate(((About(X), 3e-8),), 1e-12)) == (
        "a lone entry off by more than 3e-08 (input 0 `x`) is missed with probability at most 1e-12"
    )
    assert str(Certificate(((About(X), 1e-6), (About(X, 2), 1e-5)), 0.0)) == (
        "a lone entry off by more than 1e-06 (input 0 `x`), 1e-05 (input 0 `x`, second order) cannot be missed"
    )
    assert str(Certificate(((About(X), 1e-6), (About(WEIGHT), math.inf)), 0.0)) == "some entries were not seen at all"
    assert str(Certificate((), 0.0)) == "there are no entries to see"


@pytest.mark.parametrize("size", [3.0, 0.5, 12.0, 3e-08, 2.7e-6])
def test_its_numbers_are_those_of_the_table(size: float) -> None:
    assert f" {noticed(size)} (input 0 `x`)" in str(Certificate(((About(X), size),), 0.0))
