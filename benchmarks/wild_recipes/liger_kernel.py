"""liger-kernel: kernels of Triton, in float32, through the interpreter."""

import importlib

import torch

from wild_recipes.recipe import MUTATION, Recipe, leaf, plain, single

TRITON = True


def function(module, name):
    return getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name).apply


def of(module, name, *shapes, after=()):
    """A Function of tensors with these shapes, and constants behind them."""

    def make():
        apply = function(module, name)
        return lambda *inputs: apply(*inputs, *after), tuple(single(*shape) for shape in shapes)

    return make


def logits(rows, columns):
    return leaf(single(rows, columns).detach().log_softmax(-1))


def kl_div(*options):
    def make():
        apply = function("kl_div", "LigerKLDivLossFunction")
        target = plain(logits(3, 7)).exp()
        return lambda x: apply(x, target, *options), (logits(3, 7),)

    return make


def kl_div_target():
    apply = function("kl_div", "LigerKLDivLossFunction")
    x = plain(logits(2, 3))
    return lambda target: apply(x, target, "batchmean", False, 1e-10), (leaf(logits(2, 3).exp()),)


def jsd(beta):
    def make():
        apply = function("jsd", "LigerJSDFunction")
        target = plain(logits(3, 5))
        return lambda x: apply(x, target, None, beta), (logits(3, 5),)

    return make


def tvd():
    apply = function("tvd", "LigerTVDLossFunction")
    target = plain(logits(3, 5)).exp()
    return lambda x: apply(x, target), (leaf(logits(3, 5).exp()),)


def sparsemax():
    apply = function("sparsemax", "LigerSparsemaxFunction")
    return lambda x: apply(x, -1), (single(3, 7),)


def cross_entropy(**options):
    def make():
        apply = function("cross_entropy", "LigerCrossEntropyFunction")
        target = torch.tensor([0, 4, 2])
        names = ("ignore_index", "lse_square_scale", "label_smoothing", "reduction", "softcap")
        given = {"ignore_index": -100, "lse_square_scale": 0.0, "label_smoothing": 0.0, "reduction": "mean"} | options
        rest = tuple(given.get(name) for name in names)
        return lambda x: apply(x, target, None, *rest)[0], (single(3, 5),)

    return make


def fused_linear_cross_entropy():
    apply = function("fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction")
    target = torch.tensor([0, 4, 2])
    return lambda x, weight: apply(x, weight, target)[0], (single(3, 4), single(5, 4))


def fused_linear_jsd():
    apply = function("fused_linear_jsd", "LigerFusedLinearJSDFunction")
    teacher, weight = plain(single(3, 4)), plain(single(5, 4))
    return lambda x, w: apply(x, w, teacher, weight), (single(3, 4), single(5, 4))


def fused_linear_kl_div():
    apply = function("fused_linear_kl_div", "LigerFusedLinearKLDivFunction")
    target = plain(logits(3, 5)).exp()
    return lambda x, w: apply(x, w, target), (single(3, 4), single(5, 4))


def rotary(views):
    def make():
        apply = function("rope", "LigerRopeFunction")
        angle = torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.1, 1.0, 0.1])
        q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4)
        if views:
            q, k = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k))
        cos, sin = angle.cos()[None], angle.sin()[None]
        return lambda q, k: apply(q, k, cos, sin), (q.requires_grad_(), k.requires_grad_())

    return make


def multimodal_rotary():
    apply = function("qwen2vl_mrope", "LigerQwen2VLMRopeFunction")
    angle = torch.rand(3, 1, 3, 4).repeat_interleave(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return lambda q, k: apply(q, k, cos, sin, [2, 1, 1]), (single(1, 2, 3, 8), single(1, 2, 3, 8))


def complex_rotary():
    apply = function("llama4_rope", "LigerLlama4RopeFunction")
    angle = torch.rand(3, 2)
    turns = torch.polar(torch.ones(3, 2), angle)
    return lambda q, k: apply(q, k, turns), (single(1, 3, 2, 4), single(1, 3, 1, 4))


def group_norm():
    apply = function("group_norm", "LigerGroupNormFunction")
    return lambda x, w, b: apply(x, w, b, 4, 2, 1e-6), (single(2, 4, 3), single(4), single(4))


def embedding():
    apply = function("experimental.embedding", "LigerEmbeddingFunction")
    places = torch.tensor([[0, 3, 3], [1, 4, 0]])
    return lambda table: apply(table, places), (single(5, 7),)


def multi_token_attention(size):
    def make():
        apply = function("multi_token_attention", "LigerMultiTokenAttentionFunction")
        return lambda s, w, b: apply(s, w, b, 1, 1), (single(1, 2, size, size), single(2, 2, 3, 3), single(2))

    return make


def neighborhood_attention():
    apply = function("fused_neighborhood_attention", "LigerFusedNeighborhoodAttentionFunction")
    return lambda q, k, v: apply(q, k, v, 3, 1), tuple(single(1, 1, 6, 4) for _ in range(3))


def tiled_mlp():
    apply = function("tiled_mlp", "LigerTiledMLPFunction")
    mlp = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.SiLU(), torch.nn.Linear(6, 4))
    return lambda x: apply(lambda module, x: module(x), mlp, x, 2), (single(1, 6, 4),)


def relu_squared():
    return function("relu_squared", "LigerReLUSquaredFunction"), (single(3, 7),)


IN_PLACE = "the gradient is written into the saved input to save memory"
INTO_COTANGENT = "in_place=True: the gradient is written into grad_output"
ADD = "fused_add_rms_norm"
TWICE = "liger-cross-entropy"
SWIGLU = "liger-swiglu-inputs"
RECIPES = [
    Recipe("Softmax", of("softmax", "LigerSoftmaxFunction", (3, 7))),
    Recipe("Softmax, one column", of("softmax", "LigerSoftmaxFunction", (3, 1))),
    Recipe("Softmax, 33 columns", of("softmax", "LigerSoftmaxFunction", (2, 33))),
    Recipe("Sparsemax", sparsemax),
    Recipe("SiLUMul", of("swiglu", "LigerSiLUMulFunction", (3, 7), (3, 7)), SWIGLU),
    Recipe("FusedGateUpSiLUMul", of("swiglu", "LigerFusedGateUpSiLUMulFunction", (3, 8))),
    Recipe("GELUMul", of("geglu", "LigerGELUMulFunction", (3, 7), (3, 7)), SWIGLU),
    Recipe("ReLUSquared", relu_squared),
    Recipe("RMSNorm", of("rms_norm", "LigerRMSNormFunction", (3, 7), (7,), after=(1e-6, 0.0, "llama", False))),
    Recipe("RMSNorm, gemma", of("rms_norm", "LigerRMSNormFunction", (3, 5), (5,), after=(1e-6, 1.0, "gemma", False))),
    Recipe(
        "RMSNorm, in_place",
        of("rms_norm", "LigerRMSNormFunction", (3, 7), (7,), after=(1e-6,)),
        MUTATION,
        INTO_COTANGENT,
    ),
    Recipe(
        "FusedAddRMSNorm", of("fused_add_rms_norm", "LigerFusedAddRMSNormFunction", (3, 7), (3, 7), (7,), after=(1e-6,))
    ),
    Recipe("LayerNorm", of("layer_norm", "LigerLayerNormFunction", (3, 7), (7,), (7,), after=(1e-6,))),
    Recipe("LayerNorm, one row", of("layer_norm", "LigerLayerNormFunction", (1, 17), (17,), (17,), after=(1e-6,))),
    Recipe("GroupNorm", group_norm),
    Recipe("PolyNorm", of("poly_norm", "LigerPolyNormFunction", (3, 7), (3,), (), after=(1e-6, False))),
    Recipe(
        "PolyNorm, in_place",
        of("poly_norm", "LigerPolyNormFunction", (3, 7), (3,), (), after=(1e-6, True)),
        MUTATION,
        INTO_COTANGENT,
    ),
    Recipe("CrossEntropy", cross_entropy(), TWICE),
    Recipe("CrossEntropy, smoothed", cross_entropy(label_smoothing=0.1), TWICE),
    Recipe("CrossEntropy, softcap", cross_entropy(softcap=3.0), TWICE),
    Recipe("FusedLinearCrossEntropy", fused_linear_cross_entropy, MUTATION, IN_PLACE),
    Recipe("FusedLinearJSD", fused_linear_jsd, MUTATION, IN_PLACE),
    Recipe("FusedLinearKLDiv", fused_linear_kl_div, MUTATION, IN_PLACE),
    Recipe("KLDivLoss", kl_div("batchmean", False, 1e-10)),
    Recipe("KLDivLoss, none", kl_div("none", False, 1e-10)),
    Recipe("KLDivLoss, of the target", kl_div_target, "liger-kl-div-target"),
    Recipe("JSD", jsd(0.5)),
    Recipe("JSD, beta 0.1", jsd(0.1)),
    Recipe("TVDLoss", tvd),
    Recipe("Rope", rotary(False)),
    Recipe("Rope, transposed views", rotary(True), "liger-rope-inputs"),
    Recipe("Qwen2VLMRope", multimodal_rotary),
    Recipe("Llama4Rope", complex_rotary, "liger-rope-inputs"),
    Recipe("Embedding", embedding),
    Recipe("MultiTokenAttention", multi_token_attention(4)),
    Recipe("FusedNeighborhoodAttention", neighborhood_attention),
    Recipe("TiledMLP", tiled_mlp),
]
