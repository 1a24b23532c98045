"""The random states of Python, NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gradproof.backends.random_states import HostGenerators


class Generators:
    """All global generators as they were when this was made."""

    def __init__(self) -> None:
        self._host, self._torch = HostGenerators(), torch.default_generator.get_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def rewind(self) -> None:
        """Put all of them back."""
        self._host.rewind()
        self._rewind_torch()

    def drawn_from(self) -> Iterator[Callable[[], None]]:
        """How to rewind each generator whose state is another one by now."""
        yield from self._host.drawn_from()
        if self._devices or not torch.equal(torch.default_generator.get_state(), self._torch):
            yield self._rewind_torch

    def _rewind_torch(self) -> None:
        torch.default_generator.set_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


def random_state() -> bytes:
    """The state of PyTorch's generator on the CPU."""
    return torch.default_generator.get_state().numpy().tobytes()


def set_random_state(state: bytes) -> None:
    """Put it into a state that `random_state` gave."""
    torch.default_generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
