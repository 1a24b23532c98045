"""Entries and findings in words."""

from __future__ import annotations

from gradproof.core.space import Block, Space
from gradproof.core.status import Status
from gradproof.results.finding import Entry, Finding

EPS = 2.0**-52
INPUTS = Space((Block("input", 0, "", (2,), 1, 0, EPS), Block("input", 1, "weight", (3, 2), 2, 2, EPS)))
OUTPUTS = Space((Block("output", 0, "", (4,), 1, 0, EPS),))
ENTRY = Entry(
    output=OUTPUTS.place(3),
    input=INPUTS.place(2 + 5),
    numeric=2.0,
    error=1e-9,
    analytic=-1.0,
    tolerance=0.01,
    status=Status.WRONG,
)


def test_an_entry_says_where_and_both_values() -> None:
    place, values = str(ENTRY).split(": ")
    output, input_ = place.split(" / ")
    assert "element [3]" in output
    assert "element [1, 0], imaginary part" in input_
    assert values == "numeric 2 ± 1e-09, analytic -1, difference 3, allowed 0.01"


def test_an_entry_knows_its_difference_and_what_was_allowed() -> None:
    assert ENTRY.difference == 3.0
    assert ENTRY.allowed == 0.01 + 1e-9


def test_a_finding_takes_the_place_and_the_values_of_its_worst_entry() -> None:
    finding = Finding(property="jacobian", status=Status.WRONG, headline="mismatch").at(ENTRY)
    assert (finding.input, finding.input_element, finding.output, finding.output_element) == (1, (1, 0), 0, (3,))
    assert (finding.numeric, finding.error, finding.analytic, finding.allowed) == (2.0, 1e-9, -1.0, ENTRY.allowed)
    assert (finding.property, finding.status, finding.headline) == ("jacobian", Status.WRONG, "mismatch")


def test_the_message_is_the_headline_and_the_entries() -> None:
    finding = Finding(property="p", status=Status.WRONG, headline="mismatch,\n  the worst:", entries=(ENTRY, ENTRY))
    assert finding.message.splitlines() == ["mismatch,", "  the worst:", f"    {ENTRY}", f"    {ENTRY}"]
    assert Finding(property="p", status=Status.WRONG, headline="it is wrong").message == "it is wrong"


def test_a_finding_reads_as_its_message_and_its_hint() -> None:
    assert str(Finding(property="p", status=Status.WRONG, headline="it is wrong")) == "it is wrong"
    hinted = str(Finding(property="p", status=Status.WRONG, headline="it is wrong", entries=(ENTRY,), hint="fix it"))
    assert hinted.splitlines() == ["it is wrong", f"    {ENTRY}", "  hint: fix it"]
