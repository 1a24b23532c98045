"""What every way is given: the subject, its point and others nearby, and what eager mode answers there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.backends.calls import Keeper
from gradproof.backends.torch.closures import ends_of
from gradproof.backends.torch.regimes.answers import Answer, Function, answer, draw_cotangents
from gradproof.backends.torch.regimes.comparing import Yardstick
from gradproof.backends.torch.regimes.subject import Subject, leaves_at, moved

Point = list[torch.Tensor]


class NotApplicableError(Exception):
    """This way is none for this function, or not on this machine; the text says why."""


class Regime:
    """Eager mode's answers to a function, and the means to ask it in another way from the same state."""

    def __init__(self, subject: Subject, keeper: Keeper, seed: int) -> None:
        """`keeper` undoes what a run changed besides its outputs, random states included."""
        self.subject, self._put_back = subject, keeper.put_back
        self.point = subject.point()
        self.generator = torch.Generator().manual_seed(seed)
        try:
            values = subject(*leaves_at(self.point))
        finally:
            keeper.put_back()
        self.draws = keeper.draws
        """Whether the function draws random numbers: another way may draw others."""
        self.around = ends_of([value for value in values if value.requires_grad], [])
        """The leaves in which the graph ends: those of closures are among them, and `backward` would write to them."""
        self.cotangents = draw_cotangents(values, self.generator)
        self.truth, again = self.eager(self.point), self.eager(self.point)
        self.yardstick = self.by(self.truth, [again])

    def by(self, truth: Answer, spread: Sequence[Answer] = (), **options: Any) -> Yardstick:
        """What measures by another answer of eager mode."""
        return Yardstick(truth, self.subject.labels, self.point, spread, **options)

    def ask(
        self,
        function: Function,
        leaves: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor] | None = None,
        by: Callable[[Function, Sequence[torch.Tensor], Sequence[torch.Tensor]], Answer] = answer,
    ) -> Answer:
        """What a function answers at these leaves; what it changed is put back after its backward."""
        try:
            return by(function, leaves, self.cotangents if cotangents is None else cotangents)
        finally:
            self._put_back()

    def eager(self, point: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor] | None = None) -> Answer:
        return self.ask(self.subject, leaves_at(point), cotangents)

    def run(self, act: Callable[[], Sequence[torch.Tensor]]) -> Sequence[torch.Tensor]:
        """Do something that calls the function, and put back what it changed."""
        try:
            return act()
        finally:
            self._put_back()

    @functools.cached_property
    def others(self) -> list[tuple[Point, Answer]]:
        """Two other points with eager mode's answers; none where it cannot be called anywhere near."""
        for evenly in (False, True):
            points = [moved(self.point, self.generator, evenly=evenly) for _ in range(2)]
            try:
                answers = [self.eager(point) for point in points]
            except Exception:  # outside of its domain
                continue
            if all(_alike(each, self.truth) for each in answers):
                return list(zip(points, answers, strict=True))
        return []

    def connected(self, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs that have a graph in eager mode."""
        return tuple(value for value, has in zip(self.subject(*leaves), self.truth.connected, strict=True) if has)

    @property
    def connected_cotangents(self) -> tuple[torch.Tensor, ...]:
        return tuple(v for v, has in zip(self.cotangents, self.truth.connected, strict=True) if has)


def _alike(one: Answer, other: Answer) -> bool:
    """Whether two answers have the same shapes."""
    return [value.shape for value in one.values] == [value.shape for value in other.values]
