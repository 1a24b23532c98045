"""A failing call is made small while the same finding is there, and written as a test that fails with torch alone."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from functions import custom, numbers

import gradproof
from gradproof import engine

SCALE = 0.5
REFUSING = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("gradproof", "gradproof_pytest", "tests"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refused())
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


class MeanBias(torch.autograd.Function):
    """x W' + b, whose gradient of the bias is a mean in place of a sum."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.mean(0)


class Rows(torch.autograd.Function):
    """Rows by their numbers; where two are equal, one of the gradients is lost."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return table[index]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (index,) = ctx.saved_tensors
        gradient = g.new_zeros(ctx.rows, g.shape[1])
        gradient[index] = g
        return gradient, None


class ByStride(torch.autograd.Function):
    """Wrong for inputs that are not contiguous."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.factor = 2.0 if x.is_contiguous() else 3.0
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * ctx.factor


class Raising(torch.autograd.Function):
    """Its backward raises where there are three rows or more."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        if len(g) > 2:
            raise ArithmeticError(f"{len(g)} rows are too many")
        return g * 2


class Tangent(torch.autograd.Function):
    """Its jvp has a factor too many."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> Any:
        return 2 * tangent * ctx.saved_tensors[0].cos()


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * x.detach() * SCALE


def value(x: torch.Tensor) -> torch.Tensor:
    """Its name is one that the written test uses itself."""
    return x * x.detach()


def several(pair: Any, extra: Any = None, *, factor: float, shift: torch.Tensor) -> Any:
    """A nested argument, one that may be left out, keywords, and a nested output."""
    first, second = pair["first"], pair["second"]
    right = first * factor + shift
    return {"right": right, "wrong": [second * second.detach() + (0 if extra is None else 1)]}


def cut_to(x: torch.Tensor, rows: int) -> torch.Tensor:
    """An argument that counts rows."""
    return x.reshape(rows, -1) * x.detach().reshape(rows, -1)


def never_small(x: torch.Tensor) -> torch.Tensor:
    """Right where an axis has fewer than seven indices."""
    return x * (x.detach() if x.shape[0] >= 7 else x)


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.25) * x.detach()


def run_alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """pytest on a folder, in an interpreter that can import neither gradproof nor these tests."""
    command = [sys.executable, "-I", "-c", REFUSING, "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )


def run_here(source: str) -> None:
    """The test of a file, with its functions."""
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(source, "written", "exec"), names)
    names["test_directional_derivative"]()


def shapes(result: gradproof.ShrinkResult) -> list[tuple[int, ...]]:
    return [tuple(each.shape) for each in result.inputs if isinstance(each, torch.Tensor)]


def test_axes_of_one_size_shrink_together() -> None:
    inputs = numbers(40, 30), numbers(20, 30, seed=1), numbers(20, seed=2)
    result = gradproof.shrink(MeanBias.apply, inputs)
    assert shapes(result) == [(2, 1), (1, 1), (1,)]  # of one row, the mean is the sum
    assert (result.elements_before, result.elements) == (1820, 4)
    finding = result.finding
    assert (finding.property, finding.status, finding.input) == ("jacobian", gradproof.Status.WRONG, 2)
    assert not gradproof.check(MeanBias.apply, result.inputs)
    assert [each.requires_grad for each in result.inputs] == [False, False, True]
    assert result.standalone
    assert "empty_strided" not in result.source
    assert result.steps
    assert result.evaluations > 0
    assert str(result).startswith("1820 elements became 4")


def test_the_given_inputs_are_left_alone() -> None:
    inputs = numbers(6, 5), numbers(4, 5, seed=1), numbers(4, seed=2)
    before = [each.detach().clone() for each in inputs]
    gradproof.shrink(MeanBias.apply, inputs)
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))
    assert all(each.requires_grad and each.grad is None for each in inputs)


def test_values_become_simple_and_stay_in_range() -> None:
    x = (numbers(20).detach() * 0.1 - 0.999).requires_grad_()  # where acos is defined

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.acos() * x.detach()

    result = gradproof.shrink(function, x)
    (small,) = result.inputs
    assert small.shape == (1,)
    assert float(x.min()) <= float(small) <= float(x.max())
    assert len(repr(small.item())) <= 5


@pytest.mark.parametrize("function", [scaled, value, custom(lambda x: x * x, lambda saved, g: g * saved[0])])
def test_the_file_shows_the_failure_and_a_right_function_passes_it(function: Callable[..., Any]) -> None:
    result = gradproof.shrink(function, numbers(30, 4))
    assert result.standalone, result.reason
    assert "gradproof" not in result.source
    with pytest.raises(AssertionError, match="the derivative along u is"):
        run_here(result.source)
    righted = result.source.replace(".detach() * SCALE", " * SCALE").replace("x * x.detach()", "x * x")
    righted = righted.replace("g * saved[0]", "2 * g * saved[0]")
    assert righted != result.source
    run_here(righted)


def test_files_fail_under_pytest_with_torch_alone(tmp_path: Path) -> None:
    index = torch.arange(50) % 40
    cases = [
        (MeanBias.apply, (numbers(40, 30), numbers(20, 30, seed=1), numbers(20, seed=2)), {}),
        (Rows.apply, (numbers(40, 6), index), {}),
        (scaled, (numbers(40, 30, dtype=torch.float32),), {}),
        (several, ({"first": numbers(30), "second": numbers(30)},), {"factor": 2.0, "shift": numbers(30).detach()}),
        (dropped, (numbers(30),), {}),
    ]
    for number, (function, inputs, keywords) in enumerate(cases):
        result = gradproof.shrink(function, inputs, keywords)
        assert result.standalone, result.reason
        result.write(tmp_path / f"test_{number}.py")
    done = run_alone(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("E       AssertionError: the derivative along u is") == len(cases), done.stdout


def test_a_dtype_that_the_failure_needs_stays() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (x.detach() if x.dtype is torch.float32 else x)

    assert gradproof.shrink(scaled, numbers(9, dtype=torch.float32)).inputs[0].dtype is torch.float64
    result = gradproof.shrink(function, numbers(9, dtype=torch.float32))
    assert result.inputs[0].dtype is torch.float32
    assert result.elements == 1
    assert result.standalone, result.reason


def test_numbers_of_rows_follow_the_rows() -> None:
    result = gradproof.shrink(Rows.apply, (numbers(40, 6), torch.arange(50) % 40))
    assert shapes(result) == [(1, 1), (2,)]
    result = gradproof.shrink(cut_to, (numbers(40, 6), 40))
    assert result.inputs[1] == 1
    assert shapes(result) == [(1, 1)]


def test_nested_arguments_and_keywords() -> None:
    pair = {"first": numbers(30), "second": numbers(30, seed=1)}
    result = gradproof.shrink(several, (pair, numbers(2)), {"factor": 2.0, "shift": numbers(30).detach()})
    assert result.inputs[0]["second"].shape == (1,)
    assert len(result.inputs) == 1  # `extra` is left out
    assert result.kwargs["factor"] == 2.0
    assert result.standalone, result.reason
    assert "['wrong'][0]" in result.source


def test_what_only_fails_in_its_own_memory_keeps_its_strides() -> None:
    x = numbers(20, 30).detach().t().requires_grad_()
    result = gradproof.shrink(ByStride.apply, x)
    (small,) = result.inputs
    assert not small.is_contiguous()
    assert small.numel() <= 4
    assert result.standalone, result.reason
    assert "empty_strided" in result.source


def test_an_exception_is_kept_as_it_is() -> None:
    result = gradproof.shrink(Raising.apply, numbers(40, 5))
    assert result.finding.status is gradproof.Status.RAISED
    assert shapes(result) == [(3, 1)]
    assert result.standalone, result.reason
    with pytest.raises(ArithmeticError, match="3 rows"):
        run_here(result.source)


def test_sizes_that_a_failure_needs_stay() -> None:
    result = gradproof.shrink(never_small, numbers(1000, 3))
    assert shapes(result) == [(7, 1)]


def test_complex_numbers() -> None:
    wrong = custom(lambda a: a * a, lambda saved, g: 2 * g * saved[0])  # not conjugated
    result = gradproof.shrink(wrong, numbers(20, 5, dtype=torch.complex128))
    assert shapes(result) == [(1, 1)]
    assert result.standalone, result.reason


def test_forward_mode() -> None:
    result = gradproof.shrink(Tangent.apply, numbers(20, 5))
    assert shapes(result) == [(1, 1)]
    assert result.standalone, result.reason
    assert "make_dual" in result.source


def test_a_file_that_does_not_do_what_it_is_for_is_not_standalone() -> None:
    """The jvp is put into the class afterwards: its source does not have it, and running the file shows that."""
    wrong = custom(torch.sin, lambda saved, g: g * saved[0].cos(), lambda saved, t: 2 * t * saved[0].cos())
    result = gradproof.shrink(wrong, numbers(20, 5))
    assert not result.standalone
    assert "NotImplementedError" in result.reason


def test_an_output_without_a_graph() -> None:
    result = gradproof.shrink(lambda x, y: x.detach() * 2 + y, (numbers(20), numbers(20, seed=1)))
    assert result.finding.input == 0
    assert result.elements <= 2
    assert result.standalone, result.reason


def test_a_finding_can_be_chosen() -> None:
    def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * a.detach() + b * b.detach()

    inputs = numbers(10), numbers(10, seed=1)
    report = gradproof.check(both, inputs, modes="reverse")
    (second,) = [finding for finding in report.findings if finding.input == 1]
    assert gradproof.shrink(both, inputs, finding=second, modes="reverse").finding.input == 1
    with pytest.raises(ValueError, match="no such finding"):
        gradproof.shrink(lambda a, b: a * a.detach() + b, inputs, finding=second, modes="reverse")


def test_what_passes_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to shrink: the verdict is PASS"):
        gradproof.shrink(torch.sin, numbers(3))


def test_a_budget_ends_the_search() -> None:
    result = gradproof.shrink(never_small, numbers(1000, 3), budget=1)
    assert not result.complete
    assert result.elements == result.elements_before
    assert "the budget ended the search" in str(result)


def test_observers_see_nothing_of_a_search() -> None:
    seen: list[gradproof.Report] = []
    engine.observers.append(seen.append)
    try:
        gradproof.shrink(scaled, numbers(5))
    finally:
        engine.observers.remove(seen.append)
    assert seen == []


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.detach()


def test_what_has_no_source_is_said() -> None:
    result = gradproof.shrink(Layer(), numbers(20))
    assert result.elements == 1
    assert not result.standalone
    assert "Layer" in result.reason
    assert "FILL IN" in result.source
    compile(result.source, "written", "exec")


def test_a_tensor_that_a_function_closes_over_is_said() -> None:
    weight = numbers(3).detach()
    result = gradproof.shrink(lambda x: x * x.detach() * weight.sum(), numbers(20))
    assert not result.standalone
    assert "weight" in result.reason


def test_what_a_difference_quotient_does_not_show_is_said() -> None:
    random = custom(lambda x: x * 2, lambda saved, g: g * 2 + torch.rand(()) * 1e-3)
    report = gradproof.check(random, numbers(20))
    (finding, *_) = [each for each in report.findings if each.property not in ("jacobian", "unused")]
    result = gradproof.shrink(random, numbers(20), finding=finding)
    assert not result.standalone
    assert finding.property in result.reason


def test_the_second_order_is_said() -> None:
    wrong = custom(lambda x: x**3, lambda saved, g: 3 * g * saved[0].detach() * saved[0])
    result = gradproof.shrink(wrong, numbers(20), order=2)
    assert result.elements == 1
    assert not result.standalone
    assert "second derivative" in result.reason


def test_functions_of_packages_are_imported() -> None:
    from gradproof.shrinking.sources import source_of

    found = source_of(torch.nn.functional.gelu, ("torch", "torch.nn.functional"))
    assert (found.text, found.expression) == ("import torch.nn.functional", "torch.nn.functional.gelu")
    assert source_of(math.sin).expression == "math.sin"


def test_two_lambdas_in_a_line_are_told_apart() -> None:
    from gradproof.shrinking.sources import source_of

    pair = (lambda x: x + x, lambda x: x * x)
    assert source_of(pair[1]).text == "function_under_test = lambda x: x * x"


def test_the_line_that_repeats_a_check_repeats_it() -> None:
    inputs = (numbers(4),)
    report = gradproof.check(scaled, inputs, seed=3, modes="reverse", atol=1e-9, properties=["jacobian"])
    line = str(report).splitlines()[-1]
    assert line == (
        "repeat: gradproof.check(scaled, inputs, seed=3, modes=['reverse'], atol=1e-09, properties=['jacobian'])"
    )
    again = eval(report.repeat, {"gradproof": gradproof, "scaled": scaled, "inputs": inputs})
    assert again.findings == report.findings
    assert gradproof.Report.from_json(report.to_json()).repeat == report.repeat
    assert "repeat:" not in str(gradproof.check(torch.sin, inputs))


@pytest.mark.parametrize("option", [{"seconds": 60.0}, {"evaluations": 5000}, {"budget": 5000}])
def test_what_bounds_a_check_does_not_keep_a_call_from_being_shrunk(option: dict[str, Any]) -> None:
    x = torch.linspace(0.5, 2.0, 50, dtype=torch.float64).requires_grad_()
    assert gradproof.shrink(lambda x: x * x.detach(), x, **option).elements == 1
