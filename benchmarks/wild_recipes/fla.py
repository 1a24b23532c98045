"""fla-core: kernels of Triton, in float32, through the interpreter."""

import importlib

import torch

from wild_recipes.recipe import MUTATION, SURROGATE, Recipe, between, plain, single

TRITON = True


def function(module, name):
    found = getattr(importlib.import_module(f"fla.{module}"), name)
    return getattr(found, "apply", found)


def of(module, name, *shapes, after=()):
    """A Function of tensors with these shapes, and constants behind them."""

    def make():
        apply = function(module, name)
        return lambda *inputs: apply(*inputs, *after), tuple(single(*shape) for shape in shapes)

    return make


def activation(name, *shapes, after=()):
    return of("modules.activations.ops", name, *shapes, after=after)


def decay(*shape):
    """Logarithms of decays: negative."""
    return between(-2.0, -0.1, *shape, dtype=torch.float32)


def recurrent(module, name, gates, final=True, length=3):
    """A recurrent form of linear attention, with an initial state and, if asked for, the final one."""

    def make():
        run = function(module, name)
        q, k, v = single(1, length, 1, 4), single(1, length, 1, 4), single(1, length, 1, 4)
        made = {gate: shape() for gate, shape in gates.items()}

        def call(q, k, v, state, *values):
            extra = dict(zip(made, values, strict=True))
            out, last = run(q=q, k=k, v=v, initial_state=state, output_final_state=final, **extra)
            return (out, last) if final else out

        return call, (q, k, v, single(1, 1, 4, 4), *made.values())

    return make


def rwkv6(final, length=3, width=4):
    def make():
        run = function("ops.rwkv6", "fused_recurrent_rwkv6")

        def call(r, k, v, w, u, state):
            out, last = run(r, k, v, w, u, initial_state=state, output_final_state=True)
            return (out, last) if final else out

        shape = (1, length, 1, width)
        parts = (single(*shape), single(*shape), single(*shape), decay(*shape), single(1, width))
        return call, (*parts, single(1, 1, width, width))

    return make


def rwkv4():
    apply = function("ops.rwkv4.fused_recurrent", "FusedRecurrentRWKV4Function")
    state = torch.randn(1, 3, 1, 4).abs()
    return lambda w, u, k, v: apply(w, u, k, v, state)[0], (decay(4), single(4), single(1, 3, 4), single(1, 3, 4))


def hgrn():
    run = function("ops.hgrn", "fused_recurrent_hgrn")
    return lambda x, g: run(x, g)[0], (single(1, 5, 6), decay(1, 5, 6))


def addcmul():
    run = function("ops.rwkv7.fused_addcmul", "fused_addcmul_rwkv7")
    return run, (single(1, 3, 4), single(1, 3, 4), *(single(1, 1, 4) for _ in range(6)))


def layer_norm(residual, **options):
    def make():
        run = function("modules.layernorm", "layer_norm")
        if residual:
            return lambda x, w, b, r: run(x, w, b, residual=r, **options), (
                single(3, 7),
                single(7),
                single(7),
                single(3, 7),
            )
        return lambda x, w, b: run(x, w, b, **options), (single(3, 7), single(7), single(7))

    return make


def gated_norm():
    apply = function("modules.norm.fused_norm_gate", "LayerNormGatedFunction")
    return lambda x, g, w, b: apply(x, g, w, b, "swish"), (single(3, 7), single(3, 7), single(7), single(7))


def rotary(inplace):
    def make():
        run = function("modules.rotary.ops", "RotaryEmbeddingFunction")
        angle = torch.rand(3, 2)
        cos, sin = angle.cos(), angle.sin()
        return lambda x: run(x, cos, sin, False, inplace), (single(1, 3, 2, 4),)

    return make


def cross_entropy(inplace, **options):
    def make():
        apply = function("modules.fused_cross_entropy.ops", "FusedCrossEntropyFunction")
        target = torch.tensor([0, 4, 2])
        smoothing = options.get("smoothing", 0.0)
        return lambda x: apply(x, target, smoothing, 1.0, 0.0, None, -100, inplace)[0], (single(3, 5),)

    return make


def linear_cross_entropy():
    apply = function("modules.fused_linear_cross_entropy.ops", "FusedLinearCrossEntropyFunction")
    target = torch.tensor([0, 4, 2])
    return lambda x, weight: apply(x, target, weight), (single(3, 4), single(5, 4))


def kl_div():
    apply = function("modules.fused_kl_div.ops", "FusedKLDivLossFunction")
    teacher, weight = plain(single(3, 4)), plain(single(5, 4))
    return lambda x, w: apply(x, teacher, w, weight, "batchmean", True, True), (single(3, 4), single(5, 4))


def l2_wrap():
    apply = function("modules.l2warp", "L2Wrap")
    return lambda loss, logits: apply(loss, logits), (single(1), single(2, 3, 5))


def convolution(kind):
    def make():
        apply = function("modules.causal_conv1d.ops", "CausalConv1dFunction")
        return lambda x, w, b: apply(x, w, b, None, None, False, kind)[0], (single(1, 5, 4), single(4, 3), single(4))

    return make


def token_shift():
    apply = function("modules.token_shift", "token_shift")
    return lambda x: apply(x), (single(2, 5, 4),)


def pooling():
    run = function("ops.utils.pooling", "mean_pooling")
    return lambda x: run(x, 2), (single(1, 5, 2, 4),)


def sinkhorn():
    apply = function("ops.utils.sinkhorn.ops", "SinkhornFunction")
    return lambda x: apply(x, 3), (single(2, 4, 4),)


def beta_sigmoid():
    apply = function("ops.common.gate", "BetaSigmoidFunction")
    return lambda x: apply(x, 2.0), (single(1, 3, 2),)


def delta_gate():
    apply = function("ops.gated_delta_rule.gate", "GDNGateFunction")
    return lambda g, a, b: apply(g, a, b), (single(1, 3, 2), single(2), single(2))


def k_update():
    apply = function("ops.rwkv7.fused_k_update", "KUpdateFunction")
    return lambda k, a, ka: apply(k, a, ka), (single(1, 3, 4), single(1, 3, 4), single(4))


def gate():
    return between(0.1, 0.9, 1, 3, 1, dtype=torch.float32)


NORM = "modules.norm.l2norm"
DELTA = {"beta": gate}
ALIAS = "fla-layer-norm-residual"
IN_PLACE = "the gradient is computed in the forward and scaled in place in the backward"
RECIPES = [
    Recipe("Sigmoid", activation("SigmoidFunction", (3, 7))),
    Recipe("ELUPlusOne", activation("ELUPlusOneFunction", (3, 7))),
    Recipe("LogSigmoid", activation("LogSigmoidFunction", (3, 7), after=(1.3,))),
    Recipe("Swish", activation("SwishFunction", (3, 7))),
    Recipe("Swish, one number", activation("SwishFunction", (1,))),
    Recipe("GeLU", activation("GeLUFunction", (3, 7), (7,))),
    Recipe("FastGeLU", activation("FastGeLUFunction", (3, 7))),
    Recipe("SquaredReLU", activation("SquaredReLUFunction", (3, 7))),
    Recipe("SwiGLU", activation("SwiGLUFunction", (3, 7), (3, 7))),
    Recipe("SwiGLULinear", activation("SwiGLULinearFunction", (3, 4), (3, 4), (5, 4), (5,))),
    Recipe("SigmoidGLU", activation("SigmoidGLUFunction", (3, 7), (3, 7))),
    Recipe("PowGLU", activation("PowGLUFunction", (3, 7), (3, 7), after=(2.0,))),
    Recipe("L2Norm", of(NORM, "L2NormFunction", (3, 7))),
    Recipe("L2Norm, 17 columns", of(NORM, "L2NormFunction", (2, 17))),
    Recipe("LayerNorm", layer_norm(False)),
    Recipe("LayerNorm, rms", layer_norm(False, is_rms_norm=True)),
    Recipe("LayerNorm, residual", layer_norm(True), ALIAS),
    Recipe("LayerNorm, residual, prenorm", layer_norm(True, prenorm=True), ALIAS),
    Recipe("LayerNormGated", gated_norm),
    Recipe("RotaryEmbedding", rotary(False)),
    Recipe("CrossEntropy", cross_entropy(False)),
    Recipe("CrossEntropy, smoothed", cross_entropy(False, smoothing=0.1)),
    Recipe("CrossEntropy, inplace_backward", cross_entropy(True), MUTATION, "inplace_backward=True"),
    Recipe("FusedLinearCrossEntropy", linear_cross_entropy, MUTATION, IN_PLACE),
    Recipe("FusedKLDivLoss", kl_div, MUTATION, IN_PLACE),
    Recipe("L2Wrap", l2_wrap, SURROGATE, "a penalty is added to the gradient of the logits only"),
    Recipe("CausalConv1d", convolution(None)),
    Recipe("CausalConv1d, silu", convolution("silu")),
    Recipe("TokenShift", token_shift),
    Recipe("MeanPooling", pooling),
    Recipe("Sinkhorn", sinkhorn),
    Recipe("BetaSigmoid", beta_sigmoid),
    Recipe("GDNGate", delta_gate),
    Recipe("KUpdate", k_update),
    Recipe("fused_recurrent_linear_attn", recurrent("ops.linear_attn", "fused_recurrent_linear_attn", {})),
    Recipe("fused_recurrent_retention", recurrent("ops.retention", "fused_recurrent_retention", {})),
    Recipe("fused_recurrent_gla", recurrent("ops.gla", "fused_recurrent_gla", {"gk": lambda: decay(1, 3, 1, 4)})),
    Recipe(
        "fused_recurrent_simple_gla",
        recurrent("ops.simple_gla", "fused_recurrent_simple_gla", {"g": lambda: decay(1, 3, 1)}),
    ),
    Recipe("fused_recurrent_delta_rule", recurrent("ops.delta_rule", "fused_recurrent_delta_rule", DELTA)),
    Recipe("fused_recurrent_hgrn", hgrn),
    Recipe("fused_recurrent_rwkv4", rwkv4),
    Recipe("fused_recurrent_rwkv6, output", rwkv6(False)),
    Recipe("fused_recurrent_rwkv6, final state too", rwkv6(True, 2, 2), "fla-rwkv6-final-state"),
    Recipe("fused_addcmul_rwkv7", addcmul, "fla-addcmul"),
]
