"""The form of gradients and tangents, besides their values."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.capabilities import Misshapen
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode
from gradproof.core.status import Status
from gradproof.results.finding import Finding


def metadata(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Shape, layout and device of each gradient are its input's."""
    for misshapen in investigation.some_gradients().misshapen():
        for aspect in ("shape", "layout", "device"):
            yield from _unlike(misshapen, aspect, "metadata", Mode.REVERSE)


def dtypes(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Each gradient has the dtype of its input, each tangent that of its output."""
    if Mode.REVERSE in options.modes:
        for misshapen in investigation.some_gradients().misshapen():
            yield from _unlike(misshapen, "dtype", "dtypes", Mode.REVERSE)
    if Mode.FORWARD in options.modes:
        for misshapen in investigation.some_tangents().misshapen():
            yield from _unlike(misshapen, "dtype", "dtypes", Mode.FORWARD)


def _unlike(misshapen: Misshapen, aspect: str, name: str, mode: Mode) -> Iterator[Finding]:
    block, want, got = misshapen.block, getattr(misshapen.wanted, aspect), getattr(misshapen.got, aspect)
    if want != got:
        what = "gradient" if mode is Mode.REVERSE else "tangent"
        yield Finding(
            property=name,
            kind=aspect,
            mode=mode,
            status=Status.WRONG,
            input=None if block.kind == "output" else block.key,
            output=block.index if block.kind == "output" else None,
            headline=f"A {what} has another {aspect}: {block.label} has {aspect} {want}, its {what} {got}.",
        )
