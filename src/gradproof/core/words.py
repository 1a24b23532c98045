"""What the users of a backend call things.

Core and properties speak of vjps, cotangents and tangents. A backend whose users know these under other names, or who
can be told in their own terms what to change, brings `Words` of its own with each Problem.

>>> Words().reverse, Words().cotangent
('the vjp', 'the cotangent')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Names, then advice: what to do about a derivative that breaks a law."""

    reverse: str = "the vjp"
    """Reverse mode, as its author calls what they wrote."""
    forward: str = "the jvp"
    cotangent: str = "the cotangent"
    tangent: str = "the tangent"
    entry: str = ""
    """Where an entry stands in what the author wrote, with `{row}` and `{column}`; nothing: they return no matrix."""

    nonlinear: str = "it must not take the absolute value of {probe}, square it, clamp it or branch on it"
    """`{probe}` is the cotangent or the tangent."""
    omitted: str = "treat a cotangent or tangent that is left out as zeros"
    memory_layout: str = "the memory of a cotangent need not be contiguous: respect its strides, or copy it first"
    input_overwritten: str = "work on a copy"
    reverse_overwrites: str = "do not work in place on cotangents, inputs or saved arrays: make a new array"
    aliased: str = "return a copy"
    unbatched: str = "write the rule in operations that can be batched"
    lost: str = "a gradient is lost (None, zeros, or not stored)"
    """The likely cause where a derivative is zero and should not be."""
    nondeterministic: str = "if this noise is expected, allow it with nondet_tol"

    lacking: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why there is no capability of a name, where the framework's users have a reason of their own to hear; nothing:
    there is no question."""

    def probe(self, reverse: bool) -> str:
        """What a derivative is applied to."""
        return self.cotangent if reverse else self.tangent

    def rule(self, reverse: bool) -> str:
        """What applies it."""
        return self.reverse if reverse else self.forward


PLAIN = Words()
"""The words of the field."""
