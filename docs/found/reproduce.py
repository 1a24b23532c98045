"""Run the reproducers of this folder's pages: `python docs/found/reproduce.py NAME ...`, without names all of them.

A page has one block of Python and, under it, what that prints, the last line being the exception it ends with. A page
whose block prints something else, or ends well, is out of date: that is said, and the exit status is 1. The packages
must be there, of the version in the page's heading; `benchmarks/wild.py --found` sees to that, and to what kernels of
Triton need without a GPU.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PAGES = {page.stem: page for page in sorted(Path(__file__).parent.glob("*.md")) if page.stem != "index"}


def subject(name: str) -> tuple[str, str]:
    """The package that a page is about, and its version."""
    package, number = PAGES[name].read_text(encoding="utf-8").split(":")[0].removeprefix("# ").split()
    return package, number


def block(name: str, language: str) -> str:
    """The one block of a page in that language."""
    text = PAGES[name].read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


def what_differs(name: str) -> str:
    """Run the block of a page; why it does not show what the page says, or nothing."""
    package, number = subject(name)
    try:
        installed = version(package).partition("+")[0]
    except PackageNotFoundError:
        return f"{package} is not installed"
    if installed != number:
        return f"the page is about {package} {number}, and {installed} is installed"
    shown = _shown(block(name, "python"), str(PAGES[name]))
    return "" if shown == block(name, "text") else f"it shows\n{shown}"


def _shown(code: str, where: str) -> str:
    """What a reproducer prints, and the last line of the traceback that it should end with."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, where, "exec"), {"__name__": "__main__"})
    except Exception as error:
        return f"{printed.getvalue()}{type(error).__name__}: {error}\n"
    return f"{printed.getvalue()}(no exception)\n"


def main(names: list[str]) -> int:
    outdated = 0
    for name in names or PAGES:
        difference = what_differs(name)
        print(f"{name}: {difference or 'shows what its page says'}", flush=True)
        outdated += bool(difference)
    return outdated > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
