"""Problems of NumPy functions, for tests of the core and the properties: whatever they should claim can be said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.core.capabilities import (
    Elsewhere,
    Form,
    Inspection,
    MemoryLayout,
    MemoryLayouts,
    MemoryWatch,
    Misshapen,
    Omission,
    Pairing,
    Twin,
    Twinned,
    Watched,
)
from gradproof.core.cost import Cost
from gradproof.core.investigation import Investigation
from gradproof.core.problem import OutputChangedError, Problem
from gradproof.core.seen import Seen
from gradproof.core.space import Block, Space
from gradproof.results.finding import Finding

DOUBLE, SINGLE, HALF, BRAIN = 2.0**-52, 2.0**-23, 2.0**-10, 2.0**-7
"""The relative spacing of float64, float32, float16 and bfloat16."""


@dataclass(frozen=True)
class Part:
    """What a test says of one block; the rest is counted."""

    shape: tuple[int, ...]
    parts: int = 1
    eps: float = DOUBLE
    name: str = ""


def space(kind: str, *parts: Part) -> Space:
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        start = blocks[-1].stop if blocks else 0
        blocks.append(Block(kind, index, part.name, part.shape, part.parts, start, part.eps))
    return Space(tuple(blocks))


@dataclass(frozen=True)
class Shown:
    """Gradients or tangents as a test says they are."""

    coordinates: Any
    blocks: tuple[Block, ...]
    forms: tuple[tuple[int, Form, Form], ...] = ()
    aliases: tuple[tuple[int, str], ...] = ()
    kept: tuple[int, ...] = ()

    def misshapen(self) -> list[Misshapen]:
        return [Misshapen(self.blocks[i], want, got) for i, want, got in self.forms]

    def aliased(self) -> list[tuple[Block, str]]:
        return [(self.blocks[i], what) for i, what in self.aliases]

    def share_memory(self, later: Any) -> bool:
        return bool(self.kept)

    def overwritten(self) -> list[Block]:
        return [self.blocks[i] for i in self.kept]

    def overwritten_cotangents(self) -> list[str]:
        return []


def array_problem(
    function: Callable[[Any], Any],
    point: Any,
    jacobian: Any = None,
    *,
    inputs: Sequence[Part] = (),
    outputs: Sequence[Part] = (),
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    vjp_undefined: Callable[..., Any] | None = None,
    jvp_undefined: Callable[..., Any] | None = None,
    misshapen: Sequence[tuple[int, Form, Form]] = (),
    vjp_in: Callable[..., Any] | None = None,
    layouts: Sequence[MemoryLayout] = (),
    overwritten: Sequence[str] = (),
    aliased: Sequence[tuple[int, str]] = (),
    reused: Sequence[int] = (),
    pairs: Any = None,
    connected: bool = True,
    capabilities: dict[type, Any] | None = None,
) -> Problem:
    """F, and what claims to be its derivative: a matrix, or functions that answer as they like.

    `vjp` and `jvp` default to the matrix `jacobian`; `misshapen` lists the numbers of the blocks whose gradients and
    tangents have another form than they should; `overwritten`, `aliased` and `reused` say what the function wrote to,
    whose memory gradients share, and which are written to again; `vjp_in` may return a gradient, or a gradient and what
    it overwrote. `capabilities` are offered besides.
    """
    at = np.atleast_1d(np.asarray(point, dtype=np.float64))

    def call(point: Any) -> Any:
        return np.atleast_1d(np.asarray(function(point.copy()), dtype=np.float64))

    value = call(at)

    def evaluate(point: Any) -> Any:
        found = call(point)
        if found.shape != value.shape:
            raise OutputChangedError(f"{found.shape} instead of {value.shape}")
        return found

    sources = space("input", *(inputs or [Part(at.shape)]))
    targets = space("output", *(outputs or [Part(value.shape)]))
    assert (sources.size, targets.size) == (at.size, value.size)
    matrix = np.broadcast_to(np.asarray(0.0 if jacobian is None else jacobian, dtype=float), (value.size, at.size))
    pull = vjp or (lambda v: matrix[v != 0].T @ v[v != 0])  # a NaN elsewhere is not asked for
    push = jvp or (lambda u: matrix[:, u != 0] @ u[u != 0])

    def pulled(cotangent: Any) -> Any:
        return np.asarray(pull(cotangent), dtype=np.float64)

    def pushed(tangent: Any) -> Any:
        return np.asarray(push(tangent), dtype=np.float64)

    def arranged(cotangent: Any, layout: MemoryLayout) -> Watched:
        found = (vjp_in or (lambda v, layout: pulled(v)))(cotangent, layout)
        gradient, touched = found if isinstance(found, tuple) else (found, ())
        return Watched(np.asarray(gradient, dtype=np.float64), touched)

    forms, aliases = tuple(misshapen), tuple(aliased)
    offered: dict[type, Any] = {
        Omission: Omission(
            vjp_undefined or (lambda v, absent: pulled(v)), jvp_undefined or (lambda u, absent: pushed(u))
        ),
        MemoryLayouts: MemoryLayouts(frozenset(layouts), lambda v, layout: arranged(v, layout).gradient),
        MemoryWatch: MemoryWatch(arranged, tuple(overwritten)),
        Inspection: Inspection(
            lambda v: Shown(pulled(v), sources.blocks, forms, aliases, tuple(reused)),
            lambda u: Shown(pushed(u), targets.blocks, forms),
        ),
        **(capabilities or {}),
    }
    if pairs is not None:
        offered[Pairing] = Pairing(np.asarray(pairs, dtype=np.intp))
    return Problem(
        inputs=sources,
        outputs=targets,
        point=at,
        value=value,
        evaluate=evaluate,
        vjp=pulled,
        jvp=pushed,
        connected=connected,
        capabilities=offered,
    )


def investigation(*arguments: Any, seed: int = 0, cost: Cost | None = None, **options: Any) -> Investigation:
    """An investigation of an `array_problem`."""
    return Investigation(array_problem(*arguments, **options), seed, cost)


def rounded_waves(capabilities: dict[type, Any]) -> Investigation:
    """Waves in float32 so fast that round-off of a point changes their slopes by 1e-3, with a twin in float64."""
    frequency, point = 1e4, np.linspace(0.5, 1.0, 4).astype(np.float32).astype(np.float64)

    def slopes(x: Any) -> Any:
        return frequency * np.cos(frequency * x)

    def made(**more: Any) -> Problem:
        return array_problem(
            lambda x: np.sin(frequency * x),
            point,
            vjp=lambda v: slopes(point) * v,
            jvp=lambda u: slopes(point) * u,
            **more,
        )

    twin = made(capabilities={Elsewhere: Elsewhere(lambda x, v: slopes(x) * v, lambda x, u: slopes(x) * u)})
    part, twinned = [Part(point.shape, eps=SINGLE)], Twinned(twin, twin.value, SINGLE)
    return Investigation(made(inputs=part, outputs=part, capabilities={Twin: Twin(lambda: twinned), **capabilities}))


def findings(found: Iterable[Finding | Seen]) -> list[Finding]:
    """What a property found, without what it saw."""
    return [each for each in found if isinstance(each, Finding)]
