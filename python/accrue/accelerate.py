"""accrue's kernels in a model that was not written for accrue."""

import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

from torch import nn

from accrue import _native
from accrue.activations import as_one_operator
from accrue.deferred import DeferringHead, deferring
from accrue.errors import UsageError
from accrue.models import named_parameters, unwrapped
from accrue.options import check_options, whole_numbers


KEPT_AS = "_accrue_accelerated"  # the model's attribute that holds its Accelerated


class Accelerated:
    """While active, runs operations of a model on the CPU in accrue's kernels. Made by accelerate().

    Products with the model's weights, embeddings, layer norms, GELU (tanh) and attention without a mask run in accrue's kernels. In an
    Accumulator or Stepper, their gradients are added to the sums inside the product. transformers' GELU of several operators (gelu_new) becomes
    torch's single operator. If the model has an output head (`get_output_embeddings()`, as transformers' language models have, or `head`), cross
    entropy of its logits is computed by chunks of rows, without materializing the logits. Other code that reads the logits gets them. Results
    are torch's up to rounding.

    The kernels are active on the thread that made the object. The model keeps the object, which lives as long as the model. In a copy of the
    model, and in what torch.save() writes of the whole model, only the head stays accelerated.

    Args:
        model, seed, head, defer_logits: as for accelerate().
    """

    def __init__(self, model: Any, seed: int | None = None, head: nn.Module | None = None, defer_logits: bool = True):
        if seed is not None:
            check_options("accelerate", {"seed": seed}, seed=int)
        if head is not None and not isinstance(head, nn.Module):
            raise UsageError("accelerate", "a torch.nn.Linear as head", f"a value of type {type(head).__name__}", "model.lm_head")
        earlier = getattr(model, KEPT_AS, None)
        if isinstance(earlier, Accelerated):
            earlier.close()
        self._model = weakref.ref(model) if isinstance(model, nn.Module) else lambda: None
        self._native: _native.Accelerated | None = _native.Accelerated(named_parameters(model, "accelerate"), seed)
        self._open = contextlib.ExitStack()
        self._head: DeferringHead | None = None
        head = head if head is not None else _output_head(model)
        if head is not None and defer_logits:
            self._head = self._open.enter_context(deferring(head))
        if isinstance(model, nn.Module):
            self._open.enter_context(as_one_operator(unwrapped(model)))
            setattr(model, KEPT_AS, self)

    def begin(self, sample_ids: Sequence[int], window: int = 0) -> None:
        """Keys dropout's masks of the next forward pass by its samples, so that they do not depend on how a batch is split.

        Args:
            sample_ids: the ids of the samples of the next forward pass, in order.
            window: the number of the window, which is part of the key.
        """
        if self._native is not None:
            check_options("begin", {"window": window}, window=int)
            self._native.begin(whole_numbers("begin", "sample_ids", sample_ids), window)

    @property
    def calls(self) -> dict[str, int]:
        """The number of operations that ran in accrue, by kind. Empty after `close()`."""
        if self._native is None:
            return {}
        return self._native.calls() | {"losses_without_logits": self._head.losses if self._head else 0}

    def close(self) -> None:
        """Ends the acceleration: the model's operations are torch's again. Any thread may call it."""
        self._open.close()
        self._native = None
        model = self._model()
        if model is not None and getattr(model, KEPT_AS, None) is self:
            delattr(model, KEPT_AS)

    def __deepcopy__(self, memo: dict) -> None:
        return None

    def __reduce__(self) -> tuple:
        return type(None), ()

    def __enter__(self) -> "Accelerated":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _output_head(model: Any) -> nn.Linear | None:
    """Returns the layer that computes a language model's logits, if get_output_embeddings() returns one."""
    module = unwrapped(model) if isinstance(model, nn.Module) else None
    head = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    return head if type(head) is nn.Linear else None


def accelerate(model: Any, seed: int | None = None, head: nn.Module | None = None, defer_logits: bool = True) -> Accelerated:
    """Runs the operations of `model` in accrue's kernels until `close()` of the returned object, or until the end of a `with` statement.

        accrue.accelerate(model)
        for micro in loader: acc.backward(loss_fn(model, micro)); ...

    Args:
        model: a `torch.nn.Module`, or its parameters.
        seed: the key of dropout's masks. None: drawn from torch's default generator.
        head: the `torch.nn.Linear` whose logits are read by cross entropy only. None: the result of the model's `get_output_embeddings()`.
        defer_logits: False materializes the logits always, for losses that do not support tensor subclasses (TorchScript, re-entrant
            checkpoints, backward hooks on the model).

    Returns:
        The Accelerated object. A second call for the same model closes the first one.

    Raises:
        UsageError: `seed` is no whole number, `head` is no module, or the model has nothing to train.
    """
    return Accelerated(model, seed, head, defer_logits)
