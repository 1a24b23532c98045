"""A failure as a test file that needs torch alone: a directional derivative against a difference quotient.

A file counts as standalone only after it was run here and did what it is for: it failed, with an AssertionError or with
the exception of the finding. What keeps it from that is said.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, cast

import torch

from gradproof.backends.shrinkable import Failure, Source, Written
from gradproof.backends.torch.calls import flatten_outputs, is_floating
from gradproof.backends.torch.literals import UnwritableError, literal, tensor_literal
from gradproof.backends.torch.shrinking import TensorCall

namespaces = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")

_PROPERTIES = frozenset({"jacobian", "unused"})
# The failure must stand out of the difference of two quotients tenfold, and by one of these of the larger value.
_TOLERANCES = (1e-3, 1e-5, 1e-7)
_SEEDS = range(8)
_FEW = 16
# The names that the test itself uses.
_RESERVED = frozenset(
    {"torch", "value", "quotient", "u", "v", "step", "output", "gradient", "found", "dual", "tangent", "analytic"}
    | {"numeric", "coarser", "error", "allowed", "ahead", "behind", "test_directional_derivative"}
)


class _Probe(NamedTuple):
    """The direction and the cotangent, as source; the tolerance; and the seed of a function that draws."""

    direction: str
    cotangent: str
    tolerance: float
    seed: int


def write_test(call: TensorCall, failure: Failure, source: Source, subject: str) -> Written:
    """The file for a call, with the first direction and cotangent that show the failure."""
    if not source.text:
        filled_in = "from your_package import your_function as function_under_test"
        head = f"# FILL IN how to get the function. {source.obstacle}\n{filled_in}"
        source = dataclasses.replace(source, text=head)
    try:
        return _written(call, failure, source, subject)
    except UnwritableError as error:
        text = f'"""{_title(subject, failure)}\n\nNot written: {error}.\n"""\n'
        return Written(text, str(error))


def _written(call: TensorCall, failure: Failure, source: Source, subject: str) -> Written:
    position = _accused(call, failure)
    output = _output(call, failure, position)
    parts = _Parts(call, failure, source, subject, position, output)
    probes = [*_probes(call.call.flat[position], output, failure)]
    obstacle = source.obstacle
    if failure.property not in _PROPERTIES and not failure.raised:
        obstacle = f"a difference quotient does not show what the property {failure.property!r} is about"
    elif failure.second:
        obstacle = "the finding is about the second derivative, and the file compares the first"
    elif source.expression != "function_under_test" or not source.obstacle:
        outcomes: list[str] = []
        for probe in probes:
            outcomes.append(_outcome(parts.text(probe)))
            if outcomes[-1] == (failure.raised or "AssertionError"):
                return Written(parts.text(probe), obstacle)
        raised = [outcome for outcome in outcomes if outcome not in ("", "AssertionError")]
        seen = f"it raised {raised[0]}" if raised else "it did not fail: no direction that was tried shows it clearly"
        obstacle = obstacle or f"run as it is, {seen}"
    return Written(parts.text(probes[0]), obstacle)


def _outcome(text: str) -> str:
    """The type of the exception that the test of a file ends with; empty if it passes."""
    names: dict[str, Any] = {"__name__": "gradproof_shrunk"}
    state = torch.random.get_rng_state()
    try:
        exec(compile(text, "<shrunk>", "exec"), names)
    except Exception as error:
        raise UnwritableError(f"the file could not be run here ({type(error).__name__}: {error})") from error
    try:
        names["test_directional_derivative"]()
    except Exception as error:
        return type(error).__name__
    finally:
        torch.random.set_rng_state(state)
    return ""


# the call


class _Output(NamedTuple):
    """The output under test, and how it is got from what the function returns."""

    tensor: torch.Tensor | None = None
    access: str = ""
    draws: bool = False
    """Whether the function draws random numbers."""
    connected: bool = True
    """Whether it has a graph that leads to the input under test."""


def _output(call: TensorCall, failure: Failure, position: int) -> _Output:
    """The output that the finding is about, the first differentiable one unless it says."""
    state = torch.random.get_rng_state()
    fresh = {i: _fresh(value) for i, value in enumerate(call.call.flat)}
    try:
        whole = call.call.replacing(fresh)()
    except Exception:
        return _Output()  # the finding is this exception
    finally:
        draws = not torch.equal(state, torch.random.get_rng_state())
        torch.random.set_rng_state(state)
    leaves, paths = flatten_outputs(whole), [*_paths(whole)]
    numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and is_floating(leaf)]
    chosen = failure.output if failure.output is not None else numbers[0]
    return _Output(leaves[chosen], paths[chosen], draws, _is_connected(leaves[chosen], fresh[position]))


def _is_connected(output: torch.Tensor, point: torch.Tensor) -> bool:
    if not output.requires_grad:
        return False
    try:
        found: tuple[Any, ...] = torch.autograd.grad(output, point, torch.ones_like(output), allow_unused=True)
    except Exception:
        return True  # what raises is the finding, or a cause of it
    return found[0] is not None


def _fresh(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _paths(output: Any) -> Iterator[str]:
    """How each leaf of what a function returned is got, in the order of `flatten_outputs`."""
    if isinstance(output, torch.Tensor):
        yield ""
    elif isinstance(output, Mapping):
        for key, value in cast(Mapping[Any, Any], output).items():
            yield from (f"[{key!r}]{rest}" for rest in _paths(value))
    elif isinstance(output, (tuple, list)):
        for k, value in enumerate(cast(tuple[Any, ...], output)):
            yield from (f"[{k}]{rest}" for rest in _paths(value))
    elif dataclasses.is_dataclass(output) and not isinstance(output, type):
        for field in dataclasses.fields(output):
            yield from (f".{field.name}{rest}" for rest in _paths(getattr(output, field.name)))
    elif isinstance(output, (set, frozenset)):
        raise UnwritableError("the function returns a set, of which no element can be named")
    else:
        yield ""


def _accused(call: TensorCall, failure: Failure) -> int:
    """The flat position of the input that the finding is about."""
    tested = [array for array in call.arrays() if array.tested]
    if isinstance(failure.input, str) or not tested:
        raise UnwritableError("the finding is about no argument of the function, and the file varies arguments only")
    own = [array.position for array in tested if array.origin == failure.input]
    names = call.call.names()
    named = [i for i in own if names[i] == failure.input_name]
    return (named or own or [array.position for array in tested])[0]


# direction and cotangent


def _probes(point: torch.Tensor, output: _Output, failure: Failure) -> Iterator[_Probe]:
    """The wrong entry alone, then all elements at once."""
    like = output.tensor
    cotangents = ["torch.ones(())"] if like is None else [*_vectors(like, failure.output_element)]
    directions = [*_vectors(point, failure.input_element)]
    for tolerance, seed in product(_TOLERANCES, _SEEDS if output.draws else (0,)):
        for direction, cotangent in product(directions, cotangents):
            yield _Probe(direction, cotangent, tolerance, seed)


def _vectors(like: torch.Tensor, element: tuple[int, ...] | None) -> Iterator[str]:
    """Vectors of the form of a tensor: a unit vector, ones, and numbers that are all different."""
    if like.layout is not torch.strided:
        raise UnwritableError(f"a tensor of layout {like.layout} is not written down")
    dtype, shape = like.dtype, tuple(like.shape)
    units = (1.0, 1.0j) if dtype.is_complex else (1.0,)
    for unit in units:
        if element is not None and like.numel() <= _FEW:
            vector = torch.zeros(shape, dtype=dtype)
            vector[element] = torch.tensor(unit, dtype=dtype)
            yield tensor_literal(vector)
        elif element is not None:
            put = f"index_put_({_indices(element)}, torch.tensor({unit}, dtype={dtype}))"
            yield f"torch.zeros({shape}, dtype={dtype}).{put}"
    for unit in units:
        yield f"torch.full({shape}, {unit}, dtype={dtype})"
    if like.numel() <= _FEW:
        spread = 1 + torch.arange(like.numel(), dtype=torch.float64).reshape(shape) / 4
        yield tensor_literal(spread.to(dtype))


def _indices(element: tuple[int, ...]) -> str:
    return "(" + "".join(f"torch.tensor({index}), " for index in element) + ")"


# the text


class _Parts:
    """What all versions of the file have in common."""

    def __init__(
        self,
        call: TensorCall,
        failure: Failure,
        source: Source,
        subject: str,
        position: int,
        output: _Output,
    ) -> None:
        self._failure, self._source, self._subject, self._output = failure, source, subject, output
        tensors = {i: value for i, value in enumerate(call.call.flat) if isinstance(value, torch.Tensor)}
        names = _variables(call, tensors)
        self._x = names[position]
        self._definitions = [
            f"{names[i]} = {tensor_literal(value)}" + (".requires_grad_()" if value.requires_grad else "")
            for i, value in tensors.items()
        ]
        known = {id(value): names[i] for i, value in tensors.items()}
        passed = [literal(value, known) for value in call.arguments]
        passed += [f"{name}={literal(value, known)}" for name, value in call.keywords.items()]
        root = source.expression.partition(".")[0]
        hidden = root != "torch" and (root in _RESERVED or root in names.values())  # by a name inside of the test
        self._alias = f"function_under_test = {source.expression}" if hidden else ""
        function = "function_under_test" if hidden else source.expression
        self._call = f"{function}({', '.join(passed)}){output.access}"
        point = tensors[position]
        self._low = point.dtype not in (torch.float64, torch.complex128)
        self._complex = point.is_complex() or (output.tensor is not None and output.tensor.is_complex())
        self._step = _step(point)

    def text(self, probe: _Probe) -> str:
        x, body = self._x, [*self._definitions]
        body += [f"u = {probe.direction}", f"v = {probe.cotangent}", ""]
        body += [f"def value({x}):"]
        body += [f"    torch.manual_seed({probe.seed})"] * self._output.draws
        body += [f"    return {self._call}", ""]
        body += self._forward() if self._failure.forward else self._reverse()
        body += ["", "def quotient(step):"]
        body += [f"    ahead, behind = value({x}.detach() + step * u), value({x}.detach() - step * u)"]
        body += [f"    return {self._inner('v', '(ahead.detach() - behind.detach())')} / (2 * step)", ""]
        body += [f"numeric, coarser = quotient({self._step!r}), quotient({2 * self._step!r})"]
        body += ["error = 10 * abs(numeric - coarser)"]
        body += [f"allowed = error + {probe.tolerance:g} * max(abs(analytic), abs(numeric))"]
        body += ["assert abs(analytic - numeric) <= allowed, (", '    f"the derivative along u is {numeric:.9g} by a "']
        body += ['    f"difference quotient (± {error:.1g}) and {analytic:.9g} by the derivative under test"', ")"]
        head = f'"""{_title(self._subject, self._failure)}\n\n{_remarks(self._source)}\n"""'
        imports = "from __future__ import annotations\n\nimport torch"
        code = re.sub(r"^import torch(\n|\Z)", "", self._source.text, flags=re.MULTILINE)
        test = "def test_directional_derivative() -> None:\n" + textwrap.indent("\n".join(body), "    ")
        test = re.sub(r"[ ]+$", "", test, flags=re.MULTILINE)
        parts = [f"{head}\n\n{imports}", code.strip("\n"), self._alias, test]
        return "\n\n\n".join(filter(None, parts)) + "\n"

    def _reverse(self) -> list[str]:
        lines = [f"output = value({self._x})"]
        if not self._output.connected:
            lines += [f"gradient = torch.zeros_like({self._x})", "if output.requires_grad:"]
            lines += [f"    (found,) = torch.autograd.grad(output, {self._x}, v, allow_unused=True)"]
            lines += ["    gradient = gradient if found is None else found"]
        else:
            lines += [f"(gradient,) = torch.autograd.grad(output, {self._x}, v)"]
        return [*lines, f"analytic = {self._inner('gradient', 'u')}"]

    def _forward(self) -> list[str]:
        return [
            "with torch.autograd.forward_ad.dual_level():",
            f"    dual = value(torch.autograd.forward_ad.make_dual({self._x}.detach(), u))",
            "    tangent = torch.autograd.forward_ad.unpack_dual(dual).tangent",
            f"analytic = 0.0 if tangent is None else {self._inner('v', 'tangent')}",
        ]

    def _inner(self, one: str, other: str) -> str:
        """The inner product as a float; of complex numbers the real part."""
        if self._complex:
            return f"({one}.conj() * {other}).real.sum().item()"
        return f"({one}.double() * {other}.double()).sum().item()" if self._low else f"({one} * {other}).sum().item()"


def _step(point: torch.Tensor) -> float:
    """A step that float64 resolves to eight digits; larger in lower precision, smaller for small values."""
    sizes = point.detach().abs().double()
    sizes = sizes[sizes > 0]
    scale = min(1.0, float(sizes.min())) if sizes.numel() else 1.0
    base = {torch.float64: 1e-4, torch.complex128: 1e-4, torch.float32: 1e-2, torch.complex64: 1e-2}
    return float(f"{base.get(point.dtype, 0.1) * scale:.1g}")


def _variables(call: TensorCall, tensors: Mapping[int, torch.Tensor]) -> dict[int, str]:
    """A name for each tensor: that of its parameter, where it has one."""
    names: dict[int, str] = {}
    for i, name in enumerate(call.call.names()):
        if i in tensors:
            plain = re.sub(r"\W+", "_", name).strip("_") or f"input_{i}"
            plain = f"{plain}_" if plain in _RESERVED or not plain.isidentifier() else plain
            names[i] = plain if plain not in names.values() else f"{plain}_{i}"
    return names


def _title(subject: str, failure: Failure) -> str:
    told = failure.headline.partition("\n")[0].rstrip(", ").replace("\\", "\\\\").replace('"""', "'''")
    kind = "raises" if failure.raised else "is wrong"
    return f"The derivative of {subject} {kind}.\n\n{textwrap.fill(told, 100)}"


def _remarks(source: Source) -> str:
    told = "Needs torch and pytest alone: run pytest on this file. It fails while the derivative is wrong."
    return textwrap.fill(f"{told} {source.obstacle}".strip(), 100)
