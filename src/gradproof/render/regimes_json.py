"""A `RegimesReport` as a JSON document, and back: the fields of its dataclasses under their names."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from gradproof.render.json import dump_report, load_report
from gradproof.results.regimes import RegimeRow, RegimesReport, Standing

SCHEMA = "gradproof.regimes/1"
_NUMBERS = ("expected", "found", "difference", "allowed")


def dump_regimes(report: RegimesReport) -> str:
    """A report as a document. Numbers that JSON does not know are texts."""
    document = {
        "schema": SCHEMA,
        "verdict": report.verdict.name,
        "subject": report.subject,
        "rows": [_row(row) for row in report.rows],
        "allow": list(report.allow),
        "seconds": report.seconds,
        "seed": report.seed,
        "eager": json.loads(dump_report(report.eager)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def _row(row: RegimeRow) -> dict[str, Any]:
    found = dataclasses.asdict(row)
    numbers = {name: _written(found[name]) for name in _NUMBERS}
    return {
        **found,
        **numbers,
        "standing": row.standing.name,
        "element": None if row.element is None else list(row.element),
    }


def _written(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def load_regimes(text: str) -> RegimesReport:
    """The report in a document; `ValueError` if it is none."""
    try:
        document: Any = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"this is a {document['schema']!r}, not a {SCHEMA!r}")
        return RegimesReport(
            subject=str(document["subject"]),
            eager=load_report(json.dumps(document["eager"])),
            rows=tuple(_loaded(row) for row in document["rows"]),
            allow=tuple(map(str, document["allow"])),
            seconds=float(document["seconds"]),
            seed=int(document["seed"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a document of {SCHEMA}: {error!r}") from error


def _loaded(row: Any) -> RegimeRow:
    fields: dict[str, Any] = dict(row)
    for name in _NUMBERS:
        fields[name] = None if fields[name] is None else float(fields[name])
    element: Any = fields["element"]
    fields["element"] = None if element is None else tuple(int(k) for k in element)
    fields["standing"] = Standing[fields["standing"]]
    return RegimeRow(**fields)
