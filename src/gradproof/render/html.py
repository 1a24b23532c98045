"""Reports as one HTML file that asks nothing of the network, and whose tables show without JavaScript too."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gradproof.render.figures import heat_map, ladder_plot, slice_plot
from gradproof.render.maps import maps_of
from gradproof.render.text import number, number_or_nan, numeric_of, printable, summary
from gradproof.results.report import Report, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
# Up to so many reports that do not pass are open from the start.
_FEW = 3


def write_html(path: str | PathLike[str], reports: Sequence[tuple[str, Report]]) -> None:
    """Write reports, with their names, into a file."""
    Path(path).write_text(render(reports), encoding="utf-8")


def render(reports: Sequence[tuple[str, Report]]) -> str:
    """The page. Names, messages and everything else of the user's is escaped."""
    verdict = overall([report for _, report in reports])
    pictures = any(report.exhibits or maps_of(report) for _, report in reports)
    return _environment().get_template("page.html.j2").render(
        reports=reports,
        verdict=verdict,
        summary=summary([report for _, report in reports]),
        open_failed=sum(not report for _, report in reports) <= _FEW,
        style=_asset("style.css"),
        script=_asset("script.js"),
        plotly=_plotly() if pictures else "",
    )  # fmt: skip


def overall(reports: Sequence[Report]) -> Verdict:
    """The verdict of several reports: that of the worst. Where nothing was checked, nothing passed."""
    verdicts = {report.verdict for report in reports}
    worst_first = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next((verdict for verdict in worst_first if verdict in verdicts), Verdict.INCONCLUSIVE)


@functools.cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise _missing(error) from error
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        finalize=_legible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # jinja2 says that these dictionaries hold only what it has put in itself
    filters, names = cast(dict[str, Any], environment.filters), cast(dict[str, Any], environment.globals)
    filters.update({"num": number, "value": number_or_nan, "numeric": numeric_of})
    names.update({"maps_of": maps_of, "heat_map": heat_map, "slice_plot": slice_plot, "ladder_plot": ladder_plot})
    return environment


def _legible(value: Any) -> Any:
    """Without control characters and lone surrogates, which UTF-8 cannot hold; what is HTML already, as it is."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _asset(name: str) -> Any:
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # our own file


def _plotly() -> Any:
    from markupsafe import Markup

    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _missing(error) from error
    return Markup(get_plotlyjs())


def _missing(error: ImportError) -> ImportError:
    return ImportError(f"the HTML report needs {error.name}: pip install 'gradproof[html]'")
