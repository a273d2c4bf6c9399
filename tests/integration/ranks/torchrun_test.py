"""Machines that come and go under torchrun --nnodes=MIN:MAX: its own agents, each with one rank, and a store that stays.

torchrun_test.py ACCRUE FAULT_POINTS. torchrun starts all ranks again when a machine comes or a rank fails. When an agent is lost
with its rank, the first one included, the others go on without a stop.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "faults")]

import launchers  # noqa: E402
import skips  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

ACCRUE = FAULT_POINTS = ""
# The tests' Python has all that torch imports; of a CUDA wheel .venv has what a program loads, and no more.
PYTHON = ROOT / ".venv-test" / "bin" / "python"
STEPS = 5000  # more than a run can take in SECONDS: a signal ends it
SLEEP = "at=micro-batch count=every do=sleep:0.05"  # tests/faults/fault_points.cpp: micro-batches take as long
# Machines that are started at once may come so many seconds apart.
LAST_CALL = 5
SECONDS = 300  # after which something hangs
# The store of docs/guide/failures.md.
STORE = 'import time, torch.distributed as d; s = d.TCPStore("127.0.0.1", {port}, is_master=True, wait_for_workers=False); time.sleep(1e9)'
CONFIG = """
run = {{out = "{out}", steps = {steps}, threads = 1}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"]}}
batch = {{tokens = 128, micro = 1}}
precision = {{accumulate = "fixed"}}
dist = {{reduce = "end"}}
optim = {{lr = 1e-2, schedule = {{kind = "constant"}}}}
observe = {{progress = "off"}}
"""


def ranks_of(agent):
    """The number and the process of each rank that the agent runs. A child that has just ended has no variables any more."""
    return [(int(value[5:]), child) for child in launchers.children(agent.pid) for value in launchers.variables(child)
            if value.startswith(b"RANK=")]


class Torchrun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        self.processes, self.agents, self.left = [], [], []
        self.addCleanup(self.end_processes)

    def start_store(self):
        self.reserved = ReservedPort()
        self.port = self.reserved.number
        self.processes.append(subprocess.Popen([str(PYTHON), "-c", STORE.format(port=self.port)]))

    def end_processes(self):
        """Ranks outlive an agent that is killed."""
        ranks = [*self.left, *(child for process in self.processes for child in launchers.children(process.pid))]
        for process in self.processes:
            process.kill()
            process.wait()
        for rank in ranks:
            launchers.kill(rank, signal.SIGKILL)

    def config(self, name, steps=STEPS):
        path = self.folder / f"{name}.toml"
        path.write_text(CONFIG.format(out=self.folder / name, steps=steps, text=self.folder / "text.txt"))
        return str(path)

    def start_agent(self):
        """A machine that comes."""
        # torchrun's agents share one store by default, and then one that comes later finds no others.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        with (self.folder / f"agent{len(self.agents)}.log").open("w") as log:
            self.agents.append(subprocess.Popen(
                [str(PYTHON), "-m", "torch.distributed.run", "--no-python", "--nnodes=2:3", "--nproc-per-node=1",
                 "--max-restarts=5", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=test",
                 f"--rdzv-conf=is_host=false,last_call_timeout={LAST_CALL}", "--local-addr=127.0.0.1",
                 "env", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={self.port}", "TORCHELASTIC_USE_AGENT_STORE=True",
                 f"LD_PRELOAD={FAULT_POINTS}", f"ACCRUE_FAULT={SLEEP}", ACCRUE, "train", self.config("elastic"),
                 "--resume", "auto"], env=environment, stdout=log, stderr=log))
        self.processes.append(self.agents[-1])

    def messages(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def lines(self, name="elastic"):
        metrics = self.folder / name / "metrics.jsonl"
        text = metrics.read_text() if metrics.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def steps(self, name="elastic"):
        return [line for line in self.lines(name) if "lr" in line]

    def events(self, name):
        return [line["reason"] for line in self.lines() if line.get("event") == name]

    def wait_until(self, what):
        deadline = time.monotonic() + SECONDS
        while not (found := what()):
            self.assertLess(time.monotonic(), deadline, self.messages())
            time.sleep(0.05)
        return found

    def wait_for_steps_with(self, world, resumptions):
        """Until the run took a step with so many ranks since it was resumed so often: all of them live then."""
        self.wait_until(lambda: self.worlds_since(resumptions)[-1:] == [world])
        self.assertFalse(self.is_over("elastic"), "all was over too soon")

    def worlds_since(self, resumptions):
        """Of each step since then; none while the run was resumed less often."""
        lines = self.lines()
        resumed = [index for index, line in enumerate(lines) if line.get("event") == "resume"]
        return [line["world"] for line in lines[resumed[-1]:] if "lr" in line] if len(resumed) >= resumptions else []

    def rank_of(self, agent):
        """The number and the process of its rank."""
        return self.wait_until(lambda: ranks_of(agent))[0]

    def is_over(self, name):
        return "ended" in json.loads((self.folder / name / "run.json").read_text())

    def parameters(self, name):
        return (self.folder / name / "checkpoints" / f"step-{self.steps()[-1]['step']:08}" / "model.safetensors").read_bytes()

    def test_a_rank_that_stays_stopped_does_not_keep_the_launcher(self):
        armed = f'test "$RANK" = 0 || export LD_PRELOAD={FAULT_POINTS} "ACCRUE_FAULT=at=reduce:bucket do=stop step=2"; exec "$@"'
        with (self.folder / "agent.log").open("w") as log:
            agent = subprocess.Popen(
                [str(PYTHON), "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node=2",
                 "sh", "-c", armed, "sh", ACCRUE, "train", self.config("stopped", steps=10), "--dist.timeout=3 s"],
                env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)
        self.processes.append(agent)
        self.assertEqual(agent.wait(SECONDS), 1, self.messages())
        self.assertEqual([step["world"] for step in self.steps("stopped")], [2] + [1] * 9, "the other rank ends the run")
        self.assertTrue(self.is_over("stopped"))
        self.assertIn("Signal 9 (SIGKILL) received by PID", self.messages())
        self.assertNotIn("Unable to shutdown process", self.messages(), "the agent waited 30 s for it")

    def test_machines_come_and_go_and_the_bits_stay(self):
        self.start_store()
        for _ in range(2):
            self.start_agent()
        self.wait_until(lambda: len(self.steps()) >= 3)
        self.start_agent()
        self.wait_for_steps_with(world=3, resumptions=1)
        os.kill(self.rank_of(self.agents[1])[1], signal.SIGKILL)
        self.wait_for_steps_with(world=3, resumptions=2)
        _, rank, lost = min((*self.rank_of(agent), agent) for agent in self.agents)
        lost.kill()
        os.kill(rank, signal.SIGKILL)
        self.wait_until(lambda: self.steps()[-1]["world"] == 2)
        others = [agent for agent in self.agents if agent is not lost]
        self.left = [self.rank_of(agent)[1] for agent in others]
        # An agent would start a rank again that a signal ended.
        for agent in others:
            agent.kill()
        for rank in self.left:
            launchers.kill(rank, signal.SIGTERM)
        self.wait_until(lambda: self.is_over("elastic"))
        taken = self.steps()[-1]["step"]
        subprocess.run([ACCRUE, "train", self.config("alone", taken)], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
                       capture_output=True)
        self.assertEqual(self.parameters("elastic"), self.parameters("alone"), self.messages())
        self.assertEqual([step["step"] for step in self.steps()], list(range(1, taken + 1)))
        for one, other in zip(self.steps(), self.steps("alone"), strict=True):
            self.assertEqual([one[name] for name in ("samples", "tokens", "weight")],
                             [other[name] for name in ("samples", "tokens", "weight")])
        self.assertEqual(len(self.events("resume")), 2, "torchrun starts nothing again when an agent is lost")


if __name__ == "__main__":
    ACCRUE, FAULT_POINTS = sys.argv.pop(1), sys.argv.pop(1)
    if not PYTHON.exists():
        skips.missing_in_build(f"{PYTHON} is not there")
    unittest.main()
