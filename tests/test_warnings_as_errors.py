"""`python -W error` changes no verdict."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
from functions import numbers

from gradproof import check
from gradproof.torch import NonDifferentiableWarning, gradcheck, gradgradcheck

SCRIPT = """
import torch, gradproof, gradproof.torch as gt
x = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
print(gt.gradcheck(torch.relu, x), gt.gradcheck(torch.relu, x, fast_mode=True), gradproof.check(torch.relu, x).ok)
print(gt.gradcheck(torch.sin, x.detach().float().requires_grad_()))
print(gradproof.check(lambda x: x * x.detach(), x).ok, gt.gradcheck(lambda x: x.log(), x.detach().abs() + 1))
"""


def test_a_whole_process_gives_the_same_answers() -> None:
    said = [
        subprocess.run([sys.executable, *flags, "-c", SCRIPT], capture_output=True, text=True, check=False).stdout
        for flags in ([], ["-W", "error"])
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
def test_our_own_warnings_are_shown_and_are_no_errors(
    fast_mode: bool, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    x = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradcheck(torch.relu, x, fast_mode=fast_mode)
    shown = [warning.category for warning in recwarn]
    assert NonDifferentiableWarning in shown or "NonDifferentiableWarning" in capsys.readouterr().err


def test_functions_of_all_kinds_cause_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (
            torch.log,
            torch.sqrt,
            lambda x: 1 / x,
            lambda x: (50 * x).exp(),
            torch.acos,
            torch.special.i0,
        ):
            x = numbers(30).detach().abs().clamp(1e-3, 0.999).requires_grad_()
            assert check(function, x).ok
            assert gradgradcheck(function, x)


def test_a_warning_of_the_function_is_the_functions_own() -> None:
    def warns(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mine", stacklevel=1)
        return x.sin()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="mine"):
            gradcheck(warns, numbers(2))
