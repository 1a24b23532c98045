"""The state around a call, put back as it was: random generators, flags, buffers, tensors that are only read."""

from gradproof.backends.torch.state.preserve import kept, preserved

__all__ = ["kept", "preserved"]
