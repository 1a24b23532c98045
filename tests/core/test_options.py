"""Every knob is validated once."""

from __future__ import annotations

from typing import Any

import pytest

from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("atol", -1e-9),
        ("atol", float("nan")),
        ("rtol", -1.0),
        ("rtol", float("nan")),
        ("nondet_tol", -1.0),
        ("nondet_tol", float("nan")),
        ("step", 0.0),
        ("step", -1e-6),
        ("step", float("inf")),
        ("step", float("nan")),
    ],
)
def test_a_knob_out_of_range_is_refused_by_name_and_value(knob: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{knob} must be .* got {value!r}"):
        Options(**{knob: value})


def test_no_mode_at_all_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"modes is empty.*'reverse' and 'forward'"):
        Options(modes=())


@pytest.mark.parametrize(
    "knobs", [{}, {"atol": 0.0, "rtol": 0.0, "nondet_tol": 0.0}, {"step": 1e-3}, {"modes": tuple(Mode)}]
)
def test_sensible_knobs_are_taken(knobs: dict[str, Any]) -> None:
    options = Options(**knobs)
    assert {name: getattr(options, name) for name in knobs} == knobs


def test_options_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        Options().atol = 1.0  # type: ignore[misc]


def test_probes_take_over_where_every_entry_is_too_much_work() -> None:
    entries = Options(most_work=1000)
    assert entries.for_size(10, 90) is entries
    assert entries.for_size(10, 91).strategy is Strategy.PROBES


@pytest.mark.parametrize("options", [Options(most_work=1, step=1e-6), Options(most_work=1, strategy=Strategy.PROBES)])
def test_a_fixed_step_and_probes_stay_what_they_are(options: Options) -> None:
    assert options.for_size(100, 100) is options
