"""accrue's kernels as torch operators, for models written for accrue and for torch.compile.

In eager mode they are the library's kernels: gradients of weights go into an Accumulator's open slots. In a graph of torch.compile they are
the operators `accrue::linear_cross_entropy` and `accrue::linear` of torch.library, which it does not split.
"""

import torch

from accrue import _native
from accrue.options import check_options, check_tensors
from accrue.tensors import IGNORED


def linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None = None, *,
                         row_weights: torch.Tensor | None = None, ignore_index: int = IGNORED, label_smoothing: float = 0.0,
                         z_loss: float = 0.0, soft_cap: float = 0.0, prepared: _native.PreparedWeight | None = None) -> _native.Loss:
    """Returns the cross entropy of hidden @ weight.T (+ bias) against targets, as a sum and the weight of the rows that count. CPU only.

    The logits are never materialized: it works by chunks of rows, and computes the gradients of `hidden` and `weight` in the forward pass. In a
    graph of torch.compile use `linear_cross_entropy_sum`.

    Args:
        hidden: [..., C], fp32, fp64 or bf16.
        weight: [V, C], fp32 (fp64 if hidden is fp64).
        targets: [...], int64 in [0, V) or `ignore_index`.
        bias: [V], in the dtype of `weight`, or None.
        row_weights: [...], fp32, finite and not negative, or None: 1 for each row.
        ignore_index: rows with this target do not count.
        label_smoothing: in [0, 1), as in torch.nn.functional.cross_entropy.
        z_loss: the weight of the squared logsumexp of the logits, at least 0 (PaLM, arXiv:2204.02311, section 5).
        soft_cap: c, at most 40: logits x become c * tanh(x / c). 0: none (Gemma 2, arXiv:2408.00118, section 2).
        prepared: copies of the weight from earlier calls, to be reused. None: made for this call.

    Returns:
        A Loss.

    Raises:
        UsageError: a shape, dtype, target or option does not fit. In a window, `backward()` raises it unless it gets the sum itself.
    """
    check_tensors("linear_cross_entropy", {"hidden": hidden, "weight": weight, "targets": targets, "bias": bias, "row_weights": row_weights},
                  optional=("bias", "row_weights"))
    check_options("linear_cross_entropy", {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "z_loss": z_loss, "soft_cap": soft_cap},
                  ignore_index=int, label_smoothing=float, z_loss=float, soft_cap=float)
    return _native.linear_cross_entropy(hidden, weight, targets, prepared or _native.PreparedWeight(), bias=bias, row_weights=row_weights,
                                        ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, soft_cap=soft_cap)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Returns x @ weight.T (+ bias). Its backward adds the weight's gradient to its open slot inside the product. CPU only.

    Args:
        x: [..., K], fp32, fp64 or bf16.
        weight: [N, K], fp32 (fp64 if x is fp64).
        bias: [N], in the dtype of `weight`, or None.

    Returns:
        A tensor [..., N] in the dtype of `x`.

    Raises:
        UsageError: a shape or dtype does not fit.
    """
    if torch.compiler.is_compiling():
        return torch.ops.accrue.linear(x, weight, bias)
    check_tensors("linear", {"x": x, "weight": weight, "bias": bias}, optional=("bias",))
    return _native.linear(x, weight, bias, _native.PreparedWeight())


def linear_cross_entropy_sum(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None = None,
                             ignore_index: int = IGNORED, label_smoothing: float = 0.0) -> torch.Tensor:
    """Returns the sum of linear_cross_entropy() as a scalar tensor, by one operator that torch.compile keeps.

    The mean is the sum divided by (targets != ignore_index).sum(). Arguments are those of linear_cross_entropy().
    """
    return torch.ops.accrue.linear_cross_entropy(hidden, weight, targets, bias, ignore_index, label_smoothing)[0]


def _leaf(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().requires_grad_()


@torch.library.custom_op("accrue::linear_cross_entropy", mutates_args=(), device_types="cpu")
def _linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, bias: torch.Tensor | None, ignore_index: int,
                          label_smoothing: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the sum, and its gradients with respect to hidden, weight and bias (empty without a bias)."""
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
