"""Windows in two parts: workers run stated samples, a stepper takes their sums."""

import json
import os
import pathlib
import random
import subprocess

import pytest
import torch
from safetensors.torch import load_file

import accrue

PROGRAM = os.environ.get("ACCRUE_PROGRAM")
SAMPLES = 20

CONFIG = """
[run]
out = "{folder}/run"
steps = 5
threads = 2
[model]
layers = 1
heads = 2
width = 16
context = 12
vocab = 40
dropout = {dropout}
[data]
train = ["{folder}/{data}"]
order = "sequential"
[batch]
samples = 8
micro = 2
[precision]
accumulate = "{accumulate}"
[optim]
lr = 1e-2
schedule = {{warmup = "2 steps"}}
"""


def write_lines(path: pathlib.Path, samples: int, seed: int = 3) -> None:
    draw = random.Random(seed)
    with path.open("w") as file:
        for _ in range(samples):
            ids = [draw.randrange(40) for _ in range(draw.randint(3, 12))]
            file.write(json.dumps({"input_ids": ids, "labels": [label if draw.random() < 0.8 else -100 for label in ids[:-1]] + [ids[-1]]}) + "\n")


def config(folder: pathlib.Path, *, data: str = "all.jsonl", dropout: float = 0.1, accumulate: str = "fixed") -> str:
    path = folder / f"{data}.{dropout}.{accumulate}.toml"
    path.write_text(CONFIG.format(folder=folder, data=data, dropout=dropout, accumulate=accumulate))
    return str(path)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    write_lines(tmp_path / "all.jsonl", SAMPLES)
    return tmp_path


def equal(these, others) -> bool:
    return set(these) == set(others) and all(torch.equal(these[name], others[name]) for name in these)


def as_in_files(parameters):
    """GPT-2's matrices are transposed in files."""
    return {name: value.T if ".c_" in name and value.dim() == 2 else value for name, value in parameters.items()}


def test_sums_of_parts_add_up_to_those_of_the_whole(folder):
    worker = accrue.WindowWorker(config(folder))
    whole = worker.run(3, [(0, 8)])
    parts = worker.run(3, [(4, 6)]) + worker.run(3, [(0, 4), (6, 8)])
    assert all(sums.dtype == torch.int64 for sums in whole.gradients.values()) and set(whole.gradients) == set(worker.parameters())
    assert equal(whole.gradients, parts.gradients) and whole.contributions == parts.contributions and whole.units == parts.units
    assert (whole.weight, whole.tokens, whole.micro_batches) == (parts.weight, parts.tokens, 4)
    assert whole.loss_sum == pytest.approx(parts.loss_sum, rel=1e-12)
    assert not equal(whole.gradients, worker.run(3, [(0, 6), (8, 10)]).gradients), "other samples have other sums"
    assert not equal(whole.gradients, worker.run(4, [(0, 8)]).gradients), "another window has other masks"


@pytest.mark.skipif(not PROGRAM, reason="ACCRUE_PROGRAM is not set")
def test_steps_have_the_bits_of_a_run(folder):
    file = config(folder, dropout=0)
    subprocess.run([PROGRAM, "train", file, "--quiet"], check=True, capture_output=True)
    run = load_file(folder / "run" / "checkpoints" / "step-00000005" / "model.safetensors")
    worker = accrue.WindowWorker(file)
    stepper = accrue.SumStepper(file, worker.shape)
    windows = [(0, 8), (8, 16), (16, 20), (20, 28), (28, 36)]  # an epoch's last window is short
    for draws in windows:
        before = stepper.parameters()
        worker.load(before)
        report = stepper.step(worker.run(stepper.window, [draws], stepper.units))
        assert report.stepped and report.loss > 0 and report.grad_norm > 0
    assert stepper.steps == 5 == stepper.total_steps
    assert equal(run, as_in_files(stepper.parameters()))
    assert not equal(run, as_in_files(before))


def test_sections_of_data_have_the_sums_of_one_process(folder):
    lines = (folder / "all.jsonl").read_text().splitlines(keepends=True)
    (folder / "a.jsonl").write_text("".join(lines[:12]))
    (folder / "b.jsonl").write_text("".join(lines[12:]))
    whole = accrue.WindowWorker(config(folder))
    first, second = accrue.WindowWorker(config(folder, data="a.jsonl")), accrue.WindowWorker(config(folder, data="b.jsonl"))
    assert (first.samples, second.samples) == (12, 8)
    first.take_place(0, SAMPLES)
    second.take_place(12, SAMPLES)
    expected = whole.run(0, [(2, 6), (12, 16), (32, 34)])  # a draw of the second epoch
    assert equal(expected.gradients, (second.run(0, [(12, 16), (32, 34)]) + first.run(0, [(2, 6)])).gradients)
    second.take_place(0, SAMPLES)
    assert not equal(expected.gradients, (second.run(0, [(0, 4), (20, 22)]) + first.run(0, [(2, 6)])).gradients), "at another place there are other masks"
    with pytest.raises(accrue.UsageError, match=r"samples \[0, 8\) of 20, received 8"):
        second.run(0, [(8, 10)])
    with pytest.raises(accrue.UsageError, match="a place for its 8 samples among 20"):
        second.take_place(13, SAMPLES)


def test_a_large_contribution_enlarges_units_alike_in_parts(folder):
    worker = accrue.WindowWorker(config(folder))
    count = len(worker.parameters())
    small = [-64] * count
    whole, one = worker.run(0, [(0, 8)], small), worker.run(0, [(0, 2)], small)
    assert all(unit > -64 for unit in whole.units)
    assert equal(whole.gradients, (worker.run(0, [(0, 4)], whole.units) + worker.run(0, [(4, 8)], whole.units)).gradients)
    with pytest.raises(accrue.UsageError, match="sums in equal units"):
        one + worker.run(0, [(0, 2)], [-32] * count)


def test_a_stepper_goes_on_from_its_state(folder):
    file = config(folder)
    worker = accrue.WindowWorker(file)

    def steps(stepper, count):
        for _ in range(count):
            worker.load(stepper.parameters())
            stepper.step(worker.run(stepper.window, [(0, 4)], stepper.units))

    straight, first, second = (accrue.SumStepper(file, worker.shape) for _ in range(3))
    steps(straight, 4)
    steps(first, 2)
    second.load(first.parameters())
    second.load_state_dict(first.state_dict())
    assert second.units == first.units and second.steps == 2
    steps(second, 2)
    assert equal(straight.parameters(), second.parameters())
    assert not equal(straight.parameters(), first.parameters())
    with pytest.raises(accrue.UsageError, match="units"):
        second.load_state_dict({**first.state_dict(), "units": [0]})


def test_sums_that_are_not_finite_change_nothing(folder):
    file = config(folder, accumulate="fp32")
    worker = accrue.WindowWorker(file)
    stepper = accrue.SumStepper(file, worker.shape)
    sums, before = worker.run(0, [(0, 4)]), stepper.parameters()
    next(iter(sums.gradients.values())).view(-1)[0] = float("nan")
    with pytest.raises(accrue.RunError, match="finite"):
        stepper.step(sums)
    assert equal(before, stepper.parameters()) and stepper.steps == 0
    assert stepper.step(worker.run(0, [(0, 4)])).stepped, "it goes on with others"


def test_sums_without_weight_are_no_step(folder):
    file = config(folder)
    worker = accrue.WindowWorker(file)
    stepper = accrue.SumStepper(file, worker.shape)
    before = stepper.parameters()
    assert not stepper.step(accrue.Sums(0.0, 0.0, 0, 0, 0, {}, {}, stepper.units)).stepped
    assert equal(before, stepper.parameters()) and (stepper.steps, stepper.window) == (0, 1)


@pytest.mark.parametrize("change, received", [
    (lambda name, values: values.pop(name), "none of that name"),
    (lambda name, values: values.update({name: values[name].double()}), "Double"),
    (lambda name, values: values.update({name: values[name].flatten()[:3]}), r"Float \[3\]"),
    (lambda name, values: values[name].view(-1).fill_(float("inf")), "not finite"),
    (lambda name, values: values.update(another=torch.zeros(2)), "another"),
])
def test_parameters_that_do_not_fit_change_nothing(folder, change, received):
    worker = accrue.WindowWorker(config(folder))
    before = worker.parameters()
    values = {name: value + 1 for name, value in before.items()}
    change(list(values)[-1], values)
    with pytest.raises(accrue.UsageError, match=received):
        worker.load(values)
    assert equal(before, worker.parameters())


@pytest.mark.parametrize("overrides, message", [
    (["precision.accumulate=bf16-kahan"], "precision.accumulate of a process that exchanges sums"),
    (["optim.kind=adama", "optim.clip=0"], "memory.gradients of a process that exchanges sums"),
    (["memory.offload=auto"], "memory.offload of a process that exchanges sums"),
    (["dist.local_steps=4"], "dist of a process that exchanges sums"),
    (["batch.ramp.from=4", "batch.ramp.over=3 steps"], "batch of a process that exchanges sums"),
])
def test_configs_that_cannot_be_divided_are_refused_by_key(folder, overrides, message):
    with pytest.raises(accrue.UsageError, match=message):
        accrue.WindowWorker(config(folder, accumulate="fp32"), overrides)


def test_wrong_calls_say_what_is_expected(folder):
    file = config(folder)
    worker = accrue.WindowWorker(file)
    with pytest.raises(accrue.UsageError, match=r'data.order of data in sections: expected "sequential"'):
        accrue.WindowWorker(file, ["data.order=shuffle"]).take_place(0, SAMPLES)
    with pytest.raises(accrue.UsageError, match="ranges of draws that hold samples"):
        worker.run(0, [(4, 4)])
    with pytest.raises(accrue.UsageError, match="run.steps of a process without data"):
        accrue.SumStepper(file, worker.shape, ["run.epochs=2"])
    with pytest.raises(accrue.UsageError, match="a vocabulary"):
        accrue.SumStepper(file, accrue.DataShape(vocab=0, image=[], classes=[]))
    with pytest.raises(accrue.UsageError, match="overrides: expected a list"):
        accrue.WindowWorker(file, "optim.lr=1")
