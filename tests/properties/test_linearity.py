"""The derivative is a linear map of its cotangent or tangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_problem import BRAIN, Part, investigation

from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.properties import DEFAULT
from gradproof.properties.linearity import linearity
from gradproof.results.finding import Finding


def find(vjp: Any, **options: Any) -> list[Finding]:
    case = investigation(lambda x: x[:2], np.ones(6), inputs=[Part((2,)), Part((2, 2), name="w")], vjp=vjp)
    return list(linearity(case, Options(properties=frozenset({"linearity"}), **options)))


def widened(cotangent: Any) -> Any:
    return np.concatenate([cotangent, np.zeros(4)])


def test_a_linear_backward_has_no_finding() -> None:
    assert find(widened) == []


@pytest.mark.parametrize(
    ("at", "value", "input_", "element"),
    [(0, 2.5, 0, (0,)), (5, -1e-12, 1, (1, 1)), (3, np.nan, 1, (0, 1)), (2, np.inf, 1, (0, 0))],
)
def test_a_gradient_for_a_cotangent_of_zeros_is_found(
    at: int, value: float, input_: int, element: tuple[int, ...]
) -> None:
    def vjp(cotangent: Any) -> Any:
        answer = widened(cotangent)
        answer[at] += value
        return answer

    (finding,) = find(vjp)
    assert (finding.property, finding.status) == ("linearity", Status.WRONG)
    assert (finding.input, finding.input_element) == (input_, element)
    assert "the vjp is not linear in the cotangent: for zeros, the gradient of" in finding.message
    assert (finding.kind, finding.mode) == ("zero", Mode.REVERSE)
    whatever = "the gradient is NaN whatever the cotangent is"
    assert (whatever if np.isnan(value) else "multiplied by the cotangent") in finding.hint
    np.testing.assert_equal(finding.analytic, value)


def test_a_gradient_that_is_no_number_for_zeros_alone_is_told_apart() -> None:
    (finding,) = find(lambda cotangent: widened(cotangent / np.abs(cotangent).max()))
    assert "the gradient is NaN for zeros" in finding.hint


def odd(v: Any) -> Any:
    """Odd and homogeneous, right for each basis vector, but not additive."""
    return np.abs(v).max() * np.sign(v)


NONLINEAR: dict[str, tuple[Any, str]] = {
    "abs": (np.abs, "-1 times the cotangent must give -1 times the gradient"),
    "square": (np.square, "-1 times the cotangent must give -1 times the gradient"),
    "relu": (lambda v: np.maximum(v, 0.0), "-1 times the cotangent must give -1 times the gradient"),
    "clamped when large": (lambda v: np.clip(v, -9.0, 9.0), "1024 times the cotangent must give 1024 times"),
    "flushed when small": (lambda v: np.where(np.abs(v) < 1e-4, 0.0, v), "9.53674e-07 times the cotangent"),
    "not additive": (odd, "the sum of two values of the cotangent must give the sum of the gradients"),
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_the_law_that_a_backward_breaks_is_named_with_the_place(name: str) -> None:
    function, law = NONLINEAR[name]
    (finding,) = find(lambda v: widened(function(v)))
    assert (finding.property, finding.status, finding.input) == ("linearity", Status.WRONG, 0)
    assert finding.input_element in [(0,), (1,)]
    assert "the vjp is not linear in the cotangent" in finding.message
    assert (finding.kind, finding.mode) == ("law", Mode.REVERSE)
    assert law in finding.message
    assert "the absolute value of the cotangent" in finding.hint
    assert finding.analytic != finding.numeric


def test_the_worst_element_is_the_one_that_is_reported() -> None:
    def vjp(v: Any) -> Any:
        answer = np.concatenate([v, v, v])
        answer[4] = abs(answer[4])
        return answer

    case = investigation(lambda x: x[:2], np.ones(6), inputs=[Part((2,)), Part((2, 2), name="w")], vjp=vjp, seed=0)
    case.share_cotangent(np.array([0.75, -0.5]))
    (finding,) = linearity(case, Options(properties=DEFAULT))
    assert (finding.input, finding.input_element) == (1, (1, 0))
    assert "for input 1 `w`, element [1, 0] that is 0.75 instead of -0.75" in finding.message


def test_narrow_dtypes_are_asked_for_scales_within_their_range() -> None:
    asked: list[float] = []

    def vjp(v: Any) -> Any:
        asked.append(float(np.abs(v).max()))
        return v

    parts = [Part((2,), eps=BRAIN)]
    case = investigation(lambda x: x, np.ones(2), inputs=parts, outputs=parts, vjp=vjp)
    assert list(linearity(case, Options(properties=DEFAULT, modes=(Mode.REVERSE,)))) == []
    assert max(asked) < 100


def test_noise_is_not_taken_for_a_broken_law() -> None:
    generator = np.random.default_rng(0)
    assert find(lambda v: widened(v * (1 + 0.1 * generator.random()))) == []


@pytest.mark.parametrize(("nondet_tol", "found"), [(0.0, 1), (1e-3, 0)])
def test_noise_that_is_allowed_hides_what_is_below_it(nondet_tol: float, found: int) -> None:
    assert len(find(lambda v: widened(v + 1e-6 * np.abs(v)), nondet_tol=nondet_tol)) == found


def test_a_right_backward_costs_three_vjps_beside_the_shared_one() -> None:
    case = investigation(np.sin, np.ones(3), np.eye(3))
    assert list(linearity(case, Options(properties=DEFAULT, modes=(Mode.REVERSE,)))) == []
    assert case.cost.vjps == 4


# forward mode


def push(jvp: Any) -> list[Finding]:
    case = investigation(lambda x: x, np.ones(3), vjp=lambda v: v, jvp=jvp, outputs=[Part((1,)), Part((2,))])
    return list(linearity(case, Options(properties=DEFAULT, modes=(Mode.FORWARD,))))


def test_a_linear_jvp_has_no_finding() -> None:
    assert push(lambda u: 2.0 * u) == []


@pytest.mark.parametrize("function", [np.abs, np.square, lambda u: np.clip(u, -9.0, 9.0), lambda u: u + 1.0])
def test_a_jvp_that_is_not_linear_is_found_at_its_output(function: Any) -> None:
    def jvp(u: Any) -> Any:
        return np.array([u[0], u[1], function(u)[2]])

    (finding,) = push(jvp)
    assert (finding.property, finding.status) == ("linearity", Status.WRONG)
    assert (finding.input, finding.output, finding.output_element) == (None, 1, (1,))
    assert "the jvp is not linear in the tangent: -1024 times the tangent" in finding.message
    assert "tangent" in finding.hint


def test_a_noisy_jvp_is_not_taken_for_a_broken_law() -> None:
    generator = np.random.default_rng(0)
    (finding,) = push(lambda u: u * (1 + 0.1 * generator.random()))
    assert (finding.property, finding.mode) == ("determinism", Mode.FORWARD)
    assert finding.output in (0, 1)


def test_forward_mode_alone_does_not_ask_the_backward() -> None:
    assert find(lambda v: np.ones(6), modes=(Mode.FORWARD,)) == []


@pytest.mark.parametrize(("off", "kinds"), [(1e-14, []), (1e-11, ["law"])])
def test_what_the_shared_cotangent_weighs_little_may_round_off_as_others_weigh_it(off: float, kinds: list[str]) -> None:
    """A dead output is seen so sharply that two living ones hardly count beside it; alike, they cancel."""

    def vjp(cotangent: Any) -> Any:
        _, first, second = cotangent
        return np.array([first - second + off * abs(second) * (1 if first == second else -1)])

    case = investigation(lambda x: np.array([0.0, x[0], -x[0]]), np.ones(1), vjp=vjp)
    case.share_cotangent(np.array([0.5, 0.3e-6, 1e-6]))
    found = list(linearity(case, Options(properties=frozenset({"linearity"}))))
    assert [finding.kind for finding in found] == kinds
