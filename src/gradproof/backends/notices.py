"""Warnings of ours: what they say does not change the verdict, unless somebody asked for just that."""

from __future__ import annotations

import warnings


class NonDifferentiableWarning(UserWarning):
    """The check passed at a kink or a jump, where the gradient is a valid subgradient."""


class UnseenWarning(UserWarning):
    """The check passed, but not every entry could be seen to within the tolerance: what could hide is said."""


def notify(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Warn. Where all warnings are errors (`python -W error`) it is only shown: it is no error of the function.

    A filter that names this category is honoured.
    """
    try:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    except category:
        if category is not UserWarning and any(named[:3:2] == ("error", category) for named in warnings.filters):
            raise
        with warnings.catch_warnings(action="default", category=category):
            warnings.warn(message, category, stacklevel=stacklevel + 1)
