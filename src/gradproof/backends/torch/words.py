"""What PyTorch's users call things, and what they can do about a derivative that breaks a law."""

from __future__ import annotations

from gradproof.core.space import Block
from gradproof.core.words import Words

TORCH = Words(
    reverse="backward",
    forward="forward mode",
    cotangent="grad_output",
    omitted="treat None as zeros, or leave materialising the zeros to autograd",
    memory_layout=(
        "grad_output need not be contiguous (y.sum().backward() makes one of stride 0): "
        "respect its strides, or call .contiguous() first"
    ),
    input_overwritten="work on a copy, or call ctx.mark_dirty",
    reverse_overwrites="do not work in place on grad_output, inputs or saved tensors: use a new tensor for the result",
    aliased="return a copy (clone) from backward",
    unbatched="write the rule in operations that vmap understands, or give the Function a vmap staticmethod",
    lost="a gradient is lost (None, zeros, detached or not stored)",
    nondeterministic="if this noise is expected (atomic adds on a GPU, say), allow it with nondet_tol",
)


def cotangent_of(block: Block) -> str:
    """The cotangent of an output, in words."""
    return f"the {TORCH.cotangent} of {block.label}"
