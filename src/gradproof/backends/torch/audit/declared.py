"""Operations whose options declare a gradient that is not their derivative.

`padding_idx` of an embedding keeps a row that the output depends on from getting a gradient, `scale_grad_by_freq`
divides by how often a row was met, `max_norm` shrinks rows in place and hands on gradients as if it had not, and
`gumbel_softmax(hard=True)` is a straight-through estimator. Whoever gives such an option asks for that. While
`Declared` is entered, the values of these operations move as the declaration says, and their derivatives are the real
ones: so these are judged by what was declared, and a wrong one is still wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812 (everybody's name for it)
from torch.overrides import TorchFunctionMode

from gradproof.backends.torch.audit.operation import Given, Operation
from gradproof.backends.torch.private import inside_a_transform

Function = Callable[..., Any]
Arguments = Mapping[str, Any]
"""The arguments of a call by the names of its parameters."""


class _Rule(NamedTuple):
    """What is known of a function: its parameters, which options make a difference in a call, and how it moves then."""

    parameters: tuple[str, ...]
    options: Callable[[Arguments], list[str]]
    moved: Callable[[Function, Arguments, torch.Tensor], Any]
    """The value for these arguments; the last is what the parameter `differentiated` was at the recorded point."""
    differentiated: str

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.parameters, args, strict=False)), **kwargs}


# embeddings


def _embedding_options(arguments: Arguments) -> list[str]:
    padding = _padding(arguments)
    met = padding is not None and bool((_indices(arguments) == padding).any())
    return [*([f"padding_idx={padding}"] if met else []), *_bag_options(arguments)]


def _bag_options(arguments: Arguments) -> list[str]:
    """A bag leaves its padding out of the values too: that is no difference."""
    scaled = arguments.get("scale_grad_by_freq") and bool((_counts(arguments) > 1).any())
    shrinks = arguments.get("max_norm") is not None
    return [
        *(["scale_grad_by_freq=True"] if scaled else []),
        *([f"max_norm={arguments['max_norm']}"] if shrinks else []),
    ]


def _indices(arguments: Arguments) -> torch.Tensor:
    return arguments["input"] if "input" in arguments else arguments["indices"]


def _padding(arguments: Arguments) -> int | None:
    """The row that gets no gradient. Negative numbers count from the end; for the bare operator they are none."""
    padding = arguments.get("padding_idx")
    if padding is None or ("indices" in arguments and padding < 0):
        return None
    return int(padding) % len(arguments["weight"])


def _counts(arguments: Arguments) -> torch.Tensor:
    """How often each row was met."""
    return torch.bincount(_indices(arguments).flatten(), minlength=len(arguments["weight"]))


def _embedding_moved(function: Function, arguments: Arguments, before: torch.Tensor) -> Any:
    factor = torch.ones(len(before), dtype=arguments["weight"].dtype, device=before.device)
    padding = _padding(arguments)
    if padding is not None:
        factor[padding] = 0.0
    return _bag_moved(function, arguments, before, factor)


def _bag_moved(
    function: Function, arguments: Arguments, before: torch.Tensor, factor: torch.Tensor | None = None
) -> Any:
    """The rows as they were, shrunk as they were, and moved by `factor` of what they moved by."""
    weight = arguments["weight"]
    moved, after = weight.detach() - before, _shrunk({**arguments, "weight": before})
    share = torch.ones_like(after[:, 0]) if factor is None else factor
    if arguments.get("scale_grad_by_freq"):
        share = share / _counts(arguments).clamp_min(1)
    plain = {**arguments, "weight": after + share[:, None] * moved}
    value = function(**{name: option for name, option in plain.items() if name != "max_norm"})
    real = function(**{**arguments, "weight": weight.clone()})  # which may be shrunk
    if arguments.get("max_norm") is not None and not inside_a_transform():
        weight.data.copy_(after + moved)
    return _with_derivative_of(value, real)


def _shrunk(arguments: Arguments) -> torch.Tensor:
    """The weight after what `max_norm` does to it."""
    if arguments.get("max_norm") is None:
        return arguments["weight"]
    rows, norm = _indices(arguments).flatten().contiguous(), float(arguments.get("norm_type", 2.0))
    return torch.embedding_renorm_(arguments["weight"].clone(), rows, float(arguments["max_norm"]), norm)


# samples


def _sampled_options(arguments: Arguments) -> list[str]:
    return ["hard=True"] if arguments.get("hard") else []


def _sampled_moved(function: Function, arguments: Arguments, before: torch.Tensor) -> Any:
    """The one-hot sample as it was, moved as the soft one moves: each with the same random numbers."""
    state = torch.default_generator.get_state()

    def sampled(**replaced: Any) -> torch.Tensor:
        torch.default_generator.set_state(state)
        return function(**{**arguments, **replaced})

    moved = sampled(hard=False) - sampled(hard=False, logits=before)
    return _with_derivative_of(sampled(logits=before) + moved, sampled())


def _with_derivative_of(value: Any, real: Any) -> Any:
    """A value, with the graph of what the operation really gives. Of several outputs only the first has one."""
    if isinstance(real, tuple):
        first, *others = cast("tuple[Any, ...]", real)
        return (_with_derivative_of(cast("tuple[Any, ...]", value)[0], first), *others)
    return value.detach() + (real - real.detach())


_RULES: dict[Any, _Rule] = {
    F.embedding: _Rule(
        ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
        _embedding_options,
        _embedding_moved,
        "weight",
    ),
    F.embedding_bag: _Rule(
        (
            *("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse"),
            *("per_sample_weights", "include_last_offset", "padding_idx"),
        ),
        _bag_options,
        _bag_moved,
        "weight",
    ),
    torch.embedding: _Rule(
        ("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse"),
        _embedding_options,
        _embedding_moved,
        "weight",
    ),
    torch.embedding_bag: _Rule(
        (
            *("weight", "indices", "offsets", "scale_grad_by_freq", "mode", "sparse", "per_sample_weights"),
            *("include_last_offset", "padding_idx"),
        ),
        _bag_options,
        _bag_moved,
        "weight",
    ),
    F.gumbel_softmax: _Rule(("logits", "tau", "hard", "eps", "dim"), _sampled_options, _sampled_moved, "logits"),
}


# recorded operations


def declares(operation: Operation) -> str:
    """The options of an operation that declare another gradient and make a difference, in words; or nothing."""
    rule = _RULES.get(operation.function)
    return "" if rule is None else ", ".join(rule.options(_recorded(operation, rule)))


def _recorded(operation: Operation, rule: _Rule) -> dict[str, Any]:
    values = [leaf.value if isinstance(leaf, Given) else leaf for leaf in operation.leaves]
    return rule.named(*operation.arranged(values))


class Declared(TorchFunctionMode):
    """While it is entered, the operations that declare a gradient move as they declare, from the recorded values on.

    A call is taken for the recorded one with the same function, options and indices; of several, for the next in turn.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Of the operations, those that declare nothing are left out."""
        super().__init__()
        self._known = [operation for operation in operations if declares(operation)]
        self._turn = 0

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        rule = _RULES.get(func)
        if rule is None:
            return func(*args, **(kwargs or {}))
        arguments = rule.named(args, kwargs or {})
        before = self._before(func, arguments, rule)
        if before is None:
            return func(*args, **(kwargs or {}))
        value = arguments[rule.differentiated]
        return rule.moved(func, arguments, before.to(value.dtype))

    def _before(self, function: Function, arguments: Arguments, rule: _Rule) -> torch.Tensor | None:
        """What the recorded call was differentiated with respect to; None where there is none like this."""
        for k in range(len(self._known)):
            turn = (self._turn + k) % len(self._known)
            operation = self._known[turn]
            if operation.function is function and _alike(_recorded(operation, rule), arguments, rule.differentiated):
                self._turn = turn + 1
                return _recorded(operation, rule)[rule.differentiated]
        return None

    @contextmanager
    def restarting(self, model: Function) -> Generator[Function]:
        """The model, of which every call begins with the first operation again; entered."""
        if not self._known:
            yield model
        elif isinstance(model, torch.nn.Module):
            hook = model.register_forward_pre_hook(lambda *_: self._restart(), prepend=True)
            try:
                with self:
                    yield model
            finally:
                hook.remove()
        else:
            with self:
                yield self._restarted(model)

    def _restart(self) -> None:
        self._turn = 0

    def _restarted(self, model: Function) -> Function:
        def restarted(*arguments: Any, **keywords: Any) -> Any:
            self._restart()
            return model(*arguments, **keywords)

        code = getattr(model, "__code__", None)
        restarted.__name__ = getattr(model, "__name__", type(model).__name__)
        if code is not None:
            restarted.parameter_names = code.co_varnames[: code.co_argcount]  # pyright: ignore[reportFunctionMemberAccess]
        return restarted


def _alike(recorded: Arguments, arguments: Arguments, differentiated: str) -> bool:
    """Whether two calls are the same but for numbers."""
    if recorded.keys() != arguments.keys() or recorded[differentiated].shape != arguments[differentiated].shape:
        return False
    return all(_same(recorded[name], arguments[name]) for name in arguments if name != differentiated)


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return one is other or one == other
    if one.shape != other.shape or one.is_floating_point():
        return one.shape == other.shape
    return bool(torch.equal(one, other))
