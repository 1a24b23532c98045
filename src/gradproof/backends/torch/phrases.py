"""What `torch.autograd.gradcheck` says of a wrong derivative, which people match on."""

from __future__ import annotations

from gradproof.core.problem import Mode

PHRASES: dict[tuple[str, str, Mode | None], str] = {
    ("determinism", "", Mode.REVERSE): (
        "Backward is not reentrant, i.e., running backward with the same input and grad_output multiple times gives "
        "different values"
    ),
    ("linearity", "zero", Mode.REVERSE): "backward not multiplied by grad_output",
    ("undefined", "", Mode.REVERSE): "Expected backward function to handle undefined output grads",
    ("undefined", "", Mode.FORWARD): "Expected forward AD to treat an undefined tangent as zeros",
    ("batched_reverse", "", Mode.REVERSE): (
        "gradcheck or gradgradcheck failed while testing batched gradient computation"
    ),
    ("batched_forward", "", Mode.FORWARD): (
        "gradcheck or gradgradcheck failed while testing batched forward-mode gradient computation"
    ),
    ("metadata", "shape", Mode.REVERSE): "Gradient has incorrect shape",
    ("metadata", "layout", Mode.REVERSE): "Gradient has incorrect layout",
    ("metadata", "device", Mode.REVERSE): "Gradient has incorrect device",
    ("dtypes", "dtype", Mode.REVERSE): "Gradient has dtype mismatch",
    ("dtypes", "dtype", Mode.FORWARD): "Forward AD gradient has dtype mismatch",
    ("unused", "", Mode.REVERSE): "Numerical gradient for function expected to be zero",
}
"""By property, kind and mode of a finding."""
