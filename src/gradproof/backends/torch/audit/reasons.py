"""Why an operation gave a value that is no number: the known reasons, by what went in.

What is told of each, and the remedy, is in `gradproof.render.audit_words`.
"""

from __future__ import annotations

import math

import torch

from gradproof.backends.torch.audit.operation import Operation

Values = tuple[tuple[str, float], ...]

_DIVISIONS = ("div", "true_divide", "__truediv__", "__rtruediv__", "__rdiv__", "reciprocal", "divide", "fmod")
_LOGARITHMS = ("log", "log2", "log10", "log1p", "logit", "xlogy", "nll_loss", "binary_cross_entropy")
_EXPONENTIALS = ("exp", "exp2", "expm1", "sinh", "cosh", "logsumexp")
_ROOTS = ("sqrt", "rsqrt")
_POWERS = ("pow", "__pow__", "__rpow__", "float_power")
_INVERSES = ("acos", "asin", "arccos", "arcsin", "atanh", "acosh", "erfinv")
_SOFTMAXES = ("softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward")
_SPREADS = ("std", "var", "std_mean", "var_mean")
_DISTANCES = ("norm", "vector_norm", "linalg_norm", "linalg_vector_norm", "cdist", "dist", "pairwise_distance")
_HALVES = {torch.float16, torch.bfloat16}


def _stem(name: str) -> str:
    """The name without the mark of an operation in place."""
    return name if name.startswith("__") else name.rstrip("_")


def reason_forward(operation: Operation, value: float, values: Values) -> str:
    """The reason, by a word that `REASONS` explains; nothing where none is known."""
    name, numbers = _stem(operation.name), [number for _, number in values]
    numbers += [float(leaf) for leaf in operation.leaves if type(leaf) in (int, float)]
    infinite_in = any(not bool(torch.isfinite(given.value).all()) for _, given in operation.inputs)
    if name in _SOFTMAXES:
        return "masked row" if infinite_in or _has_mask(operation) else "overflow"
    if infinite_in and math.isnan(value):
        return "zero times infinity" if 0.0 in numbers else "infinity minus infinity"
    if name in _DIVISIONS and 0.0 in numbers:
        return "division by zero"
    for names, of_infinity, of_nan in _BY_NAME:
        if name in names:
            return of_infinity if math.isinf(value) else of_nan
    if math.isinf(value):
        halves = any(given.value.dtype in _HALVES for given in operation.outputs)
        return "overflow in half" if halves else "overflow"
    return ""


_BY_NAME = (
    (_LOGARITHMS, "logarithm of zero", "logarithm of a negative number"),
    (_ROOTS, "division by zero", "root of a negative number"),
    (_POWERS, "power of zero", "power of a negative number"),
    (_INVERSES, "outside of the domain", "outside of the domain"),
    (_SPREADS, "spread of one", "spread of one"),
    (_EXPONENTIALS, "overflow of an exponential", ""),
    (("mean",), "overflow", "mean of nothing"),
)
"""By the names of operations: the reason of an infinity, and that of a NaN."""


def _has_mask(operation: Operation) -> bool:
    """Whether a mask went in: of booleans, or with infinities."""
    tensors = [leaf.value for leaf in operation.leaves if hasattr(leaf, "value")]
    return any(each.dtype is torch.bool for each in tensors)


def reason_backward(operation: Operation, values: Values) -> str:
    """The same for a gradient: the derivative is infinite here, or an infinite one is multiplied by zero."""
    name = _stem(operation.name)
    arriving = [number for label, number in values if label.startswith("gradient")]
    if 0.0 in arriving:
        return "branch not taken"
    for names, reason in _BACKWARD_BY_NAME:
        if name in names:
            return reason
    if any(given.value.dtype in _HALVES for _, given in operation.inputs):
        return "overflow in half"
    return "overflow" if any(math.isfinite(number) and abs(number) > 1e30 for _, number in values) else ""


_BACKWARD_BY_NAME = (
    ((*_ROOTS, *_POWERS), "infinite derivative of a root"),
    ((*_LOGARITHMS, *_DIVISIONS), "infinite derivative at zero"),
    (_INVERSES, "infinite derivative at the end of the domain"),
    ((*_DISTANCES, *_SPREADS, "atan2", "arctan2"), "no direction at zero"),
    (_SOFTMAXES, "masked row"),
)
