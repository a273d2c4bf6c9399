"""Logits that are made where somebody wants them: cross entropy does not."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from accrue import _native
from accrue.operations import IGNORED, linear_cross_entropy


class DeferredLogits(torch.Tensor):
    """hidden @ weight.T (+ bias), not made yet. Rows may be cut and put together; cross entropy is taken of `hidden` by chunks of rows;
    all else makes the logits first, and gets a plain tensor."""

    hidden: torch.Tensor
    head: "DeferringHead"

    @staticmethod
    def __new__(cls, hidden: torch.Tensor, head: "DeferringHead") -> "DeferredLogits":
        weight = head.module.weight
        logits = torch.Tensor._make_wrapper_subclass(cls, (*hidden.shape[:-1], weight.shape[0]), dtype=hidden.dtype, device=hidden.device,
                                                     requires_grad=False)
        logits.hidden, logits.head, logits.made = hidden, head, None
        return logits

    def plain(self) -> torch.Tensor:
        """The logits themselves, made once."""
        if self.made is None:
            self.made = nn.functional.linear(self.hidden, self.head.module.weight, self.head.module.bias)
        return self.made

    def __repr__(self) -> str:
        return f"DeferredLogits({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if function in DESCRIBING:
                return function(*args, **kwargs)
            handler = HANDLERS.get(function)
            answer = handler(*args, **kwargs) if handler is not None else NotImplemented
            return function(*_plain(args), **_plain(kwargs)) if answer is NotImplemented else answer

    @classmethod
    def __torch_dispatch__(cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Below autograd, where no torch function was asked before."""
        return function(*_plain(args), **_plain(kwargs or {}))


def _plain(value: Any) -> Any:
    """The value with the logits themselves in the place of deferred ones."""
    if isinstance(value, DeferredLogits):
        return value.plain()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return type(value)(_plain(item) for item in value) if type(value) in (list, tuple) else value


def _of_rows(logits: DeferredLogits, hidden: torch.Tensor) -> DeferredLogits:
    return DeferredLogits(hidden, logits.head)


def _getitem(logits: DeferredLogits, index: Any) -> Any:
    """logits[:, :-1] and other cuts of rows; not of classes."""
    places = index if isinstance(index, tuple) else (index,)
    are_slices = all(isinstance(place, (slice, int)) or place is Ellipsis for place in places)
    if not are_slices or logits.made is not None:
        return NotImplemented
    if Ellipsis in [place for place in places if not isinstance(place, slice)]:
        at = [place is Ellipsis for place in places].index(True)
        filling = (slice(None),) * (logits.dim() - len(places) + 1)
        places = places[:at] + filling + places[at + 1:]
    if len(places) >= logits.dim() and places[-1] not in (slice(None), slice(None, None, None)):
        return NotImplemented
    return _of_rows(logits, logits.hidden[places[:logits.dim() - 1]])


def _reshape(logits: DeferredLogits, *shape: Any) -> Any:
    """view(-1, V): the classes stay last."""
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if len(sizes) < 2 or sizes[-1] != logits.shape[-1] or logits.made is not None:
        return NotImplemented
    return _of_rows(logits, logits.hidden.reshape(*sizes[:-1], logits.hidden.shape[-1]))


def _flatten(logits: DeferredLogits, start_dim: int = 0, end_dim: int = -1) -> Any:
    last = end_dim % logits.dim()
    if last == logits.dim() - 1 or logits.made is not None:
        return NotImplemented
    return _of_rows(logits, logits.hidden.flatten(start_dim, last))


def _as_it_is(logits: DeferredLogits, *_, **__) -> DeferredLogits:
    return logits


def _float(logits: DeferredLogits, *_, **__) -> Any:
    """The loss is fp32's in any case."""
    return logits if logits.dtype in (torch.float32, torch.bfloat16) else NotImplemented


def _to(logits: DeferredLogits, *args: Any, **kwargs: Any) -> Any:
    targets = [value for value in (*args, *kwargs.values()) if not isinstance(value, bool)]
    is_same = all(value in (logits.dtype, logits.device, torch.float32) or value == str(logits.device) for value in targets
                  if isinstance(value, (torch.dtype, torch.device, str)))
    return logits if is_same and all(isinstance(value, (torch.dtype, torch.device, str)) for value in targets) else NotImplemented


def _cross_entropy(input: Any, target: torch.Tensor, weight: torch.Tensor | None = None, size_average: bool | None = None,
                   ignore_index: int = IGNORED, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    known = isinstance(input, DeferredLogits) and input.made is None and input.dim() == 2 and weight is None
    if not known or size_average is not None or reduce is not None or reduction not in ("sum", "mean") or target.is_floating_point():
        return NotImplemented
    loss = input.head.cross_entropy(input.hidden, target, ignore_index, label_smoothing)
    if reduction == "sum":
        return loss.sum
    return loss.sum / loss.weight if loss.weight > 0 else loss.sum * float("nan")


HANDLERS: dict[Any, Callable] = {
    torch.Tensor.__getitem__: _getitem,
    torch.Tensor.view: _reshape,
    torch.Tensor.reshape: _reshape,
    torch.reshape: _reshape,
    torch.Tensor.flatten: _flatten,
    torch.flatten: _flatten,
    torch.Tensor.contiguous: _as_it_is,
    torch.Tensor.float: _float,
    torch.Tensor.to: _to,
    nn.functional.cross_entropy: _cross_entropy,
}

# What tells of a tensor and does not read it.
DESCRIBING = {torch.Tensor.dim, torch.Tensor.size, torch.Tensor.numel, torch.Tensor.is_floating_point, torch.is_floating_point,
              *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "is_sparse"))}


class DeferringHead:
    """A model's last linear layer, while it gives DeferredLogits."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.losses = 0  # that were taken without logits
        self._prepared = _native.PreparedWeight()

    def __deepcopy__(self, memo: dict) -> "DeferringHead":
        return DeferringHead(copy.deepcopy(self.module, memo))

    def __reduce__(self) -> tuple:
        return DeferringHead, (self.module,)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled() or hidden.device.type != "cpu" or not self._fits(hidden):
            return nn.functional.linear(hidden, self.module.weight, self.module.bias)
        if torch.is_autocast_enabled("cpu"):
            hidden = hidden.to(torch.get_autocast_dtype("cpu"))
        return DeferredLogits(hidden, self)

    def _fits(self, hidden: torch.Tensor) -> bool:
        master = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        dtypes = (torch.float32, torch.float64, torch.bfloat16)
        in_fp16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") != torch.bfloat16
        return hidden.dtype in dtypes and self.module.weight.dtype == master and not in_fp16

    def cross_entropy(self, hidden: torch.Tensor, target: torch.Tensor, ignore_index: int, label_smoothing: float) -> _native.Loss:
        self.losses += 1
        return linear_cross_entropy(hidden, self.module.weight, target, self.module.bias, ignore_index=ignore_index,
                                    label_smoothing=label_smoothing, prepared=self._prepared)


@contextlib.contextmanager
def deferring(head: nn.Module) -> Iterator[DeferringHead]:
    """Has a linear layer give DeferredLogits until the end of the `with`."""
    deferring_head = DeferringHead(head)
    head.forward = deferring_head.forward  # an attribute of the object, before the class's
    try:
        yield deferring_head
    finally:
        del head.forward
