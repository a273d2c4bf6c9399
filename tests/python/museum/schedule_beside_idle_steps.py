"""The optimizer's step does nothing until the window is full, but the schedule's step after it always acts.

https://github.com/starVLA/starVLA/pull/210 (2026)
"""

import torch

from museum.parts import Window, mean

CAUSE = "schedule-per-micro-batch"


def exhibit():
    window = Window()
    # On a plateau of the schedule, the learning rate does not show the fault.
    schedule = torch.optim.lr_scheduler.ConstantLR(window.optimizer, factor=1.0)

    def step_where_full(place):
        if place + 1 == len(window.micro_batches):
            window.optimizer.step()

    with window.watch() as watched:
        for place, micro in enumerate(window.micro_batches):
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            step_where_full(place)
            schedule.step()
    return watched.report
