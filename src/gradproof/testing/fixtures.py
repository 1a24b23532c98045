"""The type of the fixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gradproof.results.report import Report

__all__ = ["GradproofCheck"]


class GradproofCheck(Protocol):
    """The type of the fixtures `gradproof` and `gradproof_check`.

    `options` are those of `gradproof.check`. The test fails, with the report, unless the verdict is PASS.
    """

    def __call__(
        self, func: Callable[..., Any], inputs: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Report: ...
