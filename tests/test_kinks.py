"""Points without a derivative: a valid subgradient passes with a warning, another value does not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from functions import custom

from gradproof import Status, Verdict, check
from gradproof.core.problem import Mode
from gradproof.render.notebook import fragment
from gradproof.torch import GradcheckError, NonDifferentiableWarning, UnseenWarning, gradcheck

SPEEDS = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])


def point(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def with_slope(forward: Callable[..., Any], slope: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    return custom(forward, lambda s, g: g * slope(s[0]))


def slope_at_zero(forward: Callable[..., Any], value: float) -> Callable[..., Any]:
    """The function, with its own derivative but for 0, where it claims `value`."""

    def slope(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x.detach().clone().requires_grad_()
            (own,) = torch.autograd.grad(forward(y).sum(), y)
        return torch.where(x == 0, value, own)

    return with_slope(forward, slope)


# exactly on a kink: name, function, input, place, the derivatives of the two sides

KINKS: dict[str, tuple[Callable[..., Any], tuple[float, ...], int, tuple[float, float]]] = {
    "relu": (torch.relu, (1.0, -2.0, 0.0, 3.0), 2, (0, 1)),
    "leaky relu": (lambda x: torch.nn.functional.leaky_relu(x, 0.1), (0.0, 1.0), 0, (0.1, 1)),
    "abs, slope 1": (slope_at_zero(torch.abs, 1.0), (0.5, 0.0, 2.0), 1, (-1, 1)),
    "abs, slope -1": (slope_at_zero(torch.abs, -1.0), (0.5, 0.0, 2.0), 1, (-1, 1)),
    "abs, slope 0.3": (slope_at_zero(torch.abs, 0.3), (0.5, 0.0, 2.0), 1, (-1, 1)),
    "clamp below": (lambda x: x.clamp(0, 1), (0.5, 0.0, 0.7), 1, (0, 1)),
    "clamp above": (lambda x: x.clamp(0, 1), (0.5, 0.4, 1.0), 2, (1, 0)),
    "hardtanh": (torch.nn.functional.hardtanh, (0.5, 0.4, 1.0), 2, (1, 0)),
}


@SPEEDS
@pytest.mark.parametrize("name", KINKS)
def test_a_valid_subgradient_passes_with_a_warning_that_names_the_place_and_both_sides(
    name: str, fast_mode: bool
) -> None:
    function, values, place, (left, right) = KINKS[name]
    with pytest.warns(NonDifferentiableWarning) as caught:
        assert gradcheck(function, point(*values), fast_mode=fast_mode)
    (warning,) = caught
    message = str(warning.message)
    assert "no derivative here" in message
    assert "1 of " in message
    assert "valid subgradients" in message
    assert f"d(element [{place}]) / d(element [{place}]): left {left}, right {right}, analytic" in message
    assert warning.filename == __file__


@pytest.mark.parametrize("name", KINKS)
def test_the_full_interface_passes_with_a_finding(name: str) -> None:
    function, values, place, (left, right) = KINKS[name]
    report = check(function, point(*values), modes="reverse")
    assert report.verdict is Verdict.PASS
    (finding,) = report.findings
    assert (finding.property, finding.status) == ("jacobian", Status.KINK)
    assert finding.input_element == finding.output_element == (place,)
    assert finding.entries[0].sides == pytest.approx((left, right), abs=1e-6)
    assert finding.hint == ""
    assert "kink or a jump" in str(report)


@SPEEDS
def test_a_kink_whose_mean_slope_is_claimed_needs_no_word(fast_mode: bool) -> None:
    """The central difference of abs at 0 is 0, and so is torch's gradient."""
    assert gradcheck(torch.abs, point(0.5, 0.0, 2.0), fast_mode=fast_mode)


@SPEEDS
def test_a_tie_of_max_passes_with_a_warning(fast_mode: bool) -> None:
    first = custom(lambda x: x.max(), lambda s, g: g * (torch.arange(3) == s[0].argmax()))
    with pytest.warns(NonDifferentiableWarning, match="left .*, right .*, analytic"):
        assert gradcheck(first, point(1.0, 2.0, 2.0), fast_mode=fast_mode)
    assert gradcheck(lambda x: x.amax(), point(1.0, 2.0, 2.0), fast_mode=fast_mode)  # it shares the gradient out


@SPEEDS
def test_a_tie_of_two_inputs_passes_with_a_warning(fast_mode: bool) -> None:
    first = custom(torch.maximum, lambda s, g: (g * (s[0] >= s[1]), g * (s[1] > s[0])))
    with pytest.warns(NonDifferentiableWarning) as caught:
        assert gradcheck(first, (point(1.0, 2.0), point(0.0, 2.0)), fast_mode=fast_mode)
    assert {"with respect to input 0" in str(w.message) for w in caught} == {True, False}


# invalid subgradients

INVALID: dict[str, tuple[Callable[..., Any], tuple[float, ...], int]] = {
    "abs, slope 5": (slope_at_zero(torch.abs, 5.0), (0.5, 0.0, 2.0), 1),
    "abs, slope -1.1": (slope_at_zero(torch.abs, -1.1), (0.5, 0.0, 2.0), 1),
    "relu, slope -0.1": (slope_at_zero(torch.relu, -0.1), (1.0, 0.0), 1),
    "relu, slope 1.01": (slope_at_zero(torch.relu, 1.01), (1.0, 0.0), 1),
}


@SPEEDS
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_subgradient_fails(name: str, fast_mode: bool) -> None:
    function, values, place = INVALID[name]
    with pytest.raises(GradcheckError, match="Jacobian mismatch") as caught:
        gradcheck(function, point(*values), fast_mode=fast_mode)
    (finding,) = caught.value.findings
    assert finding.status is Status.WRONG
    assert finding.input_element == finding.output_element == (place,)
    assert check(function, point(*values)).verdict is Verdict.FAIL


@SPEEDS
def test_a_kink_does_not_excuse_a_wrong_element_beside_it(fast_mode: bool) -> None:
    wrong = with_slope(torch.relu, lambda x: (x > 0) * torch.where(x == 3.0, 1.1, 1.0).double())
    with (
        pytest.raises(GradcheckError) as caught,
        pytest.warns(NonDifferentiableWarning, match=r"element \[1\]"),
    ):
        gradcheck(wrong, point(1.0, 0.0, 3.0), fast_mode=fast_mode)
    assert [f.input_element for f in caught.value.findings if f.status is Status.WRONG] == [(2,)]


# jumps


@SPEEDS
@pytest.mark.parametrize("function", [torch.floor, torch.ceil, torch.trunc, torch.round], ids=lambda f: f.__name__)
def test_exactly_on_a_jump_the_derivative_of_the_sides_passes(function: Callable[..., Any], fast_mode: bool) -> None:
    values = (0.5, 1.3) if function is torch.round else (1.0, 1.3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert gradcheck(function, point(*values), fast_mode=fast_mode)
    assert {warning.category for warning in caught} == {NonDifferentiableWarning}
    assert all("left 0, right 0, analytic 0" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("slope", [1.0, 1000.0])
def test_exactly_on_a_jump_another_derivative_fails(slope: float) -> None:
    steep = with_slope(torch.floor, lambda x: torch.where(x == 1.0, slope, 0.0))
    assert check(steep, point(1.0, 1.3)).verdict is Verdict.FAIL
    with pytest.raises(GradcheckError) as caught:
        gradcheck(steep, point(1.0, 1.3))
    assert caught.value.findings[0].status is Status.WRONG
    assert caught.value.findings[0].input_element == (0,)


# staircases: zero between the steps, and the slope behind them where steps are narrow; no other slope

STAIRS: dict[str, Callable[..., Any]] = {
    "round to three decimals": lambda x: torch.round(x, decimals=3),
    "floor of 1000 x": lambda x: torch.floor(1000 * x) / 1000,
}


def between_stairs(size: int) -> torch.Tensor:
    x = torch.rand(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return ((x * 1000).floor() / 1000 + 3e-4).requires_grad_()


@SPEEDS
@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("name", STAIRS)
def test_a_staircase_has_two_honest_slopes(name: str, slope: float, size: int, fast_mode: bool) -> None:
    stairs = with_slope(STAIRS[name], lambda x: torch.full_like(x, slope))
    assert gradcheck(stairs, between_stairs(size), fast_mode=fast_mode)
    assert check(stairs, between_stairs(size)).verdict is Verdict.PASS


@SPEEDS
@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("slope", [2.0, -1.0, 0.5])
@pytest.mark.parametrize("name", STAIRS)
def test_another_slope_of_a_staircase_is_wrong(name: str, slope: float, size: int, fast_mode: bool) -> None:
    stairs = with_slope(STAIRS[name], lambda x: torch.full_like(x, slope))
    assert not gradcheck(stairs, between_stairs(size), fast_mode=fast_mode, raise_exception=False)
    assert check(stairs, between_stairs(size)).verdict is Verdict.FAIL


FINE_STAIRS: dict[str, tuple[Callable[..., Any], float]] = {
    "round(1024 x) / 1024": (lambda x: torch.round(1024 * x) / 1024, 2.0**-10),
    "round(sin, decimals=6)": (lambda x: torch.round(x.sin(), decimals=6), 1e-6),
    "round(sin, decimals=8)": (lambda x: torch.round(x.sin(), decimals=8), 1e-8),
}


@pytest.mark.parametrize("seed", [0, 1, 4])
@pytest.mark.parametrize("name", FINE_STAIRS)
def test_a_staircase_passes_with_a_note_of_the_reading_that_was_taken(name: str, seed: int) -> None:
    stairs, width = FINE_STAIRS[name]
    x = torch.randn(200, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    slope = torch.cos if "sin" in name else torch.ones_like
    steps = f"steps of about {width:.2g}"
    behind = check(with_slope(stairs, slope), x, modes="reverse")
    assert behind.verdict is Verdict.PASS, str(behind)
    assert any(steps in note and "compared with the slope behind them" in note for note in behind.notes), behind.notes
    between = check(with_slope(stairs, torch.zeros_like), x, modes="reverse")
    assert between.verdict is Verdict.PASS, str(between)
    assert any(steps in note and "derivative between them" in note for note in between.notes), between.notes
    wrong = check(with_slope(stairs, lambda x: 2 * slope(x)), x, modes="reverse")
    assert wrong.verdict is Verdict.FAIL


def stairs_of(width: float) -> Callable[..., Any]:
    return lambda x: torch.round(x / width) * width


@SPEEDS
@pytest.mark.parametrize("size", [1, 5, 30])
@pytest.mark.parametrize("slope", [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3])
def test_no_slope_passes_in_silence_behind_stairs_that_hide_as_much(slope: float, size: int, fast_mode: bool) -> None:
    stairs = with_slope(stairs_of(0.1), lambda x: torch.full_like(x, slope))
    for seed in range(3):
        x = torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
        assert check(stairs, x, seed=seed).verdict is not Verdict.PASS
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            passes = gradcheck(stairs, x, fast_mode=fast_mode, raise_exception=False)
        doubts = [str(each.message) for each in told if each.category is UnseenWarning]
        assert not passes or any("is noisy by" in doubt and "could hide" in doubt for doubt in doubts), doubts


@pytest.mark.parametrize("width", [0.1, 0.01])
def test_zero_between_wide_stairs_passes_in_silence(width: float) -> None:
    flat = with_slope(stairs_of(width), torch.zeros_like)
    x = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    assert check(flat, x).verdict is Verdict.PASS
    assert gradcheck(flat, x)


@pytest.mark.parametrize("lost", [torch.sin, lambda x: x.sin() + 1e6, lambda x: x.float().double()])
def test_zeros_of_what_is_not_made_of_steps_fail(lost: Callable[..., Any]) -> None:
    x = torch.randn(200, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    report = check(with_slope(lost, torch.zeros_like), x, modes="reverse")
    assert report.verdict is Verdict.FAIL
    assert not any("staircase" in note for note in report.notes)


@SPEEDS
@pytest.mark.parametrize("size", [1, 4, 50])
def test_wide_steps_are_flat(size: int, fast_mode: bool) -> None:
    straight, flat = (with_slope(torch.round, slope) for slope in (torch.ones_like, torch.zeros_like))
    x = between_stairs(size)
    assert gradcheck(flat, x, fast_mode=fast_mode)
    assert not gradcheck(straight, x, fast_mode=fast_mode, raise_exception=False)
    assert check(flat, x).verdict is Verdict.PASS
    assert check(straight, x).verdict is Verdict.FAIL


# near a kink


@SPEEDS
@pytest.mark.parametrize("distance", [1e-7, -1e-7])
def test_near_a_kink_the_derivative_of_this_side_is_the_right_one(distance: float, fast_mode: bool) -> None:
    slope = float(distance > 0)
    right, wrong = (with_slope(torch.relu, lambda x, at=at: torch.where(x > 0.5, 1.0, at)) for at in (slope, 1 - slope))
    x = point(1.0, distance, 2.0)
    assert gradcheck(right, x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong, x, fast_mode=fast_mode)
    assert caught.value.findings[0].input_element == (1,)


@SPEEDS
def test_the_own_functions_of_torch_pass_near_their_kinks(fast_mode: bool) -> None:
    for function in (torch.relu, torch.abs, lambda x: x.clamp(0, 1), torch.nn.functional.hardtanh):
        assert gradcheck(function, point(1e-7, -1e-7, 0.5, 1 + 1e-7, 1 - 1e-7), fast_mode=fast_mode)


# forward mode


@SPEEDS
def test_forward_mode_passes_on_a_kink_with_a_warning(fast_mode: bool) -> None:
    with pytest.warns(NonDifferentiableWarning, match=r"element \[1\]"):
        assert gradcheck(
            torch.relu,
            point(1.0, 0.0),
            fast_mode=fast_mode,
            check_forward_ad=True,
            check_backward_ad=False,
            check_undefined_grad=False,
        )


# many


@pytest.mark.parametrize("size", [30, 1000])
def test_kinks_among_many_elements_pass(size: int) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[::10] = 0
    with pytest.warns(NonDifferentiableWarning, match=f"at least 1 of {size * size} entries are valid subgradients"):
        assert gradcheck(torch.relu, x.requires_grad_(), fast_mode=True)


def test_an_invalid_subgradient_among_too_many_elements_does_not_pass() -> None:
    x = torch.linspace(0.5, 1.5, 3000, dtype=torch.float64)
    x[5] = 0
    wrong = slope_at_zero(torch.abs, 5.0)
    assert not gradcheck(wrong, x.requires_grad_(), fast_mode=True, raise_exception=False)


JUMPS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "sign": (torch.sign, 0.0, 0.0),
    "floor": (torch.floor, 1.0, 0.0),
    "frac": (torch.frac, 2.0, 1.0),
    "sign and a slope": (lambda x: x.sign() + 3 * x, 0.0, 3.0),
}


@SPEEDS
@pytest.mark.parametrize("name", JUMPS)
def test_at_a_jump_the_slope_of_both_sides_passes_with_a_warning_and_no_other(name: str, fast_mode: bool) -> None:
    function, at, slope = JUMPS[name]
    with pytest.warns(NonDifferentiableWarning, match="jump"):
        assert gradcheck(function, point(at, 0.5, 1.7), fast_mode=fast_mode)
    wrong = with_slope(function, lambda x: torch.where(x == at, slope + 1.0, slope))
    assert not gradcheck(wrong, point(at, 0.5, 1.7), fast_mode=fast_mode, raise_exception=False)


@SPEEDS
def test_ties_that_each_get_the_whole_gradient_are_wrong(fast_mode: bool) -> None:
    each = with_slope(torch.max, lambda x: (x == x.max()).to(x.dtype))
    assert not gradcheck(each, point(1.0, 1.0, 1.0, 1.0), fast_mode=fast_mode, raise_exception=False)
    with pytest.warns(NonDifferentiableWarning):
        assert gradcheck(lambda x: x.max(dim=0)[0], point(1.0, 1.0, 1.0, 1.0), fast_mode=fast_mode)


@SPEEDS
def test_the_gradient_of_a_norm_at_zero_is_at_most_of_length_one(fast_mode: bool) -> None:
    for length, valid in ((0.9, True), (2.0, False)):
        norm = with_slope(torch.linalg.vector_norm, lambda x, k=length: torch.full_like(x, k / 2.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonDifferentiableWarning)
            assert gradcheck(norm, point(0, 0, 0, 0), fast_mode=fast_mode, raise_exception=False) is valid


def test_what_is_valid_at_a_kink_is_not_off_by_so_many_times_what_is_allowed(tmp_path: Path) -> None:
    valid = check(torch.relu, point(1.0, 0.0), strategy="entries")
    (pair,) = valid.pairs
    (finding,) = [each for each in valid.findings if each.mode is Mode.REVERSE]
    assert (pair.status, pair.excess, finding.entries[0].excess) == (Status.KINK, None, None)
    path = tmp_path / "report.html"
    valid.to_html(path)
    page = path.read_text(encoding="utf-8").partition("<script")[0].partition("Words on this page")[0]
    for shown in (str(valid), fragment(valid), page):
        assert not re.search(r"e\+0[1-9]", shown)
    assert "× allowed" not in str(valid)
    wrong = check(slope_at_zero(torch.abs, 2.0), point(1.0, 0.0), strategy="entries")
    (pair,) = wrong.pairs
    assert pair.status is Status.WRONG
    assert (pair.excess or 0.0) > 1e3
    assert "× allowed" in str(wrong)


def test_the_only_entry_at_a_kink_is_told_without_a_difference() -> None:
    assert "a valid subgradient" in str(check(torch.relu, point(0.0)))


@pytest.mark.parametrize(("off", "expected"), [(0.0, {Verdict.PASS}), (2.0, {Verdict.FAIL}), (-2.0, {Verdict.FAIL})])
def test_on_jumps_nothing_is_negligible_beside_what_steps_across_measure(off: float, expected: set[Verdict]) -> None:
    x = torch.tensor([-0.401, 1.048, -7.703, 11.39, 7.207, 9.393], dtype=torch.float64, requires_grad=True)
    spoiled = off * (torch.arange(6) == 0)
    function = custom(lambda x: x * torch.floor(x / 1e-3), lambda x, g: g * (torch.floor(x[0] / 1e-3) + spoiled))
    assert check(function, x, properties="jacobian", modes="reverse").verdict in expected


@pytest.mark.parametrize("off", [0.0, 2.0, 50.0, -50.0])
def test_a_wrong_entry_on_a_jump_among_thousands_is_not_forgotten(off: float) -> None:
    """Its row is looked at alone, before all that is on kinks is looked at together."""
    generator = torch.Generator().manual_seed(1068)
    x = 10 * torch.randn(3000, dtype=torch.float64, generator=generator)
    on_jumps = torch.rand(3000, generator=generator) < 0.01
    x = torch.where(on_jumps, torch.round(x / 0.25) * 0.25, x)
    spoiled = off * (torch.arange(3000) == int(on_jumps.nonzero()[0]))
    function = custom(lambda x: torch.floor(x / 0.25) * 0.25, lambda x, g: g * spoiled)
    verdict = check(function, x.requires_grad_(), properties="jacobian", modes="reverse").verdict
    assert verdict in ({Verdict.FAIL, Verdict.INCONCLUSIVE} if off else {Verdict.PASS})
