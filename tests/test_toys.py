"""The contract is small: two backends of a few lines are checked as thoroughly as they can be, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys.pulling import Pulling
from toys.pushing import Pushing

from gradproof.core.options import Options, Strategy
from gradproof.engine import check_problem
from gradproof.properties import DEFAULT
from gradproof.results.report import Report, Verdict

STRATEGIES = pytest.mark.parametrize("strategy", Strategy)


def check(problem: Any, strategy: Strategy, **options: Any) -> Report:
    return check_problem(problem, "toy", Options(strategy=strategy, properties=DEFAULT, **options))


def affine(x: Any, w: Any) -> Any:
    return np.tanh(x @ w)


def affine_pull(seed: Any, x: Any, w: Any) -> dict[str, Any]:
    inner = seed / np.cosh(x @ w) ** 2
    return {"x": inner @ w.T, "w": x.T @ inner}


def arrays(count: int = 3) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    return {"x": draw.normal(size=(2, count)), "w": draw.normal(size=(count, 4))}


@pytest.mark.parametrize("name", ["pulling", "pushing"])
def test_a_toy_backend_is_at_most_sixty_lines(name: str) -> None:
    assert len((Path(__file__).parent / "toys" / f"{name}.py").read_text().splitlines()) <= 60


@STRATEGIES
@pytest.mark.parametrize("count", [3, 600])
def test_a_right_pull_passes(count: int, strategy: Strategy) -> None:
    report = check(Pulling(affine, affine_pull).problem(**arrays(count)), strategy)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.covered == ("input 0 `x`", "input 1 `w`")
    assert report.cost.jvps == 0


@STRATEGIES
@pytest.mark.parametrize("count", [3, 600])
def test_a_wrong_element_of_a_pull_is_named(count: int, strategy: Strategy) -> None:
    def pull(seed: Any, x: Any, w: Any) -> dict[str, Any]:
        gradients = affine_pull(seed, x, w)
        gradients["w"][2, 1] *= 1.01
        return gradients

    report = check(Pulling(affine, pull).problem(**arrays(count)), strategy)
    assert report.verdict is Verdict.FAIL
    assert (report.findings[0].input, report.findings[0].input_element) == (1, (2, 1))


@STRATEGIES
def test_a_pull_that_is_not_linear_fails_in_the_words_of_its_backend(strategy: Strategy) -> None:
    def pull(seed: Any, x: Any, w: Any) -> dict[str, Any]:
        return affine_pull(np.abs(seed), x, w)

    report = check(Pulling(affine, pull).problem(**arrays()), strategy)
    (finding,) = [finding for finding in report.findings if finding.property == "linearity"]
    assert finding.headline.startswith("your pull is not linear in the seed")
    assert finding.hint == "keep the pull linear in the seed"


def test_a_pull_that_changes_between_calls_fails() -> None:
    draw = np.random.default_rng(0)

    def pull(seed: Any, x: Any, w: Any) -> dict[str, Any]:
        gradients = affine_pull(seed, x, w)
        return {**gradients, "x": gradients["x"] * (1 + 1e-9 * draw.random())}

    report = check(Pulling(affine, pull).problem(**arrays()), Strategy.ENTRIES)
    assert "determinism" in {finding.property for finding in report.findings}


def cube(z: Any) -> Any:
    return z**3


def cube_push(z: Any, dual: Any) -> Any:
    return 3 * z**2 * dual


POINTS = {
    "real": np.linspace(0.5, 2.0, 6).reshape(2, 3),
    "complex": np.linspace(0.5, 2.0, 6).reshape(2, 3) * np.exp(1j * np.arange(6.0)).reshape(2, 3),
}


@STRATEGIES
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_right_push_passes(point: Any, strategy: Strategy) -> None:
    report = check(Pushing(cube, cube_push).problem(point), strategy)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.cost.vjps == 0


@STRATEGIES
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_wrong_element_of_a_push_is_named(point: Any, strategy: Strategy) -> None:
    def push(z: Any, dual: Any) -> Any:
        pushed = cube_push(z, dual)
        pushed[1, 2] *= 1.5
        return pushed

    report = check(Pushing(cube, push).problem(point), strategy)
    assert report.verdict is Verdict.FAIL
    finding = report.findings[0]
    assert (finding.output_element, finding.input_element) == ((1, 2), (1, 2))
    assert finding.entries[0].ratio == pytest.approx(1.5)


def test_a_missing_conjugate_in_a_push_is_found() -> None:
    report = check(Pushing(cube, lambda z, dual: cube_push(z, dual.conj())).problem(POINTS["complex"]), Strategy.PROBES)
    assert report.verdict is Verdict.FAIL


def test_a_push_that_is_not_linear_fails_in_the_words_of_its_backend() -> None:
    def push(z: Any, dual: Any) -> Any:
        return cube_push(z, np.abs(dual))

    report = check(Pushing(cube, push).problem(POINTS["real"]), Strategy.ENTRIES)
    (finding,) = [finding for finding in report.findings if finding.property == "linearity"]
    assert finding.headline.startswith("your push is not linear in the dual part")


def test_what_a_toy_cannot_answer_is_listed() -> None:
    pulling = check(Pulling(affine, affine_pull).problem(**arrays()), Strategy.PROBES)
    assert pulling.not_covered == (
        "forward mode (there is no derivative for it)",
        "mutation (the backend cannot watch memory)",
        "metadata, dtypes, primal, aliasing (the backend cannot look at the form and memory of gradients)",
        "layout (the backend cannot arrange the memory of a cotangent)",
        "adjoint (it needs forward mode)",
        "undefined (the backend cannot leave out a cotangent or tangent)",
    )
    pushing = check(Pushing(cube, cube_push).problem(POINTS["real"]), Strategy.PROBES)
    assert pushing.not_covered[0] == "reverse mode (there is no derivative for it)"
    assert "metadata, layout, aliasing, adjoint (it needs reverse mode)" in pushing.not_covered


def test_a_mode_without_a_derivative_cannot_be_asked_for() -> None:
    from gradproof.core.problem import Mode
    from gradproof.engine import HandMade, Request, examine

    problem = Pushing(cube, cube_push).problem(POINTS["real"])
    request = Request(subject="toy", options=Options(properties=DEFAULT), modes=(Mode.REVERSE,))
    with pytest.raises(ValueError, match="reverse mode was asked for"):
        examine(HandMade(problem), request)
