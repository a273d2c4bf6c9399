"""Kinds of right loops that were once called wrong, each with a wrong neighbour that is still seen."""

import contextlib
import queue

import pytest
import torch
from torch import nn

import accrue

GENERATOR = torch.Generator().manual_seed(5)
X, Y = torch.randn(9, 5, generator=GENERATOR), torch.randn(9, 1, generator=GENERATOR)
MICROS = [[X[begin:end], Y[begin:end]] for begin, end in ((0, 4), (4, 6), (6, 9))]


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))


def loss_fn(net, micro):
    return accrue.Loss((net(micro[0]) - micro[1]).square().sum(), len(micro[0]))


def window(each=None, behind=lambda net, optimizer: None, *, net=None, loss=loss_fn, before=lambda net: None, tell=True):
    """A window of `each`'s losses, with what stands between its last backward and its step, or behind that."""
    net = net or network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    each = each or (lambda micro: loss(net, micro).sum / 9)
    with accrue.watch(net, optimizer, loss) as w:
        for micro in w.micro_batches(MICROS) if tell else MICROS:
            each(micro).backward()
        before(net)
        optimizer.step()
        behind(net, optimizer)
    return w.report


def is_right(report):
    return report.equal and report.conclusive and report.judged


def scaled(factor):
    return lambda net: [parameter.grad.mul_(factor) for parameter in net.parameters()]


@torch.no_grad()
def own_clip(net):
    size = torch.stack([parameter.grad.norm() for parameter in net.parameters()]).norm()
    scaled(min(1.0, 0.02 / float(size)))(net)


def adaptive(net):
    for parameter in net.parameters():
        parameter.grad.mul_(min(1.0, 0.01 * float(parameter.detach().norm()) / float(parameter.grad.norm())))


OWN = {"own clipping": own_clip, "adaptive": adaptive, "noise": lambda net: [p.grad.add_(0.01 * torch.randn_like(p)) for p in net.parameters()],
       "clamped": lambda net: [p.grad.clamp_(-0.01, 0.01) for p in net.parameters()],
       "old rows": lambda net: net[0].weight.grad[2:].zero_()}


@pytest.mark.parametrize("kind", OWN)
def test_what_a_loop_makes_of_its_gradient(kind):
    assert is_right(window(before=OWN[kind]))
    net = network()
    wrong = window(lambda micro: loss_fn(net, micro).sum / len(micro[0]) / 3, before=OWN[kind], net=net)
    assert not is_right(wrong), f"a mean of means\n{wrong}"
    net = network()
    assert not is_right(window(lambda micro: loss_fn(net, micro).sum, before=OWN[kind], net=net)), "never divided"


@pytest.mark.parametrize("factor, cause", [(1 / 3, "scaled-twice"), (3, "normalization"), (0, "zeroed-mid-window")])
def test_a_factor_of_the_number_of_micro_batches_is_no_clipping(factor, cause):
    report = window(before=scaled(factor))
    assert report.cause == cause, f"\n{report}"


def test_a_division_behind_the_last_backward_beside_masks():
    def divided(net):
        scaled(1 / 9)(net)
        OWN["old rows"](net)

    net = network()
    assert is_right(window(lambda micro: loss_fn(net, micro).sum, before=divided, net=net))
    net = network()
    assert is_right(window(lambda micro: loss_fn(net, micro).sum, before=lambda n: (scaled(1 / 9)(n), OWN["noise"](n)), net=net))
    net = network()
    vague = window(lambda micro: loss_fn(net, micro).sum, before=lambda n: (scaled(1 / 9)(n), own_clip(n)), net=net)
    assert not vague.judged and not vague.conclusive and vague.conclusion.startswith("Not judged: ") and vague.advice, f"\n{vague}"


def test_sums_that_are_kept_elsewhere():
    net, kept = network(), {}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(MICROS):
            (loss_fn(net, micro).sum / 9).backward()
            for parameter in net.parameters():
                kept[parameter] = kept.get(parameter, 0) + parameter.grad
                parameter.grad = None
        for parameter in net.parameters():
            parameter.grad = kept[parameter]
        optimizer.step()
    assert is_right(w.report), f"\n{w.report}"


def test_a_teacher_that_moves_behind_the_step():
    net, teacher = network(), network().eval()

    def loss(model, micro):
        with torch.no_grad():
            wanted = teacher(micro[0])
        return accrue.Loss((model(micro[0]) - wanted).square().sum(), len(micro[0]))

    def averaged(model, optimizer):
        with torch.no_grad():
            for mean, parameter in zip(teacher.parameters(), model.parameters()):
                mean.lerp_(parameter, 0.5)

    assert is_right(window(net=net, loss=loss, behind=averaged))


def test_draws_before_the_models_call():
    net = network()

    def loss(model, micro):
        noise, time = torch.randn_like(micro[0]), torch.rand(len(micro[0]), 1)
        return accrue.Loss((model(micro[0] * (1 - time) + noise * time) - noise[:, :1]).square().sum(), len(micro[0]))

    assert is_right(window(net=net, loss=loss))
    net = network()

    def other(micro):
        torch.rand(3)  # so that what loss_fn draws is another noise
        return loss(net, micro).sum / 9

    vague = window(other, net=net, loss=loss)
    assert not vague.judged and "calls the model with another" in vague.conclusion, f"\n{vague}"


def test_a_loss_that_cannot_be_repeated_is_not_judged():
    drawn = queue.SimpleQueue()  # which no check looks into
    for number in torch.rand(1000).tolist():
        drawn.put(number)
    net = network()

    def loss(model, micro):
        return accrue.Loss(loss_fn(model, micro).sum * (0.5 + drawn.get()), len(micro[0]))

    vague = window(net=net, loss=loss)
    assert not vague.judged and "when it is run again" in vague.conclusion, f"\n{vague}"


def test_autocasting_around_a_part_of_the_model():
    """Lightning calls training_step, and that a part: no call of the whole tells how it was cast."""
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, micro):
            return (self.net(micro[0]).float() - micro[1]).square().sum()

    net = Module()

    def each(micro):
        with torch.autocast("cpu", torch.bfloat16):
            return net.training_step(micro) / 9

    report = window(each, net=net, loss=lambda model, micro: accrue.Loss(model.training_step(micro), len(micro[0])))
    assert report.equal and report.judged and report.max_relative_error < 1e-5, f"\n{report}"


@pytest.mark.parametrize("divisor, cause", [(9, "none"), (27, "scaled-twice"), (28, "normalization")])
def test_a_division_too_many_is_named_in_bf16(divisor, cause):
    net = network()

    def loss(model, micro):
        with torch.autocast("cpu", torch.bfloat16):
            return accrue.Loss((model(micro[0]).float() - micro[1]).square().sum(), len(micro[0]))

    report = window(lambda micro: loss(net, micro).sum / divisor, net=net, loss=loss)
    assert report.cause == cause, f"\n{report}"


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_schedules_that_take_several_steps_at_once(steps):
    def behind(net, optimizer):
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        for _ in range(steps):
            schedule.step()
        with contextlib.suppress(TypeError):
            schedule.step(5)

    assert is_right(window(behind=behind))


def test_accelerates_loop_of_its_guide():
    accelerate = pytest.importorskip("accelerate")
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2, cpu=True)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    net, optimizer, schedule, loader = accelerator.prepare(net, optimizer, schedule, DataLoader(TensorDataset(X[:8], Y[:8]), batch_size=2))
    batches = iter(loader)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for _ in range(2):
            micro = next(batches)
            w.tell(micro)
            with accelerator.accumulate(net):
                accelerator.backward((net(micro[0]) - micro[1]).square().mean())
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    assert is_right(w.report), f"\n{w.report}"


@pytest.mark.parametrize("hook, expected", [(lambda gradient: gradient * (torch.arange(5) > 1), "none"),
                                            (lambda gradient: gradient.clamp(-1e-3, 1e-3), "clip-per-micro-batch")])
def test_hooks_that_the_loop_takes_away_before_the_step(hook, expected):
    net = network()
    handle = net[0].weight.register_hook(hook)
    report = window(net=net, before=lambda net: handle.remove())
    assert report.cause == expected, f"\n{report}"
    assert not net[0].weight._backward_hooks


def test_models_in_another_mode_behind_the_window():
    assert is_right(window(behind=lambda net, optimizer: net.eval()))


def test_compiled_models_are_watched_and_stay_compiled():
    torch._dynamo.reset()
    net = network()
    compiled = torch.compile(net, backend="eager")
    assert is_right(window(lambda micro: loss_fn(compiled, micro).sum / 9, net=net))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(compiled, optimizer, loss_fn) as w:
        for micro in w.micro_batches(MICROS):
            (loss_fn(compiled, micro).sum / 9).backward()
        optimizer.step()
    assert w.report.judged, f"\n{w.report}"
    compiled(X)
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(X)
    assert not torch.nn.modules.module._global_forward_pre_hooks
