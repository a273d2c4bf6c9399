"""`return` is inside the loop over micro-batches, so only the first one runs.

https://github.com/ImprintLab/MedSegDiff/issues/77 (2023)
"""

from museum.parts import mean, proved

CAUSE = "weighting"


def exhibit():
    def loop(model, micro_batches):
        for micro in micro_batches:
            loss = mean(model, micro)
            loss.backward()
            return loss

    return proved(loop)
