"""What pytest shows of a failed check: the line of the short summary, the report of an `assert`, junit properties."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from gradproof.render.line import one_line, shortened, told
from gradproof.render.text import printable
from gradproof.results.audit import AuditFailedError
from gradproof.results.finding import Finding
from gradproof.results.report import CheckFailedError, Report, Verdict
from gradproof.results.sweep import SweepReport

# What pytest leaves of a `repr`, which it may cut in the middle.
_BEGINNING = 60


def explain(longrepr: Any, excinfo: Any) -> None:
    """Change what pytest has made of an exception, if a check is behind it."""
    if not hasattr(longrepr, "reprcrash") or longrepr.reprcrash is None:
        return
    error, last = excinfo.value, excinfo.traceback[-1].frame.raw
    if line := summary_line(error):
        longrepr.reprcrash.message = _after_failed(line)
        return
    for report in asserted_reports(error, last):
        longrepr.reprcrash.message = _after_failed(repr(report).partition(" ")[2].removesuffix(">"))
        longrepr.addsection("gradproof", str(report))


def _after_failed(line: str) -> str:
    """A line of pytest's summary begins with FAILED: the room that it has is for what is not known from that."""
    return line.removeprefix("FAIL: ")


def summary_line(error: BaseException) -> str:
    """The function, the place and the cause of a failed check; nothing of another exception."""
    if isinstance(error, AuditFailedError):
        return shortened(printable(", ".join(line.strip() for line in str(error).splitlines()[:2])))
    if isinstance(error, CheckFailedError):
        return one_line(error.report)
    findings: tuple[Finding, ...] = getattr(error, "findings", ())
    if not findings or not _is_gradcheck_error(error):
        return ""
    return shortened(printable(f"FAIL: {getattr(error, 'subject', '') or 'a function'}, {told(findings[0])}"))


def _is_gradcheck_error(error: BaseException) -> bool:
    """Looked up, so that no framework is imported for it."""
    door = sys.modules.get("gradproof.torch")
    return door is not None and isinstance(error, door.GradcheckError)


def asserted_reports(error: BaseException, frame: FrameType) -> list[Report | SweepReport]:
    """The reports that do not pass and that a failed `assert` speaks of: by their short form in its message.

    They are bound to names where the assertion is: those of the test, or those that pytest gives to parts of it.
    """
    if not isinstance(error, AssertionError):
        return []
    bound = [value for value in frame.f_locals.values() if isinstance(value, Report | SweepReport)]
    unique = {id(report): report for report in bound if not report}
    return [report for report in unique.values() if repr(report)[:_BEGINNING] in str(error)]


def properties_of(report: Report) -> list[tuple[str, object]]:
    """What a junit file says of a report, besides the outcome of its test."""
    cost = report.cost
    properties: list[tuple[str, object]] = [
        ("gradproof_function", report.subject),
        ("gradproof_verdict", report.verdict.name),
        ("gradproof_evaluations", cost.evaluations),
        ("gradproof_seconds", f"{cost.seconds:.3f}"),
    ]
    if report.verdict is not Verdict.PASS:
        properties.append(("gradproof_finding", told(report.findings[0])))
    return properties
