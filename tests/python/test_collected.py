"""What Python's garbage collector sees of accrue's objects, and that calls leave nothing behind."""

import ctypes
import gc
import sys
import weakref

import pytest
import torch
from museum.parts import batch, loss_fn, model
from torch import nn

import accrue


class Kept:
    """What a callback refers to, and what refers to the object that has the callback."""

    def tell(self, event):
        """Is told of events."""

    def replay(self, micro):
        return loss_fn(self.net, batch())


def of_accumulator(option):
    kept = Kept()
    kept.net = model()
    kept.holder = accrue.Accumulator(kept.net, **{option: getattr(kept, {"on_event": "tell", "replay": "replay"}[option])})
    kept.holder.backward(loss_fn(kept.net, batch()))
    return kept


def of_stepper():
    kept = Kept()
    kept.net = model()
    kept.holder = accrue.Stepper(kept.net, torch.optim.SGD(kept.net.parameters(), lr=0.1), on_event=kept.tell)
    kept.holder.step(batch(), loss_fn)
    return kept


def of_steppers_optimizer():
    kept = Kept()
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    kept.holder = accrue.Stepper(net, optimizer)
    optimizer.register_step_post_hook(lambda *_: kept)
    return kept


def of_a_wrapped_optimizer():
    kept = Kept()
    net = model()
    kept.holder = accrue.accumulating(net, torch.optim.SGD(net.parameters(), lr=0.1), micro_batches=2, on_event=kept.tell)
    return kept


def of_a_subclass():
    class Own(accrue.Accumulator):
        def tell(self, event):
            """Is told of its own events."""

    net = model()
    kept = Kept()
    kept.holder = Own.__new__(Own)
    kept.holder.__init__(net, on_event=kept.holder.tell)
    kept.holder.kept = kept
    return kept


@pytest.mark.parametrize("make", [lambda: of_accumulator("on_event"), lambda: of_accumulator("replay"), of_stepper, of_steppers_optimizer,
                                  of_a_wrapped_optimizer, of_a_subclass])
def test_cycles_through_callbacks_are_collected(make):
    gc.collect()
    kept = make()
    gone = weakref.ref(kept)
    gc.collect()
    assert gone() is not None, "what is in use stays"
    del kept
    gc.collect()
    assert gone() is None


def test_an_accumulator_works_after_the_collector_ran():
    told = []
    net = model()
    acc = accrue.Accumulator(net, on_event=told.append)
    for _ in range(3):
        gc.collect()
        acc.backward(accrue.Loss(loss_fn(net, batch()).sum * float("nan"), 1))
        gc.collect()
        acc.backward(loss_fn(net, batch()))
        acc.step(torch.optim.SGD(net.parameters(), lr=0.1))
    assert [event.name for event in told if event.name != "unused"] == ["quarantined"] * 3


def test_the_collector_finds_an_object_whose_constructor_failed():
    for _ in range(100):
        with pytest.raises(accrue.UsageError):
            accrue.Accumulator(model(), batch=accrue.Tokens(2), micro_batches=3, on_event=print)
    gc.collect()


class Heap(ctypes.Structure):
    """mallinfo2 of glibc; `uordblks` and `hblkhd` are what is in use."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                                                     "keepcost")]


def in_use():
    """Bytes of C++ code's objects, and blocks of Python's. What is resident would show a leak only when the free heap is used up."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Heap
    heap = ask()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


def growth_of(call):
    """Bytes and blocks that each call leaves, once caches are filled."""
    calls = 500
    for _ in range(calls):
        call()
    gc.collect()
    bytes_before, blocks_before = in_use()
    for _ in range(calls):
        call()
    gc.collect()
    bytes_after, blocks_after = in_use()
    return (bytes_after - bytes_before) / calls, (blocks_after - blocks_before) / calls


def test_calls_leave_nothing_behind():
    net, samples = nn.Linear(4, 1), torch.randn(8, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)

    def loss(net, micro):
        return accrue.Loss(net(micro).square().sum(), len(micro))

    for call in (lambda: accrue.accumulate(net, samples, loss, 4), lambda: accrue.step(net, optimizer, samples, loss, micro_batch=4),
                 lambda: accrue.Accumulator(net, on_event=lambda event: None)):
        size, blocks = growth_of(call)
        assert size < 50 and blocks < 0.5, (size, blocks)
    leaked = []
    size, blocks = growth_of(lambda: leaked.append([bytearray(1800)]))
    assert size > 1800 and blocks >= 1, "the measure sees what stays"
