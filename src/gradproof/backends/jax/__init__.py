"""JAX: arrays of any dtype in any pytree, reverse and forward mode, compiled once, batches through vmap."""

from __future__ import annotations

from gradproof.backends.jax.calls import recognises
from gradproof.backends.jax.session import FRAMEWORK, session
from gradproof.backends.jax.variants import dtype_of, memory_layouts, tested_labels, vary

__all__ = ["dtype_of", "framework", "memory_layouts", "recognises", "session", "tested_labels", "vary"]

framework = FRAMEWORK
