"""What a loss's weight may be, and what is counted by it. The truth is autograd's, over the whole batch in fp64."""

import copy

import pytest
import torch
from torch import nn

import accrue

CLOSE = 1e-12


def truth(net, batch, parts):
    """(sum over the batch) / (weight of the batch), differentiated once."""
    total, weight = parts(net, batch)
    return torch.autograd.grad(total / weight, list(net.parameters()))


def error(gradients, expected):
    return max(float((a - b).norm() / b.norm()) for a, b in zip(gradients, expected))


class Taking(torch.optim.SGD):
    """Keeps the gradient that it was given."""

    def __init__(self, net):
        super().__init__(net.parameters(), lr=0.0)

    def step(self, closure=None):
        self.taken = [p.grad.clone() for group in self.param_groups for p in group["params"]]


def by_step(net, batch, loss_fn, micro):
    optimizer = Taking(net)
    accrue.step(net, optimizer, batch, loss_fn, micro_batch=micro)
    return optimizer.taken


def by_accumulator(net, batch, loss_fn, micro):
    optimizer, acc = Taking(net), accrue.Accumulator(net)
    for begin in range(0, accrue.batch_size(batch), micro):
        acc.backward(loss_fn(net, accrue.batch_slice(batch, begin, begin + micro)))
    acc.step(optimizer)
    return optimizer.taken


def by_accumulate(net, batch, loss_fn, micro):
    return list(accrue.accumulate(net, batch, loss_fn, micro)[0].values())


def by_wrapper(net, batch, loss_fn, micro):
    optimizer = accrue.accumulating(net, Taking(net), micro_batches=accrue.batch_size(batch) // micro)
    for begin in range(0, accrue.batch_size(batch), micro):
        optimizer.backward(loss_fn(net, accrue.batch_slice(batch, begin, begin + micro)))
        optimizer.step()
    return optimizer.optimizer.taken


WAYS = [by_step, by_accumulator, by_accumulate, by_wrapper]


def detection(positives_of):
    """A loss over all boxes, divided by how many are positive, which `positives_of` places."""
    x, y = torch.randn(8, 5, dtype=torch.float64), torch.zeros(8, 3, dtype=torch.float64)
    for sample, box in positives_of:
        y[sample, box] = 1

    def parts(net, batch):
        return nn.functional.binary_cross_entropy_with_logits(net(batch[0]), batch[1], reduction="sum"), batch[1].sum()

    return nn.Linear(5, 3).double(), [x, y], parts


# The first of them is the case as it was reported; positives at the end alone, and in one sample alone, are its neighbours.
@pytest.mark.parametrize("positives", [[(0, 1), (1, 2), (0, 2)], [(7, 0), (7, 2)], [(3, 1)]])
@pytest.mark.parametrize("way", WAYS)
def test_a_micro_batch_without_positives_adds_its_gradient(way, positives):
    net, batch, parts = detection(positives)
    expected = truth(net, batch, parts)
    for micro in (8, 4, 2, 1):
        assert error(way(net, batch, lambda net, micro: accrue.Loss(*parts(net, micro)), micro), expected) < CLOSE, micro
    dropped = way(net, batch, lambda net, micro: accrue.Loss(parts(net, micro)[0] * bool(micro[1].sum() > 0), micro[1].sum()), 1)
    assert error(dropped, expected) > 0.1, "the comparison sees what drops those without positives"


def test_the_loss_of_a_micro_batch_without_positives_is_in_the_mean():
    net, batch, parts = detection([(0, 1)])
    total, weight = parts(net, batch)
    report = accrue.step(net, Taking(net), batch, lambda net, micro: accrue.Loss(*parts(net, micro)), micro_batch=2)
    assert report.weight == 1 and report.loss == pytest.approx((total / weight).item(), rel=1e-12)


def test_a_micro_batch_of_ignored_labels_alone_may_depend_on_nothing():
    net, batch, parts = detection([(0, 1)])
    acc = accrue.Accumulator(net)
    acc.backward(accrue.Loss(0.0, 0))
    acc.backward(accrue.Loss(*parts(net, batch)))
    optimizer = Taking(net)
    acc.step(optimizer)
    assert error(optimizer.taken, truth(net, batch, parts)) < CLOSE


def test_a_window_without_weight_takes_no_step():
    net, batch, parts = detection([])
    report = accrue.step(net, Taking(net), batch, lambda net, micro: accrue.Loss(*parts(net, micro)), micro_batch=2)
    assert not report.stepped and report.weight == 0


class Weighted(nn.Module):
    """A mean with weights that the model makes."""

    def __init__(self):
        super().__init__()
        self.value, self.weigh = nn.Linear(5, 1), nn.Linear(5, 1)

    def parts(self, batch):
        weight = self.weigh(batch[0]).sigmoid()
        return (weight * (self.value(batch[0]) - batch[1]).square()).sum(), weight.sum()


def of_weights(net, micro):
    return accrue.Loss(*net.parts(micro))


def test_a_weight_that_requires_a_gradient_is_refused():
    net = Weighted()
    batch = [torch.randn(8, 5), torch.randn(8, 1)]
    before = copy.deepcopy(net.state_dict())
    for call in (lambda: of_weights(net, batch), lambda: accrue.verify(net, batch, of_weights),
                 *(lambda way=way: way(net, batch, of_weights, 2) for way in WAYS),
                 lambda: accrue.Loss(torch.tensor(1.0), nn.Parameter(torch.tensor([2.0]))),
                 lambda: accrue.Accumulator(net).expect([net.parts(batch)[1]])):
        with pytest.raises(accrue.UsageError, match="requires? (a|no) gradient.*(detach|counting)"):
            call()
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_row_weights_that_require_a_gradient_are_refused():
    hidden, weight, targets = torch.randn(6, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True), torch.randint(7, (6,))
    rows = torch.rand(6, requires_grad=True)
    with pytest.raises(accrue.UsageError, match="row weights that require no gradient"):
        accrue.linear_cross_entropy(hidden, weight, targets, row_weights=rows)
    loss = accrue.linear_cross_entropy(hidden, weight, targets, row_weights=rows.detach())
    expected = (nn.functional.cross_entropy(hidden @ weight.T, targets, reduction="none") * rows.detach()).sum()
    assert torch.allclose(loss.sum, expected, rtol=1e-5)


def test_a_weight_without_a_gradient_is_a_number_of_any_kind():
    for weight in (3, 3.0, True + 2, torch.tensor(3), torch.tensor([3.0]), torch.tensor(3.0, requires_grad=True).detach()):
        assert accrue.Loss(torch.tensor(1.0), weight).weight == 3
    with torch.no_grad():
        assert accrue.Loss(*Weighted().parts([torch.randn(2, 5), torch.randn(2, 1)])).weight > 0


def tokens(net, micro):
    """One sample has 100 tokens."""
    return accrue.Loss(net(micro[0]).square().sum(), 100 * len(micro[0]))


def test_tokens_are_not_taken_for_samples():
    net, batch = nn.Linear(5, 3), [torch.randn(64, 5)]
    acc = accrue.Accumulator(net, batch=accrue.Samples(64))
    micro = accrue.batch_slice(batch, 0, 8)
    for call in (lambda: acc.backward(tokens(net, micro)), lambda: acc.backward([tokens(net, micro)])):
        with pytest.raises(accrue.UsageError, match=r"samples of this micro-batch.*tokens.*Samples\(n\)"):
            call()
    assert not acc.pending
    windows = 0
    for begin in range(0, 64, 8):
        acc.backward(tokens(net, accrue.batch_slice(batch, begin, begin + 8)), accrue.Samples(8))
        windows += acc.full()
    assert acc.full() and windows == 1
    acc.discard()
    acc.backward(tokens(net, micro), sample_ids=range(8))
    assert not acc.full(), "eight ids are eight samples"
    acc.discard()
    in_tokens = accrue.Accumulator(net, batch=accrue.Tokens(800))
    in_tokens.backward(tokens(net, micro))
    assert in_tokens.full(), "a weight counts tokens"
    in_tokens.discard()
    assert accrue.accumulate(net, batch, tokens, 8)[1] == 6400
