"""Accumulator, step, plan and accelerate beside plain torch over the whole batch, in fp64 to 1e-12."""

import threading

import pytest
import torch
from museum.parts import batch, loss_fn, mean, micro_batches, model, words
from torch import nn

import accrue

CLOSE = 1e-12


def double(net):
    return net.double()


def true_gradient(net, whole):
    loss = loss_fn(net, whole)
    return torch.autograd.grad(loss.sum / loss.weight, list(net.parameters()))


def difference(left, right):
    return max(float((a - b).norm() / b.norm().clamp_min(1e-300)) for a, b in zip(left, right))


@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_any_split_leaves_the_gradient_of_the_whole(size):
    net, whole = double(model()), batch()
    truth = true_gradient(net, whole)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    acc = accrue.Accumulator(net)
    for begin in range(0, 10, size):
        acc.backward(loss_fn(net, accrue.batch_slice(whole, begin, begin + size)))
    report = acc.step(optimizer)
    assert difference([p.grad for p in net.parameters()], truth) < CLOSE
    assert report.weight == words(whole) and report.micro_batches == -(-10 // size)


def test_a_mean_of_means_is_seen():
    net, whole = double(model()), batch()
    truth = true_gradient(net, whole)
    for begin in range(0, 10, 3):
        (mean(net, accrue.batch_slice(whole, begin, begin + 3)) / 4).backward()
    assert difference([p.grad for p in net.parameters()], truth) > 1e-3


def test_all_forms_take_the_same_step():
    whole = batch()

    def after(take):
        net = double(model())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        take(net, optimizer)
        return [p.detach() for p in net.parameters()]

    def by_torch(net, optimizer):
        gradients = true_gradient(net, whole)
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        for p, gradient in zip(net.parameters(), gradients):
            p.grad = gradient * (0.01 / norm)  # torch's own clipping divides by norm + 1e-6
        optimizer.step()

    def by_scope(net, optimizer):
        with accrue.Accumulator(net, clip_norm=0.01).window() as window:
            for begin in range(0, 10, 3):
                window.backward(loss_fn(net, accrue.batch_slice(whole, begin, begin + 3)))
            window.step(optimizer)

    def by_wrapper(net, optimizer):
        wrapped = accrue.accumulating(net, optimizer, micro_batches=4, clip_norm=0.01)
        acted = []
        for begin in range(0, 10, 3):
            wrapped.zero_grad()
            wrapped.backward(loss_fn(net, accrue.batch_slice(whole, begin, begin + 3)))
            acted.append(wrapped.step() is not None)
        assert acted == [False, False, False, True]

    def by_step(net, optimizer):
        report = accrue.step(net, optimizer, whole, loss_fn, clip_norm=0.01, micro_batch=3)
        assert report.micro_batches == 4 and report.stepped

    def by_decorator(net, optimizer):
        @accrue.accumulated(net, optimizer, clip_norm=0.01, micro_batch=4)
        def train_step(model, micro):
            return loss_fn(model, micro)

        train_step(whole)

    def accelerated(net, optimizer):
        accrue.step(net, optimizer, whole, loss_fn, clip_norm=0.01, micro_batch=3, accelerate=True)

    expected = after(by_torch)
    for form in (by_scope, by_wrapper, by_step, by_decorator, accelerated):
        assert difference(after(form), expected) < CLOSE, form.__name__


def test_accumulate_touches_nothing():
    net, whole = double(model()), batch()
    gradients, weight = accrue.accumulate(net, whole, loss_fn, micro_batch=3)
    assert weight == words(whole) and all(p.grad is None for p in net.parameters())
    assert difference(list(gradients.values()), true_gradient(net, whole)) < CLOSE


def test_out_of_memory_is_split_and_the_batch_finished():
    net, whole = double(model()), batch()
    truth = true_gradient(net, whole)

    def tight(net, micro):
        if len(micro["labels"]) > 2:
            raise torch.OutOfMemoryError("no room")
        return loss_fn(net, micro)

    report = accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.0), whole, tight, micro_batch=8)
    assert report.retries > 0
    assert difference([p.grad for p in net.parameters()], truth) < CLOSE


def test_several_losses_have_their_own_denominators():
    net = double(model())
    window = micro_batches(3)
    totals = [float(sum(words(micro) for micro in window)), 9.0]

    def losses(micro):
        return [loss_fn(net, micro), accrue.Loss(net(micro["input_ids"]).square().mean(dim=(1, 2)).sum(), 3)]

    whole = [accrue.Loss(sum(part.sum for part in parts), sum(part.weight for part in parts)) for parts in zip(*map(losses, window))]
    truth = torch.autograd.grad(whole[0].mean + 0.5 * whole[1].mean, list(net.parameters()))
    acc = accrue.Accumulator(net)
    acc.expect(totals, [1.0, 0.5])
    for micro in window:
        acc.backward(losses(micro), accrue.Samples(3))
    acc.step(torch.optim.SGD(net.parameters(), lr=0.0))
    assert difference([p.grad for p in net.parameters()], truth) < CLOSE


def test_plan_names_a_micro_batch():
    plan = accrue.plan(model(), batch(), loss_fn, batch_samples=40)
    assert 1 <= plan.micro_batch <= 40 and plan.micro_batches == -(-40 // plan.micro_batch) and plan.reason


def test_accelerate_counts_what_it_does():
    net = model()
    with accrue.accelerate(net) as accelerated:
        loss_fn(net, batch()).sum.backward()
        assert accelerated.calls["products"] == 2 and accelerated.calls["embeddings"] == 1
    loss_fn(net, batch()).sum.backward()
    assert accelerated.calls == {}


def test_autocast_models_accumulate_to_bf16s_rounding():
    net, whole = model(), batch()
    truth = true_gradient(net, whole)
    acc = accrue.Accumulator(net)
    with torch.autocast("cpu", torch.bfloat16):
        for begin in range(0, 10, 4):
            acc.backward(loss_fn(net, accrue.batch_slice(whole, begin, begin + 4)))
    assert acc.step(torch.optim.SGD(net.parameters(), lr=0.0)).stepped
    assert 1e-5 < difference([p.grad for p in net.parameters()], truth) < 3e-2


def refused_in_a_window(meddle):
    net, whole = double(model()), batch()
    acc = accrue.Accumulator(net)
    micro = [accrue.batch_slice(whole, 0, 5), accrue.batch_slice(whole, 5, 10)]
    acc.backward(loss_fn(net, micro[0]))
    meddle(net, micro[1])
    with pytest.raises(accrue.UsageError) as raised:
        acc.backward(loss_fn(net, micro[1]))
    return str(raised.value)


@pytest.mark.parametrize("meddle, says", [
    (lambda net, _: torch.optim.SGD(net.parameters(), lr=1e-3).step(), "a changed parameter"),
    (lambda net, _: torch.optim.SGD(net.parameters(), lr=1e-3, foreach=True).step(), "a changed parameter"),
    (lambda net, _: [p.data.mul_(0.999) for p in net.parameters()], "a changed parameter"),
    (lambda net, _: [p.data.sub_(p.grad, alpha=1e-3) for p in net.parameters() if p.grad is not None], "a changed parameter"),
    (lambda net, _: torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3), "a gradient written in place"),
    (lambda net, _: [p.grad.data.mul_(0.5) for p in net.parameters() if p.grad is not None], "a gradient written in place"),
    (lambda net, micro: loss_fn(net, micro).sum.backward(), "a plain backward()"),
    (lambda net, _: net.float(), "moved or converted"),
])
def test_what_others_do_to_an_open_window_is_refused_by_name(meddle, says):
    assert says in refused_in_a_window(meddle)


def test_two_losses_of_one_forward_pass_are_named():
    net = double(nn.Linear(4, 2))
    acc = accrue.Accumulator(net)
    y = net(torch.ones(3, 4, dtype=torch.float64)).exp()
    acc.backward(accrue.Loss(y.sum(), 3))
    with pytest.raises(accrue.UsageError, match="expected one loss for each forward pass.*their sum"):
        acc.backward(accrue.Loss(y.square().sum(), 3))


def test_a_second_thread_is_refused():
    net = double(model())
    said = []
    acc = accrue.Accumulator(net, micro_batches=2)

    class Asks:
        param_groups = [{"params": list(net.parameters())}]

        @staticmethod
        def step():
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()

    def ask():
        try:
            acc.full()
        except accrue.UsageError as error:
            said.append(str(error))

    acc.backward(loss_fn(net, batch()))
    acc.step(Asks())
    assert len(said) == 1 and "one thread at a time" in said[0]


def test_no_sample_of_a_step_is_left_alone():
    sizes = []

    def loss(net, micro):
        sizes.append(len(micro))
        return accrue.Loss(net(micro).square().sum(), len(micro))

    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    report = accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(9, 4), loss, micro_batch=4)
    assert report.stepped and sizes == [3, 3, 3]
