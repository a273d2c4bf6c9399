"""How an acceleration ends, on whatever thread, and what asks for logits that it did not make."""

import gc
import threading

import pytest
import torch
from museum.parts import batch, loss_fn, model
from torch import nn

import accrue

CLOSE = 1e-5


def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def gradients(net):
    loss = loss_fn(net, batch())
    return torch.autograd.grad(loss.sum, list(net.parameters()))


def same(first, second):
    return all(float((a - b).norm()) <= CLOSE * float(b.norm()) for a, b in zip(first, second))


def test_closed_in_another_thread():
    net = model()
    expected = gradients(net)
    accelerated = accrue.accelerate(net)
    loss = loss_fn(net, batch())
    in_a_thread(accelerated.close)
    assert accelerated.calls == {}
    assert same(torch.autograd.grad(loss.sum, list(net.parameters())), expected), "what was computed before"
    assert same(gradients(net), expected)
    again = accrue.accelerate(net)
    assert same(gradients(net), expected) and again.calls["products"] > 0
    again.close()


def test_the_models_end_in_another_thread():
    other = model()
    expected = gradients(other)
    held = [model()]
    accrue.accelerate(held[0])

    def end():
        held.clear()
        gc.collect()

    in_a_thread(end)
    assert same(gradients(other), expected)


def test_the_inner_of_two_ends_in_another_thread():
    outer, inner = model(), model()
    expected = gradients(inner)
    first, second = accrue.accelerate(outer), accrue.accelerate(inner)
    in_a_thread(second.close)
    assert same(gradients(inner), expected) and same(gradients(outer), expected)
    assert first.calls["products"] > 0
    in_a_thread(first.close)
    assert same(gradients(outer), expected)


def test_an_accumulator_goes_on_when_another_thread_closes():
    net = model()
    expected = gradients(net)
    accelerated = accrue.accelerate(net)
    acc = accrue.Accumulator(net)
    acc.backward(accrue.Loss(loss_fn(net, batch()).sum, 1))
    in_a_thread(accelerated.close)
    acc.backward(accrue.Loss(loss_fn(net, batch()).sum, 1))
    acc.step(torch.optim.SGD(net.parameters(), lr=0.0))
    assert same([p.grad for p in net.parameters()], expected), "the mean of two that are alike"


def test_closing_races_with_the_loop():
    net = model()
    expected = gradients(net)
    for _ in range(30):
        accelerated = accrue.accelerate(net)
        thread = threading.Thread(target=accelerated.close)
        thread.start()
        found = gradients(net)
        thread.join()
        assert same(found, expected)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def get_output_embeddings(self):
        return self.head

    def forward(self, ids):
        return self.head(self.embedding(ids))


def by_logits(net, ids, ask):
    logits = net(ids)
    return ask(nn.functional.cross_entropy(logits.view(-1, 11), ids.view(-1)), logits)


def by_grad(loss, logits):
    return torch.autograd.grad(loss, logits)[0]


def by_grad_unused(loss, logits):
    return torch.autograd.grad([loss], [logits], allow_unused=True)[0]


def by_backward(loss, logits):
    loss.backward(inputs=[logits])
    return logits.grad


def by_a_part(loss, logits):
    return torch.autograd.grad(loss, logits[:, :2], allow_unused=True)[0]


@pytest.mark.parametrize("ask", [by_grad, by_grad_unused, by_backward, by_a_part])
def test_a_gradient_by_logits_that_were_not_made_is_refused(ask):
    torch.manual_seed(1)
    net, ids = Language(), torch.randint(11, (4, 6))
    with accrue.accelerate(net), pytest.raises(accrue.UsageError, match="defer_logits=False"):
        by_logits(net, ids, ask)


def test_a_gradient_by_logits_where_they_are_made():
    net, ids = Language(), torch.randint(11, (4, 6))
    expected = by_logits(net, ids, by_grad)
    with accrue.accelerate(net, defer_logits=False):
        assert same([by_logits(net, ids, by_grad)], [expected])
    with accrue.accelerate(net):
        logits = net(ids)
        found = torch.autograd.grad(logits.exp().sum(), logits)[0]
        assert torch.allclose(found, logits.exp()), "of a loss that read them"
        logits = net(ids)
        logits.retain_grad()
        nn.functional.cross_entropy(logits.view(-1, 11), ids.view(-1)).backward()
        assert same([logits.grad], [expected])
        weights = torch.autograd.grad(nn.functional.cross_entropy(net(ids).view(-1, 11), ids.view(-1)), list(net.parameters()))
        assert len(weights) == 3, "by what is no logits, as always"
