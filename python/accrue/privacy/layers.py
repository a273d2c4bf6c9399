"""The layers whose gradients of each sample follow from their inputs and the gradients of their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from accrue.privacy.uses import Lookup, Product, Small, Use, exact

# The parameter and its use.
Found = Iterator[tuple[nn.Parameter, Use]]
# uses(module, input, gradients): both with the samples as their first dimension, also if the layer saw one input for all samples.
Uses = Callable[[Any, torch.Tensor, torch.Tensor], Found]


def _rows(values: torch.Tensor) -> torch.Tensor:
    """[samples, ..., width] -> [samples, T, width]."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def _bias(bias: nn.Parameter | None, gradients: torch.Tensor) -> Found:
    if bias is not None:
        yield bias, Small(exact(gradients).sum(1))


def _linear(module: nn.Linear, x: torch.Tensor, gradients: torch.Tensor) -> Found:
    rows = _rows(gradients)
    yield module.weight, Product(lambda: _rows(x), rows, transposed=False)
    yield from _bias(module.bias, rows)


def _conv1d(module: Any, x: torch.Tensor, gradients: torch.Tensor) -> Found:
    """transformers' Conv1D, a linear layer with the transposed matrix."""
    rows = _rows(gradients)
    yield module.weight, Product(lambda: _rows(x), rows, transposed=True)
    yield from _bias(module.bias, rows)


def _conv2d(module: nn.Conv2d, x: torch.Tensor, gradients: torch.Tensor) -> Found:
    def patches() -> torch.Tensor:
        if module.stride == module.kernel_size and module.padding == (0, 0) and module.dilation == (1, 1):  # patches of a picture: no overlap
            (high, wide), (down, across) = module.kernel_size, gradients.shape[2:]
            cut = x[:, :, :down * high, :across * wide].reshape(x.shape[0], x.shape[1], down, high, across, wide)
            return cut.permute(0, 2, 4, 1, 3, 5).reshape(x.shape[0], down * across, -1)
        return functional.unfold(x, module.kernel_size, module.dilation, module.padding, module.stride).mT

    rows = gradients.flatten(2).mT
    yield module.weight, Product(patches, rows, transposed=False)
    yield from _bias(module.bias, rows)


def _embedding(module: nn.Embedding, ids: torch.Tensor, gradients: torch.Tensor) -> Found:
    rows, gradients = ids.reshape(ids.shape[0], -1).long(), _rows(gradients)
    if module.padding_idx is not None:
        gradients = gradients.masked_fill((rows == module.padding_idx).unsqueeze(2), 0)
    yield module.weight, Lookup(rows, gradients)


def _norm(module: Any, gradients: torch.Tensor, normalized: torch.Tensor) -> Found:
    elements = torch.Size(module.normalized_shape).numel()

    def by_sample(values: torch.Tensor) -> torch.Tensor:
        return exact(values).reshape(values.shape[0], -1, elements).sum(1)

    if module.weight is not None:
        yield module.weight, Small(by_sample(exact(gradients) * normalized))
    if getattr(module, "bias", None) is not None:
        yield module.bias, Small(by_sample(gradients))


def _layer_norm(module: nn.LayerNorm, x: torch.Tensor, gradients: torch.Tensor) -> Found:
    yield from _norm(module, gradients, functional.layer_norm(exact(x), module.normalized_shape, eps=module.eps))


def _rms_norm(module: nn.RMSNorm, x: torch.Tensor, gradients: torch.Tensor) -> Found:
    eps = torch.finfo(x.dtype).eps if module.eps is None else module.eps
    yield from _norm(module, gradients, functional.rms_norm(exact(x), module.normalized_shape, eps=eps))


def _unless_padded_otherwise(module: nn.Conv2d) -> bool:
    return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)


def _unless_mixed(module: nn.Embedding) -> bool:
    return not module.scale_grad_by_freq and module.max_norm is None


def _always(_: nn.Module) -> bool:
    return True


_LAYERS: dict[type, tuple[Uses, Callable[[Any], bool]]] = {
    nn.Linear: (_linear, _always),
    nn.Conv2d: (_conv2d, _unless_padded_otherwise),
    nn.Embedding: (_embedding, _unless_mixed),
    nn.LayerNorm: (_layer_norm, _always),
    nn.RMSNorm: (_rms_norm, _always),
}


def uses_of(module: nn.Module) -> Uses | None:
    """Returns what finds the uses of a layer's parameters; None for another module, or one whose forward is another one."""
    kind = type(module)
    transformers = sys.modules.get("transformers.pytorch_utils")
    if "forward" in vars(module):
        return None
    if transformers is not None and kind.forward is transformers.Conv1D.forward:
        return _conv1d
    for layer, (uses, fits) in _LAYERS.items():
        if isinstance(module, layer) and kind.forward is layer.forward:
            return uses if fits(module) else None
    return None
