"""What loops do beside the textbook's: right ones that are not to be blamed, wrong ones that are not to pass, and what a watch leaves."""

import pytest
import torch
from museum.parts import Window, batch, cross_entropy, loss_fn, mean, micro_batches, model, words
from torch import nn
from torch.nn.utils import clip_grad_norm_

import accrue


def backwards(window, mean_of=mean):
    for micro in window.micro_batches:
        (mean_of(window.model, micro) / len(window.micro_batches)).backward()


def watched(run, window=None, loss=loss_fn):
    window = window or Window()
    with accrue.watch(window.model, window.optimizer, loss) as w:
        run(window)
    return w.report


def right(run, **options):
    report = watched(run, **options)
    assert report.equal, f"\n{report}"


def wrong(cause, run, **options):
    report = watched(run, **options)
    assert report.cause == cause, f"\n{report}"


def test_groups_that_are_clipped_one_after_the_other():
    def run(window):
        backwards(window)
        parameters = list(window.model.parameters())
        clip_grad_norm_(parameters[:2], 0.01)
        clip_grad_norm_(parameters[2:], 0.01)
        window.optimizer.step()

    right(run)


def test_other_models_may_be_clipped_and_norms_be_asked_for():
    def run(window):
        other = nn.Linear(2, 2)
        for micro in window.micro_batches:
            (mean(window.model, micro) / len(window.micro_batches)).backward()
            other(torch.ones(2)).sum().backward()
            clip_grad_norm_(other.parameters(), 0.1)
            clip_grad_norm_(window.model.parameters(), float("inf"))
        torch.nn.utils.clip_grads_with_norm_(window.model.parameters(), 0.01, torch.tensor(1.0))
        window.optimizer.step()

    right(run)


def test_a_division_behind_clipping_is_seen():
    def run(window):
        backwards(window)
        clip_grad_norm_(window.model.parameters(), 0.01)
        for parameter in window.model.parameters():
            parameter.grad.div_(len(window.micro_batches))
        window.optimizer.step()

    wrong("scaled-twice", run)


def test_gradients_that_are_cleared_behind_clipping_are_seen():
    def run(window):
        backwards(window)
        clip_grad_norm_(window.model.parameters(), 0.01)
        window.optimizer.zero_grad(set_to_none=False)
        window.optimizer.step()

    wrong("zeroed-mid-window", run)


def test_two_steps_with_one_gradient_are_seen():
    def run(window):
        backwards(window)
        window.optimizer.step()
        window.optimizer.step()

    wrong("stepped-mid-window", run)


def test_two_optimizers_in_turn():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = model(), model()

        def forward(self, input_ids, labels=None):
            return self.first(input_ids) + self.second(input_ids)

    def run(window):
        backwards(window)
        for optimizer in (other, window.optimizer):
            optimizer.step()
            optimizer.zero_grad()

    window = Window()
    window.model = Two()
    window.optimizer = torch.optim.SGD(window.model.first.parameters(), lr=0.1)
    other = torch.optim.SGD(window.model.second.parameters(), lr=0.1)
    right(run, window=window)


def test_heads_of_their_own_on_a_frozen_trunk():
    class Tasks(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = model().requires_grad_(False)
            self.heads = nn.ModuleList(nn.Linear(23, 23) for _ in range(2))

        def forward(self, input_ids, labels=None, task=0):
            return self.heads[task](self.trunk(input_ids))

    def of_task(net, micro, reduction):
        logits = net(micro["input_ids"], labels=micro["labels"], task=micro["task"])
        return nn.functional.cross_entropy(logits.flatten(0, 1), micro["labels"].flatten(), ignore_index=-100, reduction=reduction)

    window = Window()
    window.model = Tasks()
    window.optimizer = torch.optim.SGD(window.model.parameters(), lr=0.1)
    window.micro_batches = [micro | {"task": place % 2} for place, micro in enumerate(window.micro_batches)]

    def run(window):
        backwards(window, lambda net, micro: of_task(net, micro, "mean"))
        window.optimizer.step()

    right(run, window=window, loss=lambda net, micro: accrue.Loss(of_task(net, micro, "sum"), words(micro)))


def test_autocast_around_the_model_is_taken_up():
    def run(window):
        for micro in window.micro_batches:
            with torch.autocast("cpu", torch.bfloat16):
                loss = mean(window.model, micro) / len(window.micro_batches)
            loss.backward()
        window.optimizer.step()

    right(run)


def test_buffers_are_those_of_the_windows_start():
    class Heated(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model()
            self.register_buffer("heat", torch.tensor(1.0))

        def forward(self, input_ids, labels=None):
            return self.net(input_ids) / self.heat

    def run(window):
        backwards(window)
        window.optimizer.step()
        window.model.heat.mul_(2)

    window = Window()
    window.model = Heated()
    window.optimizer = torch.optim.SGD(window.model.parameters(), lr=0.1)
    right(run, window=window)
    assert window.model.heat == 2, "and afterwards those that the loop left"


def test_scaled_losses_of_fused_optimizers():
    def run(window):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for micro in window.micro_batches:
            scaler.scale(mean(window.model, micro) / len(window.micro_batches)).backward()
        scaler.step(window.optimizer)
        scaler.update()

    window = Window()
    window.optimizer = torch.optim.AdamW(window.model.parameters(), fused=True)
    right(run, window=window)


def test_lbfgs_is_refused_by_name():
    net = model()
    with pytest.raises(accrue.UsageError, match="LBFGS"):
        accrue.watch(net, torch.optim.LBFGS(net.parameters()), loss_fn)


def test_a_watch_is_entered_once():
    window = Window()
    with accrue.watch(window.model, window.optimizer, loss_fn) as w:
        backwards(window)
        window.optimizer.step()
    with pytest.raises(accrue.UsageError, match="entered once"):
        w.__enter__()


def test_an_exception_in_the_window_leaves_torch_as_it_was():
    window = Window()
    clip = torch.nn.utils.clip_grad._clip_grads_with_norm_
    with pytest.raises(ZeroDivisionError):
        with accrue.watch(window.model, window.optimizer, loss_fn):
            mean(window.model, window.micro_batches[0]).backward()
            raise ZeroDivisionError
    assert torch.nn.utils.clip_grad._clip_grads_with_norm_ is clip
    assert not window.model._forward_pre_hooks and not next(window.model.parameters())._backward_hooks


def test_padding_on_the_left_is_no_packing():
    from accrue.packing import leaks

    padded = {"input_ids": torch.ones(1, 8, dtype=torch.long), "labels": torch.ones(1, 8, dtype=torch.long),
              "position_ids": torch.tensor([[1, 1, 1, 0, 1, 2, 3, 4]])}
    assert leaks(model(), loss_fn, [padded]) == ""


def test_what_ends_a_program_is_no_finding():
    net = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Linear(12, 1))
    calls = []

    def interrupted(net, micro):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return accrue.Loss((net(micro[0]) - micro[1]).square().sum(), len(micro[0]))

    whole = [torch.randn(12, 6), torch.randn(12, 1)]
    for at in (1, 6, 10, 15, 20):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            accrue.verify(net, whole, interrupted)


def test_torch_keeps_its_own_exceptions():
    store = torch.distributed.HashStore()
    with pytest.raises(torch.distributed.DistStoreError):
        from datetime import timedelta

        store.wait(["missing"], timedelta(milliseconds=10))


def test_models_that_hold_their_accumulator_are_let_go():
    import gc
    import weakref

    net = model()
    net.accumulator = accrue.Accumulator(net)
    net.accumulator.backward(loss_fn(net, batch()))
    net.accumulator.discard()
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_named_tuples_are_batches():
    from collections import namedtuple

    Pair = namedtuple("Pair", ["input_ids", "labels"])
    whole = Pair(**batch())
    assert accrue.batch_size(whole) == 10 and accrue.batch_slice(whole, 2, 5).labels.shape[0] == 3
    report = accrue.verify(model(), whole, lambda net, micro: loss_fn(net, micro._asdict()))
    assert report.equal and report.smallest_fault


def test_micro_batches_are_what_was_told():
    window = Window()
    with accrue.watch(window.model, window.optimizer, loss_fn) as w:
        for micro in w.micro_batches(micro_batches(3)):
            (cross_entropy(window.model, micro, "sum") / sum(words(each) for each in micro_batches(3))).backward()
        window.optimizer.step()
    assert w.report.equal and len(w.seen_micro_batches) == 3


def test_gradients_of_ones_own_are_no_backward_pass():
    """Meta learning and influence functions ask torch.autograd.grad() for gradients of trained parameters."""
    window = Window()
    parameters = list(window.model.parameters())
    with accrue.watch(window.model, window.optimizer, loss_fn) as w:
        for micro in w.micro_batches(window.micro_batches):
            loss = mean(window.model, micro) / len(window.micro_batches)
            torch.autograd.grad(loss, parameters, retain_graph=True)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.01)
        torch.autograd.grad(mean(window.model, window.micro_batches[0]), parameters)
        window.optimizer.step()
    assert w.report.equal and w.report.judged, f"\n{w.report}"
    assert w._recorder.seen.backwards == len(window.micro_batches)


def test_a_penalty_on_the_gradient_is_a_part_of_the_loss():
    def penalised(net, micro):
        loss = cross_entropy(net, micro, "sum")
        gradients = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
        return loss + 0.1 * sum(gradient.square().sum() for gradient in gradients)

    window = Window()
    total = sum(words(micro) for micro in window.micro_batches)
    with accrue.watch(window.model, window.optimizer, lambda net, micro: accrue.Loss(penalised(net, micro), words(micro))) as w:
        for micro in w.micro_batches(window.micro_batches):
            (penalised(window.model, micro) / total).backward()
        window.optimizer.step()
    assert w.report.equal and w.report.judged, f"\n{w.report}"
    assert w._recorder.seen.backwards == len(window.micro_batches)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]])
def test_watches_that_end_in_any_order_leave_torch_as_it_was(order):
    def functions():
        return [torch.autograd.backward, torch.amp.GradScaler.step, torch.amp.GradScaler._unscale_grads_,
                torch.nn.utils.clip_grad._clip_grads_with_norm_, torch.nn.utils.clip_grad_value_]

    before, windows = functions(), [Window() for _ in range(3)]
    watches = [accrue.watch(window.model, window.optimizer, loss_fn) for window in windows]
    for watch in watches:
        watch.__enter__()
    for place in order:
        backwards(windows[place])
        clip_grad_norm_(windows[place].model.parameters(), 0.01)
        windows[place].optimizer.step()
        watches[place].__exit__(None, None, None)
        assert watches[place].report.equal, f"\n{watches[place].report}"
    assert functions() == before


def test_a_function_that_somebody_put_around_a_watchs_stays():
    window, original, calls = Window(), torch.autograd.backward, []
    with accrue.watch(window.model, window.optimizer, loss_fn) as w:
        inner = torch.autograd.backward
        torch.autograd.backward = lambda *args, **kwargs: (calls.append(1), inner(*args, **kwargs))[1]
        try:
            backwards(window)
        finally:
            theirs = torch.autograd.backward
        window.optimizer.step()
    assert w.report.equal and torch.autograd.backward is theirs
    backwards(window)
    assert len(calls) == 2 * len(window.micro_batches), "which still works behind the window"
    torch.autograd.backward = original


def test_labels_of_samples_say_nothing_about_packed_rows():
    from accrue.packing import leaks

    packed = {"input_ids": torch.ones(2, 8, dtype=torch.long), "labels": torch.ones(2, dtype=torch.long),
              "position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]] * 2)}
    assert leaks(model(), loss_fn, [packed]) == ""
    assert leaks(model(), loss_fn, [packed | {"labels": packed["input_ids"]}]) != "", "those of tokens do"


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"x": x}, lambda x: [x, torch.ones(2)]])
def test_nested_tensors_are_batches(wrap):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    window = [wrap(torch.nested.nested_tensor([torch.randn(length, 4) for length in lengths], layout=torch.jagged)) for lengths in ((2, 3), (1, 4))]

    def of(net, micro):
        out = net(micro if torch.is_tensor(micro) else micro["x"] if isinstance(micro, dict) else micro[0]).values()
        return accrue.Loss(out.square().sum(), len(out))

    for divisor, expected in ((10, True), (5, False)):
        optimizer.zero_grad()
        with accrue.watch(net, optimizer, of) as w:
            for micro in w.micro_batches(window):
                (of(net, micro).sum / divisor).backward()
            optimizer.step()
        assert w.report.judged and w.report.equal == expected, f"\n{w.report}"
    assert accrue.verify(net, window[0], of).equal
    assert accrue.step(net, optimizer, window[1], of, micro_batch=1).weight == 5


def test_a_step_with_the_loss_scale_in_it_that_ruins_the_window_is_named():
    def run(window, steps_early):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 120)
        for place, micro in enumerate(window.micro_batches):
            scaler.scale(mean(window.model, micro) / len(window.micro_batches)).backward()
            if place == 0 and steps_early:
                window.optimizer.step()
        window.model.head.bias.grad.fill_(float("inf"))
        scaler.step(window.optimizer)
        scaler.update()

    wrong("stepped-mid-window", lambda window: run(window, True))
    with pytest.raises(accrue.UsageError, match="one whose step GradScaler skipped"):
        watched(lambda window: run(window, False))
