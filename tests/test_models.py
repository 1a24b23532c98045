"""gradproof.check of modules: one call covers inputs and parameters, and leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functions import custom, numbers

from gradproof import Report, Verdict, check
from gradproof.torch import compare, gradcheck

torch.set_num_threads(1)

PRECISIONS = [torch.float32, torch.float64]


def photograph(module: torch.nn.Module) -> Any:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return (
        [(name, id(t), t.detach().numpy().tobytes(), t.requires_grad, t.grad is None) for name, t in tensors],
        [part.training for part in module.modules()],
        torch.get_rng_state().numpy().tobytes(),
    )


def checked(module: torch.nn.Module, inputs: Any, **options: Any) -> Report:
    before = photograph(module)
    report = check(module, inputs, **options)
    assert photograph(module) == before
    return report


def draw(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


class PackedLSTM(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 3, num_layers=2, batch_first=True, dropout=0.2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, state: dict[str, Any]) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        output, (hidden, cell) = self.lstm(packed, (state["hidden"], state["more"][0]))
        return output, {"state": (hidden, cell)}


class Heads(torch.nn.Module):
    """A dictionary in, a dictionary out."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)

    def forward(self, batch: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
        logits = self.a(batch["x"]).tanh() + scale * self.b(batch["more"]["y"])
        return {"logits": logits, "losses": [logits.square().mean(), {"name": "no tensor"}]}


def models(dtype: torch.dtype) -> dict[str, tuple[torch.nn.Module, Any]]:
    torch.manual_seed(0)
    block = torch.nn.TransformerEncoderLayer(4, 2, 6, dropout=0.3, batch_first=True)
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(2, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(8, 2)
    )
    state = {"hidden": draw(2, 3, 3, dtype=dtype, seed=1), "more": [draw(2, 3, 3, dtype=dtype, seed=2)]}
    batch = {"x": draw(2, 3, dtype=dtype), "more": {"y": draw(2, 2, dtype=dtype, seed=1), "name": "a name"}}
    return {
        "transformer": (block.to(dtype), draw(2, 3, 4, dtype=dtype)),
        "BatchNorm": (conv.to(dtype), draw(3, 2, 4, 4, dtype=dtype)),
        "LSTM": (PackedLSTM().to(dtype), (draw(3, 4, 2, dtype=dtype), torch.tensor([4, 3, 1]), state)),
        "dictionaries": (Heads().to(dtype), batch),
    }


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", models(torch.float64))
def test_a_model_is_checked_with_one_call(name: str, dtype: torch.dtype) -> None:
    module, inputs = models(dtype)[name]
    report = checked(module, inputs)
    assert report.findings == (), str(report)
    parameters = [label for label in report.covered if label.startswith("parameter")]
    assert parameters == [f"parameter `{parameter}`" for parameter, _ in module.named_parameters()]
    assert len(report.covered) > len(parameters)


def test_nested_inputs_are_named_by_their_place() -> None:
    module, inputs = models(torch.float64)["dictionaries"]
    report = checked(module, inputs, kwargs={"scale": 2.0})
    assert set(report.covered[:2]) == {"input 0 `batch['x']`", "input 0 `batch['more']['y']`"}
    assert "input 0 `batch['more']['name']` (str, not differentiable)" in report.not_covered
    assert "input 1 `scale` (float, not differentiable)" in report.not_covered


class Scale(torch.nn.Module):
    """x * weight, with a gradient that is wrong in one element of the weight."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.weight = factor, torch.nn.Parameter(torch.linspace(0.5, 1.5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def backward(s: Any, g: torch.Tensor) -> Any:
            gradient = (g * s[0]).flatten(0, -2).sum(0)
            gradient[2] *= self.factor
            return g * s[1], gradient

        return custom(torch.mul, backward)(x, self.weight)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("factor", [1.0, 1.05, -1.0])
def test_a_wrong_operation_inside_is_named_at_its_parameter_and_element(factor: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), Scale(factor), torch.nn.Dropout(0.3), torch.nn.Linear(4, 2)
    report = checked(torch.nn.Sequential(*layers).to(dtype), draw(5, 3, dtype=dtype))
    assert report.verdict is (Verdict.PASS if factor == 1.0 else Verdict.FAIL), str(report)
    wrong = {(finding.property, finding.input, finding.input_element) for finding in report.findings}
    assert wrong == (set() if factor == 1.0 else {("jacobian", "2.weight", (2,))})
    assert factor == 1.0 or "with respect to parameter `2.weight`" in report.findings[0].message


def test_a_module_whose_input_needs_no_gradient_is_checked_for_its_parameters() -> None:
    module = torch.nn.Linear(3, 2).double()
    report = checked(module, torch.ones(4, 3, dtype=torch.float64))
    assert report.ok
    assert report.covered == ("parameter `weight`", "parameter `bias`")
    assert report.not_covered == ("input 0 `input` (requires_grad is False)",)


# wrt


def two_layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()


@pytest.mark.parametrize(
    ("wrt", "covered"),
    [
        ("0.weight", ["parameter `0.weight`"]),
        ("*.bias", ["parameter `0.bias`", "parameter `2.bias`"]),
        (["0.*", 0], ["input 0 `input`", "parameter `0.weight`", "parameter `0.bias`"]),
        (0, ["input 0 `input`"]),
        ("input", ["input 0 `input`"]),
    ],
)
def test_wrt_selects_by_name_pattern_and_number(wrt: Any, covered: list[str]) -> None:
    report = checked(two_layers(), numbers(2, 3), wrt=wrt)
    assert report.ok
    assert list(report.covered) == covered
    left_out = [text for text in report.not_covered if "(not selected by wrt)" in text]
    assert len(left_out) == 5 - len(covered)


def test_wrt_selects_in_a_function_too() -> None:
    def function(x: torch.Tensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * state["a"].detach() * state["b"]

    inputs = numbers(2), {"a": numbers(2, seed=1), "b": numbers(2, seed=2)}
    assert check(function, inputs, wrt=["x", "state['b']"]).ok
    assert check(function, inputs, wrt="x").covered == ("input 0 `x`",)
    report = check(function, inputs, wrt="state")
    assert report.covered == ("input 1 `state['a']`", "input 1 `state['b']`")
    assert not report


@pytest.mark.parametrize("wrt", ["1.weight", "*.scale", 1, ["0.weight", "typo"]])
def test_wrt_that_selects_nothing_is_refused_with_the_choices(wrt: Any) -> None:
    with pytest.raises(ValueError, match=r"wrt=.* selects nothing; what requires a gradient: .*parameter `0.weight`"):
        check(two_layers(), numbers(2, 3), wrt=wrt)


def test_wrt_that_is_empty_is_refused() -> None:
    with pytest.raises(ValueError, match="wrt is empty"):
        check(two_layers(), numbers(2, 3), wrt=[])


# what is not covered


def test_frozen_parameters_are_listed() -> None:
    module = two_layers()
    module[0].requires_grad_(False)
    report = checked(module, numbers(2, 3))
    assert report.covered == ("input 0 `input`", "parameter `2.weight`", "parameter `2.bias`")
    assert report.not_covered == tuple(
        f"parameter `0.{n}` (frozen: requires_grad is False)" for n in ("weight", "bias")
    )
    assert "not covered: parameter `0.weight` (frozen: requires_grad is False)" in str(report)


def test_arguments_without_a_derivative_are_listed() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, index: torch.Tensor, n: int, mode: str, none: Any) -> torch.Tensor:
        return (x * y)[index] ** n

    report = check(function, (numbers(3), numbers(3).detach(), torch.tensor([0, 2]), 2, "mean", None))
    assert report.ok
    assert report.not_covered == (
        "input 1 `y` (requires_grad is False)",
        "input 2 `index` (int64, not differentiable)",
        "input 3 `n` (int, not differentiable)",
        "input 4 `mode` (str, not differentiable)",
    )


def test_a_call_that_covers_nothing_raises() -> None:
    module = two_layers().requires_grad_(False)
    with pytest.raises(ValueError, match="gradient"):
        check(module, numbers(2, 3).detach())
    with pytest.raises(ValueError, match="nothing to check: the function returned no floating-point array"):
        check(lambda x: (x > 0, "text"), numbers(3))
    with pytest.raises(ValueError, match="nothing to check: no output is connected"):
        check(lambda x: torch.ones(3), numbers(3), properties="jacobian")


# inputs whose elements share memory


def test_an_expanded_input_is_copied_and_the_report_says_so() -> None:
    x = numbers(1).detach().expand(4).requires_grad_()
    report = check(torch.sin, x)
    assert report.ok, str(report)
    assert report.notes == ("input 0 has elements that share memory: a copy of it was checked",)
    assert "note: input 0 has elements that share memory" in str(report)
    assert x.stride() == (0,)
    assert not check(lambda x: x * x.detach(), x)
    assert check(torch.sin, numbers(4)).notes == ()


class OneFactor(torch.autograd.Function):
    """A product, 1.3 times the gradient of one factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return 1.3 * g * y, g * x


BASE = numbers(7)
VIEWS = {
    "side by side": (BASE[:-1], BASE[1:]),
    "with its base": (BASE[:3], BASE.view(7)[2:5]),
    "a constant": (BASE[:4], BASE.detach()[3:]),
    "itself, detached": (BASE, BASE.detach()),
    "in another shape": (BASE[:6].view(2, 3), BASE[1:4]),
}


@pytest.mark.parametrize("strategy", ["probes", "entries"])
@pytest.mark.parametrize("name", VIEWS)
def test_inputs_that_lie_in_each_others_memory_are_told_apart(name: str, strategy: Any) -> None:
    """Moving one would move the other: a right function would be wrong, and a wrong one for a false reason."""
    before = BASE.detach().clone()
    report = check(lambda x, y: x * torch.sin(y), VIEWS[name], strategy=strategy)
    assert report.ok, str(report)
    assert report.notes == ("input 1 `y` shares memory with input 0 `x`: a copy of it was passed",)
    wrong = check(OneFactor.apply, VIEWS[name], strategy=strategy)
    assert [finding.input for finding in wrong.findings] == [0]
    assert "1.3 × numeric" in wrong.findings[0].hint
    assert torch.equal(BASE.detach(), before)


def test_parts_side_by_side_share_nothing() -> None:
    assert check(torch.mul, (BASE[:3], BASE[3:6])).notes == ()


def test_gradcheck_keeps_torchs_error_for_an_expanded_input() -> None:
    with pytest.raises(RuntimeError, match="share memory"):
        gradcheck(torch.sin, numbers(1).detach().expand(4).requires_grad_())


def test_whole_numbers_among_the_outputs_must_be_equal() -> None:
    report = compare(lambda x: (x * 2, x.argmax()), lambda x: (x * 2, x.argmin()), numbers(4))
    assert [finding.output for finding in report.findings] == [1]


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(lambda x: None, lambda x: None, numbers(4))
