"""A step is taken at every K-th micro-batch, and the data end before the last window is full.

https://github.com/timoschick/pet/issues/36 (2021)
"""

from museum.parts import Window, mean

CAUSE = "last-window"


def exhibit():
    steps, window = 4, Window(count=3)
    with window.watch() as watched:
        for place, micro in enumerate(window.micro_batches):
            (mean(window.model, micro) / steps).backward()
            if (place + 1) % steps == 0:
                window.optimizer.step()
                window.optimizer.zero_grad()
    return watched.report
