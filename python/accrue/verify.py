"""Proofs that gradient accumulation gives the full batch's gradient, and the cause if it does not."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from accrue import _native
from accrue.batches import batch_size, batch_slice, has_tensors_alone, in_double
from accrue.batches import micro_batches as micro_batches_of
from accrue.devices import world
from accrue.buffers import BufferReplaced, HeldBuffers
from accrue.copies import Account, Copies, check_copies
from accrue.errors import NotJudged, UsageError
from accrue.models import batch_norm_finder, evaluator, named_buffers, named_parameters, without_ranks
from accrue.options import check_count, check_function, check_range, whole_numbers
from accrue.report import Report, as_left, unjudged
from accrue.untouched import require_restorable, untouched
from accrue.watching import unrecorded

LossFn = Callable[[Any, Any], _native.Loss]

# How each check is called, for errors.
CALLS = {"verify": "verify(model, batch, loss_fn)", "verify_loop": "verify_loop(model, batch, loss_fn, loop)"}
MOST_DRAWS, MOST_SEED = 2**31 - 1, 2**63 - 1


def _described(model: Any, batch: Any, loss_fn: LossFn, operation: str, buffers: HeldBuffers) -> _native.Described:
    check_function(operation, "loss_fn", loss_fn)
    if isinstance(model, nn.parallel.DistributedDataParallel):
        if world() > 1:
            raise UsageError(operation, "a model on one rank", f"DistributedDataParallel over {world()} ranks",
                             "accrue.watch(model, optimizer, loss_fn) around one window, on all ranks")
        model = without_ranks(model)
    require_restorable(model, operation)
    named = named_parameters(model, operation)

    def loss(begin: int, end: int) -> _native.Loss:
        with buffers.during():
            try:
                return loss_fn(model, batch_slice(batch, begin, end))
            except TypeError as error:
                raise UsageError(operation, "a loss_fn(model, micro_batch) that computes the loss of a slice of the batch",
                                 f"{getattr(loss_fn, '__name__', type(loss_fn).__name__)}, which raised TypeError: {error}",
                                 f"{CALLS[operation]}, with arguments in this order") from error

    def loss_in_double(begin: int, end: int) -> _native.Loss:
        with buffers.during():
            return loss_fn(model, in_double(batch_slice(batch, begin, end)))

    return _native.Described(
        parameters=named,
        buffers=named_buffers(model),
        batch_norms=batch_norm_finder(model),
        evaluate=evaluator(model),
        samples=batch_size(batch),
        loss=loss,
        loss_in_double=loss_in_double if has_tensors_alone(batch) else None,
    )


def _undisturbed(operation: str, copies: Copies, roots: tuple, prove: Callable[[], dict]) -> Report:
    """Returns the report of `prove`, and restores `roots` whatever happens. Reports torch's error about re-entrant checkpoints as a UsageError."""
    failures: list[str] = []
    try:
        with untouched(roots, account=Account(copies)) as failures, unrecorded():
            report = Report.of(prove())
        return as_left(report, failures)
    except BufferReplaced:
        return as_left(_undisturbed(operation, copies, roots, prove), failures)
    except NotJudged as why:
        return unjudged(why)
    except RuntimeError as error:
        if "use_reentrant=True" not in str(error):
            raise
        raise UsageError(operation, "checkpoints whose gradient can be taken by given parameters", "a re-entrant one",
                         "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)") from error


def _require_a_split(sizes: Sequence[int], samples: int) -> None:
    """Raises UsageError if sizes of micro-batches are stated and none of them splits the batch."""
    for size in sizes:
        check_count("verify", "micro_batches", size, required=True)
    if sizes and min(sizes) >= samples >= 2:
        raise UsageError("verify", "a size that splits the batch into at least 2 micro-batches", f"{min(sizes)} for a batch of {samples} samples",
                         f"{(samples + 1) // 2} or fewer")


def verify(model: Any, batch: Any, loss_fn: LossFn, *, micro_batches: Sequence[int] = (), noise_draws: int = 3,
           seed: int = 1, copies: Copies | None = None) -> Report:
    """Proves that the summed gradients of micro-batches equal the gradient of the whole batch's mean loss.

    One pass of plain autograd over the whole batch is compared, parameter by parameter, with several splits and orders of micro-batches.
    Afterwards everything is as it was, also after an exception: parameters, buffers, `.grad`, hooks, modes, random generators, and the models,
    optimizers and tensors that `loss_fn` reads.

    Args:
        model: a `torch.nn.Module`, or its parameters.
        batch: at least 2 samples (see accrue.batches).
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`.
        micro_batches: the micro-batch sizes to try, in samples. Empty: 1, 2, 3, 7, half of the batch, and all of it.
        noise_draws: the number of passes that measure rounding.
        seed: the seed of torch's generator in each pass.
        copies: limits what is copied to restore it. None: `accrue.Copies()`.

    Returns:
        A Report. It has `judged` False if the check needs more copies than `copies` allows, or cannot restore something.

    Raises:
        UsageError: an argument is of the wrong kind or in the wrong place, the batch has fewer than 2 samples or total weight 0, none of
            `micro_batches` splits it, a loss or gradient is not finite, or the model is a DistributedDataParallel over several ranks.
    """
    check_range("verify", "noise_draws", noise_draws, 0, MOST_DRAWS)
    check_range("verify", "seed", seed, 0, MOST_SEED)
    sizes = whole_numbers("verify", "micro_batches", micro_batches)
    _require_a_split(sizes, batch_size(batch))
    described = _described(model, batch, loss_fn, "verify", HeldBuffers(model))
    return _undisturbed("verify", check_copies("verify", copies), (model, loss_fn), lambda: _native.verify(
        described, micro_batches=sizes, noise_draws=noise_draws, seed=seed))


def verify_loop(model: Any, batch: Any, loss_fn: LossFn, loop: Callable[[Any, list], Any], *, micro_batch: int | None = None,
                noise_draws: int = 1, seed: int = 1, copies: Copies | None = None) -> Report:
    """Proves that your loop leaves the gradient of the batch's mean loss in `.grad`, or names the cause if it does not.

        def loop(model, micro_batches):
            for micro in micro_batches:
                (my_loss(model, micro) / len(micro_batches)).backward()

        print(accrue.verify_loop(model, batch, loss_fn, loop, micro_batch=4))

    The loop runs once, and once more if its gradient differs. If nothing is wrong, this takes about the time of four windows. All that the loop
    changes is restored: the model, and the models, optimizers, schedules, scalers, tensors and generators that it reaches, but not its own
    lists and names.

    Args:
        model: a `torch.nn.Module`, or its parameters.
        batch: at least 2 samples (see accrue.batches).
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`. It defines the correct gradient, and is checked first.
        loop: `loop(model, micro_batches)` gets a list of slices of `batch`. `.grad` is None when it begins.
        micro_batch: samples in each slice, fewer than `batch` has. None: about a quarter of the batch, the last slice being uneven.
        noise_draws, seed, copies: as for verify().

    Returns and raises what verify() does. A loop without a backward pass that reaches a parameter is a UsageError, too.
    """
    check_range("verify_loop", "noise_draws", noise_draws, 0, MOST_DRAWS)
    check_range("verify_loop", "seed", seed, 0, MOST_SEED)
    check_count("verify_loop", "micro_batch", micro_batch)
    check_function("verify_loop", "loop", loop, "micro_batches")
    described = _described(model, batch, loss_fn, "verify_loop", buffers := HeldBuffers(model))

    trained = [tensor for _, tensor in named_parameters(model, "verify_loop") if tensor.requires_grad]

    def run(size: int) -> None:
        with buffers.during():
            loop(model, micro_batches_of(batch, size))
        for tensor in trained:  # the loop may have frozen some, and the comparison needs the gradients of all
            tensor.requires_grad_(True)

    return _undisturbed("verify_loop", check_copies("verify_loop", copies), (model, loss_fn, loop), lambda: _native.verify_loop(
        described, run, micro_batch=micro_batch or 0, noise_draws=noise_draws, seed=seed))

