"""Records the operations of one run, with their values.

A function mode sees every function and method of torch, custom operators of `torch.library` included; what it does not
see is `autograd.Function.apply` (see `functions.py`). Each tensor is copied when it goes in and when it comes out, once
for each version of it, so that writing in place afterwards changes nothing that was recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import optree
import torch
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction

from gradproof.backends.torch.audit.functions import Apply, watching
from gradproof.backends.torch.audit.operation import Autocast, Edge, Given, Kind, Operation, Random
from gradproof.backends.torch.audit.places import ModulePaths, definition_of, source_line
from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.derivative.widening import Widening
from gradproof.backends.torch.operators import is_custom
from gradproof.backends.torch.private import inside_a_transform, uncompiled

# Attributes that hold another tensor, which is not computed from this one.
_NO_OPERATIONS = frozenset({"grad", "_grad", "_base", "__set__", "__delete__", "requires_grad_", "retain_grad"})
_DEVICES = ("cpu", "cuda")


class Recorder(TorchFunctionMode):
    """The operations of one run, in the order of their calls. `graph`: with their nodes in the graph."""

    def __init__(
        self, paths: ModulePaths, names: Mapping[int, str], *, graph: bool = True, widening: Widening | None = None
    ) -> None:
        """With `widening`, what is recorded is what goes in after it."""
        super().__init__()
        self.operations: list[Operation] = []
        self.calls: list[str] = []
        """The names of all functions that were called, also of those that made nothing new."""
        self.missed: list[str] = []
        """What ran and was not recorded, in words."""
        self._paths, self._names, self._graph, self._widening = paths, names, graph, widening
        self._busy = False
        self._copies: dict[int, tuple[weakref.ref[torch.Tensor], int, torch.Tensor]] = {}
        self._producers: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._writers: dict[int, int] = {}
        self._known: dict[Any, None] = {}
        self._generator = torch.default_generator.get_state()

    @contextmanager
    def recording(self) -> Generator[None]:
        """While inside, operations are recorded."""
        with ExitStack() as stack:
            stack.enter_context(uncompiled())
            stack.enter_context(self._paths.followed())
            stack.enter_context(watching(self._apply))
            stack.enter_context(self)
            yield

    # what is seen

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        keywords = dict(kwargs or {})
        name = _name_of(func)
        if self._busy or name in _NO_OPERATIONS:
            return func(*args, **keywords)
        kind = Kind.OPERATOR if is_custom(func) else Kind.TORCH
        return self._recorded(func, name, kind, args, keywords, "")

    def _apply(self, real: Apply, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._busy:
            return real(cls, *args, **kwargs)
        if cls is CheckpointFunction and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return args[0](*args[2:])  # its operations, once: the same values, and nothing is computed twice
        kind = Kind.TORCH if cls.__module__.partition(".")[0] == "torch" else Kind.FUNCTION

        def apply(*args: Any, **kwargs: Any) -> Any:
            return real(cls, *args, **kwargs)

        apply.__func__ = cls  # pyright: ignore[reportFunctionMemberAccess]  # one operation for each class
        return self._recorded(apply, cls.__name__, kind, args, kwargs, definition_of(cls.backward), _parameters(cls))

    def _recorded(
        self,
        function: Callable[..., Any],
        name: str,
        kind: Kind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        definition: str,
        parameter_names: tuple[str, ...] = (),
    ) -> Any:
        if inside_a_transform():
            self._miss(f"{name} (inside a transform of torch.func)")
            return function(*args, **kwargs)
        self._busy = True
        self.calls.append(name)
        try:
            if self._widening is not None:
                args, kwargs = self._widening.widened(args), self._widening.widened(kwargs)
            whole: Any = args, kwargs
            leaves, spec = optree.tree_flatten(whole, none_is_leaf=True)
            tensors = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            given = {i: self._given(leaf) for i, leaf in tensors if _is_plain(leaf)}
            versions = {i: _version(leaf) for i, leaf in tensors}
            state = self._generator
            with _without_autocast_cache():
                result = function(*args, **kwargs)
            drew = self._draws()
            outputs = [o for o in flatten_outputs(result) if isinstance(o, torch.Tensor)]
            written = [i for i, leaf in tensors if _version(leaf) != versions[i]]
            outputs += [leaves[i] for i in written if not any(leaves[i] is o for o in outputs)]
            new = [o for o in outputs if not any(o is leaf for _, leaf in tensors)]
            if len(given) < len(tensors) or not all(map(_is_plain, outputs)):
                self._miss(f"{name} (a tensor of a layout or a class that cannot be copied)")
                return result
            if not any(is_floating(o) for o in outputs) or (self._graph and not (new or written)):
                return result
            operation = Operation(
                number=len(self.operations),
                call=len(self.calls) - 1,
                name=name,
                kind=kind,
                function=function,
                module=self._paths.current,
                line=source_line(),
                definition=definition,
                leaves=tuple(given.get(i, leaf) for i, leaf in enumerate(leaves)),
                spec=spec,
                outputs=tuple(map(self._given, outputs)),
                written=tuple(written),
                autocast=_autocast(),
                random=Random(state) if drew else None,
                grad_enabled=torch.is_grad_enabled(),
                parameter_names=parameter_names,
            )
            if self._graph:
                operation.nodes.update(self._new_nodes(operation))
            self.operations.append(operation)
            for output in outputs:
                self._producers[id(output)] = weakref.ref(output), operation.number
            for i in written:
                self._writers[given[i].memory] = operation.number
            return result
        finally:
            self._busy = False

    def _miss(self, what: str) -> None:
        if what not in self.missed:
            self.missed.append(what)

    # values

    def _given(self, tensor: torch.Tensor) -> Given:
        memory = tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0
        edge = _edge_of(tensor) if self._graph and tensor.requires_grad else None
        return Given(
            self._copy(tensor),
            tensor.requires_grad,
            edge,
            memory,
            self._producer(tensor, memory),
            self._names.get(id(tensor), ""),
            tensor if id(tensor) in self._names else None,
        )

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        version = _version(tensor)
        held = self._copies.get(id(tensor))
        if held is not None and held[0]() is tensor and held[1] == version:
            return held[2]
        copy = tensor.detach().clone()
        self._copies[id(tensor)] = weakref.ref(tensor), version, copy
        return copy

    def _producer(self, tensor: torch.Tensor, memory: int) -> int | None:
        held = self._producers.get(id(tensor))
        producer = held[1] if held is not None and held[0]() is tensor else None
        writer = self._writers.get(memory)
        if writer is not None and (producer is None or writer > producer):
            return writer
        return producer

    def of(self, tensor: torch.Tensor) -> Given:
        """A tensor as it is now, for instance what the run returned."""
        return self._given(tensor)

    def _draws(self) -> bool:
        """Whether the generator moved since it was last looked at."""
        now = torch.default_generator.get_state()
        drew = not torch.equal(now, self._generator)
        self._generator = now
        return drew

    # the graph

    def _new_nodes(self, operation: Operation) -> dict[Any, None]:
        """The nodes between the outputs and what was there before."""
        ends = {given.edge[0] for _, given in operation.inputs if given.edge is not None}
        waiting = [given.edge[0] for given in operation.outputs if given.edge is not None]
        found: dict[Any, None] = {}
        while waiting:
            node = waiting.pop()
            if node in self._known or node in ends or hasattr(node, "variable"):
                continue
            self._known[node] = found[node] = None
            waiting += [following for following, _ in node.next_functions if following is not None]
        return found


def _name_of(func: Callable[..., Any]) -> str:
    """A function's own name; of an attribute, the name of the attribute."""
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    if is_custom(func):
        return str(getattr(func, "_qualified_op_name", getattr(func, "name", lambda: name)()))
    return str(name)


def _parameters(cls: Any) -> tuple[str, ...]:
    """The names of a Function's parameters, without the context that comes first unless there is `setup_context`."""
    code = getattr(cls.forward, "__code__", None)
    if code is None:
        return ()
    names = code.co_varnames[: code.co_argcount]
    has_context = cls.setup_context is torch.autograd.Function.setup_context
    return names[1:] if has_context else names


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be copied and compared like any other."""
    kind: Any = type(tensor)
    return tensor.layout is torch.strided and not tensor.is_meta and kind.__torch_dispatch__ is _NO_DISPATCH


_TENSOR: Any = torch.Tensor  # not all of its methods have types
_NO_DISPATCH = _TENSOR.__torch_dispatch__


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _edge_of(tensor: torch.Tensor) -> Edge | None:
    """The place of a tensor in the graph; None for a view of a leaf that was made where no gradients are."""
    try:
        edge = get_gradient_edge(tensor)
    except (RuntimeError, AssertionError):
        return None
    return edge.node, edge.output_nr


def _autocast() -> tuple[Autocast, ...]:
    enabled = [device for device in _DEVICES if torch.is_autocast_enabled(device)]
    return tuple(Autocast(device, torch.get_autocast_dtype(device)) for device in enabled)


@contextmanager
def _without_autocast_cache() -> Generator[None]:
    """A cast of a parameter is part of the operation that needs it, not of the one that needed it first."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def tensors_of(result: Any) -> list[torch.Tensor]:
    """The tensors of numbers in what a model returned."""
    found = cast(Sequence[Any], flatten_outputs(result))
    return [o for o in found if isinstance(o, torch.Tensor) and is_floating(o)]
