"""Low precision against its twin: round-off is cleared, what is off is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, HALF, SINGLE, Part, array_problem

from gradproof.core.capabilities import Elsewhere, Twin, Twinned
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.wide import Comparer, common_factor, wide_options, widened

N = 400
POINT = np.random.default_rng(3).standard_normal(N)


def to_precision(values: Any, eps: float) -> Any:
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2 / eps) * eps / 2, exponent)


def sines(
    eps: float, spoil: Callable[[Any], Any] = lambda g: g, twin: Any = None, value: Any = np.sin, inside: float = 0.0
) -> Investigation:
    """sin in a low precision, whose vjp is spoiled there, and its right twin."""
    point = to_precision(POINT, eps)
    wide = array_problem(
        np.sin,
        point,
        vjp=lambda v: v * np.cos(point),
        jvp=lambda u: u * np.cos(point),
        capabilities={Elsewhere: Elsewhere(lambda x, v: v * np.cos(x), lambda x, u: u * np.cos(x))},
    )
    part = [Part((N,), eps=eps)]

    def made() -> Twinned | None:
        problem = wide if twin is None else twin()
        return None if problem is None else Twinned(problem, to_precision(value(point), eps), inside or eps)

    narrow = array_problem(
        lambda x: to_precision(np.sin(x), eps),
        point,
        inputs=part,
        outputs=part,
        vjp=lambda v: to_precision(spoil(v * to_precision(np.cos(point), eps)), eps),
        jvp=lambda u: to_precision(spoil(u * to_precision(np.cos(point), eps)), eps),
        capabilities={Twin: Twin(made)},
    )
    return Investigation(narrow)


def compared(case: Investigation, mode: Mode = Mode.REVERSE, **options: Any) -> Any:
    wide = case.once(widened)
    assert wide is not None
    return Comparer(case, wide, Options(**options), mode).run()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("eps", [BRAIN, HALF, SINGLE])
def test_round_off_is_cleared_with_two_questions_of_each(eps: float, mode: Mode) -> None:
    case = sines(eps)
    last, deviations = compared(case, mode)
    assert deviations == []
    assert last.smallest(case.problem.inputs.blocks)[0] < max(32 * eps, 3e-4) * 8
    assert case.cost.vjps + case.cost.jvps <= 7  # two of them for the certificate


def place(k: int, value: float) -> Callable[[Any], Any]:
    return lambda g: np.where(np.arange(N) == k, value * g, g)


LARGE = int(np.argmax(np.abs(np.cos(POINT))))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("eps", [BRAIN, HALF, SINGLE])
@pytest.mark.parametrize(
    ("spoil", "factor", "count"),
    [
        (lambda g: 1.1 * g, 1.1, None),
        (lambda g: -g, -1.0, None),
        (lambda g: 0 * g, None, None),
        (place(LARGE, 0.0), None, 1),
        (place(LARGE, 3.0), None, 1),
    ],
    ids=["factor", "sign", "zero", "zero element", "wrong element"],
)
def test_what_is_off_is_wrong(eps: float, spoil: Any, factor: float | None, count: int | None, mode: Mode) -> None:
    _, (found,) = compared(sines(eps, spoil), mode)
    assert found.is_wrong
    assert found.factor == (factor if factor is None else pytest.approx(factor, abs=4 * eps))
    if count is not None:
        assert len(found.elements) == count
    if count == 1:
        assert found.elements.tolist() == [LARGE]


def test_a_derivative_that_responds_to_rounding_is_not_accused() -> None:
    """sin(1000 x) in bfloat16: what differs is what the point's rounding explains."""
    point = to_precision(np.abs(POINT) + 1, BRAIN)

    def derivative(x: Any, v: Any) -> Any:
        return 1e3 * v * np.cos(1e3 * x)

    off = np.random.default_rng(0).uniform(-1, 1, N)
    wide = array_problem(
        lambda x: np.sin(1e3 * x),
        point,
        vjp=lambda v: derivative(point, v),
        capabilities={Elsewhere: Elsewhere(derivative, derivative)},
    )
    part = [Part((N,), eps=BRAIN)]
    narrow = array_problem(
        lambda x: np.sin(1e3 * x),
        point,
        inputs=part,
        outputs=part,
        vjp=lambda v: derivative(point * (1 + off * BRAIN), v),
        capabilities={Twin: Twin(lambda: Twinned(wide, wide.value, BRAIN))},
    )
    assert compared(Investigation(narrow))[1] == []


def test_an_output_that_is_another_in_low_precision_may_have_another_derivative() -> None:
    """The winner of a tie, a random number: its value tells."""

    def another(x: Any) -> Any:
        return np.where(np.arange(N) == LARGE, 5.0, np.sin(x))

    for mode in Mode:
        assert compared(sines(BRAIN, place(LARGE, 0.0), value=another), mode)[1] == []
        assert compared(sines(BRAIN, lambda g: 1.2 * g, value=another), mode)[1]


def test_a_gradient_that_is_not_finite_in_a_narrow_range_cannot_be_judged() -> None:
    _, (found,) = compared(sines(HALF, place(LARGE, np.inf)))
    assert not found.is_wrong
    _, (found,) = compared(sines(BRAIN, place(LARGE, np.inf)))
    assert found.is_wrong


def test_tolerances_that_are_given_excuse() -> None:
    case = sines(SINGLE, lambda g: 1.005 * g)
    assert compared(case, rtol=1e-2)[1] == []
    assert compared(sines(SINGLE, lambda g: 1.005 * g))[1]


def test_a_lower_precision_inside_explains_what_it_rounds_and_no_more() -> None:
    assert compared(sines(SINGLE, lambda g: 1.01 * g))[1]
    assert compared(sines(SINGLE, lambda g: 1.01 * g, inside=BRAIN))[1] == []
    (deviation,) = compared(sines(SINGLE, lambda g: 1.2 * g, inside=BRAIN))[1]
    assert deviation.is_wrong


def test_without_a_twin_or_its_derivative_there_is_none() -> None:
    assert widened(sines(BRAIN, twin=lambda: None)) is None

    def refuses(v: Any) -> Any:
        raise TypeError("bfloat16 only")

    assert widened(sines(BRAIN, twin=lambda: array_problem(np.sin, POINT, vjp=refuses))) is None


def test_the_twin_is_checked_with_the_low_precisions_tolerance() -> None:
    problem = sines(BRAIN).problem
    assert wide_options(problem, Options()).rtol == pytest.approx(0.0309, rel=0.02)
    assert wide_options(problem, Options(rtol=1e-3)).rtol == 4 * BRAIN
    assert wide_options(problem, Options(rtol=0)).rtol == 0


def test_in_single_precision_the_twin_is_judged_by_what_that_rounds_and_not_by_what_its_differences_would_show() -> (
    None
):
    assert wide_options(sines(SINGLE).problem, Options()).rtol == 256 * SINGLE
    assert wide_options(sines(SINGLE, inside=BRAIN).problem, Options()).rtol == pytest.approx(1.2e-4, rel=0.02)


def test_one_element_has_no_common_factor() -> None:
    assert common_factor(np.array([2.0]), np.array([1.0]), SINGLE) is None
    assert common_factor(np.array([2.0, 5.0]), np.array([1.0, 1.0]), SINGLE) is None


# neighbours


def answering(elsewhere: Callable[[Any, Any, int], Any], factor: float = 1.0, slope: float = 1.0) -> Investigation:
    """1 + `slope` x in single precision, whose neighbours answer as is said, each with its number."""
    point, part, numbers = np.linspace(0.5, 1.0, N), [Part((N,), eps=SINGLE)], itertools.count()

    def there(x: Any, v: Any) -> Any:
        return elsewhere(x, v, next(numbers))

    twin = array_problem(
        lambda x: 1.0 + slope * x,
        to_precision(point, SINGLE),
        vjp=lambda v: slope * v,
        jvp=lambda u: slope * u,
        capabilities={Elsewhere: Elsewhere(there, there)},
    )
    low = array_problem(
        lambda x: 1.0 + slope * x,
        to_precision(point, SINGLE),
        inputs=part,
        outputs=part,
        vjp=lambda v: factor * slope * v,
        jvp=lambda u: factor * slope * u,
        capabilities={Twin: Twin(lambda: Twinned(twin, twin.value, SINGLE))},
    )
    return Investigation(low)


@pytest.mark.parametrize(("factor", "asked"), [(1.01, 3 * (6 + 12)), (-1.0, 3 * 6)])
def test_many_neighbours_are_asked_only_where_they_may_explain_what_is_off(factor: float, asked: int) -> None:
    numbers: list[int] = []

    def same(x: Any, v: Any, number: int) -> Any:
        numbers.append(number)
        return v

    _, (found,) = compared(answering(same, factor), certify=False)
    assert found.is_wrong
    assert len(numbers) == asked


def test_and_they_do_where_a_few_of_them_show_too_little_by_chance() -> None:
    """The first that are asked, six of each question, all round to the same number."""
    few = 3 * 6
    case = answering(lambda x, v, number: v if number < few else 1.02 * v, 1.01)
    assert compared(case, certify=False)[1] == []


@pytest.mark.parametrize("mode", Mode)
def test_what_neighbours_have_shown_is_kept_and_dust_is_added_once(mode: Mode) -> None:
    """Of a derivative that is zero but for round-off there is dust; neighbours come on top."""
    case = answering(lambda x, v, number: np.full(N, 1e-2 if number < 6 else 0.0), slope=1e-12)
    wide = case.once(widened)
    assert wide is not None
    comparer = Comparer(case, wide, Options(), mode)
    first = comparer.responding(comparer.compare(np.ones(N)))
    dust = float(first.spread[0]) - 1e-2
    assert 0.0 < dust < 1e-2
    again = comparer.responding(first, range(6, 12))
    assert again.spread == pytest.approx(first.spread, rel=1e-9)
    assert first.spread_factor[0] > 0.0
    assert again.spread_factor == first.spread_factor
