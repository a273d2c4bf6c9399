"""Logits that are computed only if code reads them, which cross entropy does not."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from accrue.errors import UsageError
from accrue.operations import linear_cross_entropy
from accrue.tensors import IGNORED


class DeferredLogits(torch.Tensor):
    """hidden @ weight.T (+ bias), not computed yet.

    Rows may be sliced and reshaped, and cross entropy is computed from `hidden` by chunks of rows. Every other function computes the logits
    first, and gets a plain tensor. Weight and bias are those of the forward pass.

    A part is computed from the whole as its view: as in torch, an in-place write to the part also writes to the whole.
    """

    @staticmethod
    def __new__(cls, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype, head: "DeferringHead",
                made_from: tuple["DeferredLogits", Callable] | None = None) -> "DeferredLogits":
        wants_gradient = hidden.requires_grad or weight.requires_grad
        logits = torch.Tensor._make_wrapper_subclass(cls, (*hidden.shape[:-1], weight.shape[0]), dtype=dtype, device=hidden.device,
                                                     requires_grad=wants_gradient)
        if wants_gradient:
            with torch._C.DisableTorchFunctionSubclass():
                logits.register_hook(_refuse_gradient)
        logits.hidden, logits.weight, logits.bias, logits.head = hidden, weight, bias, head
        logits.made_from, logits.made = made_from, None
        logits.has_loss = False
        return logits

    def part(self, hidden: torch.Tensor, make: Callable, dtype: torch.dtype | None = None) -> "DeferredLogits":
        """Returns other rows of the logits, or another dtype. `make` computes the part from the computed logits."""
        return DeferredLogits(hidden, self.weight, self.bias, dtype or self.dtype, self.head, (self, make))

    def whole(self) -> "DeferredLogits":
        """Returns the layer's output, of which these logits may be a part."""
        return self if self.made_from is None else self.made_from[0].whole()

    def is_made(self) -> bool:
        return self.made is not None or (self.made_from is not None and self.made_from[0].is_made())

    def plain(self) -> torch.Tensor:
        """Returns the logits as a plain tensor with their graph. They are computed once, at the first call."""
        if self.made is None:
            with torch.inference_mode(False), torch.enable_grad():
                self.made = self._make()
        return self.made

    def _make(self) -> torch.Tensor:
        if self.made_from is not None:
            whole, make = self.made_from
            return make(whole.plain())
        with torch.autocast("cpu", enabled=False):
            bias = None if self.bias is None else self.bias.to(self.hidden.dtype)
            return nn.functional.linear(self.hidden, self.weight.to(self.hidden.dtype), bias)

    def __repr__(self) -> str:
        return f"DeferredLogits({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if function in DESCRIBING:
                return function(*args, **kwargs)
            if function in DIFFERENTIATING:
                _refuse_by_logits(*args, **kwargs)
            handler = HANDLERS.get(function)
            # Without a graph, a part would be taken of the whole with its graph.
            answer = handler(*args, **kwargs) if handler is not None and torch.is_grad_enabled() else NotImplemented
            return function(*_plain(args), **_plain(kwargs)) if answer is NotImplemented else answer

    @classmethod
    def __torch_dispatch__(cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Refuses what arrives below autograd, where the gradient of logits computed here would be lost."""
        raise _not_seen_through(str(function))


def _not_seen_through(what: str) -> UsageError:
    return UsageError("logits of an accelerated model", "functions of torch, which their class is asked of", what,
                      "accrue.accelerate(model, defer_logits=False)")


def _refuse_gradient(gradient: torch.Tensor) -> None:
    """Refuses a gradient that arrives at deferred logits, where it would end: it came through code that bypasses __torch_function__."""
    raise _not_seen_through("a gradient by another way (an autograd.Function)")


def _refuse_by_logits(outputs: Any, inputs: Any = (), **_: Any) -> None:
    """Refuses autograd.grad(loss, logits): a loss computed without logits has no gradient with respect to them."""
    if any(isinstance(each, DeferredLogits) and each.whole().has_loss for each in inputs or ()):
        raise UsageError("gradient by the logits of an accelerated model", "logits that were made", "a loss that was taken without them",
                         "accrue.accelerate(model, defer_logits=False)")


def _plain(value: Any) -> Any:
    """Returns the value with computed logits in place of deferred ones."""
    if isinstance(value, DeferredLogits):
        return value.plain()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return type(value)(_plain(item) for item in value) if type(value) in (list, tuple) else value


def _getitem(logits: DeferredLogits, index: Any) -> Any:
    """Slices rows, as in logits[:, :-1]; does not handle indices of classes."""
    places = index if isinstance(index, tuple) else (index,)
    if logits.is_made() or not all(type(place) in (slice, int) or place is Ellipsis for place in places):
        return NotImplemented
    ellipses = [at for at, place in enumerate(places) if place is Ellipsis]
    if len(ellipses) > 1:
        return NotImplemented
    if ellipses:
        at = ellipses[0]
        places = places[:at] + (slice(None),) * (logits.dim() - len(places) + 1) + places[at + 1:]
    if len(places) > logits.dim() or (len(places) == logits.dim() and places[-1] != slice(None)):
        return NotImplemented
    return logits.part(logits.hidden[places[:logits.dim() - 1]], lambda whole: whole[index])


def _reshape(logits: DeferredLogits, *shape: Any, **kwargs: Any) -> Any:
    """Reshapes rows, as in view(-1, V); classes stay the last dimension."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    fits = len(sizes) >= 2 and all(type(size) is int for size in sizes) and sizes[-1] == logits.shape[-1]
    if logits.is_made() or kwargs or not fits:
        return NotImplemented
    return logits.part(logits.hidden.reshape(*sizes[:-1], logits.hidden.shape[-1]), lambda whole: whole.reshape(sizes))


def _flatten(logits: DeferredLogits, start_dim: int = 0, end_dim: int = -1) -> Any:
    last = end_dim % logits.dim()
    if logits.is_made() or last == logits.dim() - 1:
        return NotImplemented
    return logits.part(logits.hidden.flatten(start_dim, last), lambda whole: whole.flatten(start_dim, last))


def _contiguous(logits: DeferredLogits) -> Any:
    return NotImplemented if logits.is_made() else logits


def _in_fp32(logits: DeferredLogits) -> Any:
    """Converts to fp32, which changes nothing: the loss of bf16 logits is computed in fp32 anyway."""
    if logits.is_made() or logits.dtype not in (torch.float32, torch.bfloat16):
        return NotImplemented
    return logits if logits.dtype == torch.float32 else logits.part(logits.hidden, lambda whole: whole.float(), torch.float32)


def _to(logits: DeferredLogits, *args: Any, **kwargs: Any) -> Any:
    return _in_fp32(logits) if args == (torch.float32,) and not kwargs else NotImplemented


def _cross_entropy(input: Any, target: torch.Tensor, weight: torch.Tensor | None = None, size_average: bool | None = None,
                   ignore_index: int = IGNORED, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    known = isinstance(input, DeferredLogits) and not input.is_made() and input.dim() == 2 and weight is None
    if not known or size_average is not None or reduce is not None or reduction not in ("sum", "mean") or target.dtype != torch.int64:
        return NotImplemented
    loss = linear_cross_entropy(input.hidden, input.weight, target, input.bias, ignore_index=ignore_index, label_smoothing=label_smoothing)
    input.head.losses += 1
    input.whole().has_loss = True
    if reduction == "sum":
        return loss.sum
    return loss.sum / loss.weight if loss.weight > 0 else loss.sum * float("nan")


HANDLERS: dict[Any, Callable] = {
    torch.Tensor.__getitem__: _getitem,
    torch.Tensor.view: _reshape,
    torch.Tensor.reshape: _reshape,
    torch.Tensor.flatten: _flatten,
    torch.flatten: _flatten,
    torch.Tensor.contiguous: _contiguous,
    torch.Tensor.float: _in_fp32,
    torch.Tensor.to: _to,
    nn.functional.cross_entropy: _cross_entropy,
}

DIFFERENTIATING = {torch.autograd.grad, torch.autograd.backward}

# Functions that describe a tensor and do not read its values.
DESCRIBING = {torch.Tensor.dim, torch.Tensor.size, torch.Tensor.numel, torch.Tensor.is_floating_point, torch.is_floating_point,
              *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "is_sparse", "requires_grad"))}


class DeferringHead:
    """A model's last linear layer, while it returns DeferredLogits."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.own_forward = vars(module).get("forward")  # set by other code, before the class's forward
        self.losses = 0  # losses that were computed without logits

    def __deepcopy__(self, memo: dict) -> "DeferringHead":
        return DeferringHead(copy.deepcopy(self.module, memo))

    def __reduce__(self) -> tuple:
        return DeferringHead, (self.module,)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.own_forward is not None or not self._fits(hidden):
            return (self.own_forward or functools.partial(type(self.module).forward, self.module))(hidden)
        if torch.is_autocast_enabled("cpu") and hidden.dtype == torch.float32:
            hidden = hidden.to(torch.bfloat16)
        return DeferredLogits(hidden, self.module.weight, self.module.bias, hidden.dtype, self)

    def _fits(self, hidden: torch.Tensor) -> bool:
        """Returns whether logits can be deferred: on the CPU, with a graph, in the kernel's dtypes, and outside torch.func's transforms, which read
        the storage.
        """
        in_transform = torch._C._functorch.maybe_current_level() is not None
        if not torch.is_grad_enabled() or hidden.device.type != "cpu" or in_transform:
            return False
        master = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        in_fp16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") != torch.bfloat16
        return hidden.dtype in (torch.float32, torch.float64, torch.bfloat16) and self.module.weight.dtype == master and not in_fp16


@contextlib.contextmanager
def deferring(head: nn.Module) -> Iterator[DeferringHead]:
    """Makes a linear layer return DeferredLogits until the end of the `with` statement.

    A layer that has its own forward (hooks of other packages) keeps that.
    """
    deferring_head = DeferringHead(head)
    head.forward = deferring_head.forward  # an attribute of the object is found before the class's
    try:
        yield deferring_head
    finally:
        if deferring_head.own_forward is not None:
            head.forward = deferring_head.own_forward
        else:
            vars(head).pop("forward", None)
