"""What a check of a JAX function covers, names, compiles and leaves alone."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_derivatives import SymbolicZero

import gradproof
from gradproof.core.problem import NothingToCheckError

X = np.array([0.4, -0.7, 1.3], np.float32)


@pytest.fixture
def x() -> jax.Array:
    return jnp.asarray(X)


def custom(bwd: Any) -> Any:
    """sin by a custom_vjp."""
    f = jax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (jnp.sin(x), x), bwd)
    return f


# names and coverage


def test_leaves_are_named_by_their_paths(x: Any) -> None:
    params = {"dense": {"kernel": jnp.eye(3) + 0.1, "bias": x}}
    report = gradproof.check(
        lambda params, x: {"out": params["dense"]["kernel"] @ x + params["dense"]["bias"]}, (params, x)
    )
    assert report.ok
    assert report.covered == ("input 0 `params['dense']['bias']`", "input 0 `params['dense']['kernel']`", "input 1 `x`")
    assert [block.label for block in report.outputs] == ["output 0 `['out']`"]


def test_keywords_and_none_have_places(x: Any) -> None:
    report = gradproof.check(lambda x, mask=None, *, w: x * w["a"] if mask is None else x, (x, None), {"w": {"a": x}})
    assert report.ok
    assert report.covered == ("input 0 `x`", "input 2 `w['a']`")


def test_methods_that_are_wrapped_have_their_own_names(x: Any) -> None:
    """As `apply` of a module of flax is."""

    class Module:
        @functools.wraps(lambda self, variables, x: None)
        def apply(self, *args: Any) -> Any:
            return args[0]["w"] * args[1]

    report = gradproof.check(Module().apply, ({"w": x}, x), modes="reverse")
    assert report.covered == ("input 0 `variables['w']`", "input 1 `x`")


def test_what_is_not_differentiable_is_listed(x: Any) -> None:
    def f(x: Any, key: Any, n: int, labels: Any) -> Any:
        return x**n + jax.random.normal(key, (3,)) + labels, jnp.argmax(x)

    report = gradproof.check(f, (jnp.abs(x), jax.random.key(0), 3, jnp.arange(3)))
    assert report.ok
    for sentence in (
        "input 1 `key` (a PRNG key, not differentiable)",
        "input 2 `n` (int, not differentiable)",
        "input 3 `labels` (int32, not differentiable)",
        "output 1 (int32, not differentiable)",
    ):
        assert sentence in report.not_covered


def test_what_jax_has_no_notion_of_is_said_in_its_words(x: Any) -> None:
    said = " ".join(gradproof.check(jnp.sin, x).not_covered)
    assert "mutation (JAX's arrays are immutable)" in said
    assert "layout (XLA arranges the memory of arrays: no rule sees it)" in said
    assert "backend" not in said


def test_inputs_can_be_selected_by_name_and_number(x: Any) -> None:
    report = gradproof.check(lambda a, b: a["u"] * a["v"] * b, ({"u": x, "v": x}, x), wrt=("a['u']", 1))
    assert report.ok
    assert report.covered == ("input 0 `a['u']`", "input 1 `b`")
    assert "input 0 `a['v']` (not selected by wrt)" in report.not_covered


def test_numpy_arrays_are_taken_by_functions_of_jax() -> None:
    report = gradproof.check(jax.jit(jnp.sin), X.astype(np.float64))
    assert report.ok
    assert any("is float64, which JAX takes as float32" in note for note in report.notes)


@pytest.mark.parametrize(
    ("function", "inputs"), [(jnp.sum, jnp.arange(3)), (jnp.argmax, jnp.ones(3)), (jnp.sum, jnp.ones((0, 3)))]
)
def test_nothing_to_check_is_an_error(function: Any, inputs: Any) -> None:
    with pytest.raises(NothingToCheckError, match="nothing to check"):
        gradproof.check(function, inputs)


def test_tracers_are_refused(x: Any) -> None:
    with pytest.raises(TypeError, match="call it outside"):
        jax.jit(lambda x: gradproof.check(jnp.sin, x))(x)


def test_an_exception_of_the_function_is_a_finding(x: Any) -> None:
    report = gradproof.check(lambda x: x.no_such_thing, x)
    assert report.findings[0].status.name == "RAISED"
    assert "no_such_thing" in report.findings[0].headline


# modes


def test_forward_mode_of_a_custom_vjp_is_not_covered(x: Any) -> None:
    report = gradproof.check(custom(lambda x, g: (jnp.cos(x) * g,)), x)
    assert report.ok
    assert [mode.value for mode in report.modes] == ["reverse"]
    assert any(said.startswith("forward mode (it is a custom_vjp function") for said in report.not_covered)


def test_a_bwd_that_raises_is_reported(x: Any) -> None:
    report = gradproof.check(custom(lambda x, g: (jnp.cos(x) * g[:2] * jnp.ones(2),)), x)
    assert report.verdict is gradproof.Verdict.FAIL
    assert report.findings[0].status.name == "RAISED"


def test_a_cotangent_of_another_dtype_is_named(x: Any) -> None:
    """JAX takes it."""
    report = gradproof.check(custom(lambda x, g: ((jnp.cos(x) * g).astype(jnp.float32),)), x.astype(jnp.bfloat16))
    (finding,) = [finding for finding in report.findings if finding.property == "dtypes"]
    assert finding.headline == "A gradient has another dtype: input 0 `x` has dtype bfloat16, its gradient float32."


@pytest.mark.parametrize("cotangent", [lambda g: g[:2], lambda g: (g, g)])
def test_jax_refuses_cotangents_of_another_form(x: Any, cotangent: Any) -> None:
    report = gradproof.check(custom(lambda x, g: (cotangent(jnp.cos(x) * g),)), x)
    assert report.findings[0].status.name == "RAISED"
    assert report.findings[0].cause is not None


def test_reverse_mode_of_a_while_loop_is_not_covered(x: Any) -> None:
    def loop(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1]

    report = gradproof.check(loop, x)
    assert report.ok
    assert [mode.value for mode in report.modes] == ["forward"]
    assert any(
        said.startswith("reverse mode (Reverse-mode differentiation does not work") for said in report.not_covered
    )


# complex numbers


@pytest.mark.parametrize(
    "function", [lambda z: z**2, lambda z: jnp.conj(z) * z**2, lambda z: jnp.abs(z), lambda z: jnp.exp(z).imag]
)
def test_complex_functions_pass_to_second_order(function: Any) -> None:
    report = gradproof.check(function, jnp.array([0.4 + 0.3j, -0.7 + 1.1j]), order=2)
    assert report.ok, str(report)


def test_the_hessian_of_a_complex_input_is_symmetric() -> None:
    report = gradproof.check(lambda z: (z * jnp.conj(z) * z).real.sum(), jnp.array([0.4 + 0.3j, 1.0j]), order=2)
    assert report.ok, str(report)


# precision


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_low_precision_has_a_twin(x: Any, dtype: Any) -> None:
    report = gradproof.check(lambda x, c: jnp.tanh(x) * c, (x.astype(dtype), jnp.asarray(X, dtype)), wrt=0)
    assert report.ok
    assert any("checked in float64" in note for note in report.notes)
    assert not jax.config.read("jax_enable_x64")


@pytest.mark.parametrize(("error", "verdict"), [(1e-5, gradproof.Verdict.PASS), (1e-4, gradproof.Verdict.FAIL)])
def test_through_the_twin_float32_is_judged_by_its_digits(error: float, verdict: gradproof.Verdict) -> None:
    x = jax.random.normal(jax.random.key(0), (300,))

    def bwd(x: Any, g: Any) -> Any:
        return (g * jnp.cos(x) * jnp.ones(300, x.dtype).at[123].add(error),)

    report = gradproof.check(custom(bwd), x, modes="reverse")
    assert report.verdict is verdict
    assert [finding.input_element for finding in report.findings] == ([(123,)] if error == 1e-4 else [])


@pytest.mark.parametrize("inside", [jnp.float32, jnp.bfloat16])
def test_what_rounds_inside_is_no_twin(inside: Any) -> None:
    x = jax.random.normal(jax.random.key(0), (20,))
    for function in (lambda x: jnp.sin(x.astype(inside)).astype(x.dtype), lambda x: jnp.sin(x).astype(inside) * 1.0):
        report = gradproof.check(function, x, modes="reverse")
        assert not any("float64" in note for note in report.notes)
        assert report.verdict is not gradproof.Verdict.FAIL


def test_a_jitted_function_is_not_evaluated_twice_at_the_point() -> None:
    x, calls = jnp.arange(1.0, 4.0), list[Any]()

    def counted(x: Any) -> Any:
        return jax.pure_callback(lambda x: (calls.append(np.array(x)), np.sin(x))[1], x, x, vmap_method="sequential")

    function = jax.custom_vjp(counted)
    function.defvjp(lambda x: (counted(x), x), lambda x, g: (g * jnp.cos(x),))
    evaluations = []
    for each in (function, jax.jit(function)):
        report = gradproof.check(each, x, modes="reverse")
        assert report.ok, str(report)
        evaluations.append(report.cost.evaluations)
    assert evaluations[1] == evaluations[0] - 1


def test_a_placed_array_has_a_twin_too(x: Any) -> None:
    report = gradproof.check(jnp.sin, jax.device_put(x, jax.devices()[0]))
    assert any("checked in float64" in note for note in report.notes)


def test_a_function_of_one_precision_is_judged_in_it(x: Any) -> None:
    report = gradproof.check(lambda x: jnp.sin(x.astype(jnp.float32)) * 2, x)
    assert report.ok
    assert not any("checked in float64" in note for note in report.notes)


def test_a_wrong_factor_is_seen_in_one_precision_alone(x: Any) -> None:
    def only_single(x: Any) -> Any:
        return jnp.sin(x.astype(jnp.float32))

    f = jax.custom_vjp(only_single)
    f.defvjp(lambda x: (only_single(x), x), lambda x, g: ((1.5 * jnp.cos(x) * g).astype(x.dtype),))
    report = gradproof.check(f, x)
    assert report.verdict is gradproof.Verdict.FAIL


def test_kinks_are_kinks() -> None:
    report = gradproof.check(jnp.abs, jnp.array([0.0, 1.0, -1.0]))
    assert report.ok
    assert any(finding.status.name == "KINK" and finding.input_element == (0,) for finding in report.findings)


# compilation


def counted(function: Any) -> tuple[Any, list[Any]]:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return function(x)

    return f, calls


def test_the_function_is_traced_once(x: Any) -> None:
    f, calls = counted(jnp.sin)
    with jax.enable_x64(True):
        report = gradproof.check(f, jnp.asarray(X, jnp.float64))
    assert report.cost.evaluations > 5
    assert report.cost.vjps > 2
    assert len(calls) == 2  # as it is, and traced
    calls.clear()
    gradproof.check(f, x)
    assert len(calls) == 3  # and traced in double precision


def test_a_function_that_cannot_be_traced_is_called(x: Any) -> None:
    report = gradproof.check(lambda x: jnp.sin(x) if x[0] > 0 else x, x)
    assert report.ok
    assert [note for note in report.notes if "cannot be traced by jax.jit" in note]
    wrong = gradproof.check(lambda x: x * lax.stop_gradient(x) if x[0] > 0 else x, x)
    assert wrong.findings[0].property == "jacobian"


def test_a_function_that_compiles_to_other_values_is_called(x: Any) -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x) * (1.0 if isinstance(x, jax.core.Tracer) else 2.0)

    report = gradproof.check(f, x)
    assert [note for note in report.notes if note.startswith("compiled, the function gives other values")]


def test_jitted_functions_and_static_arguments(x: Any) -> None:
    f = jax.jit(lambda x, n: x**n, static_argnums=1)
    assert gradproof.check(f, (jnp.abs(x), 3)).ok


# what is left alone


def test_donated_arrays_are_still_there(x: Any) -> None:
    y = x + 1
    assert gradproof.check(jax.jit(lambda x, y: x * y, donate_argnums=0), (x, y), wrt="y").ok
    assert not x.is_deleted()
    assert not y.is_deleted()


def test_random_states_are_put_back(x: Any) -> None:
    np.random.seed(3)
    random.seed(3)
    before = np.random.get_state()[1].tolist(), random.getstate()
    assert gradproof.check(lambda x: x * np.random.rand() * random.random(), x).ok
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before


def test_effects_are_left_alone(x: Any) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        jax.debug.callback(seen.append, x[0])
        return jnp.sin(x)

    assert gradproof.check(f, x).ok
    assert seen


def test_callbacks_into_numpy(x: Any) -> None:
    def sine(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    f = jax.custom_vjp(sine)
    f.defvjp(lambda x: (sine(x), x), lambda x, g: (jnp.cos(x) * g,))
    assert gradproof.check(f, x).ok


# further questions


def test_the_intended_function_is_what_counts(x: Any) -> None:
    def rounded(x: Any) -> Any:
        return x + lax.stop_gradient(jnp.round(x) - x)

    assert gradproof.check(rounded, x, intended=lambda x: x).ok
    assert not gradproof.check(rounded, x, intended=lambda x: 2 * x).ok
    with pytest.raises(NothingToCheckError, match="the same outputs"):
        gradproof.check(rounded, x, intended=lambda x: x.sum())


def test_rules_are_batched_if_asked(x: Any) -> None:
    report = gradproof.check(jnp.sin, x, properties=("batched_reverse", "batched_forward"))
    assert report.ok


def test_a_rule_that_cannot_be_batched_is_named(x: Any) -> None:
    def unbatched(x: Any, g: Any) -> Any:
        return jax.pure_callback(
            lambda x, g: np.cos(x) * g, jax.ShapeDtypeStruct(x.shape, x.dtype), x, g, vmap_method=None
        )

    report = gradproof.check(custom(lambda x, g: (unbatched(x, g),)), x, properties=("jacobian", "batched_reverse"))
    assert [finding.property for finding in report.findings] == ["batched_reverse"]
    assert "custom_vmap" in report.findings[0].hint


def test_many_rows_go_through_vmap() -> None:
    """Every entry of a Jacobian with more columns than a batch needs."""
    with jax.enable_x64(True):
        x = jnp.linspace(-1.0, 1.0, 600)
        f, calls = counted(lambda x: jnp.sin(x))
        report = gradproof.check(f, x, strategy="entries", modes="reverse")
    assert report.ok
    assert len(calls) == 2


def test_symbolic_zeros_are_asked_only_where_a_rule_takes_them(x: Any) -> None:
    asked: list[bool] = []

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x), 2 * x

    def bwd(x: Any, gs: Any) -> Any:
        asked.append(any(isinstance(g, SymbolicZero) for g in gs))
        a, b = (0.0 if isinstance(g, SymbolicZero) else g for g in gs)
        return (a * jnp.cos(x) + 2 * b,)

    f.defvjp(lambda x: (f(x.value), x.value), bwd, symbolic_zeros=True)
    report = gradproof.check(f, x)
    assert report.ok
    assert any(asked)
    assert not [said for said in report.not_covered if "undefined" in said]


def test_a_budget_is_kept(x: Any) -> None:
    report = gradproof.check(jnp.sin, jnp.linspace(-1, 1, 50), budget=6)
    assert report.verdict is gradproof.Verdict.INCONCLUSIVE
    assert report.cost.evaluations <= 6


def test_the_second_derivative_of_a_scalar_is_symmetric(x: Any) -> None:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.prod(x)

    f.defjvp(lambda p, t: (f(p[0]), jnp.sum(t[0] * f(p[0]) / p[0])))
    assert gradproof.check(f, x, order=2).ok


def test_reports_render(x: Any, tmp_path: Any) -> None:
    report = gradproof.check(custom(lambda x, g: (1.1 * jnp.cos(x) * g,)), x)
    report.to_html(tmp_path / "report.html")
    assert '"jax"' in report.to_json()
    assert "1.1" in str(report)


def test_a_sweep_over_dtypes(x: Any) -> None:
    def make_inputs(n: int) -> Any:
        return jnp.linspace(0.2, 1.0, n), jnp.linspace(1.0, 2.0, n)

    swept = gradproof.sweep(make_inputs, lambda x, y: jnp.tanh(x) * y, shapes=[1, 3], dtypes=["float32", "bfloat16"])
    assert swept.ok, str(swept)
    assert len(swept.cases) > 4


def test_without_torch() -> None:
    """A machine without torch and optree, as far as imports can tell."""
    code = """
import sys
for name in ("torch", "optree"):
    sys.modules[name] = None
import jax.numpy as jnp, gradproof, gradproof.jax
report = gradproof.check(lambda p, x: p["w"] * jnp.sin(x), ({"w": jnp.ones(3)}, jnp.ones(3)))
assert report.ok, report
gradproof.jax.check_grads(jnp.sin, (jnp.ones(3),), order=1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_output_of_a_class_that_every_call_makes_anew(x: Any) -> None:
    def pair(x: Any) -> Any:
        class Pair(NamedTuple):
            first: Any
            second: Any

        return Pair(jnp.sin(x), x**2)

    assert gradproof.check(pair, x).ok
