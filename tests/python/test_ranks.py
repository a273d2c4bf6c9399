"""Real ranks, started by torchrun once and forked behind the imports of torch for the rest (ranks/starter.py)."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch.distributed

FOLDER = pathlib.Path(__file__).parent
SECONDS = 120  # after which ranks are taken to hang
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{FOLDER}:{os.environ.get('PYTHONPATH', '')}", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Starter:
    """The process that forks the ranks."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, str(FOLDER / "ranks" / "starter.py")], env=ENVIRONMENT, text=True, bufsize=1,
                                         start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, count, script, *arguments, seconds=SECONDS):
        """What `count` ranks write, each of which ends well, and within the seconds."""
        store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)  # at a port of its own choice
        print(json.dumps({"script": script, "arguments": arguments, "world": count, "port": store.port, "seconds": seconds}), file=self._process.stdin)
        done = json.loads(self._process.stdout.readline())
        assert done["ends"] == [0] * count, f"{done['ends']}\n{done['output']}"
        return done["output"]

    def close(self):
        """The ranks too, if they still run."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture(scope="module")
def starter():
    one = Starter()
    yield one
    one.close()


def test_fixed_sums_have_the_same_bits_on_any_number_of_ranks(starter):
    seen = {line for count in (1, 2, 3) for line in starter.run(count, "fixed.py").splitlines() if line.startswith("bits")}
    assert len(seen) == 1, seen


def test_windows_are_shared_with_and_without_ddp():
    """Under torchrun itself."""
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                           str(FOLDER / "ranks" / "accumulates.py")], env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0 and done.stdout.count("fine") == 2, f"{done.stdout}\n{done.stderr}"


def test_a_rank_that_fails_is_reported(starter):
    with pytest.raises(AssertionError, match=r"(?s)\[1, 1\].*IndexError"):
        starter.run(2, "watched.py")


def test_ranks_that_hang_are_killed(starter):
    with pytest.raises(AssertionError, match=r"\[-9, -9\]"):
        starter.run(2, "hangs.py", seconds=1)


def test_all_ranks_see_one_noise_and_decide_alike(starter):
    decided = [line for line in starter.run(2, "noise.py").splitlines() if line.startswith("decided")]
    assert len(decided) == 2
    assert len(set(decided)) == 1, decided


@pytest.mark.parametrize("loop, causes", [("right", "none"), ("mean-of-devices", "device-mean"), ("never-multiplied", "normalization")])
def test_loops_over_ddp_are_watched(starter, loop, causes):
    assert starter.run(2, "watched.py", loop).count(f"causes {causes}") == 2


@pytest.mark.parametrize("wrong, said", [
    ("short window", "refused UsageError: watch: expected a window of at least 2 micro-batches, received 1 forward passes with a gradient, on rank 1;"),
    ("optimizer", "refused UsageError: watch: expected the optimizer of the model's parameters, received one that holds none of them, on rank 1;"),
    ("loss", "refused RunError: watch: expected a loss_fn and a window that run on each rank, received ZeroDivisionError: no such sample, on rank 1;"),
    ("record", "judged False: Not judged: the window could not be recorded: KeyError: 'lr', on rank 1."),
    ("sample_ids", "refused UsageError: Accumulator.backward: expected the samples of this micro-batch, as the batch is in samples, received a loss alone"),
    ("unit", "refused UsageError: Accumulator.backward: expected a size in the unit of the batch, received the other unit, on 1 of 2 ranks;"),
    ("no loss", "refused UsageError: Accumulator.backward: expected accrue.Loss(sum, weight), received something else, on 1 of 2 ranks;")])
def test_what_one_rank_refuses_all_raise(starter, wrong, said):
    lines = [line for line in starter.run(2, "refused.py", wrong).splitlines() if line.startswith(("refused", "judged"))]
    assert len(lines) == 2 and len(set(lines)) == 1 and lines[0].startswith(said), lines


def test_parameters_that_fsdp2_divides(starter):
    assert starter.run(2, "sharded.py").count("fine") == 2


def test_parameters_that_fsdp2_divides_on_any_mesh(starter):
    assert starter.run(4, "sharded_mesh.py", "4", "2x2", "4x1", "1x4", "tensor").count("fine") == 4
