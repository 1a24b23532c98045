"""Private names of torch stand in two files, and a check does without each of them."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from functions import custom, numbers
from sparse_functions import sparse
from torch.masked import MaskedTensor, masked_tensor

import gradproof
from gradproof.backends.torch import private
from gradproof.backends.torch.calls import call_of
from gradproof.backends.torch.memory.sharing import has_memory
from gradproof.backends.torch.problem import first_order
from gradproof.backends.torch.trusted import PrivateNameWarning
from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode

SOURCE = Path(gradproof.__file__).parent
HOMES = {SOURCE / "backends" / "torch" / place for place in ("private.py", "memory/holders.py")}
PRIVATE = re.compile(
    r"\b_?torch\._[a-zA-Z]|\._C\b|_functorch\b|vmapmode|_batch_dim\b|_execution_engine|UndefinedGrad|_mkldnn\b(?<!to_mkldnn)"
    r"|_is_zerotensor|_masked_(data|mask)\b|\._(values|indices)\(|_efficientzerotensor|[\"']_buffers\b|module\._buffers\b"
)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_private_names_of_torch_stand_in_two_files(path: Path) -> None:
    found = PRIVATE.findall(path.read_text(encoding="utf-8"))
    assert bool(found) is (path in HOMES)


TRICKS: dict[str, Callable[[], Any]] = {
    "engine": private.engine,
    "undefined": private.undefined,
    "vmap": private.vmap,
    "vmap_derivative": private.vmap_derivative,
    "is_zero_tensor": private.is_zero_tensor,
    "coordinate_parts": private.coordinate_parts,
    "masked_parts": private.masked_parts,
    "decompositions": private.decompositions,
}
USERS = {
    "engine": "_private_engine",
    "undefined": None,
    "vmap": None,
    "vmap_derivative": "_private_vmap_derivative",
    "is_zero_tensor": "_knows_zeros",
    "coordinate_parts": "_private_parts",
    "masked_parts": "_private_masked",
    "decompositions": "_private_decompositions",
}
"""The functions here that use a name, where torch's own public ways use it too, so that it cannot be taken away."""


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """No test leaves behind what it made the tricks believe."""
    for trick in TRICKS.values():
        trick.cache_clear()
    yield
    for trick in TRICKS.values():
        trick.cache_clear()


def take_away(trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = USERS[trick]
    if user is not None:
        monkeypatch.setattr(private, user, gone)
    elif trick == "undefined":
        monkeypatch.delattr(torch._C._functions, "UndefinedGrad")
    else:
        monkeypatch.setattr(private, "_torch", Without("_C"))


class Without:
    """torch without one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(torch, name)


def gone(*_: Any) -> Any:
    raise AttributeError("gone")


@pytest.mark.parametrize("trick", TRICKS)
def test_with_this_version_of_torch_every_trick_works(trick: str) -> None:
    with warnings.catch_warnings(action="error"):
        assert TRICKS[trick]() is not None


@pytest.mark.parametrize("trick", TRICKS)
def test_a_name_that_is_gone_is_told_once(trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(trick, monkeypatch)
    with warnings.catch_warnings(record=True, action="always") as caught:
        first, second = TRICKS[trick](), TRICKS[trick]()
    assert first is second
    (told,) = caught
    assert told.category is PrivateNameWarning
    assert "takes a public way instead" in str(told.message)


def test_a_name_that_does_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C._functions, "UndefinedGrad", lambda: lambda tensor: tensor * 1)
    with pytest.warns(PrivateNameWarning, match="UndefinedGrad .*it does something else"):
        identity = private.undefined()
    x = numbers(3)
    assert torch.autograd.grad(identity(x * 2).sum(), x, allow_unused=True) == (None,)


def test_where_warnings_are_errors_the_check_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away("engine", monkeypatch)
    told: list[Any] = []
    monkeypatch.setattr(warnings, "showwarning", lambda *parts: told.append(parts[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradproof.check(torch.sin, numbers(3)).ok
    assert told == [PrivateNameWarning]


def answers() -> list[Any]:
    """What a Problem says with every trick in use."""

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        return (a @ b).sin(), (a * a).sum(), b[0] * 2

    investigation = Investigation(first_order(call_of(function, (numbers(3, 4), numbers(4, 2, seed=1)))).problem)
    problem = investigation.problem
    points = problem.point + 0.01 * np.arange(30)[:, None]
    return [
        investigation.pullback,
        investigation.pushforward,
        investigation.evaluate_many(points),
        investigation.evaluate_many(points[:, :12], slice(0, 12)),
        investigation.vjp_many(np.eye(problem.outputs.size)),
        investigation.jvp_many(np.eye(problem.inputs.size)),
        investigation.vjp_without(investigation.cotangent, frozenset({0, 2})),
        investigation.vjp_without(investigation.cotangent, frozenset({0, 1, 2})),
    ]


def second_answers() -> list[Any]:
    report = gradproof.check(lambda x: (x**3).sum(), numbers(4), order=2)
    return [str(report.verdict), len(report.findings)]


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.filterwarnings("ignore::gradproof.backends.torch.trusted.PrivateNameWarning")
def test_the_public_way_gives_the_same(trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, second = answers(), second_answers()
    for one in TRICKS.values():
        one.cache_clear()
    take_away(trick, monkeypatch)
    for ours, theirs in zip(answers(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=1e-14)
    assert second_answers() == second


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.filterwarnings("ignore::gradproof.backends.torch.trusted.PrivateNameWarning")
def test_a_missing_name_is_not_blamed_on_the_function(trick: str, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(trick, monkeypatch)
    investigation = Investigation(first_order(call_of(torch.sin, (numbers(3),))).problem)
    assert investigation.batch_flaw(mode) is None
    wrong = custom(lambda x: x * x, lambda s, g: 3 * s[0] * g)
    assert gradproof.check(torch.sin, numbers(3)).ok
    assert not gradproof.check(wrong, numbers(3)).ok


@pytest.mark.filterwarnings("ignore::gradproof.backends.torch.trusted.PrivateNameWarning")
def test_sparse_tensors_without_their_private_names(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away("coordinate_parts", monkeypatch)
    x = sparse("coo")
    before = x.detach().to_dense()
    for masked in (False, True):
        assert gradproof.check(lambda x: x.to_dense() ** 2, x.coalesce().detach().requires_grad_(), masked=masked).ok
    assert torch.equal(x.detach().to_dense(), before)
    twice = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.ones(2), (3,)).requires_grad_()
    with pytest.raises(NotImplementedError, match=r"pass x.coalesce\(\)"):
        private.coordinate_parts()(twice)


@pytest.mark.filterwarnings("ignore::gradproof.backends.torch.trusted.PrivateNameWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_the_public_parts_of_a_masked_tensor_are_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away("masked_parts", monkeypatch)
    x = masked_tensor(torch.ones(2, dtype=torch.float64), torch.tensor([True, False]), requires_grad=True)
    assert isinstance(x, MaskedTensor)
    data, mask = private.masked_parts()(x)
    assert not data.requires_grad
    assert mask.tolist() == [True, False]
    data.mul_(5.0)
    assert private.masked_parts()(x)[0].tolist() == [5.0, 5.0]


@pytest.mark.filterwarnings("ignore::gradproof.backends.torch.trusted.PrivateNameWarning")
def test_promised_zeros_have_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away("is_zero_tensor", monkeypatch)
    assert not has_memory(torch._efficientzerotensor(3))
    assert has_memory(torch.zeros(3))


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1  # another tensor each time
        return x.sin()


@pytest.mark.parametrize("public", [False, True])
def test_buffers_are_put_back(public: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Counting()
    buffer = module.count
    if public:
        monkeypatch.setattr(private, "vars", lambda _: {}, raising=False)
    assert gradproof.check(module, numbers(3)).ok
    assert module.count is buffer
    assert list(dict(module.named_buffers())) == ["count"]


def test_the_first_check_of_a_process_loads_no_symbolic_shapes() -> None:
    """They take a second. A batch of evaluations and one of vjps are among what it does."""
    code = (
        "import sys, torch, gradproof.torch as g\n"
        "x = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()\n"
        "assert g.gradcheck(torch.sin, (x,))\n"
        "assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
