"""The loss is divided by the words of all micro-batches, and backward() divides again by the number of micro-batches.

https://github.com/huggingface/accelerate/issues/3533 (2025)
"""

from museum.parts import cross_entropy, proved, words

CAUSE = "scaled-twice"


def exhibit():
    def loop(model, micro_batches):
        items_in_batch = sum(words(micro) for micro in micro_batches)
        for micro in micro_batches:
            loss = cross_entropy(model, micro, "sum") / items_in_batch
            (loss / len(micro_batches)).backward()

    return proved(loop)
