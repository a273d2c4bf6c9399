"""accrue's allocator for tensors on the CPU, and how much memory is at hand."""

import pathlib

import torch

from accrue import _native
from accrue.options import check_options


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
    usage = memory_usage()
    budget = None if usage["budget_bytes"] is None else max(usage["budget_bytes"] - usage["live_bytes"], 0)
    return min((each for each in (_available(), _left_in_group(), budget) if each is not None), default=None)


def _available() -> int | None:
    kibibytes = _entry("/proc/meminfo", "MemAvailable:")
    return None if kibibytes is None else kibibytes * 1024


def _left_in_group() -> int | None:
    """Of the group at the mount, which within a container is the container's."""
    for folder, limit, used, reclaimable in (("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
                                             ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")):
        try:
            most, taken = (int(pathlib.Path(folder, name).read_text()) for name in (limit, used))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        return max(most - taken + (_entry(f"{folder}/memory.stat", reclaimable) or 0), 0)
    return None


def _entry(path: str, key: str) -> int | None:
    """The number behind `key` in a file of lines "key number"."""
    try:
        with open(path) as file:
            return next((int(line.split()[1]) for line in file if line.split()[0] == key), None)
    except (OSError, ValueError, IndexError):
        return None
