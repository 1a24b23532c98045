"""The runs of a model that an audit is made of: one with its graph and a backward, two a step to either side."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from gradproof.backends.calls import Call
from gradproof.backends.torch.audit.backward import Backward
from gradproof.backends.torch.audit.operation import Given, Operation
from gradproof.backends.torch.audit.places import ModulePaths, is_of_a_user, shortened
from gradproof.backends.torch.audit.recorder import Recorder, tensors_of
from gradproof.backends.torch.closures import ends_of, names_around
from gradproof.backends.torch.derivative.widening import Widening


@dataclass(slots=True)
class Leaf:
    """A tensor that a gradient reaches: an input, a parameter, or what only a closure knows."""

    name: str
    tensor: torch.Tensor


@dataclass(slots=True)
class Recording:
    """One run: its operations, what it returned, and its backward."""

    operations: list[Operation]
    outputs: list[torch.Tensor]
    returned: list[Given]
    calls: list[str]
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    missed: tuple[str, ...] = ()
    backward: Backward | None = None
    cotangents: tuple[torch.Tensor, ...] = ()
    raised: Exception | None = None
    raised_in: str = ""
    """`forward` or `backward`."""
    raised_at: str = ""
    """The path of the module, and the line."""


def run_the_model(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The call of the model. Its name ends the search for the user's line: see `places.RUN`."""
    return function(*arguments, **keywords)


def _run(call: Call, around: Callable[[], AbstractContextManager[Any]]) -> Any:
    """Run a call with something around the function, but not around what puts the user's state back afterwards."""
    model = call.function

    def watched(*arguments: Any, **keywords: Any) -> Any:
        with around():
            return run_the_model(model, *arguments, **keywords)

    return call.calling(watched)()


def record(call: Call, model: Callable[..., Any], paths: ModulePaths, known: Sequence[Leaf], seed: int) -> Recording:
    """Run the call once, with its graph, and pull one cotangent back. Exceptions of the model are recorded too.

    `known` are the leaves that are known before; those that only a closure of the `model` reaches are found.
    """
    recorder = Recorder(paths, {id(leaf.tensor): leaf.name for leaf in known})
    made = Recording(recorder.operations, [], [], recorder.calls, list(known))
    try:
        result = _run(call, recorder.recording)
    except Exception as error:
        made.raised, made.raised_in = error, "forward"
        made.raised_at = _where(error)
        return made
    made.outputs = tensors_of(result)
    made.returned = [recorder.of(output) for output in made.outputs]
    made.missed = tuple(recorder.missed)
    made.leaves += _others(model, made.outputs, [leaf.tensor for leaf in known])
    connected = [output for output in made.outputs if output.requires_grad]
    if not connected or not made.leaves:
        return made
    made.cotangents = tuple(_cotangents(made.outputs, seed))
    pairs = [(o, v) for o, v in zip(made.outputs, made.cotangents, strict=True) if o.requires_grad]
    made.backward = Backward(recorder.operations)
    try:
        made.backward.run([o for o, _ in pairs], [v for _, v in pairs], [leaf.tensor for leaf in made.leaves])
    except Exception as error:
        made.raised, made.raised_in = error, "backward"
        made.raised_at = _where(error)
    return made


def _others(function: Callable[..., Any], outputs: Sequence[torch.Tensor], known: Sequence[torch.Tensor]) -> list[Leaf]:
    """What only a closure reaches."""
    found = [tensor for tensor in ends_of(outputs, known) if not any(tensor is each for each in known)]
    names = names_around(function) if found else {}
    return [Leaf(names.get(id(tensor), f"a tensor of shape {tuple(tensor.shape)}"), tensor) for tensor in found]


def _where(error: BaseException) -> str:
    """The innermost line of the user's code in an exception."""
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    users = [f"{shortened(file)}:{line}" for file, line in lines if is_of_a_user(file)]
    return users[-1] if users else ""


def _cotangents(outputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Random signs, and magnitudes in [0.5, 1.5]: none is near zero."""
    generator = torch.Generator().manual_seed(seed)
    return [_drawn(output, generator).to(output.dtype).to(output.device) for output in outputs]


def _drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    parts = [
        (torch.rand(like.shape, generator=generator, dtype=torch.float64) + 0.5)
        * (torch.randint(0, 2, like.shape, generator=generator).double() * 2 - 1)
        for _ in range(2 if like.is_complex() else 1)
    ]
    return torch.complex(*parts) if like.is_complex() else parts[0]


# the sides

# The step of a central difference, relative to each coordinate: so small that few kinks lie between the two sides.
_STEP = 2.0**-23
_LEAST_SCALE = 0.1


class Sides:
    """The model a step to either side of the point along one random direction: how every value moves.

    Where some of the model is computed in a low precision, its leaves stay as they are: their moved values stand in for
    them in a run in double precision. Where it does not run there, they are moved in place, by a step that shows.
    """

    def __init__(
        self,
        call: Call,
        paths: ModulePaths,
        leaves: Sequence[Leaf],
        seed: int,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
        coarsest: float = 0.0,
    ) -> None:
        """`around` is entered for each run; `coarsest` is how coarse the numbers are that the model computes with."""
        self._call, self._paths, self._leaves, self._around = call, paths, leaves, around
        self._coarsest = coarsest
        generator = torch.Generator().manual_seed(seed + 1)
        self._directions = [
            _drawn(leaf.tensor, generator).to(leaf.tensor.device) * _scale(leaf.tensor) for leaf in leaves
        ]
        self.moved: list[torch.Tensor] = []
        """How far each leaf really moves, for a step of one."""

    def run(self) -> tuple[Recording, Recording, float] | None:
        """Both runs and the step; None where they are not made of the same operations."""
        eps = max(self._coarsest, *(torch.finfo(leaf.tensor.dtype).eps for leaf in self._leaves))
        ways = [(self._moved_in_place, max(_STEP, eps ** (1 / 3)))]
        if eps > torch.finfo(torch.float64).eps:
            ways.insert(0, (self._standing_in, _STEP))
        else:
            ways = [(self._moved_in_place, _STEP)]
        for side, step in ways:
            try:
                (ahead, there), (behind, back) = side(step), side(-step)
            except Exception:  # the model does not run so: for instance, a kernel refuses double precision
                continue
            if ahead.calls == behind.calls:
                self.moved = [(_wide(a) - _wide(b)) / (2 * step) for a, b in zip(there, back, strict=True)]
                return ahead, behind, step
        return None

    def _targets(self, step: float) -> list[torch.Tensor]:
        pairs = zip(self._leaves, self._directions, strict=True)
        return [_wide(leaf.tensor.detach()) + step * direction for leaf, direction in pairs]

    def _standing_in(self, step: float) -> tuple[Recording, list[torch.Tensor]]:
        there = self._targets(step)
        pairs = zip(self._leaves, there, strict=True)
        widening = Widening([(leaf.tensor, value.requires_grad_()) for leaf, value in pairs])
        return self._run(widening), [value.detach() for value in there]

    def _moved_in_place(self, step: float) -> tuple[Recording, list[torch.Tensor]]:
        before = [leaf.tensor.detach().clone() for leaf in self._leaves]
        try:
            for leaf, value in zip(self._leaves, self._targets(step), strict=True):
                leaf.tensor.data.copy_(value)
            there = [leaf.tensor.detach().clone() for leaf in self._leaves]
            return self._run(None), there
        finally:
            for leaf, value in zip(self._leaves, before, strict=True):
                leaf.tensor.data.copy_(value)

    def _run(self, widening: Widening | None) -> Recording:
        recorder = Recorder(self._paths, {}, graph=False, widening=widening)

        @contextmanager
        def around() -> Generator[None]:
            with self._around(), widening or nullcontext(), recorder.recording():
                yield

        outputs = tensors_of(_run(self._call, around))
        return Recording(recorder.operations, outputs, [recorder.of(o) for o in outputs], recorder.calls)


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def _scale(tensor: torch.Tensor) -> torch.Tensor:
    """A typical size of each element; 1 where all are zero."""
    size = _wide(tensor.detach()).abs()
    typical = float(size.square().mean().sqrt()) if size.numel() else 1.0
    return torch.clamp_min(size, _LEAST_SCALE * typical) if typical > 0 else torch.ones_like(size)
