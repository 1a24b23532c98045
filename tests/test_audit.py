"""`gradproof.torch.audit`: the guilty operation ranks first, right models raise nothing, and a NaN has an origin."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from functions import custom
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import audit_models as planted

from gradproof import CheckFailedError, Status, Verdict
from gradproof.blame import Blame
from gradproof.results.audit import AuditReport, NoticeKind, Phase
from gradproof.torch import audit

MODELS, BUGS, TRAPS = [*planted.MODELS], planted.BUGS, [*planted.TRAPS]
FLOAT32 = [(model, BUGS[k % len(BUGS)]) for k, model in enumerate(MODELS)]


def point(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def named(report: AuditReport, kind: NoticeKind) -> list[str]:
    """The paths of the operations, or the names of the parameters, that notices of a kind are about."""
    notices = [notice for notice in report.notices if notice.kind is kind]
    return [n.parameter if n.operation is None else report.operations[n.operation].path for n in notices]


# the guilty operation


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("model", MODELS)
def test_the_guilty_operation_is_ranked_first(model: str, bug: str) -> None:
    report = audit(*planted.build(model, bug, torch.float64))
    assert report.verdict is Verdict.FAIL
    assert planted.is_named(report, bug), str(report)
    assert report.guilty is not None
    assert report.guilty.line.startswith("benchmarks/audit_models.py:")
    shares = [report.share_of_calls(operation) or 0.0 for operation in report.blamed]
    assert sum(shares) == pytest.approx(1.0, abs=1e-3), "what is blamed explains the whole"


@pytest.mark.parametrize(("model", "bug"), FLOAT32)
def test_the_guilty_operation_is_ranked_first_in_float32(model: str, bug: str) -> None:
    report = audit(*planted.build(model, bug, torch.float32))
    assert planted.is_named(report, bug), str(report)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("model", MODELS)
def test_a_right_model_raises_nothing(model: str, dtype: torch.dtype) -> None:
    report = audit(*planted.build(model, "", dtype))
    assert report.ok, str(report)
    assert report.guilty is None
    assert not [operation for operation in report.operations if operation.is_wrong or operation.cuts]
    report.raise_for_failure()


def test_a_deep_audit_checks_every_operation_and_each_kind_once() -> None:
    report = audit(*planted.build("ode solver", "", torch.float64), deep=True)
    assert report.ok
    assert report.complete
    assert all(operation.status is Status.RIGHT for operation in report.operations if operation.differentiable)
    fused = [operation for operation in report.operations if operation.name == "Fused"]
    assert len(fused) == 8
    assert len({operation.first for operation in fused}) == 1
    assert sum(operation.report is not None for operation in fused) == 1


def test_the_element_the_cause_and_both_lines_are_told() -> None:
    report = audit(*planted.build("mlp", "last", torch.float64))
    text = str(report)
    assert "guilty    1.Fused  (autograd.Function)" in text
    assert "wrong only at index 7 of 8 (the last) along axis 1 of input 0 `x`" in text
    assert "explains  100 % of the deviation of the whole model" in text
    with pytest.raises(CheckFailedError, match=r"1\.Fused"):
        report.raise_for_failure()


def test_a_function_wrong_in_one_call_only_is_found_in_that_call() -> None:
    """Equal but for its values: the first call is right, and the second stands out and is checked by itself."""

    class Positive(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x * x.abs() * cotangents[0]  # right for positive x

    def model(x: torch.Tensor) -> torch.Tensor:
        return Positive.apply(x.exp()).sum() + Positive.apply(-x.exp()).sum()

    report = audit(model, point(3))
    wrong = [operation.number for operation in report.operations if operation.is_wrong]
    assert [report.operations[number].name for number in wrong] == ["Positive"]
    assert wrong == [max(o.number for o in report.operations if o.name == "Positive")]


def test_an_operator_of_a_library_is_audited() -> None:
    @torch.library.custom_op("gradproof_tests::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return 2.9 * ctx.x**2 * cotangent

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.x = inputs[0]

    cube.register_autograd(backward, setup_context=setup)
    report = audit(lambda x: cube(x.sin()).sum(), point(3))
    assert report.guilty is not None
    assert (report.guilty.name, report.guilty.kind) == ("gradproof_tests::cube", "custom operator")


def test_parameters_that_only_a_closure_reaches_are_covered() -> None:
    layer, weight = nn.Linear(3, 3).double(), point(3)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (layer(x) * weight).sum() + (layer.weight.detach() ** 2).sum()

    report = audit(loss, torch.ones(2, 3, dtype=torch.float64))
    assert report.whole is not None
    assert {"parameter `layer.weight`", "parameter `weight`"} <= set(report.whole.covered)
    assert report.guilty is not None
    assert report.guilty.name == "detach"


def test_what_is_wrong_alone_and_harmless_here_is_named_not_blamed() -> None:
    class Lower(torch.autograd.Function):
        """The trace of a symmetric matrix times itself, read from its lower half."""

        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a)
            low = a.tril(-1)
            return 2 * (low * low).sum() + a.diagonal().square().sum()

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.saved_tensors[0] * cotangents[0]

    report = audit(lambda x: Lower.apply(x @ x.mT), point(3, 3))
    assert report.ok, str(report)
    assert named(report, NoticeKind.ALONE) == ["Lower"]
    wrong = audit(lambda x: Lower.apply(x @ x), point(3, 3))
    assert wrong.guilty is not None
    assert wrong.guilty.name == "Lower"


def penalty(x: torch.Tensor) -> torch.Tensor:
    """A gradient inside the model: its graph leads into operations from beside."""
    y = NETWORK(x).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return slope.square().mean() + y


NETWORK = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
RIGHT: dict[str, Any] = {
    "gradient penalty": penalty,
    "vmap inside": lambda x: torch.func.vmap(NETWORK)(x).sum(),
    "sparse inside": lambda x: torch.sparse.mm(x.to_sparse(), torch.ones(4, 2, dtype=torch.float64)),
    "write to a view": lambda x: x.clone().index_fill_(0, torch.tensor([0]), 2.0)[1:].mul_(2).sum(),
    "relu in place": nn.Sequential(NETWORK[0], nn.ReLU(inplace=True)),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(NETWORK, x, use_reentrant=True),
    "mapping": lambda x: {"a": x.sin(), "b": [x.cos(), 3]},
    "spectrum": lambda x: torch.fft.rfft(x).abs().sum(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_with_an_unusual_graph_pass(name: str) -> None:
    report = audit(RIGHT[name], point(3, 4))
    assert report.ok, str(report)


def test_sparse_gradients_are_understood() -> None:
    model = nn.Embedding(5, 3, sparse=True).double()
    assert audit(model, torch.tensor([[1, 2], [3, 1]])).ok


# what is named without being wrong


def test_a_cut_is_named_with_the_operation_that_cuts() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.square().mean()
        return (x * (scale + 1)).sum()

    report = audit(model, point(4))
    assert report.verdict is Verdict.FAIL
    assert report.guilty is not None
    assert (report.guilty.name, report.guilty.word) == ("square", "CUTS")
    assert named(report, NoticeKind.CUT) == ["square"]
    assert "cuts the graph" in str(report)


def test_a_power_iteration_that_is_left_out_of_the_graph_is_named_and_no_more() -> None:
    """spectral_norm takes its vectors for constants, which they are only once the iteration has converged."""
    torch.manual_seed(0)
    report = audit(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).double(), point(3, 4))
    assert report.raised is None
    assert named(report, NoticeKind.CUT) == ["parametrizations.weight.0.mv"]
    assert not [operation for operation in report.operations if operation.is_wrong]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (lambda x: 2 * x.detach(), "detach"),
        (lambda x: x * float(x.detach().sum()), "mul"),
        (lambda x: x * torch.from_numpy(x.detach().numpy().copy()), "mul"),
        (lambda x: x * x.data, "data"),
    ],
)
def test_cuts_of_other_kinds_are_named(model: Any, name: str) -> None:
    """The whole is cut off; a plain number or an array takes the value past the graph; `.data` does."""
    report = audit(model, point(3))
    assert report.verdict is Verdict.FAIL
    assert named(report, NoticeKind.CUT) == [name]
    assert report.blamed[0].name == name


def test_a_detached_maximum_that_changes_nothing_is_no_cut() -> None:
    def softmax(x: torch.Tensor) -> torch.Tensor:
        e = (x - x.amax(-1, keepdim=True).detach()).exp()
        return e / e.sum(-1, keepdim=True)

    report = audit(softmax, point(3, 4))
    assert report.ok, str(report)
    assert named(report, NoticeKind.CUT) == []


def test_an_operation_that_writes_to_what_was_saved_is_named() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        y.mul_(2)
        return y.sum()

    report = audit(model, point(3))
    assert report.verdict is Verdict.FAIL
    assert report.raised_in == "backward"
    (notice,) = [notice for notice in report.notices if notice.kind is NoticeKind.OVERWRITTEN]
    assert notice.operation is not None
    assert notice.by is not None
    assert [report.operations[k].name for k in (notice.operation, notice.by)] == ["exp", "mul_"]


def test_a_write_past_the_version_counter_is_found_in_torchs_own_operations() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2.0
        z = y.sin()
        y.data.mul_(0.5)
        return z.sum()

    report = audit(model, point(3))
    assert report.guilty is not None
    assert report.guilty.name == "sin"
    assert "overwritten before its backward ran, by mul_" in report.guilty.findings[0].headline


def test_parameters_without_a_gradient_are_named() -> None:
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)}).double()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.parts["used"](x)

    report = audit(Model(), point(3, 2))
    assert report.ok
    assert named(report, NoticeKind.NO_GRADIENT) == ["parts.idle.weight", "parts.idle.bias"]


def test_kinks_and_saturation_are_named() -> None:
    x = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    report = audit(lambda x: torch.relu(x).sum(), x, deep=True)
    assert report.ok, str(report)
    assert named(report, NoticeKind.KINK) == ["relu"]
    report = audit(lambda x: torch.sigmoid(1000 * (x - 2)).sum(), x)
    assert named(report, NoticeKind.SATURATED) == ["sigmoid"]
    assert "3 of 3 elements hand on a gradient of exactly zero" in str(report)


# values that are no numbers


@pytest.mark.filterwarnings("ignore:std")  # what torch says of one of them
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("trap", TRAPS)
def test_an_origin_is_named_with_its_element_and_reason(trap: str, dtype: torch.dtype) -> None:
    report = audit(*planted.build(planted.trapped(trap), trap, dtype))
    assert report.verdict is Verdict.FAIL
    assert planted.is_origin(report, trap), str(report)


def test_an_origin_tells_what_went_in_and_the_remedy() -> None:
    report = audit(lambda x: (x - x[:1]).abs().sqrt().sum(), point(3))
    (origin,) = report.origins
    assert origin.phase is Phase.BACKWARD
    assert origin.operation is not None
    assert report.operations[origin.operation].name == "sqrt"
    assert origin.element == (0,)
    assert dict(origin.values)["input 0"] == 0.0
    assert "remedy: add a small number under the root" in str(report)


def test_a_mask_of_infinities_is_no_origin() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((4, 4), -math.inf, dtype=x.dtype).triu(1)
        return torch.softmax(x @ x.mT + mask, -1)

    report = audit(model, point(4, 3))
    assert report.ok, str(report)
    assert report.origins == ()


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_a_mask_of_infinities_is_right_alone(factor: float) -> None:
    """And what is not masked is looked at all the same."""
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    masking = custom(lambda x: x.masked_fill(mask, -torch.inf), lambda s, g: factor * g.masked_fill(mask, 0))
    x = point(4, 4)
    right = audit(lambda x: x.masked_fill(mask, -torch.inf).softmax(-1), x, deep=True)
    assert [each.status for each in right.operations] == [Status.RIGHT, Status.RIGHT], str(right)
    by_hand = audit(lambda x: masking(x).softmax(-1), x)
    assert by_hand.verdict is (Verdict.PASS if factor == 1 else Verdict.FAIL), str(by_hand)


def test_an_overflow_that_is_masked_is_no_origin_but_its_gradient_is() -> None:
    x = torch.tensor([1.0, 1e4], dtype=torch.float64, requires_grad=True)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 100, x, x.exp()).sum()

    report = audit(model, x)
    (origin,) = report.origins
    assert (origin.phase, origin.element) == (Phase.BACKWARD, (1,))


def test_a_parameter_that_is_not_finite_from_the_start_is_named() -> None:
    layer = nn.Linear(2, 2).double()
    with torch.no_grad():
        layer.weight[1, 0] = math.nan
    report = audit(layer, point(3, 2))
    (origin, *_) = report.origins
    assert (origin.phase, origin.target, origin.element) == (Phase.GIVEN, "weight", (1, 0))


# manners


def test_an_exception_of_the_model_is_told_and_everything_is_as_before() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norm(x * torch.rand_like(x))
            raise RuntimeError("no such luck")

    model, before = Model(), torch.get_rng_state()
    code = torch.autograd.Function.apply.__func__.__code__
    report = audit(model, point(3, 2))
    assert report.verdict is Verdict.FAIL
    assert (report.raised_in, str(report.raised)) == ("forward", "no such luck")
    assert "no such luck" in str(report)
    assert report.raised_at.startswith("tests/test_audit.py:")
    assert model.norm.num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.autograd.Function.apply.__func__.__code__ is code


def test_nothing_of_the_model_is_changed() -> None:
    model, inputs = planted.build("cnn with batch norm", "factor", torch.float32)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    versions = {name: value._version for name, value in model.named_parameters()}
    values, state = [x.detach().clone() for x in inputs], torch.get_rng_state()
    audit(model, inputs, deep=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert {name: value._version for name, value in model.named_parameters()} == versions
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(x, value) for x, value in zip(inputs, values, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_seed_gives_the_same_report() -> None:
    first, second = (audit(*planted.build("gru", "factor", torch.float64), seed=3) for _ in range(2))
    assert [o.share for o in first.operations] == [o.share for o in second.operations]
    assert first.deviation == second.deviation


def test_a_budget_that_ends_leaves_operations_unchecked() -> None:
    report = audit(*planted.build("gru", "factor", torch.float64), budget=1e-9)
    assert {operation.unchecked for operation in report.operations if operation.differentiable} == {
        "the budget ended before"
    }
    assert report.blamed[0].name == "Fused", "what it explains ranks it first all the same"
    assert "the whole was not checked: the budget ended before" in report.notes


def test_a_budget_ends_the_check_of_the_whole_too() -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return x.sin().sum()

    report = audit(slow, torch.rand(3, dtype=torch.float64, requires_grad=True), budget=0.7)
    assert report.whole is not None
    assert report.whole.verdict is Verdict.INCONCLUSIVE
    assert report.whole.cost.evaluations < 8
    assert audit(slow, torch.rand(3, dtype=torch.float64, requires_grad=True), budget=60.0).ok


@pytest.mark.parametrize(("model", "options"), [(3, {}), (torch.sin, {"budget": 0.0})])
def test_a_call_that_makes_no_sense_is_refused(model: Any, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        audit(model, point(2), **options)


def test_an_encoder_is_run_a_few_dozen_times_in_all() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 4)
    x, runs = torch.randn(4, 16, 64, requires_grad=True), 0

    def count(*_: Any) -> None:
        nonlocal runs
        runs += 1

    model.register_forward_pre_hook(count)
    assert audit(model, x, deep=True).ok
    assert 1 < runs <= 60


def test_inputs_are_numbered_among_the_tensors_whatever_stands_before_them() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, mode: str, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            return None, 3 * grads[0]

    x = torch.linspace(0.5, 1.5, 4, dtype=torch.float64).requires_grad_()
    told = str(audit(lambda x: Scaled.apply("fast", x.sin()).sum(), x))
    assert "FAIL" in told
    assert "input 0 `x`" in told
    assert "input 1" not in told


def test_the_first_of_a_kind_is_looked_up_in_a_table_that_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    ours = Blame._firsts.func

    def counted(self: Any) -> Any:
        made.append(1)
        return ours(self)

    monkeypatch.setattr(Blame._firsts, "func", counted)
    x = torch.linspace(0.5, 1.5, 4, dtype=torch.float64).requires_grad_()

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(60):
            x = x.sin() / 60 + x  # its gradient does not vanish: then nothing would be seen of the whole
        return x.sum()

    assert audit(chain, x, deep=True)
    assert made == [1]
