"""Reports to render: one made by hand, and whatever Hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gradproof import Certificate, Entry, Finding, Report, Status
from gradproof.core.problem import Mode
from gradproof.core.space import Block, Place, Space
from gradproof.render.json import RecordedError
from gradproof.results.certificate import About
from gradproof.results.exhibits import Exhibit, Rung
from gradproof.results.report import Spent
from gradproof.results.spots import Spots

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"'><b id=owned>",
    "{{ 7 * 7 }} {% raw %}",
    "</style></title></textarea>",
    "[bold red]markup[/] \x1b[31m\x07\r",
    "重みの行列 \ud800 \u202e ́",
    "javascript:alert(1)",
]

X = Block("input", 0, "x", (2, 3), 1, 0, 2.0**-52)
WEIGHT = Block("input", 1, "weight", (2,), 2, 6, 2.0**-52)
Y = Block("output", 0, "", (4,), 1, 0, 2.0**-52)
INPUTS, OUTPUTS = Space((X, WEIGHT)), Space((Y,))
CERTIFICATE = Certificate(((About(X), 3e-8), (About(WEIGHT), 4e-8)), 1e-12)


def entry(row: int = 1, column: int = 4, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "numeric": 2.0, "error": 1e-9, "analytic": -1.0, "tolerance": 0.01, "status": Status.WRONG,
    }  # fmt: skip
    return Entry(OUTPUTS.place(row), INPUTS.place(column), **{**values, **changes})


def spots(entries: Sequence[Entry]) -> Spots:
    """Where these entries are, as a check would say it."""
    return Spots(
        rows=tuple(each.output.coordinate - each.output.block.start for each in entries),
        columns=tuple(each.input.coordinate - each.input.block.start for each in entries),
        excess=tuple(each.difference / each.allowed for each in entries),
        counts=(1,) * len(entries),
    )


def wrong_jacobian(*entries: Entry, **changes: Any) -> Finding:
    listed = entries or (entry(), entry(2, 5, analytic=0.5))
    values: dict[str, Any] = {
        "property": "jacobian",
        "status": Status.WRONG,
        "headline": f"Jacobian mismatch for output 0 with respect to {listed[0].input.block.label},\n"
        "  2 of 24 entries differ; the worst:",
        "mode": Mode.REVERSE,
        "hint": "the sign is wrong",
        "entries": listed,
        "wrong": 2,
        "total": 24,
        "spots": spots(listed),
    }
    return Finding(**{**values, **changes}).at(listed[0])


def exhibit(shown: Entry) -> Exhibit:
    positions = tuple(0.5 + 0.125 * k for k in range(9))
    return Exhibit(
        entry=shown,
        position=1.0,
        value=1.0,
        positions=positions,
        values=tuple(p * p for p in positions),
        ladder=(Rung(1e-3, 2.001, 1e-3), Rung(1e-4, 2.0, 1e-6), Rung(1e-6, 2.0, 1e-9)),
    )


def report(*findings: Finding, **changes: Any) -> Report:
    shown = [each for finding in findings for each in finding.entries]
    values: dict[str, Any] = {
        "findings": findings,
        "modes": (Mode.REVERSE, Mode.FORWARD),
        "covered": (X.label, WEIGHT.label),
        "entries": 40,
        "certificate": CERTIFICATE,
        "cost": Spent(8, 3, 2, 0.25),
        "seed": 5,
        "versions": (("gradproof", "0"), ("numpy", "2")),
        "subject": "model",
        "inputs": (X, WEIGHT),
        "outputs": (Y,),
        "exhibits": tuple(map(exhibit, shown)),
    }
    return Report(**{**values, **changes})


texts = st.one_of(st.text(max_size=20), st.sampled_from(HOSTILE))
anything = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
floats = st.floats(allow_nan=False)  # NaN is not equal to itself: it has a test of its own
counts = st.integers(0, 2**70)
shapes = st.lists(st.integers(1, 5), max_size=3).map(tuple)


@st.composite
def blocks(draw: Any, kind: str) -> Block:
    name = draw(st.one_of(texts, anything))
    return Block(kind, draw(st.integers(0, 9)), name, draw(shapes), draw(st.sampled_from([1, 2])), 0, 2.0**-52)


@st.composite
def places(draw: Any, kind: str) -> Place:
    block = draw(blocks(kind))
    return Space((block,)).place(draw(st.integers(0, block.size - 1)))


def optional(strategy: Any) -> Any:
    return st.none() | strategy


def many(strategy: Any, most: int = 3) -> Any:
    return st.lists(strategy, max_size=most).map(tuple)


entries = st.builds(
    Entry,
    places("output"),
    places("input"),
    numeric=floats,
    error=floats,
    analytic=floats,
    tolerance=floats,
    status=st.sampled_from(Status),
    sides=optional(st.tuples(floats, floats)),
)
elements = optional(shapes)


@st.composite
def some_spots(draw: Any, worst: Entry) -> Spots:
    places = st.tuples(
        st.integers(0, worst.output.block.size - 1),
        st.integers(0, worst.input.block.size - 1),
        floats,
        counts,
    )
    drawn = draw(st.lists(places, max_size=4))
    return Spots(*(tuple(place[k] for place in drawn) for k in range(4)))


@st.composite
def findings(draw: Any) -> Finding:
    finding = draw(bare_findings)
    worst = finding.entries[:1]
    return replace(finding, spots=draw(optional(some_spots(*worst)))) if worst else finding


bare_findings = st.builds(
    Finding,
    property=texts,
    status=st.sampled_from(Status),
    headline=st.one_of(texts, anything),
    kind=texts,
    mode=optional(st.sampled_from(Mode)),
    input=optional(counts),
    input_element=elements,
    output=optional(counts),
    output_element=elements,
    numeric=optional(floats),
    error=optional(floats),
    analytic=optional(floats),
    allowed=optional(floats),
    hint=texts,
    entries=many(entries),
    wrong=counts,
    total=counts,
    located=st.booleans(),
    cause=optional(st.builds(RecordedError, texts, anything)),
)
abouts = st.builds(About, blocks("input"), st.sampled_from([1, 2]))
reports = st.builds(
    Report,
    findings=many(findings()),
    modes=many(st.sampled_from(Mode)),
    covered=many(texts),
    entries=counts,
    certificate=optional(st.builds(Certificate, many(st.tuples(abouts, floats)), floats)),
    cost=st.builds(Spent, counts, counts, counts, floats),
    seed=counts,
    versions=many(st.tuples(texts, texts)),
    subject=st.one_of(texts, anything),
    inputs=many(blocks("input")),
    outputs=many(blocks("output")),
    not_covered=many(texts),
    exhibits=many(
        st.builds(
            Exhibit,
            entry=entries,
            position=floats,
            value=floats,
            positions=many(floats),
            values=many(floats),
            ladder=many(st.builds(Rung, floats, floats, floats)),
        ),
        1,
    ),
)
