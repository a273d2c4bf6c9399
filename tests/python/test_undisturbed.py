"""What verify, verify_loop and watch leave: everything as it was, whatever happens. And they never throw inside somebody's loop."""

import copy
import io
import random

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

import accrue
from accrue.state import State
from accrue.untouched import untouched


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))


def batch():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(8, 5, generator=generator), torch.randn(8, 1, generator=generator)]


def micro_batches():
    return [accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 8, 2)]


def loss_fn(net, micro):
    return accrue.Loss((net(micro[0]) - micro[1]).square().sum(), len(micro[0]))


def right(net, micros):
    for micro in micros:
        (loss_fn(net, micro).sum / 8).backward()


def checks(net, loss=loss_fn):
    """Each way to look at a model."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)

    def watch():
        with accrue.watch(net, optimizer, loss) as w:
            for micro in w.micro_batches(micro_batches()):
                (loss(net, micro).sum / 8).backward()
            optimizer.step()
        optimizer.zero_grad()
        return w.report

    return {"verify": lambda: accrue.verify(net, batch(), loss), "watch": watch,
            "verify_loop": lambda: accrue.verify_loop(net, batch(), loss, lambda n, micros: [(loss(n, m).sum / 8).backward() for m in micros],
                                                      micro_batch=2)}


@pytest.mark.parametrize("way", ["verify", "verify_loop", "watch"])
def test_hooks_fire_afterwards(way):
    net = network()
    mask = torch.zeros(8, 5)
    mask[:, :2] = 1
    net[0].weight.register_hook(lambda gradient: gradient * mask)
    told = []
    net[2].weight.register_post_accumulate_grad_hook(lambda tensor: told.append(1))
    net[1].register_full_backward_hook(lambda *_: told.append(2))
    assert checks(net)[way]().equal, "a mask is linear: parts add up"
    net.zero_grad()
    told.clear()
    loss_fn(net, batch()).sum.backward()
    assert net[0].weight.grad[:, 2:].norm() == 0 and net[0].weight.grad.norm() > 0
    assert sorted(told) == [1, 2]
    handle = net[0].bias.register_hook(lambda gradient: gradient * 0)
    net.zero_grad()
    loss_fn(net, batch()).sum.backward()
    assert net[0].bias.grad.norm() == 0, "and new ones may be registered"
    handle.remove()


@pytest.mark.parametrize("way", ["verify", "verify_loop", "watch"])
@pytest.mark.parametrize("at", [3, 7, 11])
def test_an_exception_leaves_all_as_it_was(way, at):
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    net[3].bias.requires_grad_(False)
    net[1].eval()
    net[0].weight.grad = torch.ones(8, 5)
    generator = torch.Generator().manual_seed(1)
    calls = []

    def failing(model, micro):
        calls.append(1)
        if len(calls) >= at:
            raise ZeroDivisionError
        random.random()
        noise = torch.randn(micro[0].shape, generator=generator)
        model.train()
        return loss_fn(model, [micro[0] + noise, micro[1]])

    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    gradient = net[0].weight.grad
    states = torch.get_rng_state(), random.getstate(), generator.get_state()
    if way == "watch":
        gradient = net[0].weight.grad = None
        states = None  # which the loop itself moves
    try:
        checks(net, failing)[way]()
    except ZeroDivisionError:
        pass
    after = net.state_dict()
    if way != "watch":
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert [part.training for part in net] == [True, False, True, True]
        assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]
        assert torch.equal(generator.get_state(), states[2])
        assert net[0].weight.grad is gradient and gradient.sum() == 40
    assert not net[3].bias.requires_grad and torch.is_grad_enabled()
    assert not any(tensor._backward_hooks for tensor in net.parameters()) and not net._forward_pre_hooks
    assert torch.autograd.backward.__module__ == "torch.autograd" and not torch.nn.modules.module._global_forward_pre_hooks


def test_a_loops_optimizer_and_schedule_are_put_back():
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    loss_fn(net, batch()).sum.backward()
    optimizer.step()
    optimizer.zero_grad()
    before = copy.deepcopy((optimizer.state_dict(), schedule.state_dict(), net.state_dict()))

    def loop(model, micros):
        right(model, micros)
        optimizer.step()
        schedule.step()

    assert accrue.verify_loop(net, batch(), loss_fn, loop, micro_batch=2).equal
    for a, b in zip(before, (optimizer.state_dict(), schedule.state_dict(), net.state_dict())):
        assert str(a) == str(b)
    assert all(torch.equal(optimizer.state[tensor]["exp_avg"], before[0]["state"][place]["exp_avg"])
               for place, tensor in enumerate(net.parameters()))


def test_what_a_loop_notes_is_its_own():
    notes = []
    accrue.verify_loop(network(), batch(), loss_fn, lambda net, micros: (notes.append(len(micros)), right(net, micros)), micro_batch=2)
    assert notes == [4]


def test_models_are_copied_and_saved_inside_a_watch():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(micro_batches()):
            averaged = torch.optim.swa_utils.AveragedModel(net)
            file = io.BytesIO()
            torch.save(net, file)
            copied = copy.deepcopy(net)
            loss_fn(copied, micro).sum.backward()
            (loss_fn(net, micro).sum / 8).backward()
        optimizer.step()
    assert w.report.equal and w.report.conclusive and len(w.seen_micro_batches) == 4, f"\n{w.report}"
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for each in (copied, averaged.module, saved):
        assert each(batch()[0]).shape == (8, 1) and not each[0].weight._backward_hooks


def test_verify_within_autocast_and_no_grad():
    """Copies of weights that autocasting made of perturbed ones do not outlive the check."""
    net = network()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = net(batch()[0])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        net(batch()[0])
        accrue.verify(net, batch(), lambda n, m: accrue.Loss((n(m[0]).float() - m[1]).square().sum(), len(m[0])))
        assert not torch.is_grad_enabled()
        assert torch.equal(net(batch()[0]), expected)


def test_models_that_cannot_be_put_back_are_refused_by_name():
    lazy = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 1))
    with pytest.raises(accrue.UsageError, match="0.weight, which the first forward pass makes"):
        accrue.verify(lazy, batch(), loss_fn)
    with torch.device("meta"):
        hollow = nn.Linear(5, 1)
    with pytest.raises(accrue.UsageError, match="weight, which is on the meta device"):
        accrue.watch(hollow, torch.optim.SGD(hollow.parameters(), lr=0.1), loss_fn)
    with torch.inference_mode():
        made = torch.zeros(3)
    net = network()
    net.register_buffer("made", made)
    with pytest.raises(accrue.UsageError, match="made, which was made in inference mode"):
        accrue.verify_loop(net, batch(), loss_fn, right)


def test_state_puts_back_what_it_reaches():
    class Holder:
        def __init__(self):
            self.tensor, self.count, self.names = torch.ones(3), 1, ["a"]

    holder, table, counter = Holder(), {"x": torch.zeros(2)}, 5
    generator = torch.Generator().manual_seed(4)

    def function():
        nonlocal counter
        counter += 1
        holder.tensor.mul_(2)
        holder.tensor, holder.count = holder.tensor + 1, 7
        holder.names.append("b")
        table["x"].add_(1)
        table["y"] = 3
        return torch.rand(1, generator=generator)

    first = holder.tensor
    with untouched((function,), everything=True):
        drawn = function()
    assert counter == 5 and holder.tensor is first and torch.equal(first, torch.ones(3)) and holder.count == 1
    assert holder.names == ["a"] and list(table) == ["x"] and table["x"].sum() == 0
    with untouched((function,)):
        assert torch.equal(function(), drawn), "the generator, too, is what it was"
    assert counter == 6 and table["y"] == 3, "names and containers of a function's own are results of it"


def test_containers_of_every_kind_are_put_back():
    from collections import Counter, OrderedDict, deque

    class Odd(OrderedDict):
        def update(self, *_):
            raise TypeError

    class Proxy:
        def __getattribute__(self, name):
            raise LookupError

    held = [Counter("aab"), Odd(x=1, y=2), deque([1, 2], maxlen=2), {"s"}, Proxy()]
    before = [str(each) for each in held[:4]]

    def function():
        held[0].update("ccc")
        held[1]["z"] = 3
        held[1].move_to_end("x")
        held[2].append(3)
        held[3].add("t")

    with untouched((function,), everything=True):
        function()
    assert [str(each) for each in held[:4]] == before
    held[1]["z"] = 3
    assert list(held[1]) == ["x", "y", "z"], "and an ordered one keeps its order"


def test_a_check_inside_a_watch_is_none_of_its_window():
    net, other = network(), network()
    optimizer, others = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(micro_batches()):
            (loss_fn(net, micro).sum / 8).backward()
            assert accrue.verify(net, batch(), loss_fn, micro_batches=[4]).equal
        with accrue.watch(other, others, lambda model, x: accrue.Loss((net(x) - model(x)).square().sum(), len(x))) as inner:
            for micro in inner.micro_batches([each[0] for each in micro_batches()]):
                ((net(micro).detach() - other(micro)).square().sum() / 8).backward()
            others.step()
        optimizer.step()
    for report in (w.report, inner.report):
        assert report.equal and report.conclusive and report.judged, f"\n{report}"


def test_a_graph_of_the_users_stays_valid():
    net = network()
    waiting = loss_fn(net, batch()).sum
    state = State((net,))
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.data.add_(1)
    state.restore()
    waiting.backward()
    assert net[0].weight.grad is not None


class Relative(torch.optim.Optimizer):
    """As Adafactor(lr=None)."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": None})

    def step(self, closure=None):
        pass


def window(net, optimizer, behind=lambda: None, step=None):
    net.zero_grad()
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(micro_batches()):
            (loss_fn(net, micro).sum / 8).backward()
        behind()
        (step or optimizer.step)()
    return w.report


def test_schedules_that_hold_others():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make = torch.optim.lr_scheduler
    chained = make.ChainedScheduler([make.ExponentialLR(optimizer, 0.9), make.StepLR(optimizer, 2)], optimizer=optimizer)
    assert window(net, optimizer, step=lambda: (optimizer.step(), chained.step())).equal
    optimizer = torch.optim.SGD(net.parameters(), lr=torch.tensor(0.1))
    plateau = make.ReduceLROnPlateau(optimizer)
    assert window(net, optimizer, step=lambda: (optimizer.step(), plateau.step(1.0))).equal


def test_rates_that_are_none_and_optimizers_without_one():
    net = network()
    assert window(net, Relative(net.parameters())).equal
    optimizer = Relative(net.parameters())
    del optimizer.param_groups[0]["lr"]
    assert window(net, optimizer).equal


class Scaled(torch.optim.Optimizer):
    """step() has an argument of its own, and takes a closure by name alone."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.seen = []

    def step(self, scale=1.0, *, closure=None):
        self.seen.append((scale, None if closure is None else closure()))


def test_arguments_of_a_step_arrive_as_they_were_given():
    net = network()
    optimizer = Scaled(net.parameters())
    assert window(net, optimizer, step=lambda: optimizer.step(0.5)).equal
    assert window(net, optimizer, step=lambda: optimizer.step(scale=0.25)).equal
    assert window(net, optimizer, step=lambda: optimizer.step(closure=lambda: 3.0)).equal
    assert optimizer.seen == [(0.5, None), (0.25, None), (1.0, 3.0)]


def test_sparse_gradients_are_refused_behind_the_loop():
    net = nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ids = torch.arange(24).view(8, 3) % 20
    reached = []
    with pytest.raises(accrue.UsageError, match="watch: expected dense gradients, received a sparse one, of 0.weight"):
        with accrue.watch(net, optimizer, lambda n, m: accrue.Loss(n(m).square().sum(), m.numel())) as w:
            for micro in w.micro_batches([ids[:3], ids[3:]]):
                (net(micro).square().sum() / 24).backward()
            clip_grad_norm_(net[1].parameters(), 0.01)
            optimizer.step()
            reached.append(1)
    assert reached and not net._forward_pre_hooks


class Wrapped:
    def __init__(self, optimizer):
        self.o, self.param_groups = optimizer, optimizer.param_groups

    def step(self):
        self.o.step()


def test_optimizers_that_others_wrap():
    net = network()
    assert window(net, Wrapped(torch.optim.SGD(net.parameters(), lr=0.1))).equal
    accelerate = pytest.importorskip("accelerate")
    prepared = accelerate.Accelerator(cpu=True).prepare(torch.optim.AdamW(net.parameters(), lr=0.1))
    assert window(net, prepared).equal
    with pytest.raises(accrue.UsageError, match="an optimizer of torch.optim, or what holds one"):
        accrue.watch(net, object(), loss_fn)
    assert not net._forward_pre_hooks and not net[0].weight._backward_hooks


def test_a_recorders_own_failure_is_told_behind_the_loop():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


    w = accrue.watch(net, optimizer, loss_fn)
    w._recorder._rates = lambda: 1 / 0
    with w:
        for micro in w.micro_batches(micro_batches()):
            (loss_fn(net, micro).sum / 8).backward()
        optimizer.step()
    assert not w.report.judged and not w.report.conclusive and "ZeroDivisionError" in str(w.report)
