"""gradproof: is this hand-written derivative right, and if not, which element is wrong?

`gradproof.check` is the full interface; `gradproof.torch` a drop-in for `torch.autograd.gradcheck`.
"""

from gradproof.api import check
from gradproof.core.certificate import Certificate
from gradproof.core.finding import Entry, Finding, Status
from gradproof.core.report import CheckFailedError, Report, Verdict

__all__ = ["Certificate", "CheckFailedError", "Entry", "Finding", "Report", "Status", "Verdict", "check"]
