"""Whatever is handed in, an entry from Python answers with an exception of Python's, in words: never with the end of the process."""

import inspect
import itertools
import pathlib
import subprocess
import sys

import pytest
import torch
from museum.parts import batch, loss_fn, model
from torch import nn

import accrue
from accrue import _native


class Other:
    """Has what numpy's arrays have: a shape, a dtype and conversions that fail."""

    shape, dtype = (2,), "float64"

    def __float__(self):
        raise TypeError("only length-1 arrays can be converted")

    def __array__(self):
        raise TypeError("no array")


def values():
    """Of types that nobody expects where they come."""
    odd = [None, "text", "", b"bytes", [], (), {}, [None], [3], ["a"], [("w", None)], [("w", 3)], [(None, torch.ones(2))], 3, -1, 0, 2**70, 1.5, float("nan"),
           True, object(), Other(), int, len, lambda *a, **k: None, range(3), iter([]), torch.ones(2), torch.ones(2, 3, dtype=torch.int64),
           torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.bool), torch.tensor([]), torch.ones(()), torch.ones(2, device="meta"),
           torch.ones(3).to_sparse(), torch.ones(2, dtype=torch.float16), nn.Parameter(torch.ones(2)), [torch.ones(2)], [nn.Parameter(torch.ones(2))],
           nn.Linear(2, 2), nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False), torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)]
    return odd + [value for value in (accrue.Loss(1.0, 1), accrue.Tokens(3), accrue.Samples(2), _native.PreparedWeight())] + numpys()


def numpys():
    try:
        import numpy
    except ImportError:
        return []
    return [numpy.ones(2), numpy.float32(1), numpy.int64(2), numpy.array(["a"], dtype=object)]


# What waits for other processes, or changes this one for good.
LEFT_OUT = {"join", "install_allocator", "memory_usage"}


def natives():
    """Each binding as a function of positional arguments, with how many it takes."""
    for name, bound in vars(_native).items():
        if name.startswith("_") or name in LEFT_OUT:
            continue
        if inspect.isclass(bound):
            yield name, bound
            for method, function in vars(bound).items():
                if callable(function) and not method.startswith("_"):
                    yield f"{name}.{method}", function
        elif callable(bound):
            yield name, bound


def keyword_arguments(function):
    """Names in the signature that pybind11 writes."""
    text = (function.__init__.__doc__ if inspect.isclass(function) else function.__doc__) or ""
    head = text.split(" -> ")[0]
    return [part.split(":")[0].strip() for part in head.split("*, ")[1].split(", ") if ":" in part] if "*, " in head else []


def tried(call):
    try:
        call()
    except Exception as error:
        assert str(error), repr(error)


def fuzz_natives():
    odd = values()
    for name, function in natives():
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        named = keyword_arguments(function)
        for count in (0, 1, 2, 4, 6):
            for shift in range(len(odd)):
                some = [odd[(shift + 7 * place) % len(odd)] for place in range(count)]
                tried(lambda: function(*some))
                tried(lambda: function(*some, **{key: odd[(shift + 3 * place) % len(odd)] for place, key in enumerate(named)}))


def entries():
    """Each public entry, by an argument that is wrong while the others are right."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    micro, window = batch(), [batch()]
    acc = accrue.Accumulator(net)

    def loop(net, micros):
        for each in micros:
            loss_fn(net, each).sum.backward()

    def opened(call):
        acc.discard()
        acc.backward(loss_fn(net, micro))
        return call()

    right = {
        "Loss": (accrue.Loss, {"sum": torch.tensor(1.0), "weight": 1}),
        "Tokens": (accrue.Tokens, {"count": 1}),
        "Samples": (accrue.Samples, {"count": 1}),
        "Accumulator": (accrue.Accumulator, {"model": net, "batch": None, "micro_batches": None, "accumulate": "fp32", "clip_norm": 0.0, "check_finite": True,
                                             "max_quarantined": 16, "split_out_of_memory": True, "measure_noise": False, "replay": None, "on_event": None,
                                             "group": None}),
        "backward": (lambda **k: acc.discard() or acc.backward(**k), {"loss": None, "size": None, "sample_ids": ()}),
        "expect": (lambda **k: acc.discard() or acc.expect(**k), {"totals": [1.0], "coefficients": ()}),
        "set_batch": (acc.set_batch, {"batch": accrue.Samples(2)}),
        "share": (lambda **k: acc.discard() or acc.share(**k), {"size": accrue.Samples(2)}),
        "step": (lambda **k: opened(lambda: acc.step(**k)), {"optimizer": optimizer}),
        "finish": (lambda **k: opened(lambda: acc.finish(**k)), {"optimizer": optimizer}),
        "accumulate": (accrue.accumulate, {"model": net, "batch": micro, "loss_fn": loss_fn, "micro_batch": 4}),
        "accumulating": (accrue.accumulating, {"model": net, "optimizer": optimizer, "micro_batches": 2}),
        "Stepper": (accrue.Stepper, {"model": net, "optimizer": optimizer, "clip_norm": 0.0, "micro_batch": None, "accelerate": False, "on_event": None,
                                     "group": None}),
        "accrue.step": (accrue.step, {"model": net, "optimizer": optimizer, "batch": micro, "loss_fn": loss_fn, "micro_batch": 4}),
        "verify": (accrue.verify, {"model": net, "batch": accrue.batch_slice(micro, 0, 2), "loss_fn": loss_fn, "micro_batches": (1,), "noise_draws": 0,
                                   "seed": 1}),
        "verify_loop": (accrue.verify_loop, {"model": net, "batch": accrue.batch_slice(micro, 0, 2), "loss_fn": loss_fn, "loop": loop, "micro_batch": 1,
                                             "noise_draws": 0, "seed": 1}),
        "accelerate": (lambda **k: accrue.accelerate(**k).close(), {"model": net, "seed": None, "head": None, "defer_logits": True}),
        "linear": (accrue.linear, {"x": torch.ones(2, 3), "weight": torch.ones(4, 3), "bias": None}),
        "linear_cross_entropy": (accrue.linear_cross_entropy, {"hidden": torch.ones(2, 3), "weight": torch.ones(4, 3), "targets": torch.zeros(2).long(),
                                                               "bias": None, "row_weights": None, "ignore_index": -100, "label_smoothing": 0.0,
                                                               "z_loss": 0.0, "soft_cap": 0.0, "prepared": None}),
        "BatchController": (accrue.BatchController, {"rule": "critical", "batch": 8, "most": 64, "least": 1, "quantum": 1, "one_pass": 1, "lr_rule": "none",
                                                     "windows": 2}),
    }
    del window
    return right


def fuzz_entries():
    for name, (entry, right) in entries().items():
        for argument, value in itertools.product(right, values()):
            sys.stdout.write(f"{name} {argument} {type(value).__name__}\n")
            sys.stdout.flush()
            tried(lambda: entry(**{**right, argument: value}))


@pytest.mark.parametrize("what", ["fuzz_natives", "fuzz_entries"])
def test_no_wrong_type_ends_the_process(what):
    code = f"import torch; torch.set_num_threads(1); import test_wrong_types as t; t.{what}(); print('fine')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), f"{done.returncode} behind {done.stdout[-200:]}\n{done.stderr[-2000:]}"


# Options of public entries, each of a type that it cannot be: one sentence with the option's name.
NAMED = [("Accumulator", option, value) for option, value in
         [("micro_batches", "4"), ("micro_batches", 1.5), ("accumulate", None), ("accumulate", 32), ("clip_norm", None), ("clip_norm", "1.0"), ("check_finite", 1),
          ("max_quarantined", None), ("split_out_of_memory", "yes"), ("measure_noise", None), ("replay", 3), ("on_event", "print"), ("group", "gloo")]]
NAMED += [("Stepper", "clip_norm", None), ("Stepper", "micro_batch", "4"), ("Stepper", "accelerate", 1), ("Stepper", "on_event", []), ("Stepper", "group", 2),
          ("accumulate", "micro_batch", None), ("accumulate", "loss_fn", None), ("accrue.step", "loss_fn", torch.ones(2)), ("verify", "loss_fn", "mse"),
          ("verify", "seed", None), ("verify", "micro_batches", ("1",)), ("verify_loop", "loop", None), ("verify_loop", "micro_batch", 1.5), ("accelerate", "seed", "1"),
          ("accelerate", "head", "lm_head"), ("linear", "x", "x"), ("linear", "bias", 1.0), ("linear_cross_entropy", "targets", None),
          ("linear_cross_entropy", "z_loss", "1"), ("expect", "totals", None), ("expect", "coefficients", "a"), ("BatchController", "batch", None)]


@pytest.mark.parametrize("name, option, value", NAMED)
def test_a_wrong_option_is_refused_by_its_name(name, option, value):
    entry, right = entries()[name]
    with pytest.raises(accrue.UsageError, match=option.removesuffix("es")) as raised:
        entry(**{**right, option: value})
    assert len(str(raised.value)) < 300, "one sentence"


@pytest.mark.parametrize("unit", [accrue.Samples, accrue.Tokens])
def test_a_size_is_a_whole_number(unit):
    for value, received in (("8", "type str"), (8.5, "type float"), (None, "None"), (True, "type bool"), (torch.ones(2), "type Tensor"), (0, "0"), (-8, "-8"),
                            (2**70, str(2**70))):
        with pytest.raises(accrue.UsageError) as raised:
            unit(value)
        assert f"expected a whole number of at least 1, received {received}" in str(raised.value).replace("a value of ", "")
        assert raised.value.operation == unit.__name__ and f"{unit.__name__}(256)" in raised.value.suggestion
    assert unit(8).count == unit(torch.tensor(8)).count == 8
