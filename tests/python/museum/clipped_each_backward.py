"""The accumulated gradient is clipped after each backward().

https://github.com/huggingface/transformers/issues/1563 (2019)
"""

import torch

from museum.parts import Window, mean

CAUSE = "clip-per-micro-batch"


def exhibit():
    window = Window()
    with window.watch() as watched:
        for micro in window.micro_batches:
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            torch.nn.utils.clip_grad_norm_(window.model.parameters(), 0.05)
        window.optimizer.step()
    return watched.report
