"""An offloading optimizer copies the gradients of the first and the last micro-batch alone: those between are dropped.

https://github.com/deepspeedai/DeepSpeed/pull/7967 (2026)
"""

import torch

from museum.parts import cross_entropy, proved, words

CAUSE = "weighting"


def exhibit():
    def loop(model, batches):
        parameters = list(model.parameters())
        total = sum(words(micro) for micro in batches)
        for place, micro in enumerate(batches):
            gradients = torch.autograd.grad(cross_entropy(model, micro, "sum") / total, parameters)
            if place == 0:
                kept = gradients
        for parameter, first, last in zip(parameters, kept, gradients):
            parameter.grad = first + last

    return proved(loop)
