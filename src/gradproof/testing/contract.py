"""The contract of a Problem, law by law: what `evaluate`, `vjp` and `jvp` owe to those who ask them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradproof.core.capabilities import Batching
from gradproof.core.draws import random_probe
from gradproof.core.problem import Apply, Problem
from gradproof.core.types import Vector

# Relative to the largest number: what round-off may come to here. Laws are broken by more.
_CLOSE = 1e-6
_NEARBY = 2.0**-12


def violations(problem: Problem) -> list[str]:
    """The laws that a Problem breaks, in words; none, if it keeps the contract.

    The derivative should be right: whether it is, is for `gradproof.check` to say.

    >>> from gradproof.core.space import vector_space
    >>> x = np.array([0.5, 2.0])
    >>> spaces = {"inputs": vector_space("input", 2), "outputs": vector_space("output", 2)}
    >>> kept = Problem(point=x, value=x**2, evaluate=lambda x: x**2, vjp=lambda v: 2 * x * v, **spaces)
    >>> violations(kept)
    []
    >>> forgets = Problem(point=x, value=x**2, evaluate=lambda x: x**2 + 1, vjp=lambda v: 2 * x * v, **spaces)
    >>> violations(forgets)
    ['evaluate(point) is not `value`']
    """
    for law in FORMS:
        broken = list(law(problem))
        if broken:  # the others cannot be asked
            return broken
    return [sentence for law in LAWS for sentence in law(problem)]


def _forms(problem: Problem) -> Iterator[str]:
    pairs = (("point", problem.point, problem.inputs), ("value", problem.value, problem.outputs))
    for name, array, space in pairs:
        if not _is_vector(array, space.size):
            yield f"`{name}` is no flat float64 array of {space.size} coordinates"
        starts = [block.start for block in space.blocks]
        if starts != [0, *(block.stop for block in space.blocks[:-1])][: len(starts)]:
            yield f"the blocks of the {space.blocks[0].kind}s do not follow one another"


def _value(problem: Problem) -> Iterator[str]:
    if problem.evaluates_in is None and not _near(problem.evaluate(problem.point.copy()), problem.value, problem):
        yield "evaluate(point) is not `value`"


def _answers(problem: Problem) -> Iterator[str]:
    """Every answer is a new flat array of float64; the question is left as it was."""
    for name, apply, asked, size in _questions(problem):
        question = asked.copy()
        answer = apply(question)
        if not _is_vector(answer, size):
            yield f"{name} does not return a flat float64 array of {size} coordinates"
            continue
        if not np.array_equal(question, asked):
            yield f"{name} writes to what it is given"
        kept = answer.copy()
        apply(0.5 * asked if name != "evaluate" else asked + 0.0)
        if not np.array_equal(answer, kept, equal_nan=True):
            yield f"{name} returns memory that its next call writes to"


def _memory(problem: Problem) -> Iterator[str]:
    """Nothing is remembered: after a look elsewhere, everything is as before."""
    before = [(name, apply, asked, apply(asked.copy())) for name, apply, asked, _ in _questions(problem)]
    shifted = problem.point + _NEARBY * problem.scale() * random_probe(len(problem.point), 5)
    for name, apply, asked, answer in before:
        for point in (np.full_like(problem.point, np.nan), shifted):
            with contextlib.suppress(Exception):  # a point may be refused
                problem.evaluate(point)
        if not _near(apply(asked.copy()), answer, problem):
            yield f"{name} depends on where the function was evaluated last"


def _linear(problem: Problem) -> Iterator[str]:
    for name, apply, asked, _ in _questions(problem):
        if name != "evaluate" and not _near(apply(-2.0 * asked), -2.0 * apply(asked.copy()), problem):
            yield f"{name} is not linear"


def _adjoint(problem: Problem) -> Iterator[str]:
    if problem.vjp is None or problem.jvp is None:
        return
    v, u = random_probe(problem.outputs.size, 0), random_probe(problem.inputs.size, 1)
    left, right = v * problem.jvp(u.copy()), problem.vjp(v.copy()) * u
    if abs(left.sum() - right.sum()) > _CLOSE * max(np.abs(left).sum(), np.abs(right).sum()):
        yield "<v, jvp(u)> is not <vjp(v), u>: they are not transposes of each other (is a conjugate missing?)"


def _states(problem: Problem) -> Iterator[str]:
    before = random.getstate(), np.random.get_state(legacy=False)
    for _, apply, asked, _ in _questions(problem):
        apply(asked.copy())
    after = random.getstate(), np.random.get_state(legacy=False)
    if before[0] != after[0] or str(before[1]) != str(after[1]):
        yield "the random state of Python or NumPy is another one after a call"


def _capabilities(problem: Problem) -> Iterator[str]:
    for kind, offered in problem.capabilities.items():
        if not isinstance(offered, kind):
            yield f"the capability {kind.__name__} is a {type(offered).__name__}"
    batching = problem.capability(Batching)
    rows: list[tuple[str, Any, Apply | None, int]] = []
    if batching is not None:
        rows = [
            ("vjp", batching.vjp, problem.vjp, problem.outputs.size),
            ("jvp", batching.jvp, problem.jvp, problem.inputs.size),
        ]
    for name, batched, plain, size in rows:
        if batched is None or plain is None:
            continue
        asked = np.stack([random_probe(size, seed) for seed in (0, 1)])
        try:
            answers = batched(asked.copy())
        except Exception:  # not everything can be batched
            continue
        if not all(_near(answer, plain(row), problem) for answer, row in zip(answers, asked, strict=True)):
            yield f"a batch of {name}s is not what plain calls give"


Law = Callable[[Problem], Iterator[str]]
FORMS: tuple[Law, ...] = (_forms, _answers)
"""What an answer looks like."""
LAWS: tuple[Law, ...] = (
    _value,
    _memory,
    _linear,
    _adjoint,
    _states,
    _capabilities,
)


def _questions(problem: Problem) -> Iterator[tuple[str, Apply, Vector, int]]:
    """Each function of a Problem: its name, itself, something to ask, and how many numbers the answer has."""
    yield "evaluate", problem.evaluate, problem.point, problem.outputs.size
    if problem.vjp is not None:
        yield "vjp", problem.vjp, random_probe(problem.outputs.size, 2), problem.inputs.size
    if problem.jvp is not None:
        yield "jvp", problem.jvp, random_probe(problem.inputs.size, 3), problem.outputs.size


def _is_vector(array: Any, size: int) -> bool:
    return type(array) is np.ndarray and (str(array.dtype), array.shape) == ("float64", (size,))


def _near(one: Vector, other: Vector, problem: Problem) -> bool:
    close = max(_CLOSE, problem.coarsest_eps**0.5)
    largest = float(np.nanmax(np.abs(other), initial=0.0))
    return bool(np.allclose(one, other, rtol=0.0, atol=close * largest, equal_nan=True))
