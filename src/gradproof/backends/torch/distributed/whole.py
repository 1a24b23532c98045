"""The backward of everything: all ranks run all of their graphs, as a call of `backward()` would.

`torch.autograd.grad` runs only what lies between the outputs and the inputs that are asked about. The rest may hold the
other end of a communication: a stage that receives an activation must send its gradient back, whether or not somebody
asks for the gradient of what it received.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradproof.backends.torch.closures import ends_of
from gradproof.backends.torch.derivative.pull import pull
from gradproof.backends.torch.derivative.reverse import Reverse


class WholeReverse(Reverse):
    """Reverse mode through the whole graph. What is not under test gets a gradient too, which is dropped."""

    def _pull(
        self, outputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, ...]:
        tested = self._point.tensors
        further = [tensor for tensor in ends_of(outputs, tested) if not any(tensor is each for each in tested)]
        if not tested and not further:
            return ()
        with self.graph.watching:
            return pull(outputs, [*tested, *further], cotangents)[: len(tested)]
