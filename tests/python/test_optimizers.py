"""Which optimizers a window steps, and that the others are refused before the window is lost."""

import types

import pytest
import torch
from museum.parts import batch, loss_fn, model

import accrue


class Sam(torch.optim.SGD):
    """As davda54/sam: its step() has a default, and does not take it."""

    def step(self, closure=None):
        assert closure is not None, "needs a closure"


class Raising(torch.optim.SGD):
    def step(self, closure=None):
        if closure is None:
            raise ValueError("needs a closure")


class Positional(torch.optim.SGD):
    def step(self, loss, retain_graph=False):
        loss.backward(retain_graph=retain_graph)


WITH_CLOSURES = [torch.optim.LBFGS, lambda p: Sam(p, lr=0.1), lambda p: Raising(p, lr=0.1), lambda p: Positional(p, lr=0.1)]


@pytest.mark.parametrize("make", WITH_CLOSURES)
def test_optimizers_with_closures_are_refused_before_the_window_is_lost(make):
    net = model()
    optimizer = make(net.parameters())
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(accrue.UsageError, match="closure"):
        accrue.step(net, optimizer, batch(), loss_fn)
    with pytest.raises(accrue.UsageError, match="closure"):
        accrue.accumulated(net, optimizer)
    acc = accrue.Accumulator(net, micro_batches=2)
    acc.backward(loss_fn(net, batch()))
    for call in (acc.step, acc.finish):
        with pytest.raises(accrue.UsageError, match="closure"):
            call(optimizer)
    wrapped = accrue.AccumulatingOptimizer(acc, optimizer)
    with pytest.raises(accrue.UsageError, match="closure"):
        wrapped.finish()
    assert acc.pending and acc.weight > 0, "the window is still there"
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
    assert acc.step(torch.optim.SGD(net.parameters(), lr=0.1)).stepped, "another optimizer takes it"


class Optional(torch.optim.SGD):
    """Takes a closure where there is one, as torch's own do."""

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        super().step()
        return loss


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop, Optional])
def test_optimizers_that_may_have_a_closure_are_stepped(make):
    net = model()
    optimizer = make(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)  # wraps step()
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped
    schedule.step()
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped


def groups(value, step=lambda: None):
    return types.SimpleNamespace(param_groups=value, step=step)


@pytest.mark.parametrize("wrong", [None, 3, "AdamW", [], {}, object(), torch.ones(2), groups(None), groups(7), groups("params"), groups([None]), groups([3]),
                                   groups(["p"]), groups([], step=3), groups([{}]), groups([{"params": None}]), groups([{"params": 5}]), groups([{"params": [None]}]),
                                   groups([{"params": ["w", 3]}]), groups([{"params": "weights"}]), groups([{"params": [[torch.ones(2)]]}])])
def test_what_is_no_optimizer_is_refused(wrong):
    net = model()
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    for call in (lambda: acc.step(wrong), lambda: acc.finish(wrong), lambda: accrue.Stepper(net, wrong), lambda: accrue.step(net, wrong, batch(), loss_fn)):
        with pytest.raises(accrue.UsageError, match="torch.optim optimizer"):
            call()
    assert acc.pending


def test_groups_without_parameters_are_stepped():
    net = model()
    optimizer = torch.optim.SGD([{"params": list(net.parameters())}, {"params": [], "lr": 1.0}], lr=0.1)
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    optimizer.param_groups.append({"params": ()})
    assert acc.step(groups([{"params": ()}, *optimizer.param_groups])).stepped


def test_a_gradient_scaler_is_no_optimizer():
    net = model()
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    with pytest.raises(accrue.UsageError, match="GradScaler.*without the scaler"):
        acc.step(torch.amp.GradScaler("cpu"))
    assert acc.pending


def prepared(net, **options):
    import accelerate

    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, **options)
    return accelerator, accelerator.prepare_optimizer(torch.optim.SGD(net.parameters(), lr=0.1))


def test_accelerates_optimizer_is_stepped_where_it_leaves_accumulation_to_the_window():
    net = model()
    accelerator, optimizer = prepared(net)
    before = next(net.parameters()).detach().clone()
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped
    assert not torch.equal(before, next(net.parameters()))


def test_accelerates_own_accumulation_is_refused_beside_windows():
    net = model()
    accelerator, optimizer = prepared(net, gradient_accumulation_steps=4)
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    with pytest.raises(accrue.UsageError, match="gradient_accumulation_steps=1"):
        acc.step(optimizer)
    with pytest.raises(accrue.UsageError, match="gradient_accumulation_steps=1"):
        accrue.step(net, optimizer, batch(), loss_fn)
    assert acc.pending
    accelerator.gradient_accumulation_steps = 1
    accelerator.gradient_state._set_sync_gradients(False)  # as accelerator.accumulate() and no_sync() leave it in a micro-batch
    with pytest.raises(accrue.UsageError, match="skips steps"):
        acc.step(optimizer)
    accelerator.gradient_state._set_sync_gradients(True)
    assert acc.step(optimizer).stepped


def test_accelerates_loss_scale_is_refused():
    net = model()
    _, optimizer = prepared(net)
    optimizer.scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(accrue.UsageError, match="bf16"):
        accrue.step(net, optimizer, batch(), loss_fn)


def test_accelerates_optimizer_around_one_with_a_closure():
    net = model()
    _, optimizer = prepared(net)
    optimizer.optimizer = torch.optim.LBFGS(net.parameters())
    with pytest.raises(accrue.UsageError, match="LBFGS"):
        accrue.step(net, optimizer, batch(), loss_fn)


def test_a_step_that_is_an_object_without_a_hash():
    class Step:
        __hash__ = None

        def __init__(self, optimizer):
            self._step = optimizer.step

        def __call__(self, closure=None):
            self._step()

    class WantsClosure(Step):
        def __call__(self, closure):
            closure()

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.step = Step(torch.optim.SGD(net.parameters(), lr=0.1))
    before = net.head.weight.detach().clone()
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped
    assert not torch.equal(before, net.head.weight)
    optimizer.step = WantsClosure(torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(accrue.UsageError, match="wants a closure"):
        accrue.step(net, optimizer, batch(), loss_fn)
