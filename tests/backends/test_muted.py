"""No warnings, for a moment."""

from __future__ import annotations

import warnings

import pytest

from gradproof.backends.torch.muted import muted


def warn() -> None:
    warnings.warn("something is slow", stacklevel=1)


def test_no_warning_comes_out_though_warnings_are_errors() -> None:
    with warnings.catch_warnings(action="error"), muted():
        warn()


def test_the_filters_are_those_of_before_also_after_an_exception() -> None:
    before = warnings.filters
    with muted():
        warnings.simplefilter("always")
    with pytest.raises(KeyError), muted():
        raise KeyError
    assert warnings.filters is before


def test_what_was_ignored_is_shown_later_and_what_was_shown_is_not_shown_again() -> None:
    with warnings.catch_warnings(action="default"):
        with muted():
            warn()
        with pytest.warns(UserWarning, match="something is slow"):
            warn()
