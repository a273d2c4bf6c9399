"""The properties of a model that accrue reads: parameters by name, buffers, batch normalisations and modes."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from accrue.errors import UsageError

Named = list[tuple[str, torch.Tensor]]


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the module inside torch.compile, DistributedDataParallel and DataParallel."""
    while True:
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def without_ranks(model: nn.Module) -> nn.Module:
    """Returns the module inside DistributedDataParallel, whose passes communicate nothing."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


# Operations that compute again in fp64 and compare: a complex number would lose its imaginary part there.
COMPARING = ("verify", "verify_loop", "watch")


def named_parameters(model: Any, operation: str, watched: bool = True) -> Named:
    """Returns the parameters of a module, or of a list of them: tensors, (name, tensor) pairs, or an optimizer's groups.

    Args:
        model: the module, or the list.
        operation: the name of the calling operation, for errors.
        watched: False if a forward pass may write to the parameters.

    Raises:
        UsageError: the model has nothing to train, is no model, has complex numbers, or embeddings whose forward pass writes to their weight.
    """
    named = _of_module(model, operation) if isinstance(model, nn.Module) else _listed(model, operation)
    state = [*named, *named_buffers(model)] if operation in COMPARING else [(name, tensor) for name, tensor in named if tensor.requires_grad]
    for name, tensor in state:
        if tensor.is_complex():
            raise UsageError(operation, "parameters and buffers of real numbers", f"'{name}', which is complex",
                             "torch.view_as_real of it, and view_as_complex in forward()")
    if isinstance(model, nn.Module) and operation != "accelerate" and watched:
        _require_still_embeddings(unwrapped(model), operation)
    return named


def _require_still_embeddings(model: nn.Module, operation: str) -> None:
    """Refuses max_norm: a forward pass that shortens rows of its weight changes the weight for the window's other micro-batches."""
    for name, part in model.named_modules():
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.max_norm is not None and part.weight.requires_grad:
            raise UsageError(operation, "embeddings whose forward pass leaves their weight alone", f"'{name}' with max_norm={part.max_norm}",
                             "max_norm=None, and torch.renorm of the weight behind each optimizer step")


def _of_module(model: nn.Module, operation: str) -> Named:
    named = list(unwrapped(model).named_parameters())
    if not any(tensor.requires_grad for _, tensor in named):
        raise UsageError(operation, "a model with parameters to train", "frozen ones alone" if named else "none",
                         "requires_grad_(True) of what is to be trained")
    return named


def _listed(parameters: Any, operation: str) -> Named:
    refused = UsageError(operation, "a torch.nn.Module or its parameters", f"a value of type {type(parameters).__name__}",
                         "model.parameters() or model.named_parameters()")
    if torch.is_tensor(parameters) or not isinstance(parameters, Iterable):
        raise refused
    named: Named = []
    for item in parameters:
        if torch.is_tensor(item):
            named.append((str(len(named)), item))
        elif isinstance(item, dict) and isinstance(item.get("params"), (list, tuple)) and all(map(torch.is_tensor, item["params"])):
            named += [(str(len(named) + place), tensor) for place, tensor in enumerate(item["params"])]
        elif isinstance(item, tuple) and len(item) == 2 and torch.is_tensor(item[1]):
            named.append((str(item[0]), item[1]))
        else:
            raise refused
    if not named:
        raise UsageError(operation, "parameters to train", "none", "model.parameters(); an iterator gives them once")
    return named


def named_buffers(model: Any) -> Named:
    return list(unwrapped(model).named_buffers()) if isinstance(model, nn.Module) else []


def _takes_statistics(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats)


def batch_norm_finder(model: Any) -> Callable[[], list[str]] | None:
    """Returns a function that names the batch normalisations that use the statistics of their input at the time of the call."""
    if not isinstance(model, nn.Module):
        return None
    module = weakref.ref(unwrapped(model))  # weak, because the module may hold the function

    def names() -> list[str]:
        alive = module()
        return [name for name, part in alive.named_modules() if _takes_statistics(part)] if alive is not None else []

    return names


def _freeze(norm: _BatchNorm) -> Callable[[], None]:
    """Makes a batch normalisation use fixed statistics: its running ones, or 0 and 1 if it has none. Returns a function that undoes it."""
    kept = (norm.training, norm.track_running_stats, norm.running_mean, norm.running_var)
    norm.eval()
    if norm.running_mean is None:
        like = norm.weight.detach() if norm.weight is not None else torch.empty(norm.num_features)
        norm.track_running_stats = True
        norm.running_mean, norm.running_var = torch.zeros_like(like), torch.ones_like(like)

    def undo() -> None:
        norm.training, norm.track_running_stats, norm.running_mean, norm.running_var = kept

    return undo


def modes(module: nn.Module) -> Callable[[], None]:
    """Returns a function that restores the current training mode of each part."""
    before = [(part, part.training) for part in module.modules()]

    def restore() -> None:
        for part, training in before:
            part.training = training

    return restore


def evaluator(model: Any) -> Callable[[bool], Callable[[], None]] | None:
    """Returns a function that puts a module, or only its batch normalisations, into evaluation mode, and returns a function that undoes it."""
    if not isinstance(model, nn.Module):
        return None
    module = unwrapped(model)

    def evaluate(batch_norms_alone: bool) -> Callable[[], None]:
        if batch_norms_alone:
            undo_all = [_freeze(part) for part in module.modules() if _takes_statistics(part)]
            return lambda: [undo() for undo in reversed(undo_all)] and None
        undo = modes(module)
        module.eval()
        return undo

    return evaluate
