"""What is compiled of a jitted function is kept for the next check of it; any other function is traced anew."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import monitoring  # noqa: E402

import gradproof  # noqa: E402
from gradproof.results.report import Verdict  # noqa: E402

_compiled: list[str] = []


def _listen(event: str, _seconds: float, **_: Any) -> None:
    if event.endswith("backend_compile_duration"):
        _compiled.append(event)


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    monitoring.register_event_duration_secs_listener(_listen)
    _compiled.clear()
    yield
    monitoring.unregister_event_duration_listener(_listen)


class Cube:
    """x ** 3 with a bwd that is `factor` times too large; counts how often it is traced."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor, self.traces = factor, 0
        f = jax.custom_vjp(self.value)
        f.defvjp(lambda x: (x**3, x), lambda x, g: (self.factor * 3 * x**2 * g,))
        self.plain = f

    def value(self, x: Any) -> Any:
        self.traces += 1
        return x**3


X = np.linspace(0.5, 2.0, 7).astype(np.float32)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_second_check_of_a_jitted_function_compiles_nothing(dtype: Any) -> None:
    cube = Cube()
    f = jax.jit(cube.plain)
    assert gradproof.check(f, jnp.asarray(X, dtype), modes="reverse").verdict is Verdict.PASS
    traces = cube.traces
    assert _compiled
    _compiled.clear()
    report = gradproof.check(f, jnp.asarray(X + 0.25, dtype), modes="reverse", seed=3)
    assert report.verdict is Verdict.PASS
    assert not _compiled
    assert cube.traces == traces


def test_the_same_function_at_another_point_is_judged_there() -> None:
    f = jax.custom_vjp(jnp.sin)  # right for small numbers only
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.where(x < 3.0, jnp.cos(x), 0.5),))
    jitted = jax.jit(f)
    assert gradproof.check(jitted, jnp.asarray(X)).verdict is Verdict.PASS
    report = gradproof.check(jitted, jnp.asarray(X).at[4].set(4.0))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].input_element == (4,)
    assert gradproof.check(jitted, jnp.asarray(X)).verdict is Verdict.PASS


def test_functions_that_look_alike_are_not_taken_for_each_other() -> None:
    right, wrong = jax.jit(Cube().plain), jax.jit(Cube(1.1).plain)
    for _ in range(2):
        assert gradproof.check(right, jnp.asarray(X)).verdict is Verdict.PASS
        assert gradproof.check(wrong, jnp.asarray(X)).verdict is Verdict.FAIL


def test_what_is_not_jitted_is_traced_anew() -> None:
    cube = Cube()
    assert gradproof.check(cube.plain, jnp.asarray(X)).verdict is Verdict.PASS
    cube.factor = 1.1  # as the author of the bwd changes it, in a notebook say
    assert gradproof.check(cube.plain, jnp.asarray(X)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("first", "second"), [((2,), (3,)), ((0.0,), (-0.0,)), ((True,), (1,)), ((jnp.array(2),), (jnp.array(3),))]
)
def test_other_values_beside_the_arrays_are_other_functions(first: tuple[Any], second: tuple[Any]) -> None:
    """They are part of the trace: a check with the old ones would be a check of another function."""

    @jax.jit
    def power(x: Any, n: Any) -> Any:
        return x ** (n + 2)

    assert gradproof.check(power, (jnp.asarray(X), *first)).verdict is Verdict.PASS
    assert gradproof.check(power, (jnp.asarray(X), *second)).verdict is Verdict.PASS
    seen = gradproof.check(power, (jnp.asarray(X), *second), intended=lambda x, n: power(x, n), modes="reverse")
    assert seen.verdict is Verdict.PASS


def _pair(x: Any, y: Any) -> dict[str, Any]:
    return {"product": x * y, "sine": jnp.sin(x)}


@pytest.mark.parametrize("wrt", [None, [0], [1]])
def test_another_choice_of_inputs_and_orders_is_kept_apart(wrt: list[int] | None) -> None:
    f: Callable[..., Any] = jax.jit(_pair)
    x, y = jnp.asarray(X), jnp.asarray(X[::-1].copy())
    for order in (1, 2, 1):
        assert gradproof.check(f, (x, y), wrt=wrt, order=order).verdict is Verdict.PASS


class Named:
    """A container with data that cannot be hashed."""

    def __init__(self, value: Any, name: Any) -> None:
        self.value, self.name = value, name


jax.tree_util.register_pytree_node(Named, lambda n: ((n.value,), n.name), lambda name, values: Named(values[0], name))


@pytest.mark.parametrize("name", [["a", "b"], {"a": 1}])
def test_containers_that_cannot_be_hashed_are_no_obstacle(name: Any) -> None:
    f = jax.jit(lambda x: Named(jnp.sin(x), name))
    for _ in range(2):
        assert gradproof.check(f, jnp.asarray(X)).verdict is Verdict.PASS


def test_the_memory_of_a_checked_array_is_given_back() -> None:
    f = jax.jit(lambda x, y: jnp.tanh(x) * y)
    x, y = jnp.linspace(-1.0, 1.0, 1000), jnp.linspace(1.0, 2.0, 1000)
    alive = [weakref.ref(x), weakref.ref(y)]
    assert gradproof.check(f, (x, y), wrt=[0]).verdict is Verdict.PASS
    del x, y
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_clearing_the_caches_of_jax_is_honoured() -> None:
    cube = Cube()
    f = jax.jit(cube.plain)
    assert gradproof.check(f, jnp.asarray(X)).verdict is Verdict.PASS
    cube.factor = 1.1
    jax.clear_caches()
    assert gradproof.check(f, jnp.asarray(X)).verdict is Verdict.FAIL
