"""Whether JAX has a mode of differentiation for a function at all."""

from __future__ import annotations

from gradproof.core.investigation import Investigation
from gradproof.core.problem import Mode

_CUSTOM_VJP = "it is a custom_vjp function or calls one, and JAX pushes tangents through rules of custom_jvp only"
_LACKING = {
    Mode.FORWARD: ("can't apply forward-mode differentiation", "do not support JVP", "does not support JVP"),
    Mode.REVERSE: ("everse-mode differentiation does not work", "Linearization failed", "everse-mode differentiation"),
}
"""What JAX says, in one of its own errors, where it has a rule for one mode only."""


def why_unavailable(investigation: Investigation, mode: Mode) -> str:
    """Why a mode cannot be asked, in words; nothing if it can.

    A rule that is there but raises is not missing: it will be reported.
    """
    try:
        _ = investigation.pullback if mode is Mode.REVERSE else investigation.pushforward
    except Exception as error:
        text = str(error)
        if "custom_vjp" in text and mode is Mode.FORWARD:
            return _CUSTOM_VJP
        if isinstance(error, NotImplementedError) or any(phrase in text for phrase in _LACKING[mode]):
            return (text.splitlines() or [type(error).__name__])[0]
    return ""
