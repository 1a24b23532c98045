"""What Triton's interpreter lacks for the kernels of released packages to run on the CPU.

`TRITON_INTERPRET=1` runs a kernel with NumPy, program by program. Three things are missing that compiled kernels rely
on: a Python float that is passed to a kernel is a float32 scalar there and stays a Python float here, the functions of
libdevice are empty stubs, and the driver has no answer to what a launcher asks about the device. `install` fills these
in; it must run before the package is imported, because kernels are decorated and libdevice's names are bound at import.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


def install() -> None:
    """Make kernels of Triton run on CPU tensors in this process."""
    _pass_floats_as_scalars()
    _give_libdevice_functions()
    _answer_for_a_device()


def _pass_floats_as_scalars() -> None:
    convert = interpreter._implicit_cvt

    def converted(argument: Any) -> Any:
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return convert(argument)

    interpreter._implicit_cvt = converted


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of Triton's tensors; the result has the dtype of the first of them."""

    def apply(first: Any, *others: Any) -> Any:
        arrays = [value.handle.data if isinstance(value, tl.tensor) else value for value in (first, *others)]
        data = np.asarray(function(*arrays)).astype(arrays[0].dtype)
        shaped = tl.block_type(first.dtype, list(data.shape)) if first.type.is_block() else first.type
        return tl.tensor(interpreter.TensorHandle(data, first.dtype), shaped)

    return apply


def _give_libdevice_functions() -> None:
    from triton.language.extra import libdevice

    functions = {
        "tanh": np.tanh,
        "exp": np.exp,
        "exp2": np.exp2,
        "log": np.log,
        "log2": np.log2,
        "log1p": np.log1p,
        "expm1": np.expm1,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "pow": np.power,
        "erf": np.vectorize(math.erf),
        "div_rn": np.divide,
        "fast_dividef": np.divide,
        "fast_expf": np.exp,
        "fast_logf": np.log,
    }
    for name, function in functions.items():
        setattr(libdevice, name, _elementwise(function))


def _answer_for_a_device() -> None:
    properties = {
        "multiprocessor_count": 2,
        "max_shared_mem": 1 << 20,
        "max_num_regs": 65536,
        "warpSize": 32,
    }
    driver = SimpleNamespace(
        get_current_target=lambda: SimpleNamespace(backend="cpu", arch=0, warp_size=32),
        get_current_device=lambda: 0,
        get_active_torch_device=lambda: torch.device("cpu"),
        get_device_interface=lambda: torch.cpu,
        get_benchmarker=lambda: lambda _call, quantiles=(), **_: [0.0] * len(quantiles),  # the first configuration
        utils=SimpleNamespace(get_device_properties=lambda _index: properties),
    )
    triton.runtime.driver.set_active(driver)
