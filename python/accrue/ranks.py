"""Ranks that train together."""

from typing import Any

from torch import nn

from accrue import _native
from accrue.errors import UsageError
from accrue.options import check_options


def join(timeout: float = 300.0) -> _native.Group | None:
    """Joins the ranks that torchrun, mpirun or srun started, by their environment variables.

    Pass the group to Accumulator or Stepper as `group`: gradients are all-reduced once per window, while the last backward pass runs.

    Args:
        timeout: how long to wait for the other ranks, in seconds.

    Returns:
        The group; None if this process is alone.

    Raises:
        UsageError: `timeout` is no number, the launcher's variables are inconsistent, or ranks on several machines have no run token.
        RunError: ranks did not join in time; it names them.
    """
    check_options("join", {"timeout": timeout}, timeout=float)
    return _native.join(timeout)


def ranks_of(model: Any, group: _native.Group | None, operation: str) -> _native.Group | None:
    """Returns the ranks that share a window: `group`, or the ranks of a DistributedDataParallel.

    A DistributedDataParallel then no longer reduces in each backward pass, as with no_sync().
    """
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        return group
    if group is None and model.process_group.size() > 1:
        group = join()
        if group is None:
            raise UsageError(operation, "the ranks of DistributedDataParallel", "a process that no launcher started",
                             "torchrun, or group=accrue.join()")
    model.require_backward_grad_sync = False
    return group
