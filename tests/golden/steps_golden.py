"""Ten optimizer steps by PyTorch on whole batches against accrue's accumulated ones.

steps_golden.py ACCRUE: the command line. Both start from the same exported weights and read the same JSONL
file, whose samples differ in length, mask and weight. Exit status 77 where transformers is not there.
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
    from transformers import GPT2LMHeadModel

    import whole_batches
    from whole_batches import DTYPE, worst_error
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
IGNORED = -100
CONTEXT, SAMPLES, BATCH, STEPS = 24, 32, 6, 10
BOUND = {"fp32": 1e-5, "fp64": 1e-10}


def make_samples():
    """Lines of all three forms: (line, ids, labels aligned with the ids, weight)."""
    generator = torch.Generator().manual_seed(5)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    def word(length):
        return "".join(chr(97 + number(0, 26)) for _ in range(length))

    samples = []
    for i in range(SAMPLES):
        form, weight = i % 3, 1.0
        if form == 0:
            text = word(number(2, CONTEXT))
            line, ids = {"text": text}, list(text.encode())
            labels = list(ids)
        elif form == 1:
            prompt, completion = word(number(1, CONTEXT // 2)), word(number(1, CONTEXT // 2))
            line = {"prompt": prompt, "completion": completion}
            ids = list((prompt + completion).encode())
            labels = [IGNORED] * len(prompt) + ids[len(prompt):]
        else:
            ids = [number(0, 256) for _ in range(number(3, CONTEXT))]
            labels = [IGNORED if number(0, 3) == 0 else t for t in ids]
            labels[-1] = ids[-1]
            weight = 0.25 * number(1, 9)
            line = {"input_ids": ids, "labels": labels, "weight": weight}
        samples.append((line, ids, labels, weight))
    return samples


def loss_of(model, samples):
    """The weighted mean over all labels that count, one sample at a time: no padding, no split."""
    total, weights = 0.0, 0.0
    for _, ids, labels, weight in samples:
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
        targets = torch.tensor(labels[1:])
        total = total + weight * torch.nn.functional.cross_entropy(
            logits, targets, ignore_index=IGNORED, reduction="sum")
        weights += weight * (targets != IGNORED).sum().item()
    return total / weights


def train_by_torch(model, samples, compute):
    optimizer = whole_batches.Optimizer(model, compute)
    for _, window in zip(range(STEPS), whole_batches.windows(SAMPLES, BATCH)):
        optimizer.step(loss_of(model, samples[window]))
    return whole_batches.tensors_of(model)


class StepsGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        whole_batches.save_small_gpt2(cls.folder / "start", CONTEXT)
        cls.samples = make_samples()
        (cls.folder / "train.jsonl").write_text("".join(json.dumps(s[0]) + "\n" for s in cls.samples))
        cls.expected = {}
        for compute, dtype in DTYPE.items():
            start = GPT2LMHeadModel.from_pretrained(cls.folder / "start").to(dtype).train()
            cls.expected[compute] = train_by_torch(start, cls.samples, compute)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train_by_accrue(self, compute, name, *overrides):
        out = self.folder / name
        config = self.folder / f"{name}.toml"
        samples = self.folder / "train.jsonl"
        data = f'train = ["{samples}"]'
        config.write_text(whole_batches.config(out, self.folder / "start", data, STEPS, BATCH, compute))
        subprocess.run([ACCRUE, "train", str(config), *overrides], check=True, capture_output=True)
        return load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")

    def test_any_split_ends_where_whole_batches_end(self):
        for compute in DTYPE:
            for micro in (1, 4, BATCH):
                with self.subTest(compute=compute, micro=micro):
                    actual = self.train_by_accrue(compute, f"{compute}-{micro}", f"--batch.micro={micro}")
                    self.assertLess(worst_error(actual, self.expected[compute]), BOUND[compute])

    def test_packing_changes_nothing(self):
        actual = self.train_by_accrue("fp64", "packed", "--batch.micro=3", "--data.packing=true")
        self.assertLess(worst_error(actual, self.expected["fp64"]), BOUND["fp64"])

    def test_other_accumulations_stay_near(self):
        for accumulate in ("fp64", "fixed"):
            with self.subTest(accumulate=accumulate):
                actual = self.train_by_accrue("fp32", f"acc-{accumulate}", "--batch.micro=1",
                                              f"--precision.accumulate={accumulate}")
                self.assertLess(worst_error(actual, self.expected["fp32"]), BOUND["fp32"])

    def test_the_comparison_sees_a_wrong_batch(self):
        actual = self.train_by_accrue("fp64", "wrong", "--batch.samples=5")
        self.assertGreater(worst_error(actual, self.expected["fp64"]), 1e4 * BOUND["fp64"])


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    unittest.main(verbosity=2)
