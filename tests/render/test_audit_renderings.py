"""Audits as text, JSON and HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from gradproof.backends.torch.audit import reasons
from gradproof.render.audit import coloured, plain
from gradproof.render.audit_html import render, tree_of
from gradproof.render.audit_words import REASONS
from gradproof.results.audit import AuditReport
from gradproof.torch import audit


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
        return ctx.saved_tensors[0] * cotangents[0]


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Square.apply(x.sin())


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), torch.nn.Tanh()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


@pytest.fixture(scope="module")
def wrong() -> AuditReport:
    return audit(Model(), torch.linspace(0.5, 2, 4, dtype=torch.float64).requires_grad_())


@pytest.fixture(scope="module")
def infinite() -> AuditReport:
    return audit(lambda x: (x - x[0]).log().sum(), torch.linspace(0.5, 2, 4, dtype=torch.float64).requires_grad_())


@pytest.fixture(scope="module")
def raised() -> AuditReport:
    def model(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("<b>bad</b>\x1b[2J")

    return audit(model, torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("name", ["wrong", "infinite", "raised"])
def test_json_gives_an_equal_report(name: str, request: pytest.FixtureRequest) -> None:
    report: AuditReport = request.getfixturevalue(name)
    again = AuditReport.from_json(report.to_json())
    assert plain(again) == plain(report) or name == "raised"
    assert again.to_json() == report.to_json()
    assert json.loads(report.to_json())["schema"] == "gradproof.audit/1"
    assert json.loads(report.to_json())["verdict"] == "FAIL"


def test_other_documents_are_refused(wrong: AuditReport) -> None:
    document = json.loads(wrong.to_json())
    for broken in (
        {**document, "schema": "gradproof.report/2"},
        {**document, "operations": 3},
        {"schema": "gradproof.audit/1"},
    ):
        with pytest.raises(ValueError, match=r"document|audit"):
            AuditReport.from_json(json.dumps(broken))
    document["notices"] = [
        {"kind": "CUT", "operation": 99, "by": None, "parameter": "", "count": 0, "total": 0, "options": ""}
    ]
    with pytest.raises(ValueError, match="no operation number 99"):
        AuditReport.from_json(json.dumps(document))


def test_the_page_has_the_table_and_the_tree_with_the_guilty_path_marked(wrong: AuditReport, tmp_path: Path) -> None:
    page = render(wrong)
    assert page.index("layers.0.sin") < page.index("layers.1.tanh"), "in call order"
    tree = tree_of(wrong)
    assert tree.guilty
    assert tree.children["layers"].children["0"].guilty
    assert not tree.children["layers"].children["1"].guilty
    assert tree.total == len(wrong.operations)
    wrong.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    assert "http" not in page.replace("http-equiv", "").lower()


def test_what_is_the_users_is_escaped(raised: AuditReport) -> None:
    page = render(raised)
    assert "<b>bad</b>" not in page
    assert "&lt;b&gt;bad" in page
    assert "\x1b" not in page
    assert "\x1b" not in plain(raised)


def test_colours_do_not_change_the_text(wrong: AuditReport) -> None:
    assert coloured(wrong).plain == plain(wrong) == str(wrong)


def test_an_origin_is_in_every_rendering(infinite: AuditReport) -> None:
    assert "makes output -inf at element [0]" in str(infinite)
    assert "remedy: " in render(infinite)
    assert json.loads(infinite.to_json())["origins"][0]["reason"] in REASONS


def test_every_reason_that_is_given_has_words() -> None:
    source = Path(reasons.__file__).read_text(encoding="utf-8")
    code = source.partition("def reason_forward")[2]
    given = set(re.findall(r'"([a-z ]+ [a-z ]+)"', code))
    assert len(given) > 10
    assert given <= set(REASONS)
