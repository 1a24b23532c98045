"""The Jacobian of a low-precision function through its twin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from array_problem import findings
from functions import custom, numbers

from gradproof import Verdict, check
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.problem import first_order
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.problem import Mode
from gradproof.core.seen import Seen
from gradproof.core.status import Status
from gradproof.properties.by_twin import has_twin
from gradproof.properties.jacobian import jacobian

PROBES = Options(strategy=Strategy.PROBES)
LOW = [torch.bfloat16, torch.float16, torch.float32]


def case(function: Callable[..., Any], *inputs: torch.Tensor) -> Investigation:
    return Investigation(first_order(call_of(function, inputs)).problem)


def sine(spoil: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype | None = None) -> Callable[..., Any]:
    """sin, whose gradient is spoiled in one dtype, or in all."""

    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        right = g * saved[0].cos()
        return spoil(right) if dtype in (None, right.dtype) else right

    return custom(torch.sin, backward)


def right(g: torch.Tensor) -> torch.Tensor:
    return g


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_right_gradient_of_many_elements_has_no_finding_and_costs_little(dtype: torch.dtype) -> None:
    asked = case(sine(right), numbers(4096, dtype=dtype))
    assert has_twin(asked)
    found = list(jacobian(asked, PROBES))
    assert findings(found) == []
    assert sum(isinstance(each, Seen) for each in found) == 2
    assert asked.cost.evaluations <= 12
    assert asked.cost.vjps <= 10  # two of them for the certificate


def test_layer_norm_costs_about_ten_evaluations_and_eight_vjps() -> None:
    inputs = [numbers(8, 64, dtype=torch.bfloat16), *(numbers(64, dtype=torch.bfloat16, seed=k) for k in (1, 2))]
    asked = case(lambda x, w, b: torch.nn.functional.layer_norm(x, (64,), w, b), *inputs)
    assert has_twin(asked)
    assert findings(jacobian(asked, PROBES)) == []
    assert asked.cost.evaluations <= 12
    assert asked.cost.vjps <= 10  # two of them for the certificate


SPOILS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x1.2": lambda g: 1.2 * g,
    "double": lambda g: 2 * g,
    "sign": lambda g: -g,
    "zero": lambda g: 0 * g,
    "half zero": lambda g: torch.cat([g[:2048], 0 * g[2048:]]),
}


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("name", SPOILS)
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_a_wrong_gradient_of_many_elements_is_wrong(dtype: torch.dtype, name: str, everywhere: bool) -> None:
    asked = case(sine(SPOILS[name], None if everywhere else dtype), numbers(4096, dtype=dtype))
    assert has_twin(asked)
    found = findings(jacobian(asked, PROBES))
    assert Status.WRONG in {finding.status for finding in found}
    assert found[0].input == 0
    assert found[0].entries[0].input.block == asked.problem.inputs.blocks[0]


def test_one_element_that_is_lost_in_one_precision_is_named_with_both_numbers() -> None:
    x = numbers(4096, dtype=torch.bfloat16)
    place = int(x.detach().cos().abs().argmax())
    asked = case(sine(lambda g: g * (torch.arange(4096) != place), torch.bfloat16), x)
    assert has_twin(asked)
    (finding,) = findings(jacobian(asked, PROBES))
    assert finding.status is Status.WRONG
    assert (finding.input_element, finding.output_element) == ((place,), (place,))
    assert "1 of 4096 elements" in finding.headline
    assert "in bfloat16 " in finding.headline
    assert "in float64 " in finding.headline
    assert "a gradient is lost" in finding.hint


def test_labels_are_not_disturbed() -> None:
    """Where y is 1 to the last bit; what is lost in one precision only is not explained by y being rounded."""
    lost = custom(lambda x: x.clone(), lambda s, g: 0 * g if g.dtype is torch.float32 else g)
    labels = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], requires_grad=True)
    asked = case(lambda x, y: torch.where(y == 1, lost(x), -lost(x)), numbers(5, dtype=torch.float32), labels)
    assert has_twin(asked)
    assert Status.WRONG in {finding.status for finding in findings(jacobian(asked, PROBES))}


def test_a_factor_is_named() -> None:
    asked = case(sine(lambda g: 2 * g, torch.bfloat16), numbers(100, dtype=torch.bfloat16))
    assert has_twin(asked)
    (finding,) = findings(jacobian(asked, PROBES))
    assert finding.hint == "in bfloat16 it is 2 times what it is in float64: a factor 2 too many"


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_forward_mode_is_compared_too(dtype: torch.dtype) -> None:
    asked = case(lambda x: x * x, numbers(50, dtype=dtype))
    assert has_twin(asked)
    found = list(jacobian(asked, Options(strategy=Strategy.PROBES, modes=tuple(Mode))))
    assert findings(found) == []
    assert asked.cost.jvps > 0


def test_every_entry_of_the_twin_is_compared_where_that_is_asked_for() -> None:
    asked = case(sine(lambda g: 1.5 * g), numbers(6, dtype=torch.bfloat16))
    assert has_twin(asked)
    (finding,) = findings(jacobian(asked, Options(strategy=Strategy.ENTRIES)))
    assert (finding.status, finding.wrong) == (Status.WRONG, 6)


def test_a_backward_for_one_precision_only_has_no_twin() -> None:
    def backward(saved: Any, g: torch.Tensor) -> torch.Tensor:
        if g.dtype is not torch.bfloat16:
            raise TypeError("bfloat16 only")
        return g * saved[0].cos()

    assert not has_twin(case(custom(torch.sin, backward), numbers(10, dtype=torch.bfloat16)))
    assert not has_twin(case(torch.sin, numbers(10)))


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.PASS), (1.5, Verdict.FAIL)])
@pytest.mark.parametrize("elsewhere", [math.nan, 7.0])
def test_a_kernel_that_was_never_meant_for_float64_is_judged_by_itself(
    elsewhere: float, factor: float, verdict: Verdict
) -> None:
    def backward(saved: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * saved[0].cos() * (factor if grad.dtype is torch.float32 else elsewhere)

    x = torch.linspace(-1.0, 2.0, 6, requires_grad=True)
    report = check(custom(torch.sin, backward), x, modes="reverse")
    assert report.verdict is verdict
    assert any("quite another than in float32" in note for note in report.notes)
