"""One question about all outputs of a long survey: right functions pass by it, what it accuses is looked at closely."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gradproof
import gradproof.torch
from gradproof.core import joint
from gradproof.core.draws import LEAST_OF_LONG, evenly, random_probe
from gradproof.core.ladder import settle
from gradproof.core.norm import PART

SIZE = 5 * PART + 7


class Sine(torch.autograd.Function):
    """sin, whose gradient is off by `error` at one element."""

    @staticmethod
    def forward(ctx, x, place, error):
        ctx.save_for_backward(x)
        ctx.place, ctx.error = place, error
        return x.sin()

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        gradient = x.cos() * cotangent
        gradient[ctx.place] += ctx.error * cotangent[ctx.place]
        return gradient, None, None


def numbers(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(SIZE)).requires_grad_()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often single outputs of a long survey were looked at."""
    from gradproof.core.survey import Survey

    calls, real = [], Survey._settle_all
    monkeypatch.setattr(Survey, "_settle_all", lambda self, before: (calls.append(1), real(self, before))[1])
    return calls


def test_a_right_function_needs_no_look_at_single_outputs(settled):
    x = numbers()
    report = gradproof.check(lambda x: Sine.apply(x, 3, 0.0), x, modes="reverse")
    assert report
    assert gradproof.check(torch.sin, x)
    assert gradproof.torch.gradcheck(torch.sin, x, fast_mode=True)
    assert settled == []


@pytest.mark.parametrize("seed", range(3))
def test_an_error_just_above_the_certificate_is_found(settled, seed):
    x, place = numbers(seed), 1234 * (seed + 1)
    certificate = gradproof.check(torch.sin, x, modes="reverse", seed=seed).certificate
    assert certificate is not None
    ((_, smallest),) = certificate.smallest
    report = gradproof.check(lambda x: Sine.apply(x, place, 1.3 * smallest), x, modes="reverse", seed=seed)
    assert report.verdict is gradproof.Verdict.FAIL
    assert report.findings[0].input_element == (place,)
    assert settled


def test_kinks_are_left_to_the_close_look(settled):
    values = numbers().detach()
    values[::1000] = 0.0
    with pytest.warns(gradproof.torch.NonDifferentiableWarning):
        assert gradproof.torch.gradcheck(torch.relu, values.requires_grad_(), fast_mode=True)
    assert settled


def test_a_wrong_jvp_of_one_output_is_found():
    class Pushed(torch.autograd.Function):
        generate_vmap_rule = False

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, cotangent):
            return ctx.saved_tensors[0].cos() * cotangent

        @staticmethod
        def jvp(ctx, tangent):
            pushed = ctx.saved_tensors[0].cos() * tangent
            pushed[77] += 1e-3 * tangent[77]
            return pushed

    report = gradproof.check(Pushed.apply, numbers(), modes=("reverse", "forward"))
    assert report.verdict is gradproof.Verdict.FAIL
    jacobian = [finding for finding in report.findings if finding.property == "jacobian"]
    assert jacobian
    assert all(str(finding.mode) == "forward mode" and finding.output_element == (77,) for finding in jacobian)


def test_the_inputs_are_put_back_when_a_step_raises():
    x = numbers()
    before, calls = x.detach().clone(), []

    def raises(x):
        calls.append(1)
        if len(calls) in (3, 4):
            raise ValueError("refused")
        return x.sin()

    gradproof.check(raises, x, modes="reverse")
    assert torch.equal(x.detach(), before)


def test_what_a_function_keeps_and_overwrites_is_copied_in_time():
    kept = np.empty(SIZE)

    class InOneBuffer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(np.sin(x.detach().numpy(), out=kept))

        @staticmethod
        def backward(ctx, cotangent):
            return ctx.saved_tensors[0].cos() * cotangent

    report = gradproof.check(InOneBuffer.apply, numbers(), modes="reverse", properties=("jacobian",))
    assert report


def test_long_draws_have_fair_signs_and_no_small_magnitudes():
    drawn = random_probe(SIZE, 3)
    assert np.abs(drawn).min() >= LEAST_OF_LONG
    assert np.abs(drawn).max() < 2 * LEAST_OF_LONG
    assert abs(int((drawn > 0).sum()) - SIZE / 2) < 5 * np.sqrt(SIZE) / 2
    assert np.array_equal(drawn, random_probe(SIZE, 3))
    assert abs(np.corrcoef(drawn, random_probe(SIZE, 4))[0, 1]) < 0.02


def test_long_neighbours_are_drawn_evenly():
    drawn = evenly(SIZE, 0.25, np.random.default_rng(3))
    assert np.abs(drawn).max() <= 0.25
    assert abs(drawn.mean()) < 0.002
    assert abs(drawn.std() - 0.25 / 3**0.5) < 0.002
    assert len(np.unique(drawn)) > 2**15


def test_its_bar_holds_that_of_the_ladder():
    draw, rungs, count = np.random.default_rng(0), (11, 14, 17), 500
    sizes, noise = [2.0**-rung for rung in rungs], 10.0 ** draw.uniform(-18, -10, count)
    quotients = 1.0 + draw.standard_normal((3, count)) * 10.0 ** draw.uniform(-14, -2, (3, count))
    floors = np.multiply.outer([1 / size for size in sizes], noise)[:, None, :]
    value, error = settle(quotients[:, None, :], floors, sizes, order=2)
    survey = SimpleNamespace(
        ladder=[*zip(rungs, quotients, strict=True)], stencil=SimpleNamespace(noise=noise, least_noise=0.0)
    )
    sides = [joint._numeric(survey, each) for each in np.eye(count)]  # of one output each
    first, bar = np.array([side.total for side in sides]), np.array([side.noise for side in sides])
    assert (np.abs(first - value[0]) + error[0] <= bar * (1 + 1e-9)).all()


def test_its_bar_of_two_rungs_is_that_of_the_survey():
    draw, rungs, count = np.random.default_rng(0), (14, 17), 500
    noise = 10.0 ** draw.uniform(-18, -10, count)
    quotients = 1.0 + draw.standard_normal((2, count)) * 10.0 ** draw.uniform(-14, -2, (2, count))
    survey = SimpleNamespace(
        ladder=[*zip(rungs, quotients, strict=True)], stencil=SimpleNamespace(noise=noise, least_noise=0.0)
    )
    sides = [joint._numeric(survey, each) for each in np.eye(count)]
    correction = (quotients[1] - quotients[0]) / 63.0
    np.testing.assert_allclose([side.total for side in sides], quotients[1] + correction, rtol=1e-15)
    np.testing.assert_allclose([side.noise for side in sides], 2.0 * np.abs(correction) + noise * 2.0**17, rtol=1e-12)


def test_in_single_precision_the_question_to_both_precisions_is_the_one_about_all_outputs(settled):
    x = numbers().float().detach().requires_grad_()
    report = gradproof.check(lambda x: Sine.apply(x, 3, 0.0), x, modes="reverse")
    assert report
    assert settled == []


@pytest.mark.parametrize("seed", range(3))
def test_in_single_precision_an_error_below_the_certificate_of_both_precisions_is_found(settled, seed):
    x, place = numbers(seed).float().detach().requires_grad_(), 1234 * (seed + 1)
    report = gradproof.check(lambda x: Sine.apply(x, place, 1e-4), x, modes="reverse", seed=seed)
    assert report.verdict is gradproof.Verdict.FAIL
    assert report.findings[0].input_element == (place,)
    assert settled


def test_the_question_to_both_precisions_knows_nothing_of_the_direction(monkeypatch: pytest.MonkeyPatch):
    asked, real = [], joint.ask_jointly

    def ask(ledger, survey, step):
        asked.append(np.sign(ledger.questions[0][0]) @ np.sign(survey.direction))
        return real(ledger, survey, step)

    monkeypatch.setattr("gradproof.core.questioning.ask_jointly", ask)
    assert gradproof.check(torch.sin, numbers().float().detach().requires_grad_(), modes="reverse")
    assert asked
    assert abs(asked[0]) < 5 * SIZE**0.5


class Squares(torch.autograd.Function):
    """The squares of differences, whose tangent of one output has a part of one input too many."""

    @staticmethod
    def forward(ctx, x, place, error):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.place, ctx.error = place, error
        return (x[1:] - x[:-1]) ** 2

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        each, zero = 2 * (x[1:] - x[:-1]) * cotangent, cotangent.new_zeros(1)
        return torch.cat([zero, each]) - torch.cat([each, zero]), None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        (x,) = ctx.saved_tensors
        pushed = 2 * (x[1:] - x[:-1]) * (tangent[1:] - tangent[:-1])
        pushed[ctx.place[0]] += ctx.error * tangent[ctx.place[1]]
        return pushed


@pytest.mark.parametrize("place", [(11081, 20194), (1563, 11581), (23185, 23716), (32113, 18291)])
def test_certificates_of_forward_mode_know_what_reverse_mode_excuses(place):
    x = numbers()
    report = gradproof.check(lambda x: Squares.apply(x, place, 0.0), x)
    (pair,) = report.pairs
    assert report
    assert pair.smallest is not None
    assert not gradproof.check(lambda x: Squares.apply(x, place, 1.2 * pair.smallest), x)


def test_a_rung_that_leaves_the_domain_does_not_cost_the_others_their_walk() -> None:
    signs = np.sign(np.random.default_rng(0).standard_normal(200_000))
    x = torch.from_numpy(0.9996 * signs).requires_grad_()

    def function(x: torch.Tensor) -> torch.Tensor:
        if float(x.detach().abs().max()) > 1.0:
            raise ValueError("outside of the domain")
        return torch.asin(x)

    report = gradproof.check(function, x, modes="reverse")
    assert report.ok
    assert report.cost.evaluations <= 15
    assert np.array_equal(x.detach().numpy(), 0.9996 * signs)


class Unmaterialized(torch.autograd.Function):
    """2x of many numbers, whose backward is given None for what is left out; it must not multiply that."""

    @staticmethod
    def forward(ctx, x, careful):
        ctx.set_materialize_grads(False)
        ctx.careful = careful
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        if cotangent is None and ctx.careful:
            return None, None
        return 2 * cotangent, None


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("size", [7, 2**15 + 3])
def test_a_cotangent_that_is_left_out_of_many_numbers_is_not_there_at_all(careful, size):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(size)).requires_grad_()
    report = gradproof.check(lambda x: Unmaterialized.apply(x, careful), x, modes="reverse", properties=["undefined"])
    assert report.ok is careful
    if not careful:
        assert report.findings[0].property == "undefined"
        assert "raised TypeError" in report.findings[0].message
