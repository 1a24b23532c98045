"""Reports as one HTML file that asks nothing of the network, and whose tables show without JavaScript too."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gradproof.render.measured import measured_entries, measured_pairs
from gradproof.render.page import ShownReport, excess_text, hint_title, shown
from gradproof.render.terms import TERMS
from gradproof.render.text import (
    ONLY_ENTRIES,
    compared,
    number,
    number_or_nan,
    numeric_of,
    printable,
)
from gradproof.results.report import Report, Verdict
from gradproof.results.run import Run

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
# Findings without a cause in common that are open from the start.
_FEW = 3


def write_html(path: str | PathLike[str], reports: Run | Iterable[tuple[str, Report]]) -> None:
    """Write reports, with their names, into a file."""
    Path(path).write_text(render(reports), encoding="utf-8")


def require_html() -> None:
    """Raise `ImportError`, with the extra to install, unless a page can be rendered."""
    environment()


def render(reports: Run | Iterable[tuple[str, Report]]) -> str:
    """The page. Names, messages and everything else of the user's is escaped."""
    run = Run.of(reports)
    listed = shown(run)
    single = listed[0] if len(listed) == 1 and not run.crashes else None
    return environment().get_template("page.html.j2").render(
        reports=listed,
        single=single,
        crashes=run.crashes,
        title=_title(single, run),
        verdict=run.verdict,
        summary=run.summary,
        any_torch=any(each.torch for each in run.checks),
        terms=TERMS,
        few=_FEW,
        style=asset("style.css"),
        script=asset("script.js"),
        pictures=any(map(_has_pictures, listed)),
        figure_script=asset("figure.js"),
    )  # fmt: skip


def _title(single: ShownReport | None, run: Run) -> str:
    """The function, or how many checks there are."""
    if single is None:
        return f"{len(run.checks) + len(run.crashes)} checks"
    return single.checked.name or single.report.subject or "unnamed"


def _has_pictures(report: ShownReport) -> bool:
    return any(finding.maps or finding.exhibits for group in report.groups for finding in group.findings)


def overall(reports: Iterable[Report]) -> Verdict:
    """The verdict of several reports: that of the worst. Where nothing was checked, nothing passed."""
    return Run.of([("", report) for report in reports]).verdict


@functools.cache
def environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(f"the HTML report needs {error.name}: pip install 'gradproof[html]'") from error
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        finalize=_legible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # jinja2 says that this dictionary holds only what it has put in itself
    filters = cast(dict[str, Any], environment.filters)
    filters.update({"num": number, "value": number_or_nan, "numeric": numeric_of, "compared": compared})
    cast(dict[str, Any], environment.globals)["only_entries"] = ONLY_ENTRIES
    filters.update({"measured_entries": measured_entries, "measured_pairs": measured_pairs})
    filters.update({"hint_name": hint_title, "excess_of": excess_text, "lines": _lines})
    return environment


def _legible(value: Any) -> Any:
    """Without control characters and lone surrogates, which UTF-8 cannot hold; what is HTML already, as it is."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _lines(text: str) -> Any:
    """A text of several lines, escaped, with its line breaks."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(printable(line)) for line in text.splitlines())


def asset(name: str) -> Any:
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # our own file
