"""Each example with a plain counterpart takes the steps that the plain program takes on whole batches.

example_pairs.py PROGRAMS TEXT: the folder of the built examples, and a text to train on. Both programs of a pair print
their losses in double precision; so do two with a fault planted, whose micro-batches are averaged. Only the standard
library.
"""
import difflib
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "by_feature"
PROGRAMS, TEXT = pathlib.Path(), pathlib.Path()
# Relative: of the first half of what a program prints, and of all of it. Training magnifies rounding where a loss is
# near 0: PyTorch alone, whole against split, comes to 2e-10 after the 100 steps of the recurrent example.
FIRST_HALF, BOUND = 1e-12, 1e-8
MOST_LINES = 60
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
PAIRS = ("recurrent", "gan", "masked_lm", "segmentation", "own_model", "own_command", "your_loop_on_ranks")
WITHOUT_LOOP = ("own_model",)  # it becomes a config and a call: half of the lines are others
STEPS = 8
SAME_OPTIMIZER = ["--optim.kind=adam", "--optim.lr=1e-2", "--optim.betas=[0.9, 0.999]", "--optim.weight_decay=0",
                  "--optim.clip=0", "--optim.schedule.kind=constant", "--data.order=sequential",
                  "--precision.compute=fp64"]


def run(name, *words):
    result = subprocess.run([PROGRAMS / name, *map(str, words)], capture_output=True, text=True, timeout=300,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})
    return result.returncode, result.stdout, result.stderr


# Two tests compare with what the same plain programs print, which is the same each time.
run_once = functools.cache(run)


def numbers_of(output):
    return [float(number) for number in NUMBER.findall(output)]


def difference(actual, expected):
    if len(actual) != len(expected) or not expected:
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(actual, expected))


class ExamplePairs(unittest.TestCase):
    def numbers(self, name, *words):
        status, output, errors = run_once(name, *words)
        self.assertEqual(status, 0, f"{name}: {output}{errors}")
        return numbers_of(output)

    def expect_same(self, actual, expected):
        self.assertLess(difference(actual, expected), BOUND)
        half = len(expected) // 2
        if half > 0:
            self.assertLess(difference(actual[:half], expected[:half]), FIRST_HALF)

    def test_recurrent(self):
        self.expect_same(self.numbers("recurrent"), self.numbers("recurrent_plain"))

    def test_gan(self):
        self.expect_same(self.numbers("gan"), self.numbers("gan_plain"))

    def test_masked_lm(self):
        losses = self.numbers("masked_lm")
        self.expect_same(losses, self.numbers("masked_lm_plain"))
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_segmentation(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                losses = self.numbers("segmentation", seed)
                self.expect_same(losses, self.numbers("segmentation_plain", seed))
                self.assertLess(losses[-1], 0.5 * losses[0])

    def test_own_model(self):
        with tempfile.TemporaryDirectory() as folder:
            self.expect_same(self.numbers("own_model", pathlib.Path(folder, "run")), self.numbers("own_model_plain"))

    def test_own_command(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "run")
            status, _, errors = run("own_command", "train", f"--data.train={TEXT}", f"--run.out={out}",
                                    f"--run.steps={STEPS}", "--model.width=16", "--model.context=16",
                                    "--batch.samples=12", "--batch.micro=5", *SAME_OPTIMIZER)
            self.assertEqual(status, 0, errors)
            lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
            losses = [line["loss"] for line in lines if "loss" in line]
        self.expect_same(losses, self.numbers("own_command_plain", TEXT, STEPS))

    def test_your_loop_on_ranks(self):
        expected = self.numbers("your_loop_on_ranks_plain")
        self.expect_same(self.numbers("your_loop_on_ranks"), expected)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = str(found.getsockname()[1])
        ranks = [subprocess.Popen([PROGRAMS / "your_loop_on_ranks"], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": "2",
                                       "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                 for rank in range(2)]
        for rank in ranks:
            self.expect_same(numbers_of(rank.communicate(timeout=300)[0]), expected)

    def test_means_of_micro_batches_are_seen(self):
        for name in ("recurrent", "gan", "masked_lm", "segmentation"):
            with self.subTest(name):
                _, output, _ = run(f"{name}_planted")  # which learns, too
                self.assertGreater(difference(numbers_of(output), self.numbers(f"{name}_plain")), 1e-4)

    def test_are_short_and_differ_by_few_lines(self):
        for name in PAIRS:
            with self.subTest(name):
                plain, with_accrue = ((SOURCES / f"{file}.cpp").read_text().splitlines()
                                      for file in (f"{name}_plain", name))
                self.assertLessEqual(len(plain), MOST_LINES)
                self.assertLessEqual(len(with_accrue), MOST_LINES)
                if name in WITHOUT_LOOP:
                    continue
                alike = difflib.SequenceMatcher(None, plain, with_accrue, autojunk=False).ratio()
                self.assertGreater(alike, 0.4, "the two programs have little in common")


if __name__ == "__main__":
    PROGRAMS, TEXT = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
    unittest.main(verbosity=2)
