"""The outcome of a search for a smaller call."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from gradproof.results.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkResult:
    """The smallest call that was found to have the same finding, and a test file that shows it.

    `inputs` and `kwargs` are the arguments; `elements` of `elements_before` how many elements their arrays have.
    `steps` are the changes that were kept, `evaluations` what the search cost. `source` is the text of the file:
    `standalone` says whether it shows the failure as it is; `reason`, why not. `complete` is False where the budget
    ended the search.
    """

    inputs: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    finding: Finding
    elements: int
    elements_before: int
    steps: tuple[str, ...]
    evaluations: int
    source: str = field(repr=False)
    standalone: bool
    reason: str = ""
    complete: bool = True

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the test file."""
        target = Path(path)
        target.write_text(self.source, encoding="utf-8")
        return target

    def __str__(self) -> str:
        ended = "" if self.complete else "; the budget ended the search"
        told = [
            f"{self.elements_before} elements became {self.elements}, in {len(self.steps)} steps and "
            f"{self.evaluations} evaluations{ended}",
            str(self.finding),
        ]
        if not self.standalone:
            told.append(f"the test file does not show it by itself: {self.reason}")
        return "\n".join(told)
