"""An audit as one HTML file: the guilty operation, all operations in call order, and the tree of modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from gradproof.render.audit import counted, foremost, meaning
from gradproof.render.audit_words import told_notice, told_origin, told_share, told_shares
from gradproof.render.html import asset, environment
from gradproof.results.audit import AuditedOperation, AuditReport


@dataclass(slots=True)
class Branch:
    """A module in the tree: its name, the operations in it, and whether the guilty one is there or below."""

    name: str
    path: str
    operations: list[AuditedOperation] = field(default_factory=list[AuditedOperation])
    children: dict[str, Branch] = field(default_factory=dict[str, "Branch"])
    guilty: bool = False

    @property
    def total(self) -> int:
        """How many operations there are in it and below."""
        return len(self.operations) + sum(child.total for child in self.children.values())


def tree_of(report: AuditReport) -> Branch:
    """The modules that operations were called in; on the way to those to blame, or to an origin, marked."""
    root = Branch(report.subject, "")
    marked = {operation.number for operation in _marked(report)}
    for operation in report.operations:
        way = [root]
        for part in operation.module.split(".") if operation.module else ():
            parent = way[-1]
            path = ".".join(filter(None, (parent.path, part)))
            way.append(parent.children.setdefault(part, Branch(part, path)))
        way[-1].operations.append(operation)
        if operation.number in marked:
            for branch in way:
                branch.guilty = True
    return root


def _marked(report: AuditReport) -> Iterator[AuditedOperation]:
    if report.guilty is not None and not report.origins:
        yield report.guilty
    yield from (operation for operation in report.operations if operation.is_wrong)
    yield from (report.operations[origin.operation] for origin in report.origins if origin.operation is not None)


def write_audit(path: str | PathLike[str], report: AuditReport) -> None:
    """Write an audit into a file."""
    Path(path).write_text(render(report), encoding="utf-8")


def render(report: AuditReport) -> str:
    """The page. Names, messages and everything else of the user's is escaped."""
    made = environment().overlay()
    made.filters = {**made.filters, "share": told_share}
    return made.get_template("audit.html.j2").render(
        report=report,
        meaning=meaning(report),
        guilty=None if report.origins else report.guilty,
        finding=foremost(report, report.guilty) if report.guilty is not None else None,
        origins=[told_origin(report, origin) for origin in report.origins],
        notices=[told_notice(report, notice) for notice in report.notices],
        shares=told_shares(report, report.guilty) if report.guilty is not None else "",
        counted=counted(report),
        statuses=list(dict.fromkeys(operation.word for operation in report.operations if operation.word)),
        tree=tree_of(report),
        marked={operation.number for operation in _marked(report)},
        style=asset("style.css"),
        script=asset("script.js"),
    )
