"""gradproof: is this hand-written derivative right, and if not, which element is wrong?

`gradproof.check` is the full interface; `gradproof.torch` a drop-in for `torch.autograd.gradcheck`.
"""

from gradproof.api import check
from gradproof.core.status import Status
from gradproof.results.certificate import Certificate
from gradproof.results.finding import Entry, Finding
from gradproof.results.report import CheckFailedError, Report, Verdict

__all__ = ["Certificate", "CheckFailedError", "Entry", "Finding", "Report", "Status", "Verdict", "check"]
