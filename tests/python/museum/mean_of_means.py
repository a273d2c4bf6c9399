"""Each micro-batch's mean loss has the same weight, however many words the micro-batch has.

https://github.com/huggingface/transformers/issues/24725 (2023)
"""

from museum.parts import mean, proved

CAUSE = "weighting"


def exhibit():
    def loop(model, micro_batches):
        for micro in micro_batches:
            (mean(model, micro) / len(micro_batches)).backward()

    return proved(loop)
