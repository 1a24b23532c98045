"""Every private name of torch that is used, each with a public way in its place.

A private name may be gone in another version of torch, or mean something else. So those that make checks faster are
tried once, at their first use, on a question whose answer is known. Where one is gone or answers wrongly, the public
way is taken, and a `PrivateNameWarning` says so, once. It is slower, and the verdicts are the same but for two cases:
nothing public batches dual tensors, so that `batched_forward` finds nothing there, and nothing public shows the memory
of a sparse tensor that is not coalesced, which is then refused.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import torch

from gradproof.backends.torch.trusted import trusted

_torch: Any = torch  # none of what is used here has types


def _number(value: float, **options: Any) -> torch.Tensor:
    """A tensor for the self-tests, whatever the user's default device and dtype."""
    return torch.tensor(value, dtype=torch.float64, device="cpu", **options)


# reverse mode without grad's inspection of the cotangents: 14 µs instead of 41 for the backward of one operator


class Pull(Protocol):
    """The gradient of each input, None where nothing depends on it. The graph stays."""

    def __call__(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
        create_graph: bool = False,
    ) -> tuple[torch.Tensor | None, ...]: ...


@functools.cache
def engine() -> Pull:
    """Reverse mode through the autograd engine itself."""
    return trusted("Variable._execution_engine", _private_engine, _pulls, _grad)


def _private_engine() -> Pull:
    run_backward = cast(Any, torch.autograd.Variable)._execution_engine.run_backward

    def pull(
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
        create_graph: bool = False,
    ) -> tuple[torch.Tensor | None, ...]:
        return run_backward(
            tuple(outputs),
            tuple(cotangents),
            True,  # retain_graph
            create_graph,
            tuple(inputs),
            True,  # allow_unreachable: None for an input that nothing depends on
            accumulate_grad=False,
        )

    return pull


def _grad(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    create_graph: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    return torch.autograd.grad(
        outputs, inputs, cotangents, retain_graph=True, create_graph=create_graph, allow_unused=True
    )


def _pulls(pull: Pull) -> bool:
    x, unused = _number(3.0, requires_grad=True), _number(0.0, requires_grad=True)
    gradient, none = pull([x * x], [x, unused], [_number(5.0)])
    (second,) = pull([x * x], [x], [_number(5.0)], create_graph=True)
    linear = second is not None and second.requires_grad
    return gradient is not None and float(gradient) == 30.0 and none is None and x.grad is None and linear


# an output whose cotangent is not there at all: 3 µs instead of 10


class _Undefined(torch.autograd.Function):
    """Identity whose backward passes no gradient on."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


Identity = Callable[[torch.Tensor], torch.Tensor]


@functools.cache
def undefined() -> Identity:
    """Identity whose backward passes no gradient on."""
    public = cast(Identity, _Undefined.apply)
    return trusted("torch._C._functions.UndefinedGrad", lambda: _torch._C._functions.UndefinedGrad(), _stops, public)


def _stops(identity: Identity) -> bool:
    x = _number(3.0, requires_grad=True)
    y = identity(x * x)
    return float(y) == 9.0 and engine()([y], [x], [_number(1.0)]) == (None,)


# vmap of flat lists of tensors, without what torch wraps around it. For a function that takes microseconds, that
# (nested containers, dimensions to be checked, a look for an export going on) is most of a batch: of sin, 9 µs instead
# of 105; of its backward, 32 instead of 140.
# There are two vmaps: that of `torch.func`, which evaluations go through, and the older one behind `is_grads_batched`,
# which alone can be carried through the autograd engine and through dual tensors.


class Vmap(Protocol):
    """The function of each row of the arguments, as rows; those whose numbers are in `single` are no rows."""

    def __call__(
        self,
        function: Callable[..., Sequence[torch.Tensor]],
        arguments: Sequence[torch.Tensor],
        single: Collection[int] = (),
    ) -> list[torch.Tensor]: ...


@functools.cache
def vmap() -> Vmap:
    """`torch.func.vmap` over first dimensions, with the same random numbers in each row."""
    return trusted("torch._C._functorch", _private_vmap, _maps_rows, _func_vmap)


def _private_vmap() -> Vmap:
    functorch = _torch._C._functorch
    enter, leave = functorch._vmap_increment_nesting, functorch._vmap_decrement_nesting
    add, remove = functorch._add_batch_dim, functorch._remove_batch_dim

    def vmap(
        function: Callable[..., Sequence[torch.Tensor]],
        arguments: Sequence[torch.Tensor],
        single: Collection[int] = (),
    ) -> list[torch.Tensor]:
        size = next(argument.shape[0] for k, argument in enumerate(arguments) if k not in single)
        level = enter(size, "same")
        try:
            rows = [argument if k in single else add(argument, 0, level) for k, argument in enumerate(arguments)]
            return [remove(output, level, size, 0) for output in function(*rows)]
        finally:
            leave()

    return vmap


def _func_vmap(
    function: Callable[..., Sequence[torch.Tensor]],
    arguments: Sequence[torch.Tensor],
    single: Collection[int] = (),
) -> list[torch.Tensor]:
    dims = tuple(None if k in single else 0 for k in range(len(arguments)))
    return [*torch.func.vmap(lambda *rows: tuple(function(*rows)), in_dims=dims, randomness="same")(*arguments)]


def _maps_rows(vmap: Vmap) -> bool:
    """That of torch.func goes first, with next to nothing: it loads batching rules that are written in Python."""
    torch.func.vmap(torch.neg)(_number(1.0).reshape(1))
    rows, factor = torch.stack([_number(1.0), _number(2.0)]), _number(3.0)

    def function(row: torch.Tensor, factor: torch.Tensor) -> list[torch.Tensor]:
        return [row * factor, factor.neg()]

    products, negative = vmap(function, [rows, factor], {1})
    return products.tolist() == [3.0, 6.0] and negative.tolist() == [-3.0, -3.0]


Differentiate = Callable[..., Sequence[torch.Tensor | None]]
VmapDerivative = Callable[[Differentiate, Sequence[torch.Tensor]], list[torch.Tensor | None]]
"""The same for a function that differentiates, with all arguments in rows. What is None stays None."""


@functools.cache
def vmap_derivative() -> VmapDerivative | None:
    """The older vmap; None where there is none."""
    return trusted("torch._C._vmapmode_increment_nesting", _private_vmap_derivative, _maps_derivatives, None)


def _private_vmap_derivative() -> VmapDerivative | None:
    enter, leave = _torch._C._vmapmode_increment_nesting, _torch._C._vmapmode_decrement_nesting
    add, remove = _torch._add_batch_dim, _torch._remove_batch_dim

    def vmap_derivative(function: Differentiate, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        size = arguments[0].shape[0]  # torch's `len` takes 2 µs
        level = enter()
        try:
            outputs = function(*[add(argument, 0, level) for argument in arguments])
            return [None if o is None else remove(o, level, size, 0) for o in outputs]
        finally:
            leave()

    return vmap_derivative


def _maps_derivatives(vmap: VmapDerivative | None) -> bool:
    assert vmap is not None
    x, unused = _number(3.0, requires_grad=True), _number(0.0, requires_grad=True)
    y, rows = x * x, torch.stack([_number(1.0), _number(2.0)])
    pull = engine()  # the public way imports symbolic shapes here, which takes a second
    gradients, none = vmap(lambda row: pull([y], [x, unused], [row]), [rows])
    return none is None and gradients is not None and gradients.tolist() == [6.0, 12.0]


def load_forward_mode() -> None:
    """torch loads some of its forward-mode rules on first use, with a warning that is none of the user's."""
    with contextlib.suppress(ImportError), warnings.catch_warnings(action="ignore"):
        importlib.import_module("torch._decomp.decompositions_for_jvp")


# tensors that are not plainly strided


def _mkldnn() -> torch.layout | None:
    with contextlib.suppress(Exception):
        return getattr(torch, "_mkldnn", None) or torch.zeros(1, dtype=torch.float32, device="cpu").to_mkldnn().layout
    return None


MKLDNN: torch.layout | None = _mkldnn()
"""The opaque layout of MKL-DNN; None where there is none."""


@functools.cache
def is_zero_tensor() -> Callable[[torch.Tensor], bool]:
    """Whether a tensor is zeros that are only promised: it has elements and no memory."""
    return trusted("Tensor._is_zerotensor", lambda: _torch.Tensor._is_zerotensor, _knows_zeros, _has_no_address)


def _has_no_address(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() == 0


def _knows_zeros(is_zero_tensor: Callable[[torch.Tensor], bool]) -> bool:
    return is_zero_tensor(_torch._efficientzerotensor(2, device="cpu")) and not is_zero_tensor(_number(0.0))


Parts = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""The two tensors that another is made of; they share its memory."""


@functools.cache
def coordinate_parts() -> Parts:
    """Indices and values of layout COO as they are stored, also where an element is stored twice."""
    return trusted("Tensor._values", lambda: _private_parts, _parts_are_stored, _public_parts)


def _private_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    plain: Any = tensor.data
    return plain._indices(), plain._values()


def _public_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    plain = tensor.data
    if not plain.is_coalesced():
        raise NotImplementedError(
            "a sparse tensor that is not coalesced cannot be looked into with this version of torch: pass x.coalesce()"
        )
    return plain.indices(), plain.values()


def _parts_are_stored(parts: Parts) -> bool:
    indices = torch.tensor([[1, 1]], device="cpu")
    values = torch.stack([_number(5.0), _number(7.0)])
    found = parts(torch.sparse_coo_tensor(indices, values, (2,), check_invariants=False))
    return torch.equal(found[0], indices) and found[1].data_ptr() == values.data_ptr()


@functools.cache
def masked_parts() -> Parts:
    """Data and mask as a MaskedTensor holds them: masked elements included, outside of any graph."""
    return trusted("MaskedTensor._masked_data", lambda: _private_masked, _parts_are_masked, _public_masked)


def _private_masked(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    masked: Any = tensor
    return masked._masked_data, masked._masked_mask


def _public_masked(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    masked: Any = tensor
    return masked.get_data().detach(), masked.get_mask()


def _parts_are_masked(parts: Parts) -> bool:
    from torch.masked import masked_tensor

    values, mask = torch.stack([_number(5.0), _number(7.0)]), torch.tensor([True, False], device="cpu")
    data, there = parts(masked_tensor(values, mask))
    return torch.equal(data, values) and torch.equal(there, mask)


# modules


def pass_for_parameter(tensor: torch.Tensor) -> None:
    """Have a tensor that stands in for a parameter taken for one: `Module.get_parameter` refuses all others."""
    cast(Any, tensor)._is_param = True


def buffers_of(module: torch.nn.Module) -> Mapping[str, torch.Tensor | None]:
    """The own buffers of a module as they are now; of a copy of the dictionary where the module's cannot be had."""
    held = vars(module).get("_buffers")
    return dict(module.named_buffers(recurse=False, remove_duplicate=False)) if held is None else held


def put_back_buffers(module: torch.nn.Module, kept: Mapping[str, torch.Tensor | None]) -> None:
    """Make these the own buffers of a module, in this order."""
    held = vars(module).get("_buffers")
    if held is not None:
        held.clear()
        held.update(kept)
        return
    for name in set(buffers_of(module)) - set(kept):
        setattr(module, name, None)
    for name, buffer in kept.items():
        setattr(module, name, buffer)


def process_groups(group: Any) -> list[tuple[Any, Any]]:
    """The backends of all process groups of this process, each with how long it waits; None: that cannot be told.

    torch names no public way to list them. Where the private one is gone, this group and the default one are known.
    """
    distributed: Any = importlib.import_module("torch.distributed")
    known = getattr(getattr(distributed.distributed_c10d, "_world", None), "pg_map", None)
    groups = [*known] if isinstance(known, Mapping) else [group, distributed.group.WORLD]
    found: dict[int, tuple[Any, Any]] = {}
    for each in groups:
        for device in getattr(each, "_device_types", ()):
            with contextlib.suppress(Exception):
                backend = each._get_backend(device)
                found[id(backend)] = backend, getattr(backend.options, "_timeout", None)
    return [*found.values()]


# transforms


def inside_a_transform() -> bool:
    """Whether tensors are those of a transform (vmap, grad, jvp), which cannot be copied out of it."""
    active = getattr(_torch._C, "_are_functorch_transforms_active", None)
    return active is not None and bool(active())


def home_of_operator(name: str) -> str:
    """The module that defines a custom operator (`library::name`); nothing where torch does not say."""
    found = getattr(_torch._library.custom_ops, "OPDEFS", {}).get(name)
    return str(getattr(getattr(found, "_init_fn", None), "__module__", "") or "")


# compilation


def uncompiled() -> AbstractContextManager[Any]:
    """While inside, compiled functions run as they are written; where nothing is compiled, there is nothing to do."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


# operators that do several things at once


@functools.cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Operators, each with a function that does the same step by step; none known: they stay in one piece."""
    return trusted("torch._decomp.decomposition_table", _private_decompositions, _takes_apart, {})


def _private_decompositions() -> Mapping[Any, Callable[..., Any]]:
    return importlib.import_module("torch._decomp").decomposition_table


def _takes_apart(table: Mapping[Any, Callable[..., Any]]) -> bool:
    made = table[_torch.ops.aten.tanh_backward.default](_number(2.0), _number(0.5))
    return float(made) == 1.5
