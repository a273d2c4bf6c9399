"""accrue's allocator for tensors on the CPU."""

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
