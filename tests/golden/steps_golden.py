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
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
IGNORED = -100
CONTEXT, SAMPLES, BATCH, STEPS = 24, 32, 6, 10
LR, BETAS, DECAY, CLIP = 3e-3, (0.9, 0.95), 0.1, 0.5
DTYPE = {"fp32": torch.float32, "fp64": torch.float64}
# Near-zero gradients make AdamW's quotient ill-conditioned in fp32, so eps is raised there.
EPS = {"fp32": 1e-5, "fp64": 1e-8}
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


def windows():
    """Samples of each step: an epoch's last window is short."""
    while True:
        for begin in range(0, SAMPLES, BATCH):
            yield slice(begin, min(begin + BATCH, SAMPLES))


def clip(parameters):
    """By the definition: torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm."""
    gradients = [p.grad for p in parameters]
    norm = torch.sqrt(sum(g.double().square().sum() for g in gradients)).item()
    for gradient in gradients:
        gradient.mul_(min(1.0, CLIP / norm))


def train_by_torch(model, samples, eps):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=eps)
    for _, window in zip(range(STEPS), windows()):
        optimizer.zero_grad()
        loss_of(model, samples[window]).backward()
        clip(model.parameters())
        optimizer.step()
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


class StepsGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        torch.manual_seed(3)
        config = GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2,
                            embd_pdrop=0, resid_pdrop=0, attn_pdrop=0)
        model = GPT2LMHeadModel(config)
        with torch.no_grad():
            for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
                parameter.add_(0.05 * torch.randn_like(parameter))
        model.save_pretrained(cls.folder / "start")
        cls.samples = make_samples()
        (cls.folder / "train.jsonl").write_text("".join(json.dumps(s[0]) + "\n" for s in cls.samples))
        cls.expected = {}
        for compute, dtype in DTYPE.items():
            start = GPT2LMHeadModel.from_pretrained(cls.folder / "start").to(dtype).train()
            cls.expected[compute] = train_by_torch(start, cls.samples, EPS[compute])

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train_by_accrue(self, compute, name, *overrides):
        out = self.folder / name
        config = self.folder / f"{name}.toml"
        config.write_text(f"""
            [run]
            out = "{out}"
            steps = {STEPS}
            [model]
            from = "{self.folder / 'start'}"
            [data]
            train = ["{self.folder / 'train.jsonl'}"]
            order = "sequential"
            [batch]
            samples = {BATCH}
            [precision]
            compute = "{compute}"
            [optim]
            lr = {LR}
            betas = [{BETAS[0]}, {BETAS[1]}]
            eps = {EPS[compute]}
            weight_decay = {DECAY}
            clip = {CLIP}
            schedule = {{kind = "constant"}}
            [observe]
            progress = "off"
            """)
        subprocess.run([ACCRUE, "train", str(config), *overrides], check=True, capture_output=True)
        return load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")

    def worst_error(self, actual, compute):
        worst = 0.0
        for name, tensor in actual.items():
            expected = self.expected[compute].get(name, self.expected[compute].get("transformer." + name))
            self.assertIsNotNone(expected, name)
            difference = (tensor.double() - expected.double()).norm() / expected.double().norm()
            worst = max(worst, difference.item())
        return worst

    def test_any_split_ends_where_whole_batches_end(self):
        for compute in DTYPE:
            for micro in (1, 4, BATCH):
                with self.subTest(compute=compute, micro=micro):
                    actual = self.train_by_accrue(compute, f"{compute}-{micro}", f"--batch.micro={micro}")
                    self.assertLess(self.worst_error(actual, compute), BOUND[compute])

    def test_packing_changes_nothing(self):
        actual = self.train_by_accrue("fp64", "packed", "--batch.micro=3", "--data.packing=true")
        self.assertLess(self.worst_error(actual, "fp64"), BOUND["fp64"])

    def test_other_accumulations_stay_near(self):
        for accumulate in ("fp64", "fixed"):
            with self.subTest(accumulate=accumulate):
                actual = self.train_by_accrue("fp32", f"acc-{accumulate}", "--batch.micro=1",
                                              f"--precision.accumulate={accumulate}")
                self.assertLess(self.worst_error(actual, "fp32"), BOUND["fp32"])

    def test_the_comparison_sees_a_wrong_batch(self):
        actual = self.train_by_accrue("fp64", "wrong", "--batch.samples=5")
        self.assertGreater(self.worst_error(actual, "fp64"), 1e4 * BOUND["fp64"])


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    unittest.main(verbosity=2)
