"""zero_grad() is outside the condition that step() is in.

https://github.com/gaozhihan/PreDiff/issues/32 (2024)
"""

from museum.parts import Window, mean

CAUSE = "zeroed-mid-window"


def exhibit():
    window = Window()
    with window.watch() as watched:
        for place, micro in enumerate(window.micro_batches):
            window.optimizer.zero_grad()
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            if place + 1 == len(window.micro_batches):
                window.optimizer.step()
    return watched.report
