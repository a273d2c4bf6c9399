"""The learning-rate schedule counts micro-batches: a warm-up of 16,000 steps is over after 1,000.

https://github.com/Lightning-AI/pytorch-lightning/issues/1476 (2020)
"""

import torch

from museum.parts import Window, mean

CAUSE = "schedule-per-micro-batch"


def exhibit():
    window = Window()
    schedule = torch.optim.lr_scheduler.LambdaLR(window.optimizer, lambda step: min(1, (step + 1) / 100))
    with window.watch() as watched:
        for micro in window.micro_batches:
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            schedule.step()
        window.optimizer.step()
    return watched.report
