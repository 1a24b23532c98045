"""The same question to the derivative twice gets the same answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.core.agreement import worst_difference
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Apply, Mode
from gradproof.core.space import Space
from gradproof.core.status import Status
from gradproof.core.types import Vector
from gradproof.core.words import Words
from gradproof.properties.trials import trials
from gradproof.results.finding import Finding


def determinism(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Unless a trial has shown it already, apply the vjp twice; where there is none, the jvp."""
    problem, words = investigation.problem, investigation.problem.words
    if Mode.REVERSE in options.modes:
        if not investigation.once(trials, options).exact:
            yield from _twice(investigation.vjp, investigation.cotangent, problem.inputs, options, words)
    elif problem.vjp is None:
        yield from _twice(investigation.jvp, investigation.tangent, problem.outputs, options, words)


def _twice(apply: Apply, question: Vector, space: Space, options: Options, words: Words) -> Iterator[Finding]:
    """Differences beyond `nondet_tol` are a finding."""
    first, second = apply(question), apply(question)
    if (first == second).all():
        return
    with np.errstate(invalid="ignore"):
        noise = np.abs(first - second)
        unlike = ~((noise <= options.nondet_tol) | (first == second) | (np.isnan(first) & np.isnan(second)))
    if unlike.any():
        worst = worst_difference(np.where(unlike, first, 0.0), np.where(unlike, second, 0.0))
        place = space.place(worst)
        reverse = place.block.kind != "output"
        yield Finding(
            property="determinism",
            status=Status.WRONG,
            mode=Mode.REVERSE if reverse else Mode.FORWARD,
            input=place.block.key if reverse else None,
            input_element=place.element if reverse else None,
            output=None if reverse else place.block.index,
            output_element=None if reverse else place.element,
            headline=(
                f"{words.rule(reverse)} is not deterministic: asked twice with the same inputs and the same "
                f"{words.probe(reverse).removeprefix('the ')}, the {'gradient' if reverse else 'tangent'} of {place} "
                f"was {first[worst]:.9g}, then {second[worst]:.9g} "
                f"(difference {noise[worst]:.3g}, nondet_tol {options.nondet_tol:g})."
            ),
            hint=words.nondeterministic,
        )
