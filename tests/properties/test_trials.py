"""A few vjps that ask many questions at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import HALF, ArrayProblem, Part

from gradproof.core.options import Options
from gradproof.core.problem import Layout
from gradproof.properties import DEFAULT
from gradproof.properties.trials import constant, scales, trials

ALL = [Layout.EXPANDED, Layout.SLICED, Layout.TRANSPOSED, Layout.CHANNELS_LAST]


def problem_with(vjp_in: Any = None, **options: Any) -> ArrayProblem:
    return ArrayProblem(lambda x: x, np.ones(4), np.eye(4), vjp_in=vjp_in, layouts=ALL, **options)


def asked_of(options: Options) -> list[tuple[Layout, Any]]:
    asked: list[tuple[Layout, Any]] = []

    def vjp_in(v: Any, layout: Layout) -> Any:
        asked.append((layout, v.copy()))
        return v

    made = trials(problem_with(vjp_in), options)
    assert (made.exact, made.agree, made.overwritten) == (True, True, ())
    return asked


def test_each_trial_has_another_layout_sign_and_scale() -> None:
    asked = asked_of(Options(properties=DEFAULT))
    assert [layout for layout, _ in asked][:2] == [Layout.TRANSPOSED, Layout.EXPANDED]
    assert {layout for layout, _ in asked[2:]} == {Layout.SLICED, Layout.CHANNELS_LAST}
    shared = problem_with().cotangent
    assert (asked[0][1] == -1024.0 * shared).all()
    assert len(set(asked[1][1])) == 1
    assert abs(asked[1][1][0]) < 1e-5
    assert asked[2][1][0] == 0.0


def test_what_is_not_asked_for_is_not_tried() -> None:
    plain = asked_of(Options(properties=frozenset({"linearity"})))
    assert {layout for layout, _ in plain} == {Layout.CONTIGUOUS}
    unscaled = asked_of(Options(properties=frozenset({"layout"})))
    assert (unscaled[0][1] == problem_with().cotangent).all()


def test_they_are_made_once() -> None:
    problem = problem_with()
    first = trials(problem, Options(properties=DEFAULT))
    spent = problem.cost.vjps
    assert trials(problem, Options(properties=DEFAULT)) is first
    assert problem.cost.vjps == spent


@pytest.mark.parametrize("layout", ALL)
def test_one_that_disagrees_is_enough(layout: Layout) -> None:
    assert not trials(
        problem_with(lambda v, given: 1.5 * v if given is layout else v), Options(properties=DEFAULT)
    ).agree


def test_round_off_agrees_but_is_not_exact() -> None:
    problem = ArrayProblem(lambda x: x, np.ones(4), np.eye(4), vjp_in=lambda v, given: v * (1 + 3e-16))
    made = trials(problem, Options(properties=DEFAULT))
    assert (made.exact, made.agree) == (False, True)


def test_another_order_of_summation_is_not_taken_for_noise() -> None:
    made = trials(
        problem_with(lambda v, given: v * (1 + 3e-16 * (given is not Layout.CONTIGUOUS))), Options(properties=DEFAULT)
    )
    assert (made.exact, made.agree) == (True, True)


def test_an_exception_leaves_everything_open() -> None:
    def vjp_in(v: Any, layout: Layout) -> Any:
        raise RuntimeError("no")

    made = trials(problem_with(vjp_in), Options(properties=DEFAULT))
    assert (made.exact, made.agree, made.overwritten) == (False, False, ())


def test_an_interrupt_comes_out() -> None:
    def vjp_in(v: Any, layout: Layout) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trials(problem_with(vjp_in), Options(properties=DEFAULT))


def test_scales_are_powers_of_two_within_the_range_of_the_dtype() -> None:
    assert scales(problem_with()) == (2.0**10, 2.0**-20)
    assert scales(problem_with(inputs=[Part((4,), eps=HALF)])) == (2.0**2, 2.0**-4)


def test_the_constant_cotangent_takes_the_first_element_of_each_block_to_zero() -> None:
    problem = problem_with(outputs=[Part((3,)), Part((0,)), Part((1,))])
    sum_ = problem.cotangent + constant(problem)
    assert (sum_[0], sum_[3]) == (0.0, 0.0)
    assert len(set(constant(problem)[:3])) == 1
    problem.aim(cotangent=np.zeros(4))
    assert constant(problem).all()
