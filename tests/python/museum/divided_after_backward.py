"""backward() runs inside a helper, and only the returned loss is divided by the number of micro-batches.

https://github.com/verl-project/verl/pull/436 (2025)
"""

from museum.parts import mean, proved

CAUSE = "normalization"


def compute_loss_and_backward(model, micro):
    loss = mean(model, micro)
    loss.backward()
    return loss


def exhibit():
    def loop(model, micro_batches):
        step_loss = 0
        for micro in micro_batches:
            loss = compute_loss_and_backward(model, micro) / len(micro_batches)
            step_loss += loss.item()

    return proved(loop, samples=12, even=True)
