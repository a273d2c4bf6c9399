"""Mean losses are summed, and never divided by the number of micro-batches.

https://github.com/karpathy/nanoGPT/issues/206 (2023)
"""

from museum.parts import mean, proved

CAUSE = "normalization"


def exhibit():
    def loop(model, micro_batches):
        for micro in micro_batches:
            mean(model, micro).backward()

    return proved(loop, samples=12, even=True)
