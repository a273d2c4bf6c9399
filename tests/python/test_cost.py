"""A proof's price, in windows' work, where nothing is wrong and where something is."""

import pytest
import torch
from museum.parts import SAMPLES, Window, batch, cross_entropy, loss_fn, mean, model, words

import accrue
import accrue.testing

MOST_WINDOWS = 6


class Counted:
    """Counts the samples that a model's forward passes saw."""

    def __init__(self, net):
        self.samples = 0
        net.register_forward_pre_hook(self._count)

    def _count(self, net, args):
        self.samples += len(args[0])


def by_words(net, micro_batches):
    total = sum(words(micro) for micro in micro_batches)
    for micro in micro_batches:
        (cross_entropy(net, micro, "sum") / total).backward()


def by_means(net, micro_batches):
    for micro in micro_batches:
        (mean(net, micro) / len(micro_batches)).backward()


@pytest.mark.parametrize("loop, equal", [(by_words, True), (by_means, False)])
def test_a_loop_is_proved_in_six_windows(loop, equal):
    net = model()
    counted = Counted(net)
    report = accrue.verify_loop(net, batch(), loss_fn, loop, micro_batch=3)
    assert report.equal is equal
    assert counted.samples / SAMPLES <= MOST_WINDOWS, counted.samples / SAMPLES


@pytest.mark.parametrize("loop, even", [(by_words, False), (by_means, False), (by_means, True)])
def test_a_window_is_proved_in_six_windows(loop, even):
    window = Window(even=even)
    samples = sum(len(micro["labels"]) for micro in window.micro_batches)
    counted = Counted(window.model)
    with window.watch() as watched:
        loop(window.model, window.micro_batches)
        window.optimizer.step()
    assert watched.report.equal is (even or loop is by_words)
    assert counted.samples / samples <= MOST_WINDOWS, counted.samples / samples


def test_a_compiled_model_accumulates_exactly():
    net, whole = model().double(), batch()
    truth = loss_fn(net, whole)
    expected = torch.autograd.grad(truth.sum / truth.weight, list(net.parameters()))
    compiled = torch.compile(net, backend="aot_eager")
    acc = accrue.Accumulator(compiled)
    for begin in range(0, SAMPLES, 4):
        acc.backward(loss_fn(compiled, accrue.batch_slice(whole, begin, begin + 4)))
    acc.step(torch.optim.SGD(net.parameters(), lr=0.0))
    for parameter, gradient in zip(net.parameters(), expected):
        assert float((parameter.grad - gradient).norm()) <= 1e-12 * float(gradient.norm())


def test_what_proves_nothing_does_not_pass():
    """Each sample comes with the opposite target, so that the gradient all but cancels and bf16 rounding is as large as the rest."""
    net = torch.nn.Linear(8, 1, bias=False).bfloat16()
    with torch.no_grad():
        net.weight.mul_(1e-2)
    inputs = torch.randn(16, 8).repeat_interleave(2, 0).bfloat16()
    whole = [inputs, torch.tensor([1.0, -1.0]).repeat(16).unsqueeze(1).bfloat16()]

    def sums(net, micro):
        return accrue.Loss((net(micro[0]) - micro[1]).square().sum(), len(micro[0]))

    def loop(net, micro_batches):
        for micro in micro_batches:
            (sums(net, micro).sum / 32).backward()

    report = accrue.verify_loop(net, whole, sums, loop, micro_batch=6)
    assert report.equal and not report.conclusive and "Not conclusive" in str(report), report
    with pytest.raises(AssertionError, match="Not conclusive"):
        accrue.testing.assert_accumulates(net, whole, sums, loop, micro_batch=6)
