"""`gradproof.sweep`: one function at many inputs, of sizes around a block, dtypes, memory, some gradients only."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradproof.api import check
from gradproof.backends import Backend, Variation, Varied, as_arguments, dtypes_of_frameworks, find_backend
from gradproof.core.capabilities import MemoryLayout
from gradproof.results.called import name_of
from gradproof.results.report import Report
from gradproof.results.sweep import CaseReport, SweepReport

_LAYOUTS = {layout.name.lower(): layout for layout in MemoryLayout}
_DEFAULT_STRIDES = ("contiguous", "transposed", "sliced", "expanded")


@dataclass(frozen=True, slots=True)
class SweepCase:
    """One case of a sweep, by its name. Its inputs are made when it is checked."""

    name: str
    shape: Any
    variation: Variation
    make_inputs: Callable[..., Any] = field(repr=False)
    func: Callable[..., Any] = field(repr=False)
    reference: Callable[..., Any] | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def __name__(self) -> str:
        """The id that pytest gives to a test with this case."""
        return self.name

    def __str__(self) -> str:
        return self.name

    def varied(self) -> Varied:
        """The arguments in this variation, how many numbers they have, and what adapts a function to them."""
        arguments = _made(self.make_inputs, self.shape, self.variation.dtype)
        return find_backend(self.func, arguments, {}).vary(self.func, arguments, self.variation)

    def call(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments, as `gradproof.check` takes them, and as a case of the command line is."""
        varied = self.varied()
        return varied.adapted(self.func), varied.arguments

    def check(self) -> Report:
        """The report of `gradproof.check`, or of a comparison with the reference."""
        return _checked(self, self.varied())


def sweep(
    make_inputs: Callable[..., Any],
    func: Callable[..., Any],
    *,
    shapes: Iterable[Any] | None = None,
    block: int = 32,
    dtypes: Iterable[Any] | None = None,
    strides: str | Iterable[str] = _DEFAULT_STRIDES,
    some_gradients: bool = True,
    full: bool = False,
    reference: Callable[..., Any] | None = None,
    **options: Any,
) -> SweepReport:
    """Check `func` at the inputs that `make_inputs(shape)` gives for many shapes, in many variations.

    `shapes` may be sizes or tuples, whatever `make_inputs` takes; None: 1, 2, those around `block`, the number of
    elements that a kernel takes at a time, and primes beyond it. `dtypes` are what the inputs are converted to, by name
    or of the framework; None: as they are made. A `make_inputs` with a parameter `dtype` makes them itself. `strides`
    names how inputs lie in memory: "contiguous", "transposed", "sliced", "expanded" and "channels_last". With
    `some_gradients`, each input is also the only one that needs a gradient, and the only one that does not.

    Every shape is checked in every dtype. The memory and the gradients are varied at the shape in the middle, unless
    `full` asks for every combination. With a `reference`, each case is a `gradproof.torch.compare`, else a
    `gradproof.check`; `options` are theirs, such as `seconds=`, for each case.

    Inputs of which none requires a gradient all do. No case raises for a wrong derivative: the report has the smallest
    that fails first.

    >>> import torch
    >>> report = sweep(lambda n: torch.rand(n, dtype=torch.float64), torch.sin, block=4)
    >>> report.ok, len(report.cases)
    (True, 9)
    >>> def wrong_tail(x):
    ...     return torch.cat([x[:4].sin(), x[4:].detach().sin()])
    >>> sweep(lambda n: torch.rand(n, dtype=torch.float64), wrong_tail, block=4).cases[0].name
    'size 5'
    """
    cases = sweep_cases(
        make_inputs,
        func,
        shapes=shapes,
        block=block,
        dtypes=dtypes,
        strides=strides,
        some_gradients=some_gradients,
        full=full,
        reference=reference,
        **options,
    )
    return SweepReport.of(name_of(func), [_reported(case) for case in cases])


def sweep_cases(
    make_inputs: Callable[..., Any],
    func: Callable[..., Any],
    *,
    shapes: Iterable[Any] | None = None,
    block: int = 32,
    dtypes: Iterable[Any] | None = None,
    strides: str | Iterable[str] = _DEFAULT_STRIDES,
    some_gradients: bool = True,
    full: bool = False,
    reference: Callable[..., Any] | None = None,
    **options: Any,
) -> list[SweepCase]:
    """The cases of a `sweep`, to be checked one by one: for `pytest.mark.parametrize`, whose ids are their names.

    >>> import torch
    >>> cases = sweep_cases(lambda n: torch.rand(n), torch.sin, shapes=[1, 5], dtypes=["float64"], strides="contiguous")
    >>> [case.name for case in cases]
    ['size 1, float64', 'size 5, float64']
    >>> cases[0].check().ok
    True
    """
    sizes = _sizes_around(block) if shapes is None else list(shapes)
    if not sizes:
        raise ValueError("shapes is empty: there is nothing to sweep over")
    middle = sizes[(len(sizes) - 1) // 2]
    kinds, arguments, backend = _understood(func, make_inputs, middle, dtypes)
    labels = backend.tested_labels(func, arguments)
    layouts = [each for each in _named_layouts(strides) if each in _all_of(backend.memory_layouts(arguments))]
    gradients = _subsets(len(labels)) if some_gradients else []
    first = layouts[0]
    plain = [(shape, Variation(dtype, first)) for shape in sizes for dtype in kinds]
    in_memory = [Variation(dtype, layout) for dtype in kinds for layout in layouts[1:]]
    of_some = [Variation(kinds[0], first, chosen) for chosen in gradients]
    if full:
        every = [Variation(d, layout, some) for d in kinds for layout in layouts for some in (None, *gradients)]
        chosen_cases = [(shape, variation) for shape in sizes for variation in every]
    else:
        chosen_cases = [*plain, *((middle, variation) for variation in (*in_memory, *of_some))]
    return [
        SweepCase(_name(shape, variation, labels), shape, variation, make_inputs, func, reference, options)
        for shape, variation in chosen_cases
    ]


def _sizes_around(block: int) -> list[int]:
    """1 and 2, those around a block, and primes beyond it and beyond two."""
    if block < 1:
        raise ValueError(f"block must be a whole number > 0, got {block!r}")
    beside = {1, 2, block - 1, block, block + 1, _prime_above(block + 1), _prime_above(2 * block)}
    return sorted(beside - {0})


def _prime_above(number: int) -> int:
    candidate = number + 1
    while any(candidate % factor == 0 for factor in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate


def _subsets(count: int) -> list[tuple[int, ...]]:
    """Each alone, and all but each."""
    if count < 2:
        return []
    alone = [(k,) for k in range(count)]
    others = [tuple(k for k in range(count) if k != left_out) for left_out in range(count)] if count > 2 else []
    return [*alone, *others]


def _named_layouts(strides: str | Iterable[str]) -> list[MemoryLayout]:
    names = [strides] if isinstance(strides, str) else list(strides)
    unknown = [name for name in names if name not in _LAYOUTS]
    if unknown or not names:
        what = f"unknown strides {unknown}" if unknown else "strides is empty"
        raise ValueError(f"{what}: choose from {list(_LAYOUTS)}")
    return [_LAYOUTS[name] for name in names]


def _all_of(possible: frozenset[MemoryLayout]) -> frozenset[MemoryLayout]:
    return possible | {MemoryLayout.CONTIGUOUS}


def _name(shape: Any, variation: Variation, labels: Sequence[str]) -> str:
    parts = [f"size {shape}" if isinstance(shape, int) else f"shape {shape}"]
    if variation.dtype is not None:
        parts.append(str(variation.dtype).rpartition(".")[2])
    if variation.layout is not MemoryLayout.CONTIGUOUS:
        parts.append(variation.layout.name.lower())
    if variation.gradients is not None:
        parts.append(f"gradient of {' and '.join(labels[k] for k in variation.gradients)} only")
    return ", ".join(parts)


def _understood(
    func: Callable[..., Any], make_inputs: Callable[..., Any], shape: Any, dtypes: Iterable[Any] | None
) -> tuple[list[Any], tuple[Any, ...], Backend]:
    """The dtypes, inputs of the first one, and their backend: names of dtypes may be those of several frameworks."""
    if dtypes is None:
        arguments = _made(make_inputs, shape, None)
        return [None], arguments, find_backend(func, arguments, {})
    named = list(dtypes)
    if not named:
        raise ValueError("dtypes is empty: name some, or leave it out for what make_inputs makes")
    failed: Exception | None = None
    for kinds in dtypes_of_frameworks(named):
        try:
            arguments = _made(make_inputs, shape, kinds[0])
            backend = find_backend(func, arguments, {})
        except Exception as error:  # a dtype of another framework than make_inputs is of
            failed = failed or error
            continue
        if not isinstance(named[0], str) or backend.dtype_of(named[0]) == kinds[0]:
            return kinds, arguments, backend
    raise failed or ValueError(f"make_inputs makes no arrays of a framework that knows {named}")


def _made(make_inputs: Callable[..., Any], shape: Any, dtype: Any) -> tuple[Any, ...]:
    """The inputs of a shape; where `make_inputs` has a parameter `dtype`, of that dtype."""
    takes_dtype = dtype is not None and "dtype" in inspect.signature(make_inputs).parameters
    return as_arguments(make_inputs(shape, dtype=dtype) if takes_dtype else make_inputs(shape))


def _reported(case: SweepCase) -> CaseReport:
    try:
        varied = case.varied()
        return CaseReport(case.name, varied.elements, _checked(case, varied))
    except Exception as error:
        error.add_note(f"in the case of the sweep: {case.name}")
        raise


def _checked(case: SweepCase, varied: Varied) -> Report:
    function, options = varied.adapted(case.func), dict(case.options)
    if case.reference is not None:
        compare = importlib.import_module("gradproof.torch").compare
        return compare(function, varied.adapted(case.reference), varied.arguments, **options)
    if options.get("intended") is not None:
        options["intended"] = varied.adapted(options["intended"])
    return check(function, varied.arguments, **options)
