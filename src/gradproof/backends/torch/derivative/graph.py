"""The graph that backwards run on: that of the first call, or one of its own for each question.

Fused kernels compute the gradient in forward, in the memory of an input or of a saved tensor, and scale it in place in
backward. Such a graph answers once. As soon as that is seen, the function is called anew for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

import numpy as np
import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.derivative.hooks import UsersCode
from gradproof.backends.torch.derivative.outputs import Outputs
from gradproof.backends.torch.memory.sharing import memory_of
from gradproof.backends.torch.memory.watch import Watch, attributes, hand_written, saved_tensors
from gradproof.backends.torch.tensors.point import Point

T = TypeVar("T")
Pulled = Callable[[Sequence[torch.Tensor]], T]
"""What is made of the outputs of a graph: gradients, read before the inputs are put back, whose memory they may be."""
_CHANGED = "modified by an inplace operation"
"""PyTorch's words for a saved tensor that is not what it was."""
_UNWATCHED = nullcontext()


class Graph:
    """The outputs to pull from, while the inputs are kept safe from backwards that are not PyTorch's own."""

    def __init__(self, call: Call, point: Point, outputs: Outputs, *, anew: bool = False) -> None:
        """`anew`: the function wrote to its inputs, so that what it saved may be gone already."""
        self._call, self._point, self._outputs = call, point, outputs
        self.hand_written = bool(hand_written(outputs.tensors))
        """Whether some node is not PyTorch's own, or code of the user's is called on the way, as was seen by now."""
        self._asked = False
        self.watching: AbstractContextManager[object] = _UNWATCHED
        """Entered where the engine is called: by a tracer, as long as nothing is known of hooks."""
        self.anew = anew
        """Whether each question gets a graph of its own."""
        self._consumed: dict[str, None] = {}

    def is_anew(self) -> bool:
        """Whether each vjp calls the function by now."""
        return self.anew

    def is_stateless(self) -> bool:
        """Whether all of it is PyTorch's own, and nothing was written to, as far as is known by now."""
        return not (self.hand_written or self.anew)

    def consumed(self) -> tuple[str, ...]:
        """What backwards were seen to overwrite of what they had saved, in words."""
        return tuple(self._consumed)

    def ask(self, pulled: Pulled[T], *, watched: bool = False) -> T:
        """What `pulled` makes of the outputs. The inputs are put back afterwards.

        The first question is `watched` anyway: later ones rely on what it leaves.
        """
        if not self.hand_written and not self.anew:
            return pulled(self._outputs.tensors) if self._asked else self._watching_for_hooks(pulled)
        try:
            if self.anew:
                return self._pulled(self._fresh(), pulled, watched)
            return self._on_first(pulled, watched)
        finally:
            self._point.restore()

    def _watching_for_hooks(self, pulled: Pulled[T]) -> T:
        """The first answer: if the user's code was called on the way, by a hook, the graph is none of PyTorch's own."""
        self.watching = called = UsersCode()
        try:
            return pulled(self._outputs.tensors)
        finally:
            self.watching = _UNWATCHED
            self._asked = not called.seen
            if called.seen:
                self.hand_written = True
                self._point.restore()

    def _on_first(self, pulled: Pulled[T], watched: bool) -> T:
        if not self._asked:
            answer = self._pulled(self._outputs.tensors, pulled, True)
            self._asked = True
            return answer
        try:
            return self._pulled(self._outputs.tensors, pulled, watched)
        except Exception as error:
            return self._once_more(pulled, error)

    def _pulled(self, outputs: Sequence[torch.Tensor], pulled: Pulled[T], watched: bool) -> T:
        watches = self._watches(outputs) if watched and self.hand_written else None
        if watches is None:
            return pulled(outputs)
        (saved, attached), anew = watches, self.anew
        try:
            answer = pulled(outputs)
        finally:
            self.consume(saved.changed())
        working = list(attached.changed())
        if working and not self._consumed and not self._answers_again(outputs, pulled, answer, anew):
            self.consume(working)
        return answer

    def _watches(self, outputs: Sequence[torch.Tensor]) -> tuple[Watch, Watch] | None:
        """A watch on what was saved, and one on attributes; None where that cannot be looked at any more."""
        nodes = hand_written(outputs)
        try:
            return Watch(self._others(saved_tensors(nodes))), Watch(self._others(attributes(nodes)))
        except Exception:  # PyTorch does not show what was changed since it was saved; hooks may raise anything
            return None

    def _answers_again(self, outputs: Sequence[torch.Tensor], pulled: Pulled[T], answer: T, anew: bool) -> bool:
        """Whether the graph gives the same again, though an attribute was written to: it may be room to work in."""
        if not anew:
            self._point.restore()
        try:
            return np.array_equal(_numbers(answer), _numbers(pulled(outputs)), equal_nan=True)
        except Exception:
            return False

    def _once_more(self, pulled: Pulled[T], error: Exception) -> T:
        """The answer on a new graph, where a question before has spoilt the old one; else the exception itself."""
        self._point.restore()
        answers: list[T] = []
        with suppress(Exception):
            answers.append(pulled(self._fresh()))
        if not answers:
            raise error
        self.anew = True
        told = (str(error).splitlines() or [""])[0]
        if _CHANGED not in told:  # else it says which tensor was changed, and so does the watch
            self.consume([f"what it had saved (on the same graph, a second one raised {type(error).__name__}: {told})"])
        return answers[0]

    def consume(self, what: Iterable[str]) -> None:
        """Remember what a backward overwrote of what it had saved: from now on, each has a graph of its own."""
        self._consumed.update(dict.fromkeys(what))
        self.anew = self.anew or bool(self._consumed)

    def _others(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
        """Those that are not in the memory of inputs, which are looked at anyway."""
        inputs = [memory_of(tensor) for tensor in self._point.tensors]
        return [(name, tensor) for name, tensor in tensors if memory_of(tensor) not in inputs]

    def _fresh(self) -> list[torch.Tensor]:
        """The outputs of another call."""
        return self._outputs.pick(self._call())


def _numbers(answer: Any) -> Any:
    """The coordinates of an answer, in whatever form it is."""
    return getattr(answer, "coordinates", getattr(answer, "gradient", answer))
