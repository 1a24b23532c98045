"""One jvp that two properties look at: its tangents are a multiple of the shared ones, its values the function's."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradproof.core.capabilities import is_pushed_once
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options, Strategy
from gradproof.core.types import Vector
from gradproof.properties.trials import scales


class Opposite(NamedTuple):
    """What the derivative gives for a negative multiple of the shared tangent."""

    tangent: Vector
    """The shared one."""
    coordinates: Vector
    value: Vector | None
    """What the function returned meanwhile, where the backend calls it for a jvp and shows that."""


def opposite(investigation: Investigation) -> Opposite:
    """Asked through `Investigation.once`."""
    (large, _), tangent = scales(investigation.problem), investigation.tangent
    coordinates = investigation.jvp(-large * tangent)
    return Opposite(tangent, coordinates, _value(investigation))


def is_measured(investigation: Investigation, options: Options) -> bool:
    """Whether the law needs no tangent of its own: along the multiple that is pushed anyway, a probe measures."""
    probed = options.strategy is Strategy.PROBES and "jacobian" in options.properties
    return probed and is_pushed_once(investigation.problem)


def pushed_once(investigation: Investigation) -> Vector | None:
    """The same values where there is no other tangent than the shared one."""
    _ = investigation.pushforward
    return _value(investigation)


def _value(investigation: Investigation) -> Vector | None:
    """What the function returned beside the last tangents."""
    shown: Any = investigation.tangents
    primal = getattr(shown, "primal", None)
    return None if primal is None else primal()
