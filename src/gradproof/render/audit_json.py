"""Audits as JSON documents, and back. `docs/audit.md` describes the schema; a change of it is a new version."""

from __future__ import annotations

from gradproof.render.json import Reader, Writer, as_text, block_of, parsed, refusal, require_spots_inside
from gradproof.results.audit import AuditReport

AUDIT = "gradproof.audit/1"


def dump_audit(report: AuditReport) -> str:
    """An audit as a document."""
    writer = Writer()
    body = writer.write(report)
    return as_text({"schema": AUDIT, **body, "blocks": writer.table()})


def load_audit(text: str) -> AuditReport:
    """The audit in a document."""
    document = parsed(text, AUDIT)
    try:
        blocks = tuple(block_of(row, f"blocks[{k}]") for k, row in enumerate(document["blocks"]))
        body = {name: value for name, value in document.items() if name not in ("schema", "blocks")}
        report: AuditReport = Reader(blocks).read(AuditReport, body, "audit")
    except (KeyError, TypeError, AttributeError) as error:
        raise refusal(error) from error
    for operation in report.operations:
        for number, finding in enumerate(operation.report.findings if operation.report is not None else ()):
            require_spots_inside(finding, f"audit.operations[{operation.number}].report.findings[{number}].spots")
    numbers = [notice.operation for notice in report.notices] + [notice.by for notice in report.notices]
    for number in (*numbers, *(origin.operation for origin in report.origins)):
        if number is not None and not 0 <= number < len(report.operations):
            raise ValueError(f"audit: there is no operation number {number}")
    return report


def is_audit(text: str) -> bool:
    """Whether a document says that it is an audit."""
    return f'"schema": "{AUDIT.partition("/")[0]}/' in text[:200]
