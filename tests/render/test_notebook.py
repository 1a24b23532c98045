"""A report in a notebook and in IPython: light, without scripts, and one line for `repr`."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from typing import Any

import pytest
import report_samples as samples
import torch
from functions import square_with
from hypothesis import given
from IPython.core.formatters import DisplayFormatter
from report_samples import report, wrong_jacobian

import gradproof
from gradproof import Finding, Report, Status
from gradproof.render.notebook import fragment
from gradproof.render.terms import TERMS


class Fragment(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_it_is_light_and_has_no_scripts_and_no_styles_of_its_own() -> None:
    text = report(wrong_jacobian())._repr_html_()
    made = Fragment(text)
    assert made.open == []
    assert not {tag for tag, _ in made.tags} & {"script", "style", "link", "img", "iframe"}
    assert not any(name.startswith("on") for _, attributes in made.tags for name in attributes)
    assert len(text) < 10_000


def test_it_says_what_the_text_says_first() -> None:
    told = " ".join(" ".join(Fragment(report(wrong_jacobian())._repr_html_()).texts).split())
    for part in [
        "FAIL", "model", "output 0, element [1], with respect to input 0 `x`, element [1, 1]", "2 ± 1e-09", "-1",
        "the sign is wrong", "would notice", "RIGHT", "8 evaluations",
    ]:  # fmt: skip
        assert part in told, part


def test_terms_are_explained_on_hover() -> None:
    made = Fragment(report(wrong_jacobian())._repr_html_())
    titles = {attributes.get("title") for _, attributes in made.tags}
    assert {TERMS["would notice"], TERMS["FAIL"], TERMS["allowed"]} <= titles


@pytest.mark.parametrize("name", samples.HOSTILE)
def test_names_of_the_users_stay_text(name: str) -> None:
    def made(word: str) -> Fragment:
        finding = wrong_jacobian(headline=word, hint=word, property=word)
        return Fragment(fragment(report(finding, subject=word, covered=(word,), not_covered=(word,), notes=(word,))))

    assert [tag for tag, _ in made(name).tags] == [tag for tag, _ in made("name").tags]


@given(samples.reports)
def test_any_report_can_be_shown(made: Report) -> None:
    assert Fragment(fragment(made)).open == []
    assert "\n" not in repr(made)
    assert len(repr(made)) < 300


def test_it_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "FAIL" in report(wrong_jacobian())._repr_html_()


def checked() -> Report:
    x = torch.linspace(0.5, 2.0, 3, dtype=torch.float64).requires_grad_()
    return gradproof.check(square_with(lambda s, g: s[0] * g), x, modes="reverse")


def test_repr_is_one_line_with_function_place_and_cause() -> None:
    assert repr(report(wrong_jacobian())) == ("<Report FAIL: model, output 0[1] / x[1, 1]: the sign is wrong>")
    assert repr(report()) == "<Report PASS: model, 40 Jacobian entries, 0.25 s>"
    said = Finding(property="determinism", status=Status.WRONG, headline="not\nreentrant", hint="noise")
    assert repr(report(said)) == "<Report FAIL: model, determinism: not reentrant: noise>"
    assert "\n" not in repr(checked())


def test_ipython_shows_the_fragment_and_the_text() -> None:
    formats: dict[str, Any] = DisplayFormatter().format(checked())[0]
    assert formats["text/html"].startswith("<div")
    assert formats["text/plain"].splitlines()[0] == "FAIL: a derivative is wrong, or cannot be computed"
    assert max(map(len, formats["text/plain"].splitlines())) <= 100


def test_a_sweep_has_a_line_and_a_fragment() -> None:
    def wrong_tail(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:4].sin(), x[4:].detach().sin()])

    made = gradproof.sweep(lambda n: torch.rand(n, dtype=torch.float64), wrong_tail, block=4, strides="contiguous")
    assert repr(made).startswith("<SweepReport FAIL: wrong_tail, 7 cases; FAIL: wrong_tail, output 0[4] / ")
    told = Fragment(made._repr_html_())
    assert told.open == []
    assert "size 5" in " ".join(told.texts)
    right = gradproof.sweep(lambda n: torch.rand(n, dtype=torch.float64), torch.sin, block=4, strides="contiguous")
    assert "PASS" in right._repr_html_()
