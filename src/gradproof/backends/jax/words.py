"""What JAX's users call things, and what they can do about a derivative that breaks a law."""

from __future__ import annotations

from gradproof.core.words import Words

JAX = Words(
    nonlinear=(
        "bwd (of a custom_vjp) and the rule of a custom_jvp must not take the absolute value of {probe}, square it, "
        "clamp it or branch on it"
    ),
    omitted=(
        "with symbolic_zeros=True a SymbolicZero stands for zeros: test for its type before you compute with it, or "
        "leave symbolic_zeros out, and JAX makes the zeros"
    ),
    unbatched=(
        "write fwd and bwd in operations of jax.numpy and jax.lax, which vmap understands, and look at the rules of "
        "jax.custom_batching.custom_vmap"
    ),
    nondeterministic="if this noise is expected (atomic adds on a GPU, say), allow it with nondet_tol",
    lacking={
        "MemoryLayouts": "XLA arranges the memory of arrays: no rule sees it",
        "MemoryWatch": "JAX's arrays are immutable",
        "Omission": "",  # JAX makes the zeros, unless a rule has symbolic_zeros=True
    },
)
