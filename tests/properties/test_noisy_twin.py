"""A low-precision function whose twin is noisy itself: the cross-entropy of confident samples, in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from array_problem import DOUBLE, SINGLE, Part, array_problem, findings
from torch.nn import functional as F  # noqa: N812

import gradproof
from gradproof.core.capabilities import Elsewhere, Twin, Twinned
from gradproof.core.cost import BudgetExhausted, Cost
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.seen import Note
from gradproof.core.status import Status
from gradproof.properties.noisy_twin import by_noisy_twin
from gradproof.properties.property import Pause
from gradproof.results.finding import Finding
from gradproof.results.report import Verdict

CONFIDENT = [(8, 5, 80.0, 7), (8, 5, 60.0, 11), (4, 3, 50.0, 0), (4, 3, 60.0, 9)]
"""Rows, columns, scale and seed of logits; the targets are the largest. The whole is 1e-12 to 1e-10."""


def confident(rows: int, columns: int, scale: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits = scale * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return logits.requires_grad_(), logits.argmax(1)


Spoil = Callable[[torch.Tensor], torch.Tensor]
LOW, BOTH = (torch.float32,), (torch.float32, torch.float64)


def by_hand(targets: torch.Tensor, spoil: Spoil, dtypes: tuple[torch.dtype, ...]) -> Spoil:
    """The cross-entropy, with its gradient spoiled in some dtypes."""

    class CrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            logs = x.log_softmax(1)
            ctx.save_for_backward(logs)
            return F.nll_loss(logs, targets)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            (logs,) = ctx.saved_tensors
            right = logs.exp() - F.one_hot(targets, logs.shape[1]).to(logs.dtype)
            return cotangents[0] * (spoil(right) if logs.dtype in dtypes else right) / len(logs)

    return CrossEntropy.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize("case", CONFIDENT)
def test_the_cross_entropy_of_confident_samples_passes_in_single_precision(case: tuple[int, int, float, int]) -> None:
    """Its gradient is 0 in float32 where float64 has -4e-11: that is what is left of the 1 in a softmax."""
    logits, targets = confident(*case)
    report = gradproof.check(F.cross_entropy, (logits, targets))
    assert report.verdict is Verdict.PASS, str(report)
    assert any("float64" in note for note in report.notes)


WRONGS: dict[str, Spoil] = {
    "twice": lambda g: 2 * g,
    "the other sign": lambda g: -g,
    "a tenth more": lambda g: 1.1 * g,
    "without the one-hot": lambda g: g + (g <= 0).to(g.dtype),
    "one entry": lambda g: torch.where(g == g.max(), 1.5 * g, g),
}


@pytest.mark.parametrize("dtypes", [LOW, BOTH], ids=["in low", "in both"])
@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("case", CONFIDENT)
def test_a_wrong_one_fails(case: tuple[int, int, float, int], wrong: str, dtypes: tuple[torch.dtype, ...]) -> None:
    logits, targets = confident(*case)
    report = gradproof.check(by_hand(targets, WRONGS[wrong], dtypes), logits, modes="reverse")
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].property == "jacobian"
    assert report.findings[0].input == 0
    right = gradproof.check(by_hand(targets, lambda g: g, dtypes), logits, modes="reverse")
    assert right.verdict is Verdict.PASS, str(right)


@pytest.mark.parametrize("case", CONFIDENT)
def test_one_without_the_softmax_does_not_pass(case: tuple[int, int, float, int]) -> None:
    """In float32 nothing but zeros is left then: between the steps of the function that is right."""
    logits, targets = confident(*case)
    report = gradproof.check(by_hand(targets, lambda g: g.clamp(max=0.0), LOW), logits, modes="reverse")
    assert report.verdict is Verdict.INCONCLUSIVE, str(report)


NOISE, SIZE = np.full(3, 1e-9), 3
REVERSE = Options(modes=(Mode.REVERSE,), certify=False)


def doubled(has_twin: bool = True) -> Investigation:
    """2 x in float32, with a float64 twin of which noise is known."""
    twin = array_problem(
        lambda x: 2.0 * x,
        np.ones(SIZE),
        2.0 * np.eye(SIZE),
        capabilities={Elsewhere: Elsewhere(lambda x, v: 2.0 * v, lambda x, u: 2.0 * u)},
    )
    part = [Part((SIZE,), eps=SINGLE)]
    made = Twinned(twin, twin.value, SINGLE) if has_twin else None
    low = array_problem(
        lambda x: 2.0 * x,
        np.ones(SIZE),
        2.0 * np.eye(SIZE),
        inputs=part,
        outputs=part,
        capabilities={Twin: Twin(lambda: made)},
    )
    case = Investigation(low)
    case.take_as(replace(low, noise=NOISE, evaluates_in=DOUBLE))
    return case


def found(status: Status, text: str = "") -> Finding:
    return Finding(property="jacobian", status=status, headline=text or str(status), mode=Mode.REVERSE)


class Comparison:
    """What is found of the low precision, and what of the twin; and which Problems that was asked of."""

    def __init__(self, low: Any, wide: Any = ()) -> None:
        self._answers, self.asked = [low, wide], list[Investigation]()

    def __call__(self, investigation: Investigation, options: Options) -> Iterator[Any]:
        answer = self._answers[len(self.asked)]
        self.asked.append(investigation)
        for each in answer:
            if isinstance(each, BaseException):
                raise each
            yield each


@pytest.mark.parametrize("nothing", [[], [found(Status.KINK)], [Note("seen")]], ids=["none", "a kink", "a note"])
def test_what_is_in_no_doubt_is_not_asked_of_the_twin(nothing: list[Any]) -> None:
    case, compared = doubled(), Comparison(nothing)
    before = case.cost.calls
    assert list(by_noisy_twin(case, REVERSE, compared)) == nothing
    assert compared.asked == [case]
    assert case.cost.calls == before


@pytest.mark.parametrize("status", [Status.WRONG, Status.INCONCLUSIVE])
def test_where_there_is_less_doubt_of_both_that_is_what_is_found(status: Status) -> None:
    case, compared = doubled(), Comparison([found(status)])
    evaluations = case.cost.evaluations
    assert findings(by_noisy_twin(case, REVERSE, compared)) == []
    _, wide = compared.asked
    assert wide.problem.inputs.coarsest_eps == DOUBLE
    assert wide.problem.noise is NOISE
    assert wide.problem.outputs.coarsest_eps == SINGLE  # as sharp as the derivative that is compared with it
    assert case.cost.evaluations == evaluations + 1  # that of the twin, which is made once


@pytest.mark.parametrize(("first", "second"), [("INCONCLUSIVE", "WRONG"), ("INCONCLUSIVE",) * 2, ("WRONG",) * 2])
def test_where_there_is_no_less_the_first_comparison_stands(first: str, second: str) -> None:
    alone, twins = found(Status[first], "alone"), found(Status[second], "of the twin")
    assert findings(by_noisy_twin(doubled(), REVERSE, Comparison([alone], [twins]))) == [alone]


def test_without_a_twin_too() -> None:
    alone = found(Status.WRONG)
    assert findings(by_noisy_twin(doubled(has_twin=False), REVERSE, Comparison([alone]))) == [alone]


@pytest.mark.parametrize("is_acquitted", [True, False])
def test_what_the_first_comparison_learned_is_forgotten_only_with_what_it_found(is_acquitted: bool) -> None:
    case = doubled()
    problem, scale = case.problem, case.scale

    def learning(investigation: Investigation, options: Options) -> Iterator[Finding]:
        if investigation is case:
            case.take_as(replace(problem, noise=2.0 * NOISE), scale=2.0 * scale)
            yield found(Status.WRONG)
        elif not is_acquitted:
            yield found(Status.WRONG)

    assert len(list(findings(by_noisy_twin(case, REVERSE, learning)))) == (not is_acquitted)
    assert (case.problem is problem) == is_acquitted
    assert (case.scale is scale) == is_acquitted


def test_both_comparisons_may_pause() -> None:
    compared = Comparison([Pause(), found(Status.WRONG)], [Pause()])
    assert sum(isinstance(each, Pause) for each in by_noisy_twin(doubled(), REVERSE, compared)) == 2


def test_if_the_budget_ends_in_the_second_comparison_what_the_first_found_stands() -> None:
    alone, seen = found(Status.WRONG), Note("seen")
    compared = Comparison([alone, seen], [found(Status.INCONCLUSIVE), BudgetExhausted()])
    assert list(by_noisy_twin(doubled(), REVERSE, compared)) == [seen, alone]
    late = Investigation(doubled().made, cost=Cost(deadline=0.0))
    assert list(by_noisy_twin(late, REVERSE, Comparison([alone]))) == [alone], "no budget for a vjp of the twin"


class Sharp(torch.autograd.Function):
    """A sharp softmax, with noise that steps in float64 see, whose gradient is a tenth too large in float16 or not."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        y = (20 * x).softmax(-1)
        ctx.save_for_backward(y)
        ctx.factor = 1.0 if x.dtype is torch.float64 else factor
        return y + 1e-11 * torch.sin(1e15 * y.detach().double()).to(y.dtype)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        (y,), (v,) = ctx.saved_tensors, cotangents
        return 20 * ctx.factor * y * (v - (y * v).sum(-1, keepdim=True)), None


@pytest.mark.parametrize(("factor", "no"), [(1.0, Verdict.FAIL), (1.1, Verdict.PASS)])
def test_what_half_precision_loses_of_a_noisy_function_is_neither_wrong_nor_right(factor: float, no: Verdict) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).half().requires_grad_()
    report = gradproof.check(lambda x: Sharp.apply(x, factor), x, modes="reverse", properties="jacobian")  # pyright: ignore[reportUnknownMemberType]
    assert report.verdict is not no, str(report)
