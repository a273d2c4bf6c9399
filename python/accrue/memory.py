"""accrue's allocator for CPU tensors, and the available memory."""

import torch

from accrue import _native
from accrue.options import check_options

NOT_KNOWN = 2**63 - 1  # what the native module returns if the system reports nothing


def install_allocator(budget: str = "none") -> None:
    """Makes torch allocate CPU tensors from accrue's caching allocator. Call it before the first tensor is made.

    Freed blocks are kept in size classes and reused, with huge pages for large ones, so that pages are not mapped again in every micro-batch. It may
    be called again to change the budget.

    Args:
        budget: how much memory tensors may take: "6GiB", "auto" (what the cgroup or the system has free), or "none". An allocation beyond
            it raises torch.OutOfMemoryError; `accrue.step` then splits the micro-batch.

    Raises:
        UsageError: the budget is none of these.
    """
    check_options("install_allocator", {"budget": budget}, budget=str)
    _native.install_allocator(budget)


def memory_usage() -> dict[str, int | None]:
    """Returns the memory usage in bytes.

    - `live_bytes`: in tensors now. 0 without the allocator.
    - `reserved_bytes`: what can be resident for tensors, free blocks included. 0 without the allocator.
    - `resident_bytes`, `peak_resident_bytes`: of the process.
    - `budget_bytes`: the budget; None if there is none.
    """
    return _native.memory_usage()


def bytes_at_hand(device: torch.device) -> int | None:
    """Returns how many bytes new tensors on a device can take; None if the system does not report it."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if device.type != "cpu":
        return None
    usage, available = memory_usage(), _native.available_bytes()
    budget = None if usage["budget_bytes"] is None else max(usage["budget_bytes"] - usage["live_bytes"], 0)
    known = None if available == NOT_KNOWN else available
    return min((each for each in (known, budget) if each is not None), default=None)
