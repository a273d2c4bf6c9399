"""Which samples of a window each client has: pure functions of the window's index and of the sizes of the clients' data."""

from collections.abc import Sequence

from accrue.errors import UsageError


def shares(samples: int, sizes: Sequence[int]) -> list[int]:
    """Returns how many of a window's `samples` each client has, in proportion to its data: by the largest remainders, the first of equal ones.

    Raises:
        UsageError: a client would have none.
    """
    total = sum(sizes)
    parts = [samples * size // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda client: (-(samples * sizes[client] % total), client))
    for client in by_remainder[:samples - sum(parts)]:
        parts[client] += 1
    if min(parts) < 1:
        least = -(-total // min(sizes))
        raise UsageError("batch.samples of federated windows", "a sample of each client in every window",
                         f"{samples} samples for clients with {', '.join(map(str, sizes))} samples", f"batch.samples = {least} or more")
    return parts


def draws(window: int, share: int, first: int, size: int, total: int) -> list[tuple[int, int]]:
    """Returns the ranges of draws of window `window` of the client whose samples are [first, first + size) of `total`.

    Each window takes the next `share` of them, and begins again after the last one. A draw is epoch * total + sample.
    """
    ranges, begin, end = [], window * share, (window + 1) * share
    while begin < end:
        epoch, position = divmod(begin, size)
        count = min(end - begin, size - position)
        ranges.append((epoch * total + first + position, epoch * total + first + position + count))
        begin += count
    return ranges
