"""A few vjps that ask many questions at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import HALF, Part, investigation

from gradproof.core.capabilities import MemoryLayout
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.properties import DEFAULT
from gradproof.properties.determinism import determinism
from gradproof.properties.layout import layout
from gradproof.properties.linearity import linearity
from gradproof.properties.mutation import mutation
from gradproof.properties.trials import constant, scales, trials

ALL = [MemoryLayout.EXPANDED, MemoryLayout.SLICED, MemoryLayout.TRANSPOSED, MemoryLayout.CHANNELS_LAST]


def case_with(vjp_in: Any = None, **options: Any) -> Investigation:
    return investigation(lambda x: x, np.ones(4), np.eye(4), vjp_in=vjp_in, layouts=ALL, **options)


def asked_of(options: Options) -> list[tuple[MemoryLayout, Any]]:
    asked: list[tuple[MemoryLayout, Any]] = []

    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        asked.append((given, v.copy()))
        return v

    made = trials(case_with(vjp_in), options)
    assert (made.exact, made.agree, made.overwritten) == (True, True, ())
    return asked


def test_each_trial_has_another_layout_sign_and_scale() -> None:
    asked = asked_of(Options(properties=DEFAULT))
    assert [given for given, _ in asked][:2] == [MemoryLayout.TRANSPOSED, MemoryLayout.EXPANDED]
    assert {given for given, _ in asked[2:]} == {MemoryLayout.SLICED, MemoryLayout.CHANNELS_LAST}
    shared = case_with().cotangent
    assert (asked[0][1] == -1024.0 * shared).all()
    assert len(set(asked[1][1])) == 1
    assert abs(asked[1][1][0]) < 1e-5
    assert asked[2][1][0] == 0.0


def test_what_is_not_asked_for_is_not_tried() -> None:
    plain = asked_of(Options(properties=frozenset({"linearity"})))
    assert {given for given, _ in plain} == {MemoryLayout.CONTIGUOUS}
    unscaled = asked_of(Options(properties=frozenset({"layout"})))
    assert (unscaled[0][1] == case_with().cotangent).all()


def test_they_are_made_once() -> None:
    case, options = case_with(), Options(properties=DEFAULT, certify=False, strategy=Strategy.PROBES)
    first = case.once(trials, options)
    spent = case.cost.vjps
    for examine in (determinism, linearity, layout, mutation):
        assert list(examine(case, options)) == []
    assert case.once(trials, options) is first
    assert case.cost.vjps == spent


@pytest.mark.parametrize("arrangement", ALL)
def test_one_that_disagrees_is_enough(arrangement: MemoryLayout) -> None:
    assert not trials(
        case_with(lambda v, given: 1.5 * v if given is arrangement else v), Options(properties=DEFAULT)
    ).agree


def test_round_off_agrees_but_is_not_exact() -> None:
    case = investigation(lambda x: x, np.ones(4), np.eye(4), vjp_in=lambda v, given: v * (1 + 3e-16))
    made = trials(case, Options(properties=DEFAULT))
    assert (made.exact, made.agree) == (False, True)


def test_another_order_of_summation_is_not_taken_for_noise() -> None:
    made = trials(
        case_with(lambda v, given: v * (1 + 3e-16 * (given is not MemoryLayout.CONTIGUOUS))),
        Options(properties=DEFAULT),
    )
    assert (made.exact, made.agree) == (True, True)


def test_an_exception_leaves_everything_open() -> None:
    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        raise RuntimeError("no")

    made = trials(case_with(vjp_in), Options(properties=DEFAULT))
    assert (made.exact, made.agree, made.overwritten) == (False, False, ())


def test_an_interrupt_comes_out() -> None:
    def vjp_in(v: Any, given: MemoryLayout) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trials(case_with(vjp_in), Options(properties=DEFAULT))


def test_scales_are_powers_of_two_within_the_range_of_the_dtype() -> None:
    assert scales(case_with().problem) == (2.0**10, 2.0**-20)
    assert scales(case_with(inputs=[Part((4,), eps=HALF)]).problem) == (1.0, 0.5)  # 65504 is soon reached
    assert scales(case_with(inputs=[Part((4,), eps=2.0**-7)]).problem) == (2.0**2, 2.0**-4)


def test_the_constant_cotangent_takes_the_first_element_of_each_block_to_zero() -> None:
    case = case_with(outputs=[Part((3,)), Part((0,)), Part((1,))])
    sum_ = case.cotangent + constant(case)
    assert (sum_[0], sum_[3]) == (0.0, 0.0)
    assert len(set(constant(case)[:3])) == 1
    case.share_cotangent(np.zeros(4))
    assert constant(case).all()
