"""A tutorial clears gradients before every step, including virtual steps that only accumulate.

https://github.com/meta-pytorch/opacus/issues/93 (2020)
"""

from museum.parts import mean, proved

CAUSE = "zeroed-mid-window"


def exhibit():
    def loop(model, micro_batches):
        for micro in micro_batches:
            model.zero_grad(set_to_none=False)
            (mean(model, micro) / len(micro_batches)).backward()

    return proved(loop)
