"""No gradient shares memory with an input, nor with another gradient, nor with one of another vjp."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.capabilities import Gradients, is_stateless
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.space import Block
from gradproof.core.status import Status
from gradproof.core.words import Words
from gradproof.properties.determinism import ASKED_AGAIN
from gradproof.results.finding import Finding


def aliasing(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Look at the memory of what a plain vjp returned; then whether another one writes to it, which costs one."""
    gradients, words = investigation.some_gradients(), investigation.problem.words
    for block, what in gradients.aliased():
        yield _finding(
            block, "", f"shares memory with {what}: whatever is written to one of them changes the other.", words
        )
    for block in _reused(investigation, options, gradients):
        again = f"lies in memory that {words.rule(True)} writes to again at its next call"
        yield _finding(block, "reused", f"{again}: what the first call returned changes.", words)


def _finding(block: Block, kind: str, what: str, words: Words) -> Finding:
    return Finding(
        property="aliasing",
        kind=kind,
        status=Status.WRONG,
        input=block.key,
        headline=f"The gradient of {block.label} {what}",
        hint=words.aliased,
    )


def _reused(investigation: Investigation, options: Options, gradients: Gradients) -> list[Block]:
    """The blocks whose gradient another vjp changes. One that is kept and returned again, unchanged, may be.

    Of so many numbers that `determinism` asks no question again, for a certificate one is asked here.
    """
    later, problem = investigation.gradients, investigation.problem
    if is_stateless(problem):
        return []
    if later is None or later is gradients:
        if not options.certify or problem.inputs.size + problem.outputs.size <= ASKED_AGAIN:
            return []
    elif not gradients.share_memory(later):
        return []
    investigation.vjp(-2.0 * investigation.cotangent)
    return gradients.overwritten()
