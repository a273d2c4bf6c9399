"""Weight decay is applied at every micro-batch, before the accumulated gradient is applied.

https://github.com/keras-team/keras/issues/19990 (2024)
"""

import torch

from museum.parts import Window, mean

CAUSE = "decay-per-micro-batch"


def exhibit():
    window = Window()
    with window.watch() as watched:
        for micro in window.micro_batches:
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            with torch.no_grad():
                for parameter in window.model.parameters():
                    parameter.mul_(1 - 0.1 * 0.01)
        window.optimizer.step()
    return watched.report
