"""Run folders of Python runs are read by the command and by TensorBoard."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
from museum.parts import loss_fn, micro_batches, model

import accrue

PROGRAM = os.environ.get("ACCRUE_PROGRAM")


def train(folder, steps=3, **options):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
    with accrue.RunLog(folder, config={"optim": {"lr": 0.25, "kind": "sgd"}}, total_steps=steps, **options) as log:
        acc = accrue.Accumulator(net, on_event=lambda event: log.event(event.name, event.reason))
        for step in range(steps):
            for micro in micro_batches(2):
                acc.backward(loss_fn(net, micro))
            log.step(acc.step(optimizer), optimizer, tokens=24 * (step + 1))
        log.evaluation(steps, 1.5, 10)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_has_the_lines_of_the_command(tmp_path):
    train(tmp_path / "run")
    steps = [line for line in lines(tmp_path / "run") if "loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert steps[0]["lr"] == 0.25 and steps[2]["tokens"] == 72 and steps[0]["tokens_per_second"] > 0 and steps[0]["grad_norm"] > 0 and steps[0]["micro_batches"] == 2
    assert lines(tmp_path / "run")[-1]["eval_loss"] == 1.5
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["ended"]["state"] == "done" and facts["total_steps"] == 3 and facts["config"]["optim"]["kind"] == "sgd"


def test_a_folder_with_a_run_is_refused_unless_it_goes_on(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(accrue.UsageError, match="a folder without a run.*resume"):
        accrue.RunLog(tmp_path / "run")
    log = accrue.RunLog(tmp_path / "run", resume=True, first_step=2)
    log.close()
    assert [line["step"] for line in lines(tmp_path / "run") if "loss" in line] == [1, 2], "later steps are done again"


def test_an_exception_ends_it_as_failed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with accrue.RunLog(tmp_path / "run"):
            raise ZeroDivisionError
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ended"]["state"] == "failed"


def test_tensorboard_reads_it(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(tmp_path / "run")
    events = reader.EventAccumulator(str(tmp_path / "run" / "tb")).Reload()
    assert {"train/loss", "train/grad_norm", "train/lr", "eval/loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3]


@pytest.mark.skipif(PROGRAM is None, reason="ACCRUE_PROGRAM names the command")
def test_the_command_reports_it(tmp_path):
    train(tmp_path / "run")
    done = subprocess.run([PROGRAM, "report", str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0 and "to step 3" in done.stdout, done.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "sgd" in page
    listed = subprocess.run([PROGRAM, "runs", str(tmp_path)], capture_output=True, text=True)
    assert "done" in listed.stdout, listed.stdout + listed.stderr
    assert pathlib.Path(tmp_path / "run" / "report.html").stat().st_size > 50_000
