"""No gradient shares memory with an input, nor with another gradient."""

from __future__ import annotations

from collections.abc import Iterator

from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.status import Status
from gradproof.results.finding import Finding


def aliasing(investigation: Investigation, options: Options) -> Iterator[Finding]:
    """Look at the memory of what the last plain vjp returned."""
    for block, what in investigation.some_gradients().aliased():
        yield Finding(
            property="aliasing",
            status=Status.WRONG,
            input=block.key,
            headline=(
                f"The gradient of {block.label} shares memory with {what}: "
                "whatever is written to one of them changes the other."
            ),
            hint=investigation.problem.words.aliased,
        )
