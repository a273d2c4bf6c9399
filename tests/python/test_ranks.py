"""Real ranks, started by torchrun."""

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


def on_ranks(count, script, *arguments):
    environment = os.environ | {"PYTHONPATH": f"{FOLDER}:{os.environ.get('PYTHONPATH', '')}", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count),
                           str(FOLDER / "ranks" / script), *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def on_two_ranks(script, *arguments):
    return on_ranks(2, script, *arguments)


def test_fixed_sums_have_the_same_bits_on_any_number_of_ranks():
    seen = {line for count in (1, 2, 3) for line in on_ranks(count, "fixed.py").splitlines() if line.startswith("bits")}
    assert len(seen) == 1, seen


def test_windows_are_shared_with_and_without_ddp():
    assert on_two_ranks("accumulates.py").count("fine") == 2


def test_all_ranks_see_one_noise_and_decide_alike():
    decided = [line for line in on_two_ranks("noise.py").splitlines() if line.startswith("decided")]
    assert len(decided) == 2
    assert len(set(decided)) == 1, decided


@pytest.mark.parametrize("loop, causes", [("right", "none"), ("mean-of-devices", "device-mean"), ("never-multiplied", "normalization")])
def test_loops_over_ddp_are_watched(loop, causes):
    assert on_two_ranks("watched.py", loop).count(f"causes {causes}") == 2


@pytest.mark.parametrize("wrong, said", [
    ("short window", "refused UsageError: watch: expected a window of at least 2 micro-batches, received 1 forward passes with a gradient, on rank 1;"),
    ("optimizer", "refused UsageError: watch: expected the optimizer of the model's parameters, received one that holds none of them, on rank 1;"),
    ("loss", "refused RunError: watch: expected a loss_fn and a window that run on each rank, received ZeroDivisionError: no such sample, on rank 1;"),
    ("record", "judged False: Not judged: the window could not be recorded: KeyError: 'lr', on rank 1."),
    ("sample_ids", "refused UsageError: Accumulator.backward: expected the samples of this micro-batch, as the batch is in samples, received a loss alone"),
    ("unit", "refused UsageError: Accumulator.backward: expected a size in the unit of the batch, received the other unit, on 1 of 2 ranks;"),
    ("no loss", "refused UsageError: Accumulator.backward: expected accrue.Loss(sum, weight), received something else, on 1 of 2 ranks;")])
def test_what_one_rank_refuses_all_raise(wrong, said):
    lines = [line for line in on_two_ranks("refused.py", wrong).splitlines() if line.startswith(("refused", "judged"))]
    assert len(lines) == 2 and len(set(lines)) == 1 and lines[0].startswith(said), lines


def test_parameters_that_fsdp2_divides():
    assert on_two_ranks("sharded.py").count("fine") == 2


def test_parameters_that_fsdp2_divides_on_any_mesh():
    assert on_ranks(4, "sharded_mesh.py", "4", "2x2", "4x1", "1x4", "tensor").count("fine") == 4
