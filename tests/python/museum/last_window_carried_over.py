"""The gradient that an epoch's short last window left in .grad is added to the next epoch's first window.

https://github.com/meta-pytorch/torchtune/pull/2745 (2025)
"""

from museum.parts import Window, mean

CAUSE = "last-window"


def exhibit():
    steps, window = 4, Window(count=4)
    for micro in window.micro_batches[:3]:  # the end of the previous epoch, which has 7 micro-batches in windows of 4
        (mean(window.model, micro) / steps).backward()
    with window.watch() as watched:
        for micro in window.micro_batches:
            (mean(window.model, micro) / steps).backward()
        window.optimizer.step()
        window.optimizer.zero_grad()
    return watched.report
