"""Ranks that train together."""

from typing import Any

from torch import nn

from accrue import _native
from accrue.errors import UsageError
from accrue.options import check_options


def join(timeout: float = 300.0) -> _native.Group | None:
    """The group of the ranks that torchrun, mpirun or srun started, by their environment variables; None: this process is alone.

    timeout   seconds that a rank waits for the others

    Give it to Accumulator or Stepper as `group`: gradients are summed once per window, while the last backward runs.
    """
    check_options("join", {"timeout": timeout}, timeout=float)
    return _native.join(timeout)


def ranks_of(model: Any, group: _native.Group | None, operation: str) -> _native.Group | None:
    """The ranks of a window: `group`, or those of a DistributedDataParallel, whose reduction in each backward it ends, as no_sync() does."""
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        return group
    if group is None and model.process_group.size() > 1:
        group = join()
        if group is None:
            raise UsageError(operation, "the ranks of DistributedDataParallel", "a process that no launcher started",
                             "torchrun, or group=accrue.join()")
    model.require_backward_grad_sync = False
    return group
