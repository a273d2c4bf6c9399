"""accrue's kernels in a model that knows nothing of accrue."""

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


KEPT_AS = "_accrue_accelerated"  # the attribute by which a model keeps it


class Accelerated:
    """While it is active, accrue does operations of a model on the CPU as it does those of its own layers.

    Products with the model's weights, embeddings, layer norms, GELU (tanh) and attention without a mask run in accrue's kernels;
    in an Accumulator or Stepper their gradients are added to the sums inside the product. transformers' own GELU of several
    operators (gelu_new) is torch's one. Where the model has an output head
    (get_output_embeddings(), as transformers' language models have, or `head`), cross entropy of its logits is taken by chunks of
    rows, and the logits are never whole; whatever else reads them finds them. Results are torch's up to rounding. It works on the
    thread that made it, and lives as long as the model, which keeps it. Of copies of the model (and of what torch.save() writes of
    it whole) the head alone is as it is here.
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
        """The next forward pass has these samples, in order: dropout's masks follow them, however a batch is split."""
        if self._native is not None:
            check_options("begin", {"window": window}, window=int)
            self._native.begin(whole_numbers("begin", "sample_ids", sample_ids), window)

    @property
    def calls(self) -> dict[str, int]:
        """How many operations accrue has done, by kind."""
        if self._native is None:
            return {}
        return self._native.calls() | {"losses_without_logits": self._head.losses if self._head else 0}

    def close(self) -> None:
        """Ends it; the model's operations are torch's again."""
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
    """The layer that makes a language model's logits, where it says so."""
    module = unwrapped(model) if isinstance(model, nn.Module) else None
    head = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    return head if type(head) is nn.Linear else None


def accelerate(model: Any, seed: int | None = None, head: nn.Module | None = None, defer_logits: bool = True) -> Accelerated:
    """Has accrue's kernels do the operations of `model` from now on: until close() of what it returns, or the end of a `with`.

        accrue.accelerate(model)
        for micro in loader: acc.backward(loss_fn(model, micro)); ...

    seed   keys dropout's masks; None: torch's default generator draws it
    head   the torch.nn.Linear whose logits go into cross entropy and nowhere else; None: what get_output_embeddings() says
    defer_logits   False: logits are made in any case, for a loss that no tensor subclass goes through (TorchScript, re-entrant
           checkpoints, backward hooks on the model)
    """
    return Accelerated(model, seed, head, defer_logits)
