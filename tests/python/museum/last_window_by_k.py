"""A short last window is divided by the usual number of micro-batches.

https://github.com/Lightning-AI/pytorch-lightning/issues/19987 (2024)
"""

from museum.parts import Window, mean

CAUSE = "last-window"


def exhibit():
    steps, window = 4, Window(count=3)
    with window.watch(usual_micro_batches=steps) as watched:
        for place, micro in enumerate(window.micro_batches):
            (mean(window.model, micro) / steps).backward()
            if (place + 1) % steps == 0 or place + 1 == len(window.micro_batches):
                window.optimizer.step()
                window.optimizer.zero_grad()
    return watched.report
