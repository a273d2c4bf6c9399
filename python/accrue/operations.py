"""accrue's kernels as operators of torch, for models that are written for them and for torch.compile.

In eager mode they are the library's own: gradients of weights go into an Accumulator's open slots. In a graph of torch.compile they are
the operators `accrue::linear_cross_entropy` and `accrue::linear` of torch.library, which it keeps whole.
"""

import torch

from accrue import _native
from accrue.tensors import IGNORED


def linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None = None, *,
                         row_weights: torch.Tensor | None = None, ignore_index: int = IGNORED, label_smoothing: float = 0.0,
                         z_loss: float = 0.0, soft_cap: float = 0.0, prepared: _native.PreparedWeight | None = None) -> _native.Loss:
    """Cross entropy of hidden @ weight.T (+ bias) against targets, as a sum and the weight of the rows that count.

    hidden [..., C] fp32, fp64 or bf16; weight [V, C] and bias [V] fp32 (fp64 with fp64); targets [...] int64 in [0, V) or
    `ignore_index`; row_weights [...] fp32. Logits are never whole: it works by chunks of rows, and makes the gradients of `hidden` and
    `weight` in the forward pass. CPU. In a graph of torch.compile use `linear_cross_entropy_sum`.
    """
    return _native.linear_cross_entropy(hidden, weight, targets, prepared or _native.PreparedWeight(), bias=bias, row_weights=row_weights,
                                        ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, soft_cap=soft_cap)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight.T (+ bias), whose backward adds the weight's gradient into its open slot inside the product.

    x [..., K] fp32, fp64 or bf16; weight [N, K], bias [N] fp32 (fp64 with fp64 x). CPU.
    """
    if torch.compiler.is_compiling():
        return torch.ops.accrue.linear(x, weight, bias)
    return _native.linear(x, weight, bias, _native.PreparedWeight())


def linear_cross_entropy_sum(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None = None,
                             ignore_index: int = IGNORED, label_smoothing: float = 0.0) -> torch.Tensor:
    """The sum of linear_cross_entropy() as one operator that torch.compile keeps; divide it by (targets != ignore_index).sum()."""
    return torch.ops.accrue.linear_cross_entropy(hidden, weight, targets, bias, ignore_index, label_smoothing)[0]


def _leaf(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().requires_grad_()


@torch.library.custom_op("accrue::linear_cross_entropy", mutates_args=(), device_types="cpu")
def _linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None, ignore_index: int,
                          label_smoothing: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sum, and its gradients by hidden, weight and bias (empty where there is none)."""
    leaves = [_leaf(hidden), _leaf(weight), _leaf(bias)]
    with torch.enable_grad():
        total = linear_cross_entropy(leaves[0], leaves[1], targets, leaves[2], ignore_index=ignore_index,
                                     label_smoothing=label_smoothing).sum
    wanted = [leaf for leaf in leaves if leaf is not None]
    gradients = torch.autograd.grad(total, wanted)
    by_bias = gradients[2] if bias is not None else hidden.new_empty(0)
    return total.detach(), gradients[0].contiguous(), gradients[1], by_bias


@_linear_cross_entropy.register_fake
def _(hidden, weight, targets, bias, ignore_index, label_smoothing):
    dtype = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    by_bias = torch.empty_like(bias) if bias is not None else hidden.new_empty(0)
    return hidden.new_empty((), dtype=dtype), torch.empty_like(hidden, memory_format=torch.contiguous_format), torch.empty_like(weight), by_bias


def _keep_gradients(ctx, inputs, output):
    ctx.has_bias = inputs[3] is not None
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _hand_on_gradients(ctx, upstream, *_):
    by_hidden, by_weight, by_bias = ctx.saved_tensors
    return by_hidden * upstream, by_weight * upstream, None, by_bias * upstream if ctx.has_bias else None, None, None


_linear_cross_entropy.register_autograd(_hand_on_gradients, setup_context=_keep_gradients)


@torch.library.custom_op("accrue::linear", mutates_args=(), device_types="cpu")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return _native.linear(x.detach(), weight.detach(), None if bias is None else bias.detach(), _native.PreparedWeight())


@_linear.register_fake
def _(x, weight, bias):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _keep_operands(ctx, inputs, output):
    x, weight, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _gradients_of_linear(ctx, upstream):
    x, weight = ctx.saved_tensors
    rows, above = x.flatten(0, -2), upstream.flatten(0, -2)
    by_weight = torch.mm(above.to(weight.dtype).T, rows.to(weight.dtype))
    by_bias = above.to(weight.dtype).sum(0) if ctx.has_bias else None
    return torch.matmul(upstream, weight.to(upstream.dtype)), by_weight, by_bias


_linear.register_autograd(_gradients_of_linear, setup_context=_keep_operands)
