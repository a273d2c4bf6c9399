"""Processes of the command line in network namespaces of their own, over links of 100 Mbit/s.

links_test.py ACCRUE. Exit status 77 where the kernel does not allow such namespaces.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "e2e"))
sys.path.append(str(ROOT / "tests" / "support"))

import netns  # noqa: E402
import skips  # noqa: E402

ACCRUE = ""
LINK = netns.Shape(rate_mbit=100)
STEPS = 3
SECONDS = 600  # after which a run is ended


class Links(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        self.config = self.folder / "run.toml"
        self.config.write_text(f"""
            [run]
            out = "unused"
            steps = {STEPS}
            threads = 1
            [model]
            layers = 2
            heads = 2
            width = 64
            context = 32
            [data]
            train = ["{self.folder / 'text.txt'}"]
            [batch]
            tokens = {8 * 32}
            micro = 1
            [optim]
            lr = 1e-2
            [precision]
            accumulate = "fixed"
            [observe]
            progress = "off"
            """)

    def command(self, name, *overrides):
        return [ACCRUE, "train", str(self.config), f"--run.out={self.folder / name}", *overrides]

    def train_alone(self, name, *overrides):
        subprocess.run(self.command(name, *overrides), check=True, capture_output=True,
                       env=os.environ | {"OMP_NUM_THREADS": "1"})

    def parameters(self, name):
        """The file that holds them, byte by byte."""
        return (self.folder / name / "checkpoints" / f"step-{STEPS:08}" / "model.safetensors").read_bytes()

    def steps(self, name):
        lines = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if "lr" in line]

    def train_together(self, ranks, *overrides):
        """The run's name, and what each rank's interface sent."""
        name = f"{ranks} ranks {len(os.listdir(self.folder))}"
        with netns.cable(LINK, ranks) as cable:
            netns.run_ranks(cable, lambda rank: self.command(name, *overrides), SECONDS)
            return name, cable.sent_bytes()

    def test_any_number_of_ranks_has_the_bits_of_one_process(self):
        self.train_alone("alone")
        for ranks in (2, 3, 4, 8):
            with self.subTest(ranks=ranks):
                name, sent = self.train_together(ranks)
                self.assertEqual(self.parameters(name), self.parameters("alone"))
                steps = self.steps(name)
                self.assertEqual([step["world"] for step in steps], [ranks] * STEPS)
                # The interface counts headers and the start of the run as well.
                self.assertGreater(sent[0], sum(step["wire_bytes"] for step in steps))

    def test_stages_of_a_pipeline_and_a_divided_optimizer_have_them_too(self):
        self.train_alone("alone")
        for ranks, overrides in ((2, ["--dist.stages=2"]), (3, ["--dist.shard=optimizer"])):
            with self.subTest(overrides=overrides):
                name, _ = self.train_together(ranks, *overrides)
                self.assertEqual(self.parameters(name), self.parameters("alone"))

    def test_a_rank_whose_cable_is_cut_is_named_and_all_end(self):
        # From where the store is hosted and from elsewhere; the rank that is cut off misses the store's host.
        host = "no sign of life from the host of the store (rank 0, at 10.77.0.1:"
        for lost, messages in ((2, ["no sign of life from rank 2", "no sign of life from rank 2", host]),
                               (0, ["no sign of life from rank 1", host, host])):
            with self.subTest(lost=lost), netns.cable(LINK, 3) as cable:
                name = f"cut {lost}"
                metrics = self.folder / name / "metrics.jsonl"
                cut = []

                def cut_after_a_step():
                    if not cut and metrics.exists() and '"lr"' in metrics.read_text():
                        cable.cut(lost)
                        cut.append(lost)

                # With compression each rank keeps something of its own, so all are needed.
                command = self.command(name, "--run.steps=1000000", "--dist.timeout=3 s", "--dist.compress=bf16",
                                       "--precision.accumulate=fp32")
                with self.assertRaises(netns.RankFailed) as ended:
                    netns.run_ranks(cable, lambda rank: command, SECONDS, cut_after_a_step)
                self.assertTrue(cut, ended.exception)
                ranks = str(ended.exception).split("rank 0: exit status ", 1)[1]
                for rank, message in enumerate(messages):
                    own = ranks.split(f"\nrank {rank + 1}: exit status ")[0]
                    self.assertTrue(own.startswith("1\n"), ended.exception)
                    self.assertIn(message, own)
                    ranks = ranks[len(own):].removeprefix(f"\nrank {rank + 1}: exit status ")

    def test_the_comparison_sees_other_parameters(self):
        self.train_alone("alone")
        self.train_alone("other", "--batch.micro=2", "--precision.accumulate=fp32")
        self.assertNotEqual(self.parameters("other"), self.parameters("alone"))


def skip_without_links():
    try:
        with netns.cable(LINK, 3):
            pass
    except netns.MissingTool as reason:
        skips.missing_in_build(reason)
    except netns.Unavailable as reason:
        skips.not_possible_here(reason)


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    skip_without_links()
    unittest.main(verbosity=2)
