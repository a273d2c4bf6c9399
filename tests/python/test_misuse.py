"""Bad input is one clear exception of a documented type, and leaves the model as it was."""

import itertools

import pytest
import torch
from museum.parts import batch, loss_fn, mean, model
from torch import nn

import accrue
import accrue.testing


@pytest.fixture
def net():
    return model()


@pytest.fixture
def optimizer(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def refused(call, *words, kind=accrue.UsageError):
    with pytest.raises(kind) as raised:
        call()
    for word in words:
        assert word in str(raised.value), str(raised.value)
    assert raised.value.suggestion


def test_errors_are_of_pythons_types_too():
    assert issubclass(accrue.UsageError, ValueError) and issubclass(accrue.Error, RuntimeError)


def test_models_without_parameters():
    refused(lambda: accrue.Accumulator(nn.ReLU()), "a model with parameters to train", "none")
    refused(lambda: accrue.Accumulator(nn.Linear(2, 2).requires_grad_(False)), "frozen")
    refused(lambda: accrue.Accumulator(iter([])), "none")
    refused(lambda: accrue.Accumulator(3), "int")


def test_losses_that_are_no_loss(net, optimizer):
    for wrong, said in ((lambda m, b: mean(m, b), "a tensor"), (lambda m, b: None, "None"), (lambda m, b: 1.5, "float")):
        refused(lambda wrong=wrong: accrue.step(net, optimizer, batch(), wrong), "accrue.Loss(sum, weight)", said)
    refused(lambda: accrue.Loss(torch.ones(3), 1), "one floating-point number", "[3]")
    refused(lambda: accrue.Loss(torch.tensor(1.0), -1), "at least 0")
    refused(lambda: accrue.Loss(torch.tensor(1.0), "many"), "a weight")
    assert all(p.grad is None for p in net.parameters())


def test_a_mean_with_weight_1_is_named(net):
    report = accrue.verify(net, batch(), lambda m, b: accrue.Loss(mean(m, b), 1))
    assert report.cause == "weighting"


def sums(net, micros):
    for micro in micros:
        loss_fn(net, micro).sum.backward()


@pytest.mark.parametrize("order", [order for order in itertools.permutations(range(4)) if order != (0, 1, 2, 3)])
def test_swapped_arguments_of_verify_loop_are_refused(net, order):
    right = (net, batch(), loss_fn, sums)
    refused(lambda: accrue.verify_loop(*(right[place] for place in order)), "verify_loop: expected")


def test_checks_refuse_what_they_cannot_call(net):
    swapped = lambda: accrue.verify_loop(net, batch(), sums, loss_fn)  # noqa: E731
    refused(swapped, "received sums, which raised TypeError: string indices", "try verify_loop(model, batch, loss_fn, loop)")
    with pytest.raises(accrue.UsageError) as raised:
        swapped()
    assert isinstance(raised.value.__cause__, TypeError), "the traceback of the function is kept"
    refused(lambda: accrue.verify_loop(net, batch(), nn.functional.cross_entropy, sums), "cross_entropy, which raised TypeError")
    refused(lambda: accrue.verify(net, batch(), nn.CrossEntropyLoss()), "CrossEntropyLoss, which raised TypeError", "verify(model, batch, loss_fn)")
    refused(lambda: accrue.verify_loop(net, batch(), loss_fn, lambda net: None), "a model and micro_batches as loop", "(net)", "loop(model, micro_batches)")
    refused(lambda: accrue.verify(net, batch(), lambda net, x, y: None), "a model and micro_batch as loss_fn", "(net, x, y)", "loss_fn(model, micro_batch)")
    refused(lambda: accrue.accumulate(net, batch(), lambda: None, 2), "a model and micro_batch as loss_fn", "()")
    for check in (lambda **k: accrue.verify(net, batch(), loss_fn, **k), lambda **k: accrue.verify_loop(net, batch(), loss_fn, sums, **k)):
        for name, value in (("seed", -1), ("seed", 2**70), ("noise_draws", -1), ("noise_draws", 2**70)):
            refused(lambda: check(**{name: value}), "a whole number from 0 to", f"as {name}, received {value}")  # noqa: B023
    loosely = accrue.verify_loop(net, batch(), lambda *arguments, **_: loss_fn(*arguments), lambda *arguments: sums(*arguments), seed=2**63 - 1)
    assert loosely.cause == "normalization"


def test_optimizers_that_hold_other_parameters(net):
    other = torch.optim.SGD(model().parameters(), lr=0.1)
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    refused(lambda: acc.step(other), "accumulated")
    refused(lambda: accrue.watch(net, other, loss_fn), "holds none of them")
    refused(lambda: acc.step(3), "torch.optim")


def test_windows_do_not_nest(net, optimizer):
    acc = accrue.Accumulator(net)
    with acc.window():
        acc.backward(loss_fn(net, batch()))
        refused(lambda: acc.window().__enter__(), "do not nest")


def test_others_are_refused_in_an_open_window(net, optimizer):
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    optimizer.zero_grad()
    refused(lambda: acc.backward(loss_fn(net, batch())), "zero_grad")


def test_an_exception_in_the_window_leaves_the_model_as_it_was(net):
    before = [p.detach().clone() for p in net.parameters()]

    def failing(m, micro):
        raise KeyError("labels")

    with pytest.raises(KeyError, match="labels"):
        accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.1), batch(), failing)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
    acc = accrue.Accumulator(net)
    with pytest.raises(KeyError):
        with acc.window():
            acc.backward(loss_fn(net, batch()))
            raise KeyError("labels")
    assert not acc.pending


def test_an_exception_in_backward_undoes_the_micro_batch(net, optimizer):
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            raise ZeroDivisionError("in backward")

    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    good = loss_fn(net, batch())
    with pytest.raises(ZeroDivisionError, match="in backward"):
        acc.backward(accrue.Loss(Failing.apply(good.sum), good.weight))
    if acc.pending:
        acc.discard()  # without a replay the window is lost with it
    before = [p.detach().clone() for p in net.parameters()]
    acc.backward(loss_fn(net, batch()))
    assert acc.step(optimizer).stepped and not torch.equal(before[0], next(net.parameters())), "the next window is as always"


def test_batches_that_cannot_be_cut(net, optimizer):
    refused(lambda: accrue.step(net, optimizer, 5, loss_fn), "int", "batch_size.register")
    refused(lambda: accrue.step(net, optimizer, {"a": torch.ones(2), "b": torch.ones(3)}, loss_fn), "a [2]", "b [3]")
    refused(lambda: accrue.verify(net, batch(1), loss_fn), "at least 2 samples")


def test_a_window_with_one_forward_pass(net, optimizer):
    def one():
        with accrue.watch(net, optimizer, loss_fn):
            loss_fn(net, batch()).sum.backward()

    refused(one, "at least 2 micro-batches")


@pytest.mark.parametrize("size", [8, 100])
def test_one_micro_batch_proves_nothing(net, size):
    def sums_means(net, micros):
        for micro in micros:
            mean(net, micro).backward()

    whole = batch(8)
    for check in (accrue.verify_loop, accrue.testing.assert_accumulates):
        refused(lambda check=check: check(net, whole, loss_fn, sums_means, micro_batch=size), "a window of at least 2 micro-batches", "all 8 samples", "try",
                "micro-batches of 4 samples or fewer")
    refused(lambda: accrue.verify(net, whole, loss_fn, micro_batches=[size]), "at least 2 micro-batches", f"{size} for a batch of 8", "4 or fewer")
    refused(lambda: accrue.testing.assert_accumulates(net, whole, loss_fn, micro_batch=size), "at least 2 micro-batches")
    assert not accrue.verify_loop(net, whole, loss_fn, sums_means, micro_batch=4).equal
    assert accrue.verify(net, whole, loss_fn, micro_batches=[size, 4]).equal, "one size that splits the batch is enough"


def test_a_loop_without_backward_is_no_loop(net):
    def forward_only(net, micros):
        for micro in micros:
            mean(net, micro)

    refused(lambda: accrue.verify_loop(net, batch(), loss_fn, forward_only), "a loop that computes a gradient", "no backward pass", "loss.backward()")
    other = model()
    refused(lambda: accrue.verify_loop(net, batch(), loss_fn, lambda _, micros: [mean(other, micro).backward() for micro in micros]), "no backward pass")

    def cleared(net, micros):
        for micro in micros:
            mean(net, micro).backward()
        net.zero_grad()

    assert accrue.verify_loop(net, batch(), loss_fn, cleared).cause == "zeroed-mid-window"


@pytest.mark.parametrize("count", [0, -2, 1.5, "4", True])
def test_counts_of_less_than_1_are_refused_by_name(net, optimizer, count):
    whole = batch()
    entries = {"micro_batch": [lambda: accrue.accumulate(net, whole, loss_fn, micro_batch=count),
                               lambda: accrue.step(net, optimizer, whole, loss_fn, micro_batch=count),
                               lambda: accrue.Stepper(net, optimizer, micro_batch=count),
                               lambda: accrue.accumulated(net, optimizer, micro_batch=count),
                               lambda: accrue.verify_loop(net, whole, loss_fn, lambda *_: None, micro_batch=count),
                               lambda: accrue.testing.assert_accumulates(net, whole, loss_fn, lambda *_: None, micro_batch=count),
                               lambda: accrue.testing.assert_accumulates(net, whole, loss_fn, micro_batch=count)],
               "micro_batches": [lambda: accrue.Accumulator(net, micro_batches=count),
                                 lambda: accrue.accumulating(net, optimizer, micro_batches=count)]}
    for name, calls in entries.items():
        for call in calls:
            refused(call, f"a whole number of at least 1 as {name}", str(count) if type(count) is int else type(count).__name__)
    refused(lambda: accrue.verify(net, whole, loss_fn, micro_batches=[count]), "micro_batches")
    assert all(p.grad is None for p in net.parameters())


def test_windows_without_a_size_are_never_full(net, optimizer):
    refused(lambda: accrue.accumulating(net, optimizer), "the size of a window", "micro_batches=8")
    refused(lambda: accrue.AccumulatingOptimizer(accrue.Accumulator(net), optimizer), "the size of a window")
    acc = accrue.Accumulator(net)
    refused(acc.full, "batch=accrue.Samples(256)")
    before = [p.detach().clone() for p in net.parameters()]
    for micro in (accrue.batch_slice(batch(), 0, 5), accrue.batch_slice(batch(), 5, 10)):
        acc.backward(loss_fn(net, micro))
        refused(acc.full, "batch=accrue.Samples(256)")
    assert acc.step(optimizer).stepped, "the window is intact, and step() needs no size"
    loss = loss_fn(same := model(), batch())
    expected = torch.autograd.grad(loss.sum / loss.weight, list(same.parameters()))
    assert all(torch.allclose(p, a - 0.1 * g, atol=1e-6) for p, a, g in zip(net.parameters(), before, expected))
    begin, end = acc.share(accrue.Samples(4))
    assert (begin, end) == (0, 4) and not acc.full(), "share() states a size"
    wrapped = accrue.accumulating(net, optimizer, batch=accrue.Samples(4))
    wrapped.backward(loss_fn(net, batch(4)), accrue.Samples(4))
    assert wrapped.step().stepped


def test_optimizers_that_hold_nothing_to_train(net):
    emptied = torch.optim.SGD(net.parameters(), lr=0.1)
    emptied.param_groups.clear()
    hollow = torch.optim.SGD(net.parameters(), lr=0.1)
    hollow.param_groups[0]["params"] = []
    frozen = torch.optim.SGD(model().requires_grad_(False).parameters(), lr=0.1)
    for optimizer, said in ((emptied, "without parameters"), (hollow, "without parameters"), (frozen, "frozen")):
        acc = accrue.Accumulator(net, micro_batches=1)
        acc.backward(loss_fn(net, batch()))
        for call in (acc.step, acc.finish, lambda o: accrue.step(net, o, batch(), loss_fn), lambda o: accrue.Stepper(net, o)):
            refused(lambda call=call, optimizer=optimizer: call(optimizer), "an optimizer with parameters to train", said)
        assert acc.pending, "nothing is lost"
        assert acc.step(torch.optim.SGD(net.parameters(), lr=0.0)).stepped


def test_sparse_gradients_are_refused_by_name(optimizer):
    net = nn.Sequential(nn.Embedding(20, 8, sparse=True), nn.Linear(8, 20))
    whole = torch.randint(20, (8, 5))

    def sums(net, micro):
        return accrue.Loss(nn.functional.cross_entropy(net(micro).flatten(0, 1), micro.flatten(), reduction="sum"), micro.numel())

    refused(lambda: accrue.verify(net, whole, sums), "dense", "'sparse' option")


class Complex(nn.Module):
    """Of complex numbers, as a Fourier layer or a rotary table: `kind` says where."""

    def __init__(self, kind):
        super().__init__()
        self.linear = nn.Linear(5, 4)
        w = torch.complex(torch.ones(4), 3 * torch.ones(4))
        if kind == "buffer":
            self.register_buffer("w", w)
        else:
            self.w = nn.Parameter(w, requires_grad=kind == "parameter")

    def forward(self, x):
        return (self.linear(x) * self.w).abs().sum(-1)


def absolutes(net, micro):
    return accrue.Loss(net(micro).square().sum(), len(micro))


def watched(net, micros, loss_fn=absolutes):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(micros):
            loss_fn(net, micro).sum.backward()
        optimizer.step()
    return w.report


@pytest.mark.parametrize("kind", ["parameter", "buffer", "frozen"])
def test_complex_numbers_are_refused_by_name(kind):
    net, whole = Complex(kind), torch.randn(8, 5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    comparing = [lambda: accrue.verify(net, whole, absolutes), lambda: accrue.verify_loop(net, whole, absolutes, lambda *_: None),
                 lambda: watched(net, whole.split(2))]
    training = [lambda: accrue.step(net, optimizer, whole, absolutes, micro_batch=2), lambda: accrue.Accumulator(net),
                lambda: accrue.accumulate(net, whole, absolutes, 2), lambda: accrue.plan(net, whole, absolutes, budget="none")]
    for call in comparing + (training if kind == "parameter" else []):
        refused(call, "'w'", "complex", "view_as_real")
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("kind", ["buffer", "frozen"])
def test_complex_numbers_that_are_not_trained_are_computed_with(kind):
    """Loops train with them, exactly: the reference is one pass in fp64."""
    net, whole = Complex(kind), torch.randn(8, 5)
    reference = Complex(kind)
    reference.linear = nn.Linear(5, 4).double()
    reference.linear.load_state_dict(net.linear.state_dict())
    loss = absolutes(reference, whole.double())
    expected = torch.autograd.grad(loss.sum / loss.weight, list(reference.linear.parameters()))
    table = net.w.detach().clone()
    gradients, _ = accrue.accumulate(net, whole, absolutes, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    accrue.step(net, optimizer, whole, absolutes, micro_batch=3)
    for found in (list(gradients.values()), [p.grad for p in net.linear.parameters()]):
        assert max(float((a - b).norm() / b.norm()) for a, b in zip(found, expected)) < 1e-6
    assert torch.equal(net.w, table)


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.reentrant = reentrant

    def forward(self, x):
        return self.last(torch.utils.checkpoint.checkpoint(self.hidden, self.first(x), use_reentrant=self.reentrant)).tanh()


def test_re_entrant_checkpoints_are_refused_in_one_sentence():
    net, whole = Checkpointed(True), torch.randn(8, 5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for call in (lambda: accrue.step(net, optimizer, whole, absolutes, micro_batch=2), lambda: accrue.verify(net, whole, absolutes),
                 lambda: accrue.verify_loop(net, whole, absolutes, lambda *_: None), lambda: accrue.accumulate(net, whole, absolutes, 2),
                 lambda: accrue.plan(net, whole, absolutes, budget="none"), lambda: accrue.Accumulator(net).backward(absolutes(net, whole))):
        refused(call, "use_reentrant=False")
    assert all(p.grad is None or not p.grad.any() for p in net.parameters())
    other = Checkpointed(False)
    assert accrue.verify(other, whole, absolutes).equal
    assert accrue.step(other, torch.optim.SGD(other.parameters(), lr=0.1), whole, absolutes, micro_batch=2).stepped


def test_an_error_of_the_users_own_backward_is_no_checkpoint():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            raise RuntimeError("something else")

    net = model()
    acc = accrue.Accumulator(net)
    with pytest.raises(RuntimeError, match="something else") as raised:
        acc.backward(accrue.Loss(Failing.apply(loss_fn(net, batch()).sum), 1))
    assert not isinstance(raised.value, accrue.Error)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return 2 * x

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


def test_functions_of_ones_own_run_while_memory_is_metered():
    """torch asks whether it is profiled where it applies them."""
    net, whole = nn.Linear(5, 1), torch.randn(8, 5)

    def doubled(net, micro):
        return accrue.Loss(Doubled.apply(net(micro)).square().sum(), len(micro))

    for _ in range(5):
        assert accrue.plan(net, whole, doubled, budget="none").micro_batch > 0
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        assert accrue.step(net, optimizer, whole, doubled).stepped, "whose micro-batch is measured"
    expected = torch.autograd.grad(4 * net(whole).square().mean(), list(net.parameters()))
    assert all(torch.allclose(p.grad, gradient, rtol=1e-5) for p, gradient in zip(net.parameters(), expected))


def test_post_accumulate_hooks_that_were_removed_are_in_nobodys_way(net, optimizer):
    handles = [p.register_post_accumulate_grad_hook(lambda p: None) for p in net.parameters()]
    refused(lambda: accrue.Accumulator(net), "post-accumulate hook")
    for handle in handles:
        handle.remove()
    acc = accrue.Accumulator(net)
    acc.backward(loss_fn(net, batch()))
    assert acc.step(optimizer).stepped
    assert accrue.step(net, optimizer, batch(), loss_fn).stepped
    del acc
    seen = []
    handle = next(net.parameters()).register_post_accumulate_grad_hook(seen.append)
    loss_fn(net, batch()).sum.backward()
    assert len(seen) == 1, "a hook that is registered later is called"
    handle.remove()


def test_embeddings_that_change_their_weight_in_forward(optimizer):
    for kind in (nn.Embedding, nn.EmbeddingBag):
        net = nn.Sequential(kind(20, 8, max_norm=1.0), nn.Linear(8, 20))
        whole = torch.randint(20, (8, 5))
        refused(lambda: accrue.Accumulator(net), "'0'", "max_norm=None")
        refused(lambda: accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.1), whole, absolutes), "max_norm=None")
        refused(lambda: accrue.verify(net, whole, absolutes), "max_norm=None")
    net = nn.Embedding(20, 8)

    def by_function(net, micro):
        return accrue.Loss(nn.functional.embedding(micro, net.weight, max_norm=0.5).square().sum(), len(micro))

    acc = accrue.Accumulator(net)
    acc.backward(by_function(net, whole[:4]))
    refused(lambda: acc.backward(by_function(net, whole[4:])), "max_norm", "'weight'", "watch_parameters")
    net.weight.requires_grad_(False)
    frozen = nn.Sequential(nn.Embedding(20, 8, max_norm=1.0).requires_grad_(False), nn.Linear(8, 20))
    assert accrue.step(frozen, torch.optim.SGD(frozen[1].parameters(), lr=0.1), whole, absolutes, micro_batch=2).stepped


def test_models_that_write_their_own_weights_are_taken_if_asked():
    for kind in (nn.Embedding, nn.EmbeddingBag):
        net = nn.Sequential(kind(20, 8, max_norm=0.5), nn.Linear(8, 20))
        whole = torch.randint(20, (8, 5))
        acc = accrue.Accumulator(net, watch_parameters=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for part in whole.split(2):
            acc.backward(absolutes(net, part))
        assert acc.step(optimizer).stepped
        assert accrue.step(net, optimizer, whole, absolutes, micro_batch=2, watch_parameters=False).stepped
    linear = nn.Linear(8, 20)

    def shrinking(net, micro):
        net.weight.data.mul_(0.9)
        return accrue.Loss(net(micro).square().sum(), len(micro))

    for watches in (True, False):
        acc = accrue.Accumulator(linear, watch_parameters=watches)
        acc.backward(shrinking(linear, torch.ones(2, 8)))
        if watches:
            refused(lambda acc=acc: acc.backward(shrinking(linear, torch.ones(2, 8))), "'weight'", "watch_parameters = false")
        else:
            acc.backward(shrinking(linear, torch.ones(2, 8)))
        assert acc.step(torch.optim.SGD(linear.parameters(), lr=0.1)).stepped is not watches


def test_calls_that_are_no_micro_batches(net, optimizer):
    def twice():
        with accrue.watch(net, optimizer, loss_fn):
            for _ in range(3):
                (loss_fn(net, batch()).sum + loss_fn(net, batch()).sum).backward()
            optimizer.step()

    refused(twice, "6 calls and 3 backward passes", "micro_batches(")


def test_the_budget_that_nothing_fits(net):
    refused(lambda: accrue.plan(net, batch(), loss_fn, budget="six"), "budget")


def test_another_torch_is_refused_with_what_to_do(monkeypatch):
    from accrue import _torch

    monkeypatch.setattr(_torch, "TORCH_VERSION", "2.1.0")
    with pytest.raises(ImportError, match=r"torch 2\.1.*received torch.*--no-build-isolation"):
        _torch.check()


def test_loops_in_threads():
    import threading

    errors = []

    def run():
        try:
            own = model()
            accrue.step(own, torch.optim.SGD(own.parameters(), lr=0.1), batch(), loss_fn)
        except BaseException as error:  # noqa: BLE001  it is told below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


FORKED = """
import os, torch, accrue
from museum.parts import batch, loss_fn, model
child = os.fork()
if child == 0:
    net = model()
    report = accrue.step(net, torch.optim.SGD(net.parameters(), lr=0.1), batch(), loss_fn)
    os._exit(0 if report.stepped else 1)
assert os.waitpid(child, 0)[1] == 0
print("fine")
"""


def test_a_fork_after_the_import():
    """In a process of its own: what a child finds of threads that computed in its parent is torch's matter (its MKL may wait for ever)."""
    import pathlib
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
