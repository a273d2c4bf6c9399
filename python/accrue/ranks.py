"""Ranks that train together."""

from accrue import _native


def join(timeout: float = 300.0) -> _native.Group | None:
    """The group of the ranks that torchrun, mpirun or srun started, by their environment variables; None: this process is alone.

    timeout   seconds that a rank waits for the others

    Give it to Accumulator or Stepper as `group`: gradients are summed once per window, while the last backward runs.
    """
    return _native.join(timeout)
