"""Runs of the command line by a launcher, and what their tests expect. Only the standard library."""
import pathlib
import subprocess
import tempfile
import unittest

import launchers
import tinyrun

STEPS = 3
ENDLESS = "--run.steps=1000000"
NO_CHECKPOINTS = "--run.checkpoint_every=1000000 steps"  # but those that a signal asks for


class Launched(unittest.TestCase):
    ACCRUE = ""
    RANKS = 2

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tiny = tinyrun.TinyRun(self.ACCRUE, self.folder / "run", steps=STEPS, timeout=120)
        self.processes = []
        self.addCleanup(launchers.end_all, self.processes)

    def environment(self):
        return tinyrun.alone()

    def start(self, *words, **more):
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=self.environment() | more)
        self.processes.append(process)
        return process

    def command(self, out, *words):
        return self.tiny.command(self.folder / out, *words)

    def parameters(self, out):
        return (self.folder / out / "checkpoints" / f"step-{STEPS:08}" / "model.safetensors").read_bytes()

    def worlds(self, out):
        return {line["world"] for line in tinyrun.metrics(self.folder / out) if "lr" in line}

    def expect_the_bits_of_one_process(self, *outs):
        self.expect(self.tiny.run(self.folder / "alone"))
        for out in outs:
            self.assertEqual(self.parameters(out), self.parameters("alone"))
            self.assertEqual(self.worlds(out), {self.RANKS})

    def expect(self, ended, status=0):
        self.assertEqual(ended.status, status, ended.errors)

    def wait_for_a_checkpoint(self, out):
        tinyrun.wait_until(lambda: tinyrun.checkpoints(self.folder / out), "no checkpoint was written")

    def expect_more_steps(self, out):
        """The run goes on."""
        launchers.wait_for_steps(self.folder / out, tinyrun.metrics(self.folder / out)[-1].get("step", 0) + 2)
