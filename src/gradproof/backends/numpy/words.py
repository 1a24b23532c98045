"""What people who write NumPy functions and their derivatives call things."""

from __future__ import annotations

from gradproof.core.words import Words

_ENTRIES = {
    "grad": "element {column} of grad",
    "jac": "row {row}, column {column} of jac",
    "hess": "row {row}, column {column} of hess",
}


def words_of(reverse: str, forward: str, *, scalar: bool) -> Words:
    """The words for the functions that were given, by their names: `grad`, `jac`, `vjp`, `jvp`, `hess`, `hessp`.

    `scalar`: the function has one value, and a Jacobian one row.
    """
    named = reverse or forward
    entry = _ENTRIES.get(named, "row {row}, column {column} of the Jacobian")
    if scalar and named != "grad":
        entry = entry.replace("row {row}, ", "").replace("column", "element", 1)
    return Words(
        reverse=reverse or "the vjp",
        forward=forward or "the jvp",
        entry=entry,
        input_overwritten="work on a copy of what was passed (x = x.copy()), or make a new array for the result",
        reverse_overwrites="do not write to the arrays that are passed: make a new array for the result",
        lost="the derivative is missing, or was never stored",
        nondeterministic="if this noise is expected, allow it with nondet_tol",
    )
