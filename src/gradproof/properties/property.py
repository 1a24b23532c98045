"""An entry of the registry of properties: what to ask, and what is needed to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gradproof.core.capabilities import LACKING
from gradproof.core.investigation import Investigation
from gradproof.core.options import Options
from gradproof.core.problem import Mode, Problem
from gradproof.core.seen import Note, Seen
from gradproof.results.finding import Finding


class Pause:
    """Yielded by a property before it does something expensive while the budget is limited: others go first."""


Examine = Callable[[Investigation, Options], Iterable[Finding | Seen | Note | Pause]]
"""What does not hold, or could not be judged; what the comparison was able to see and how it was made; and where others
may go first."""

Found = Finding | Seen | Pause
"""What a comparison of a Jacobian gives."""

Compare = Callable[[Investigation, Options], Iterator[Found]]
"""The ordinary comparison of a Jacobian, which ways around noise and low precision are given."""


def at_once(found: Iterable[Found]) -> list[Finding | Seen]:
    """All that is found where nobody goes first."""
    return [each for each in found if not isinstance(each, Pause)]


@dataclass(frozen=True, slots=True)
class Property:
    """One question about a derivative.

    It can be asked in each of `modes`, or in all of them together (`all_modes`); it needs a capability, or none.
    `connected` says which Problems it is for: those with a derivative (True), those that claim to have none (False),
    or all (None). `order` 2: it is about second derivatives only. `depends_on_noise`: what it finds may be due to noise
    of the function, which is then measured. `of_elements`: it is about elements, and not asked of a
    backward where inputs and outputs have none at all.
    """

    examine: Examine
    modes: tuple[Mode, ...] = tuple(Mode)
    needs: type | None = None
    connected: bool | None = True
    all_modes: bool = False
    order: int = 1
    depends_on_noise: bool = True
    of_elements: bool = True

    def can_be_asked(self, problem: Problem, modes: tuple[Mode, ...], order: int = 1) -> bool:
        """Whether it is a question about this Problem, in the modes that are asked about, with all it needs there."""
        if self.connected is not None and self.connected is not problem.connected:
            return False
        if self.needs is not None and self.needs not in problem.capabilities:
            return False
        if self.of_elements and problem.is_empty and problem.connected and modes == (Mode.REVERSE,):
            return False
        return order >= self.order and self._in(tuple(mode for mode in modes if mode in problem.modes))

    def obstacle(self, problem: Problem, order: int = 1) -> str:
        """Why it cannot be asked of this Problem whatever the modes, in words; nothing if it can, or is no question."""
        if (self.connected is not None and self.connected is not problem.connected) or order < self.order:
            return ""
        if not self._in(problem.modes):
            missing = [str(mode) for mode in self.modes if mode not in problem.modes]
            return f"it needs {' and '.join(missing)}"
        if self.needs is None or self.needs in problem.capabilities:
            return ""
        return problem.words.lacking.get(self.needs.__name__, LACKING[self.needs])

    def _in(self, modes: tuple[Mode, ...]) -> bool:
        """Whether these modes suffice."""
        if self.all_modes:
            return all(mode in modes for mode in self.modes)
        return any(mode in modes for mode in self.modes)
