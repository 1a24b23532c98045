"""gradproof: is this hand-written derivative right, and if not, which element is wrong?

`gradproof.check` is the full interface, `gradproof.sweep` the same at many inputs,
`gradproof.shrink` makes a failure small; `gradproof.torch` is a drop-in for
`torch.autograd.gradcheck`.
"""

import importlib
import types

from gradproof.api import check
from gradproof.core.status import Status
from gradproof.results.certificate import Certificate
from gradproof.results.finding import Entry, Finding
from gradproof.results.report import CheckFailedError, Report, Verdict
from gradproof.results.shrunk import ShrinkResult
from gradproof.results.sweep import CaseReport, SweepReport
from gradproof.shrinking.door import shrink
from gradproof.sweeps import SweepCase, sweep, sweep_cases

__version__ = "0.1.0"

__all__ = [
    "CaseReport",
    "Certificate",
    "CheckFailedError",
    "Entry",
    "Finding",
    "Report",
    "ShrinkResult",
    "Status",
    "SweepCase",
    "SweepReport",
    "Verdict",
    "check",
    "shrink",
    "sweep",
    "sweep_cases",
]

_DOORS = frozenset({"distributed", "jax", "scipy", "torch"})


def __getattr__(name: str) -> types.ModuleType:
    """A door of a framework, imported when it is asked for: `gradproof.torch` needs no import of its own."""
    if name in _DOORS:
        return importlib.import_module(f"gradproof.{name}")
    raise AttributeError(f"module 'gradproof' has no attribute {name!r}")
