"""The condition is inverted: a step is taken after every micro-batch except the last one of the window.

https://github.com/huggingface/accelerate/issues/435 (2022)
"""

from museum.parts import Window, mean

CAUSE = "stepped-mid-window"


def exhibit():
    window = Window()
    steps = len(window.micro_batches)
    with window.watch() as watched:
        for place, micro in enumerate(window.micro_batches):
            (mean(window.model, micro) / steps).backward()
            if (place + 1) % steps != 0:
                window.optimizer.step()
    return watched.report
