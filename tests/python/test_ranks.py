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


def test_parameters_that_fsdp2_divides():
    assert on_two_ranks("sharded.py").count("fine") == 2


def test_parameters_that_fsdp2_divides_on_any_mesh():
    assert on_ranks(4, "sharded_mesh.py", "4", "2x2", "4x1", "1x4", "tensor").count("fine") == 4
