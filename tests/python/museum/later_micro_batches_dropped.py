"""The optimizer keeps its gradients in other memory, and only the first and the last micro-batch are copied there.

https://github.com/deepspeedai/DeepSpeed/pull/7967 (2026)
"""

import torch

from museum.parts import mean, proved, words

CAUSE = "weighting"


def exhibit():
    def loop(model, batches):
        parameters = list(model.parameters())
        total = sum(words(micro) for micro in batches)
        for place, micro in enumerate(batches):
            loss = mean(model, micro) * words(micro) / total
            gradients = torch.autograd.grad(loss, parameters)
            if place == 0:
                kept = gradients
        for parameter, first, last in zip(parameters, kept, gradients):
            parameter.grad = first + last

    return proved(loop)
