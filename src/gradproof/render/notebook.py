"""Reports in a notebook: a fragment of HTML without scripts and style sheets, which needs no package.

Colours are given where they mean something, in shades that can be read on a light and on a dark ground.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from gradproof.render.line import told
from gradproof.render.terms import TERMS
from gradproof.render.text import (
    ONLY_ENTRIES,
    compared,
    filled,
    name_of_hint,
    noticed,
    number,
    number_or_nan,
    numeric_of,
    off_by,
    printable,
    ratio_of,
)
from gradproof.results.finding import Finding
from gradproof.results.report import Report
from gradproof.results.sweep import SweepReport

_TONES = {
    **dict.fromkeys(("PASS", "RIGHT"), "#2e9e62"),
    **dict.fromkeys(("FAIL", "WRONG", "RAISED"), "#e0483a"),
}
_OTHERWISE = "#c08a1e"
# Rows of a table, and findings; the rest are counted.
_ROWS, _FINDINGS = 12, 6


def fragment(report: Report) -> str:
    """A report: the verdict, the worst place and its cause; then tables that open on a click."""
    return f'<div style="line-height:1.5">{"".join(_parts(report))}</div>'


def sweep_fragment(sweep: SweepReport) -> str:
    """A sweep: a row for each case that does not pass, and the report of the smallest."""
    head = f"{_tone(sweep.verdict.name)} <code>{_safe(sweep.subject)}</code>, {len(sweep.cases)} cases"
    if sweep:
        return f"<div>{head}</div>"
    rows = [(_safe(case.name), _tone(case.report.verdict.name), _safe(_why(case.report))) for case in sweep.failures]
    table = _table(("case", "verdict", "cause"), rows)
    first = sweep.failures[0]
    return f"<div>{head}{table}<p>The smallest case, {_safe(first.name)}:</p>{fragment(first.report)}</div>"


def _parts(report: Report) -> Iterator[str]:
    subject = f" <code>{_safe(report.subject)}</code>" if report.subject else ""
    yield f"<div>{_tone(report.verdict.name)}{subject}: {_safe(report.verdict.value)}</div>"
    if not report and report.findings:
        yield _foremost(report.findings[0])
    if report.pairs:
        yield _folded("outputs and inputs", _pairs(report))
    for finding in report.findings[:_FINDINGS]:
        title = f"{finding.status.name} {finding.property}: {next(iter(finding.headline.splitlines()), '')}"
        yield _folded(title, _finding(finding))
    if report.findings[_FINDINGS:]:
        yield f"<div>and {len(report.findings) - _FINDINGS} more findings</div>"
    yield _folded("what this check could see", _about(report))


def _foremost(finding: Finding) -> str:
    if not finding.entries:
        return f"<div>{_safe(finding.headline)}</div>" + (f"<div>{_safe(finding.hint)}</div>" if finding.hint else "")
    entry = finding.entries[0]
    rows = [
        ("place", _safe(f"{entry.output}, with respect to {entry.input}")),
        ("numeric", f"<code>{_safe(numeric_of(entry))}</code>"),
        ("analytic", f"<code>{_safe(number_or_nan(entry.analytic))}</code>"),
        ("off by", compared(entry).removeprefix("difference ")),
        (name_of_hint(finding), _safe(finding.hint or "no usual cause fits")),
    ]
    return _table((), rows)


def _pairs(report: Report) -> str:
    header = ("output", "input", "status", "wrong", "worst difference", "allowed", "× allowed", "would notice")
    rows = [
        (
            _safe(pair.output_label),
            _safe(pair.input.label),
            _tone(pair.word),
            pair.count,
            number(pair.difference),
            number(pair.allowed),
            number(pair.excess, 2),
            noticed(pair.smallest),
        )
        for pair in report.pairs
    ]
    note = f"<div>{ONLY_ENTRIES}</div>" if report.only_entries_are_right else ""
    return _table(header, rows) + note


def _finding(finding: Finding) -> str:
    lines = "<br>".join(map(_safe, finding.headline.splitlines()))
    header = ("output", "input", "numeric", "analytic", "ratio", "difference", "allowed", "× allowed")
    rows = [
        (
            _safe(entry.output.within or "the number"),
            _safe(entry.input.within or "the number"),
            _safe(numeric_of(entry)),
            number_or_nan(entry.analytic),
            ratio_of(entry),
            *off_by(entry),
        )
        for entry in finding.entries
    ]
    hint = f"<p>{name_of_hint(finding)}: {_safe(finding.hint)}</p>" if finding.hint else ""
    return f"<p>{lines}</p>{_table(header, rows) if rows else ''}{hint}"


def _about(report: Report) -> str:
    cost = report.cost
    rows = [
        ("certificate", _safe(str(report.certificate or "none"))),
        ("covered", _safe(", ".join(report.covered) or "nothing")),
        *(("not covered", _safe(each)) for each in report.not_covered),
        *(("note", _safe(each)) for each in report.notes),
        ("cost", f"{cost.evaluations} evaluations, {cost.vjps} vjps, {cost.jvps} jvps, {cost.seconds:.3f} s"),
        ("seed", str(report.seed)),
        *([("repeat", f"<code>{_safe(report.repeat)}</code>")] if not report and report.repeat else []),
    ]
    return _table((), rows)


def _why(report: Report) -> str:
    return told(report.findings[0]) if report.findings else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; terms of the header explain themselves on hover.

    Columns without any cell are left out.
    """
    body = list(rows)
    if header:
        used = filled(body)
        header, body = [header[k] for k in used], [[row[k] for k in used] for row in body]
    more = f"<div>and {len(body) - _ROWS} more</div>" if header and body[_ROWS:] else ""
    shown = body[:_ROWS] if header else body
    head = f"<thead><tr>{''.join(map(_head, header))}</tr></thead>" if header else ""
    lines = "".join(f"<tr>{''.join(f'<td {_LEFT}>{cell}</td>' for cell in row)}</tr>" for row in shown)
    return f'<div style="overflow-x:auto"><table>{head}<tbody>{lines}</tbody></table></div>{more}'


_LEFT = 'style="text-align:left"'


def _head(term: str) -> str:
    meaning = f' title="{_safe(TERMS[term])}"' if term in TERMS else ""
    return f"<th {_LEFT}{meaning}>{_safe(term)}</th>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{_safe(title)}</summary>{content}</details>"


def _tone(word: str) -> str:
    meaning = f' title="{_safe(TERMS[word])}"' if word in TERMS else ""
    return f'<strong style="color:{_TONES.get(word, _OTHERWISE)}"{meaning}>{_safe(word)}</strong>'


def _safe(text: str) -> str:
    """Escaped, and without control characters."""
    return html.escape(printable(text))
