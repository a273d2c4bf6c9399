"""accrue: exact gradient accumulation in a PyTorch training loop, and proofs that a loop accumulates correctly.

    report = accrue.verify_loop(model, batch, loss_fn, loop, micro_batch=4)   # is my loop right? if not, why?
    with accrue.watch(model, optimizer, loss_fn) as w: ...                    # the same check of a loop as it stands
    acc = accrue.Accumulator(model, batch=accrue.Tokens(524_288))             # exact accumulation in your loop
    accrue.step(model, optimizer, batch, loss_fn)                             # the same in one call
    accrue.plan(model, batch, loss_fn, budget="6GiB")                         # which micro-batch size?
    accrue.accelerate(model)                                                  # accrue's kernels in your model

Everywhere, `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`: the sum of the loss terms, and the number of terms.
"""

from accrue import _torch

_torch.check()

import torch  # noqa: E402,F401  loads the libraries that _native is linked with

from accrue._build import VERSION as __version__  # noqa: E402
from accrue._native import DataShape, Event, Group, Loss, MicroRef, Plan, Samples, StepReport, Tokens  # noqa: E402
from accrue.accelerate import Accelerated, accelerate  # noqa: E402
from accrue.accumulator import AccumulatingOptimizer, Accumulator, accumulate, accumulating  # noqa: E402
from accrue.adapting import BatchController, NextBatch  # noqa: E402
from accrue.audit import audit  # noqa: E402
from accrue.batches import batch_size, batch_slice  # noqa: E402
from accrue.copies import Copies  # noqa: E402
from accrue.errors import Error, RefusedError, RunError, UsageError  # noqa: E402
from accrue.memory import install_allocator, memory_usage  # noqa: E402
from accrue.operations import linear, linear_cross_entropy, linear_cross_entropy_sum  # noqa: E402
from accrue.ranks import join  # noqa: E402
from accrue.report import ParameterError, Report  # noqa: E402
from accrue.run_log import RunLog  # noqa: E402
from accrue.steps import Stepper, accumulated, plan, step  # noqa: E402
from accrue.verify import verify, verify_loop  # noqa: E402
from accrue.watch import Watch, watch  # noqa: E402
from accrue.windows import Sums, SumStepper, WindowWorker  # noqa: E402

__all__ = [
    "AccumulatingOptimizer", "Accelerated", "Accumulator", "BatchController", "Copies", "DataShape", "Error", "Event", "Group", "Loss", "MicroRef", "NextBatch",
    "ParameterError", "Plan",
    "RefusedError", "Report", "RunError", "RunLog", "Samples", "StepReport", "Stepper", "SumStepper", "Sums", "Tokens", "UsageError", "Watch", "WindowWorker", "__version__",
    "accelerate", "accumulate", "accumulated", "accumulating", "audit", "batch_size", "batch_slice", "install_allocator", "join", "linear", "linear_cross_entropy", "linear_cross_entropy_sum", "memory_usage", "plan", "step", "verify",
    "verify_loop", "watch",
]
