"""A scheduler's notice (SIGUSR2) by each launcher, as docs/guide/launching.md has them: the ranks write a
checkpoint, and the run goes on.

notice_test.py ACCRUE FAULT_POINTS
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests" / "support"))

import skips  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

ACCRUE = FAULT_POINTS = ""
PYTHON = ROOT / ".venv-test" / "bin" / "python"
SLEEP = "at=micro-batch count=every do=sleep:0.1"  # tests/faults/fault_points.cpp
SECONDS = 300  # after which something hangs
CONFIG = """
run = {{out = "{out}", steps = 10000, threads = 1}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"]}}
batch = {{tokens = 128, micro = 1}}
optim = {{lr = 1e-2}}
observe = {{progress = "off"}}
"""


class Notice(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "out"
        (self.folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        (self.folder / "run.toml").write_text(CONFIG.format(out=self.out, text=self.folder / "text.txt"))
        self.reserved = ReservedPort()
        self.ranks = []

    def start(self, *launcher):
        """Two ranks whose micro-batches take their time, in a process group of their own; returns once they have taken a step."""
        command = [*launcher, "env", f"LD_PRELOAD={FAULT_POINTS}", f"ACCRUE_FAULT={SLEEP}", ACCRUE, "train",
                   str(self.folder / "run.toml")]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "MASTER_ADDR": "127.0.0.1",
                                    "MASTER_PORT": str(self.reserved.number)}
        process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        metrics = self.out / "metrics.jsonl"
        self.wait_until(process, lambda: metrics.exists() and '"loss"' in metrics.read_text())
        self.ranks = children_of(process)
        return process

    def wait_until(self, process, is_so):
        deadline = time.monotonic() + SECONDS
        while not is_so():
            self.assertIsNone(process.poll(), "the run has ended")
            self.assertLess(time.monotonic(), deadline, "it does not come to what is waited for")
            time.sleep(0.02)

    def end(self, process):
        """Ranks outlive a launcher that is killed."""
        for one in [process.pid, *self.ranks]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()

    def torchrun(self, *before):
        return self.start(*before, str(PYTHON), "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=2",
                          f"--master-port={self.reserved.number}")

    def expect_checkpoint(self, process):
        """The first one of the clock would come after ten minutes."""
        self.wait_until(process, lambda: list(self.out.glob("checkpoints/step-*")))
        self.assertIsNone(process.poll(), "the run goes on")

    def test_torchrun_that_ignores_it_lets_it_pass(self):
        process = self.torchrun("env", "--ignore-signal=USR2")
        os.killpg(process.pid, signal.SIGUSR2)  # as Slurm: all processes of the step
        for rank in self.ranks:
            os.kill(rank, signal.SIGUSR2)  # each in a group of its own
        self.expect_checkpoint(process)

    def test_torchrun_as_it_is_ends_by_it(self):
        """What the guide warns of."""
        process = self.torchrun()
        os.kill(process.pid, signal.SIGUSR2)
        self.assertEqual(process.wait(timeout=SECONDS), -signal.SIGUSR2)

    def test_mpirun_hands_it_on(self):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.assertFalse(os.environ.get(skips.REQUIRE_ALL), f"mpirun is not there, and {skips.REQUIRE_ALL} is set")
            self.skipTest("mpirun is not there")
        process = self.start(mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2")
        os.kill(process.pid, signal.SIGUSR2)
        self.expect_checkpoint(process)


def children_of(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


if __name__ == "__main__":
    ACCRUE, FAULT_POINTS = sys.argv.pop(1), sys.argv.pop(1)
    if not PYTHON.exists():
        skips.missing_in_build(f"{PYTHON} is not there")
    unittest.main()
