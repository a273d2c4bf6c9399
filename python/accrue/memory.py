"""accrue's allocator for tensors on the CPU, and how much memory is at hand."""

import torch

from accrue import _native
from accrue.options import check_options

NOT_KNOWN = 2**63 - 1  # what the native side answers if the system reports nothing


def install_allocator(budget: str = "none") -> None:
    """Makes torch's CPU tensors come from accrue's caching allocator, best before the first of them.

    Blocks are kept and given out again, in size classes, with huge pages for large ones: pages are not mapped anew in every
    micro-batch. `budget` ("6GiB", "auto", "none") is what tensors may take: an allocation beyond it raises torch.OutOfMemoryError,
    which `accrue.step` undoes and splits. May be called again to change the budget.
    """
    check_options("install_allocator", {"budget": budget}, budget=str)
    _native.install_allocator(budget)


def memory_usage() -> dict[str, int | None]:
    """Bytes: in tensors now (`live_bytes`), what can be resident for them (`reserved_bytes`; both 0 without the allocator), of the
    process (`resident_bytes`, `peak_resident_bytes`), and the budget."""
    return _native.memory_usage()


def bytes_at_hand(device: torch.device) -> int | None:
    """What new tensors on a device can take; None where the system does not report it."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if device.type != "cpu":
        return None
    usage, available = memory_usage(), _native.available_bytes()
    budget = None if usage["budget_bytes"] is None else max(usage["budget_bytes"] - usage["live_bytes"], 0)
    known = None if available == NOT_KNOWN else available
    return min((each for each in (known, budget) if each is not None), default=None)
