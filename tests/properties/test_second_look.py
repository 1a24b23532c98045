"""The runner of second looks, with comparisons and looks that are made up; and the lists that the Jacobian has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from array_problem import investigation

from gradproof.core.cost import BudgetExhausted
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.properties import second_looks
from gradproof.properties.property import Compare, Found, Pause
from gradproof.properties.second_look import SecondLook, looked_twice
from gradproof.results.finding import Finding

WRONG = Finding(property="jacobian", status=Status.WRONG, headline="wrong")
SEEN, SEEN_AGAIN = Seen((1.0,), 0.0), Seen((2.0,), 0.0)
CASE = investigation(lambda x: x**2, np.array([0.5]), vjp=lambda v: v)


class Asked:
    """A comparison that finds something wrong at first and nothing later, and looks that note who was asked."""

    def __init__(self) -> None:
        self.compared, self.looked = 0, list[str]()

    def compare(self, _: Investigation, __: Options) -> Iterator[Found]:
        self.compared += 1
        yield Pause()
        yield from (SEEN, WRONG) if self.compared == 1 else (SEEN_AGAIN,)

    def look(
        self, name: str, *, has_reason: bool = False, applies: bool = True, keeps_seen: bool = False
    ) -> SecondLook:
        def again(
            asked: Investigation, options: Options, compared: Compare, findings: Sequence[Finding]
        ) -> Iterator[Found] | None:
            self.looked.append(name)
            assert list(findings) == [WRONG]
            if name == "poor":
                raise BudgetExhausted
            return compared(asked, options) if has_reason else None

        return SecondLook(again, lambda _, __: applies, keeps_seen)

    def found(self, *looks: SecondLook) -> list[Found]:
        return [each for each in looked_twice(CASE, Options(), self.compare, looks) if not isinstance(each, Pause)]


def test_what_has_no_finding_is_not_looked_at_again() -> None:
    asked = Asked()
    asked.compared = 1
    assert asked.found(asked.look("first", has_reason=True)) == [SEEN_AGAIN]
    assert asked.looked == []


def test_of_several_looks_the_first_that_has_a_reason_is_the_only_one() -> None:
    asked = Asked()
    second, third = asked.look("second", has_reason=True), asked.look("third", has_reason=True)
    assert asked.found(asked.look("never", applies=False), asked.look("first"), second, third) == [SEEN_AGAIN]
    assert (asked.looked, asked.compared) == (["first", "second"], 2)


def test_what_was_found_stands_where_no_look_has_a_reason() -> None:
    asked = Asked()
    assert asked.found(asked.look("first"), asked.look("second")) == [SEEN, WRONG]
    assert (asked.looked, asked.compared) == (["first", "second"], 1)


def test_what_was_seen_stays_seen_by_steps_that_were_not_blind() -> None:
    asked = Asked()
    assert asked.found(asked.look("first", has_reason=True, keeps_seen=True)) == [SEEN, SEEN_AGAIN]


def test_what_was_found_stands_if_the_budget_ends_while_a_reason_is_looked_for() -> None:
    asked = Asked()
    assert asked.found(asked.look("poor")) == [SEEN, WRONG]


def test_what_was_found_is_told_before_the_end_of_the_budget_is() -> None:
    def compared(_: Investigation, __: Options) -> Iterator[Found]:
        yield WRONG
        yield SEEN
        raise BudgetExhausted

    found = looked_twice(CASE, Options(), compared, ())
    assert [next(found), next(found)] == [SEEN, WRONG]
    with pytest.raises(BudgetExhausted):
        next(found)


def test_the_page_about_the_architecture_draws_the_looks_in_their_order() -> None:
    looks = [each.again.__module__.rpartition(".")[2] for each in second_looks.AT_WHAT_IS_WRONG]
    assert looks == ["on_waves", "longer_steps", "drowned", "swallowed", "gridded", "drowned"]
    assert [each.keeps_seen for each in second_looks.AT_WHAT_IS_WRONG] == [True, False, True, False, False, False]
    assert len(second_looks.AT_WHAT_IS_BLURRED) == len(second_looks.AT_WHAT_IS_NOISY) == 1
