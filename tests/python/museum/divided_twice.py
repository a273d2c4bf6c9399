"""The trainer divides by the number of micro-batches, and the backward() that it calls divides again.

https://github.com/huggingface/transformers/issues/40052 (2025)
"""

from museum.parts import mean, proved

CAUSE = "scaled-twice"


class Accelerator:
    def __init__(self, steps):
        self.steps = steps

    def backward(self, loss):
        (loss / self.steps).backward()


def exhibit():
    def loop(model, micro_batches):
        accelerator = Accelerator(len(micro_batches))
        for micro in micro_batches:
            accelerator.backward(mean(model, micro) / len(micro_batches))

    return proved(loop, samples=12, even=True)
