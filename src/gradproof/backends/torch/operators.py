"""Operators of `torch.ops`: those that come with torch, and those of somebody else's library."""

from __future__ import annotations

from typing import Any

import torch

# The types of operators have no public names.
PACKET: Any = type(torch.ops.aten.sin)
OVERLOAD: Any = type(torch.ops.aten.sin.default)

_OWN = frozenset(
    {
        "_c10d_functional",
        "_c10d_functional_autograd",
        "_dtensor",
        "_native",
        "_quantized",
        "aten",
        "c10d",
        "c10d_functional",
        "debug_mode_ops",
        "debugprims",
        "export",
        "higher_order",
        "inductor",
        "inductor_prims",
        "mkl",
        "mkldnn",
        "mkldnn_prepacked",
        "onednn",
        "onnx",
        "prim",
        "prims",
        "profiler",
        "quantization",
        "quantized",
        "rngprims",
        "sparse",
        "static_runtime",
        "symm_mem",
        "torch_attn",
    }
)
"""The namespaces of operators that come with torch."""


def is_custom(operator: Any) -> bool:
    """Whether this is an operator, and of somebody else's library."""
    if not isinstance(operator, (PACKET, OVERLOAD)):
        return False
    namespace = (
        getattr(operator, "namespace", None) or getattr(operator, "_qualified_op_name", "aten").partition("::")[0]
    )
    return namespace not in _OWN
