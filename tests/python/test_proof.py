"""What "Equal" is worth: nothing that fp64 finds different passes for rounding, and what is right where rounding tells little is proved."""

import pytest
import torch
from torch import nn

import accrue
import accrue.testing


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))


def batch():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(8, 5, generator=generator), torch.randn(8, 1, generator=generator)]


def loss_fn(net, micro):
    return accrue.Loss((net(micro[0]) - micro[1]).square().sum(), len(micro[0]))


def right(net, micros):
    for micro in micros:
        (loss_fn(net, micro).sum / 8).backward()


def off_in_double(net, loss=loss_fn):
    """By torch alone, in fp64: how far the sum of the parts' gradients is from the whole's. What a report is held against."""
    def gradient(micro):
        net.zero_grad()
        loss(net, micro).sum.backward()
        return torch.cat([tensor.grad.flatten() for tensor in net.parameters()])

    net.double()
    double = accrue.batches.in_double(batch())
    whole = gradient(double)
    parts = sum(gradient(accrue.batch_slice(double, begin, begin + 2)) for begin in range(0, 8, 2))
    net.zero_grad()
    net.float()
    return float((parts - whole).norm() / whole.norm())


HOOKS = {"clamped": lambda gradient: gradient.clamp(-0.01, 0.01), "normalised": lambda gradient: gradient / (gradient.norm() + 1e-12),
         "signs": torch.sign, "clipped": lambda gradient: gradient * min(1.0, 0.01 / float(gradient.norm()))}


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("places", [slice(None), slice(3, 4)])
def test_gradients_that_hooks_change_in_each_pass(kind, places):
    net = network()
    for tensor in list(net.parameters())[places]:
        tensor.register_hook(HOOKS[kind])
    assert off_in_double(net) > 5e-4
    report = accrue.verify(net, batch(), loss_fn, micro_batches=[2])
    assert not report.equal and report.cause == "clip-per-micro-batch", f"\n{report}"
    with pytest.raises(AssertionError):
        accrue.testing.assert_accumulates(net, batch(), loss_fn)
    looped = accrue.verify_loop(net, batch(), loss_fn, right, micro_batch=2)
    assert not looped.equal, f"\n{looped}"
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches([accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 8, 2)]):
            (loss_fn(net, micro).sum / 8).backward()
        optimizer.step()
    assert not w.report.equal and w.report.cause == "clip-per-micro-batch", f"\n{w.report}"


@pytest.mark.parametrize("hook", [lambda gradient: gradient * torch.tensor([1, 0, 1, 0, 1]), lambda gradient: gradient.clamp(-100, 100)])
def test_hooks_that_change_sums_as_they_change_parts_are_let_be(hook):
    net = network()
    net[0].weight.register_hook(hook)
    assert off_in_double(net) < 1e-12
    report = accrue.verify(net, batch(), loss_fn)
    assert report.equal and report.conclusive, f"\n{report}"


class Signs(torch.autograd.Function):
    """Weights as their signs, whose gradient is passed through: one on the border of two signs is on a kink."""

    @staticmethod
    def forward(ctx, weight, border):
        return torch.where(weight >= border, 1.0, -1.0).to(weight.dtype)

    @staticmethod
    def backward(ctx, upstream):
        return upstream, None


class Binary(nn.Module):
    """All weights lie on the kink, so a unit in the last place turns half of them round."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.a, self.b = nn.Linear(5, 8), nn.Linear(8, 1)
        with torch.no_grad():
            self.a.weight.fill_(0.5)

    def forward(self, x):
        return self.b(torch.tanh(nn.functional.linear(x, Signs.apply(self.a.weight, 0.5), self.a.bias)))


def coupled(net, micro):
    """What a sample contributes depends on the others."""
    out = net(micro[0])
    return accrue.Loss(((out - out.mean(0)) - micro[1]).square().sum(), len(micro[0]))


def test_weights_on_kinks_are_proved_where_the_parts_add_up():
    assert off_in_double(Binary()) < 1e-12
    report = accrue.verify(Binary(), batch(), loss_fn)
    assert report.equal and report.conclusive, f"\n{report}"


def test_weights_on_kinks_hide_no_coupled_loss():
    assert off_in_double(Binary(), coupled) > 0.01
    report = accrue.verify(Binary(), batch(), coupled)
    assert not report.equal, f"\n{report}"
    looped = accrue.verify_loop(Binary(), batch(), coupled, right, micro_batch=2)
    assert not looped.equal, f"\n{looped}"


@pytest.mark.parametrize("thaws", [False, True])
def test_a_layer_that_is_frozen_in_a_part_of_the_window_is_seen(thaws):
    def loop(net, micros):
        for place, micro in enumerate(micros):
            if thaws and place == 0:
                net[0].requires_grad_(False)
            if place == 2:
                net[0].requires_grad_(thaws)
            (loss_fn(net, micro).sum / 8).backward()

    net = network()
    report = accrue.verify_loop(net, batch(), loss_fn, loop, micro_batch=2)
    assert not report.equal, f"\n{report}"
    assert net[0].weight.requires_grad, "and it is put back"
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if thaws:
        net[0].requires_grad_(False)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for place, micro in enumerate(w.micro_batches([accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 8, 2)])):
            if place == 2:
                net[0].requires_grad_(thaws)
            (loss_fn(net, micro).sum / 8).backward()
        optimizer.step()
    assert not w.report.equal and any("was frozen" in text for text in w.report.evidence), f"\n{w.report}"
    assert net[0].weight.requires_grad == thaws


def test_state_between_passes_is_no_batch_normalisation():
    net = nn.Sequential(torch.nn.utils.spectral_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 1))
    assert accrue.verify(net, batch(), loss_fn).cause == "carried-state"

    class Averages(nn.Module):
        """A batch normalisation that somebody wrote: the parts do not add up, whatever the buffers are."""

        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.Linear(5, 8), nn.Linear(8, 1)
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            y = self.inner(x)
            if not self.training:
                return self.out(torch.tanh(y - self.mean))
            self.mean.lerp_(y.detach().mean(0), 0.1)
            return self.out(torch.tanh(y - y.mean(0)))

    assert accrue.verify(Averages(), batch(), loss_fn).cause == "batchnorm"


def test_verify_loop_chooses_micro_batches_that_batch_normalisation_takes():
    for samples in (5, 7, 9, 11, 13):
        sizes = []
        net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        net[1].training, net[1].track_running_stats = False, False  # which looks like one of batches, but has its running statistics
        data = [torch.randn(samples, 5), torch.randn(samples, 1)]
        accrue.verify_loop(net, data, loss_fn, lambda n, micros: (sizes.extend(len(micro[0]) for micro in micros), right(n, micros)))
        assert sizes and min(sizes) >= 2, (samples, sizes)
    with pytest.raises(accrue.UsageError, match="at least 2 samples, which batch normalisation takes"):
        accrue.verify_loop(net, [torch.randn(3, 5), torch.randn(3, 1)], loss_fn, right)


def test_re_entrant_checkpoints_are_refused_in_a_sentence_or_judged():
    from torch.utils.checkpoint import checkpoint

    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.first, self.hidden, self.last = nn.Linear(5, 8), nn.ModuleList(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 1)

        def forward(self, x):
            x = self.first(x)
            for layer in self.hidden:
                x = checkpoint(layer, x, use_reentrant=True)
            return self.last(x)

    net = Checked()
    for check in (lambda: accrue.verify(net, batch(), loss_fn), lambda: accrue.verify_loop(net, batch(), loss_fn, right, micro_batch=2)):
        with pytest.raises(accrue.UsageError, match="use_reentrant=False"):
            check()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def squares(model, x):
        return accrue.Loss(model(x).square().sum(), len(x))

    for factor, equal in ((1, True), (2, False)):
        optimizer.zero_grad()
        with accrue.watch(net, optimizer, squares) as w:
            for begin in range(0, 8, 2):
                (net(batch()[0][begin:begin + 2]).square().sum() * factor / 8).backward()
            optimizer.step()
        assert w.report.equal == equal and w.report.conclusive and w.report.judged, f"\n{w.report}"


def test_a_skipped_step_names_the_scaler():
    net = network()
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    with pytest.raises(accrue.UsageError, match="watch: .*one whose step GradScaler skipped"):
        with accrue.watch(net, optimizer, loss_fn) as w:
            for place, micro in enumerate(w.micro_batches([accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 8, 2)])):
                scaler.scale(loss_fn(net, micro).sum * (3e38 if place == 1 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()


@pytest.mark.parametrize("change, cause", [(lambda net: [p.data.add_(p.grad, alpha=-0.05) for p in net.parameters()], "stepped-mid-window"),
                                           (lambda net: [p.data.mul_(0.99) for p in net.parameters()], "decay-per-micro-batch")])
def test_parameters_that_are_changed_through_data(change, cause):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches([accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 8, 2)]):
            (loss_fn(net, micro).sum / 8).backward()
            change(net)
        optimizer.step()
    assert w.report.cause == cause and not w.report.ruled_out, f"\n{w.report}"


def test_complex_parameters_are_refused_by_name():
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, 1, dtype=torch.complex64))

        def forward(self, x):
            return (x.to(self.w.dtype) @ self.w).abs()

    net = Complex()
    for check in (lambda: accrue.verify(net, batch(), loss_fn), lambda: accrue.verify_loop(net, batch(), loss_fn, right),
                  lambda: accrue.watch(net, torch.optim.SGD(net.parameters(), lr=0.1), loss_fn)):
        with pytest.raises(accrue.UsageError, match="of real numbers, received 'w', which is complex"):
            check()
