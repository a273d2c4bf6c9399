"""Preference losses by PyTorch on whole batches of pairs against accrue's accumulated ones: DPO and ORPO.

preference_golden.py ACCRUE: the command line. Both start from the same exported weights and read the same JSONL
file, whose pairs differ in lengths and weight. Exit status 77 where transformers is not there.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402

try:
    import torch
    from safetensors.torch import load_file
    from torch.nn.functional import logsigmoid
    from transformers import GPT2LMHeadModel

    import whole_batches
    from whole_batches import DTYPE, worst_error
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
CONTEXT, PAIRS, BATCH, STEPS, BETA = 24, 20, 6, 6, 0.4
BOUND = {"fp32": 2e-5, "fp64": 1e-10}
LOSS_BOUND = {"fp32": 1e-5, "fp64": 1e-10}


def make_pairs():
    """Lines as dicts of prompt, chosen, rejected and perhaps weight."""
    generator = torch.Generator().manual_seed(5)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    def word(low):
        return "".join(chr(97 + number(0, 26)) for _ in range(number(low, CONTEXT // 2)))

    pairs = []
    for i in range(PAIRS):
        pair = {"prompt": word(1), "chosen": word(1), "rejected": word(1)}
        if i % 4 == 0:
            pair["weight"] = 0.25 * number(1, 9)
        pairs.append(pair)
    return pairs


def log_probabilities(model, prompt, answer):
    """Of the answer's bytes, one by one."""
    ids = torch.tensor([list((prompt + answer).encode())])
    logits = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logits.gather(-1, ids[0, 1:, None])[len(prompt) - 1:, 0]


def dpo(model, reference, pair):
    """The loss, and the margin of the rewards."""
    scores = [BETA * (log_probabilities(model, pair["prompt"], pair[answer]).sum()
                      - log_probabilities(reference, pair["prompt"], pair[answer]).sum().detach())
              for answer in ("chosen", "rejected")]
    margin = scores[0] - scores[1]
    return -logsigmoid(margin), margin


def orpo(model, _, pair):
    means = [log_probabilities(model, pair["prompt"], pair[answer]).mean() for answer in ("chosen", "rejected")]
    odds = [mean - torch.log1p(-torch.exp(mean)) for mean in means]
    return -means[0] - BETA * logsigmoid(odds[0] - odds[1]), BETA * (means[0] - means[1])


def dpo_without_reference(model, _, pair):
    margin = BETA * (log_probabilities(model, pair["prompt"], pair["chosen"]).sum()
                     - log_probabilities(model, pair["prompt"], pair["rejected"]).sum())
    return -logsigmoid(margin), margin


def means_of(loss, model, reference, pairs):
    """Weighted means over pairs, each by itself: the loss, the margin and the accuracy."""
    total, margins, right, weights = 0.0, 0.0, 0.0, 0.0
    for pair in pairs:
        weight = pair.get("weight", 1.0)
        value, margin = loss(model, reference, pair)
        total = total + weight * value
        margins += weight * margin.item()
        right += weight * float(margin > 0)
        weights += weight
    return total / weights, margins / weights, right / weights


def train_by_torch(folder, pairs, compute, loss):
    model, reference = (GPT2LMHeadModel.from_pretrained(folder).to(DTYPE[compute]) for _ in range(2))
    optimizer = whole_batches.Optimizer(model, compute)
    steps = []
    for _, window in zip(range(STEPS), whole_batches.windows(PAIRS, BATCH)):
        mean, margin, accuracy = means_of(loss, model, reference, pairs[window])
        optimizer.step(mean)
        steps.append({"loss": mean.item(), "margin": margin, "accuracy": accuracy})
    with torch.no_grad():
        mean, margin, accuracy = means_of(loss, model, reference, pairs)
    steps.append({"loss": mean.item(), "margin": margin, "accuracy": accuracy})
    return whole_batches.tensors_of(model), steps


LOSSES = {"dpo": dpo, "orpo": orpo}


class PreferenceGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        whole_batches.save_small_gpt2(cls.folder / "start", CONTEXT)
        cls.pairs = make_pairs()
        (cls.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in cls.pairs))
        cls.expected = {(kind, compute): train_by_torch(cls.folder / "start", cls.pairs, compute, loss)
                        for kind, loss in LOSSES.items() for compute in DTYPE}
        cls.known = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train_by_accrue(self, kind, compute, name, *overrides):
        """The last checkpoint's tensors, and the lines of metrics.jsonl."""
        out = self.folder / name
        config = self.folder / f"{name}.toml"
        pairs = self.folder / "pairs.jsonl"
        config.write_text(whole_batches.config(
            out, self.folder / "start", f'train = ["{pairs}"]\nval = ["{pairs}"]\ntokenizer = "bytes"', STEPS, BATCH, compute,
            more=f'[loss]\nkind = "{kind}"\nbeta = {BETA}'))
        run = subprocess.run([ACCRUE, "train", str(config), *overrides], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors"), lines

    def trained(self, kind, compute, micro):
        """The same run for all tests that read it."""
        if (kind, compute, micro) not in self.known:
            self.known[kind, compute, micro] = self.train_by_accrue(kind, compute, f"{kind}-{compute}-{micro}", f"--batch.micro={micro}")
        return self.known[kind, compute, micro]

    def expect_same_numbers(self, lines, expected, bound):
        steps = [line for line in lines if "loss" in line]
        last = [line for line in lines if "eval_loss" in line][-1]
        self.assertEqual(len(steps), STEPS)
        for line, mine in zip(steps + [{**last, "loss": last["eval_loss"]}], expected):
            self.assertLess(abs(line["loss"] - mine["loss"]), bound * max(1.0, mine["loss"]))
            self.assertLess(abs(line["losses"]["margin"] - mine["margin"]), 10 * bound)
        # Before the first step a reward of dpo is a rounding error.
        for line, mine in zip(steps[1:], expected[1:]):
            self.assertEqual(line["losses"]["accuracy"], mine["accuracy"])
        self.assertEqual(last["eval_accuracy"], expected[-1]["accuracy"])

    def test_any_split_ends_where_whole_batches_end(self):
        for kind, compute in self.expected:
            for micro in (1, 4, BATCH):
                with self.subTest(kind=kind, compute=compute, micro=micro):
                    weights, steps = self.expected[kind, compute]
                    actual, lines = self.trained(kind, compute, micro)
                    self.assertLess(worst_error(actual, weights), BOUND[compute])
                    self.expect_same_numbers(lines, steps, LOSS_BOUND[compute])

    def test_packing_and_recomputation_change_nothing(self):
        for kind in LOSSES:
            with self.subTest(kind=kind):
                actual, _ = self.train_by_accrue(kind, "fp64", f"{kind}-packed", "--batch.micro=3",
                                                 "--data.packing=true", "--memory.recompute=full")
                self.assertLess(worst_error(actual, self.expected[kind, "fp64"][0]), BOUND["fp64"])

    def test_other_accumulations_stay_near(self):
        actual, _ = self.train_by_accrue("dpo", "fp32", "dpo-fixed", "--batch.micro=1",
                                         "--precision.accumulate=fixed")
        self.assertLess(worst_error(actual, self.expected["dpo", "fp32"][0]), BOUND["fp32"])

    def test_the_comparison_sees_a_missing_reference(self):
        actual, _ = self.trained("dpo", "fp64", 4)
        wrong, _ = train_by_torch(self.folder / "start", self.pairs, "fp64", dpo_without_reference)
        self.assertGreater(worst_error(actual, wrong), 1e4 * BOUND["fp64"])

    def test_the_comparison_sees_pairs_that_are_cut(self):
        """Rejected answers that belong to the pair before, as they would be if sequences were shuffled."""
        cut = [{**pair, "rejected": self.pairs[i - 1]["rejected"]} for i, pair in enumerate(self.pairs)]
        wrong, _ = train_by_torch(self.folder / "start", cut, "fp64", orpo)
        actual, _ = self.trained("orpo", "fp64", 4)
        self.assertGreater(worst_error(actual, wrong), 1e4 * BOUND["fp64"])


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    unittest.main(verbosity=2)
