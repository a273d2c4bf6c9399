"""Compares accrue's BERT with transformers' BertForMaskedLM: losses and gradients, files in both directions, and
steps of AdamW on whole batches against accumulated ones.

bert_golden.py HELPER ACCRUE: the C++ half (bert_golden.cpp), the command line. Exit status 77 where transformers is
not there.
"""

import json
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402
from tolerance import (  # noqa: E402
    GRADIENT_BOUND,
    LOSS_BOUND,
    PROJECTION_LIMIT,
    projection_error,
    relative_error,
)

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForPreTraining
    from transformers.utils import logging

    import whole_batches
    from whole_batches import worst_error
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
HELPER = None
IGNORED = -100
DTYPE = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.float32}
LENGTHS = (32, 9, 20)  # of the batch's samples, a row each
CONTEXT, SAMPLES, BATCH, STEPS = 24, 26, 6, 6
STEP_BOUND = {"fp32": 1e-5, "fp64": 1e-10}


def tiny_model(dtype, vocab=211, positions=40, kind=BertForMaskedLM):
    """No id is kept for padding: transformers keeps the gradient of such a row at 0."""
    config = BertConfig(vocab_size=vocab, max_position_embeddings=positions, hidden_size=48, num_hidden_layers=3,
                        num_attention_heads=4, intermediate_size=80, hidden_dropout_prob=0,
                        attention_probs_dropout_prob=0, pad_token_id=None)
    model = kind(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train()


def padded_batch(vocab):
    """Samples of unequal lengths, about every fourth token to be predicted; accrue gets the lengths as spans."""
    longest = max(LENGTHS)
    inputs = torch.randint(0, vocab, (len(LENGTHS), longest))
    targets = torch.where(torch.rand(inputs.shape) < 0.25, torch.randint(0, vocab, inputs.shape), IGNORED)
    attention = torch.zeros_like(inputs)
    for row, length in enumerate(LENGTHS):
        inputs[row, length:], targets[row, length:], attention[row, :length] = 0, IGNORED, 1
    spans = torch.tensor([(row, 0, length) for row, length in enumerate(LENGTHS)])
    return {"inputs": inputs, "targets": targets, "spans": spans}, attention


def loss_sum(model, inputs, targets, attention=None):
    """In the model's own dtype; transformers' loss function rounds logits to fp32 first."""
    logits = model(input_ids=inputs, attention_mask=attention).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED,
                                             reduction="sum")


class BertGolden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        logging.set_verbosity_warning()

    def reference(self, folder, precision):
        """Saves a model of transformers with a batch and returns its loss and gradients in fp64."""
        model = tiny_model(DTYPE[precision])
        self.assertLess(model.num_parameters(), 200_000)
        model.save_pretrained(folder)
        batch, attention = padded_batch(model.config.vocab_size)
        save_file(batch, Path(folder, "batch.safetensors"))
        model = model.double()
        loss = loss_sum(model, batch["inputs"], batch["targets"], attention) / (batch["targets"] != IGNORED).sum()
        loss.backward()
        return loss.detach(), {name: p.grad for name, p in model.named_parameters()}

    def test_loss_and_gradients_of_a_transformers_model(self):
        for precision in ("fp32", "fp64", "bf16"):
            with self.subTest(precision), tempfile.TemporaryDirectory() as folder:
                loss, gradients = self.reference(folder, precision)
                HELPER.run("gradients", folder, precision)
                ours = load_file(Path(folder, "ours.safetensors"))
                self.assertLessEqual(relative_error(ours.pop("loss"), loss), LOSS_BOUND[precision])
                self.assertEqual(ours.keys(), gradients.keys())
                largest = max(gradient.abs().max().item() for gradient in gradients.values())
                for name, expected in gradients.items():
                    # A key's bias adds the same to all scores of a query, so that its gradient is rounding alone.
                    floor = 1e-3 * largest if name.endswith("key.bias") else 0.0
                    self.assertLessEqual(relative_error(ours[name], expected, floor), GRADIENT_BOUND[precision], name)
                    self.assertLessEqual(projection_error(ours[name], expected, floor), PROJECTION_LIMIT, name)

    def test_the_comparison_sees_wrong_gradients_and_padding_that_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            loss, gradients = self.reference(folder, "fp64")
            HELPER.run("gradients", folder, "fp64")
            ours = load_file(Path(folder, "ours.safetensors"))
            name = "bert.encoder.layer.1.attention.output.dense.weight"  # square
            self.assertGreater(relative_error(ours[name].t(), gradients[name]), GRADIENT_BOUND["fp64"])
            self.assertGreater(relative_error(ours[name] * 1.001, gradients[name]), GRADIENT_BOUND["fp64"])
            batch = load_file(Path(folder, "batch.safetensors"))
            model = BertForMaskedLM.from_pretrained(folder).double().train()
            unmasked = loss_sum(model, batch["inputs"], batch["targets"]) / (batch["targets"] != IGNORED).sum()
            self.assertGreater(relative_error(unmasked.detach(), loss), 1e-4)

    def test_a_model_with_the_heads_of_pre_training_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model(torch.float64, kind=BertForPreTraining)
            model.save_pretrained(folder)
            self.assertTrue(any("pooler" in name for name in load_file(Path(folder, "model.safetensors"))))
            batch, attention = padded_batch(model.config.vocab_size)
            save_file(batch, Path(folder, "batch.safetensors"))
            HELPER.run("gradients", folder, "fp64")
            ours = load_file(Path(folder, "ours.safetensors"))["loss"]
            logits = model(input_ids=batch["inputs"], attention_mask=attention).prediction_logits
            expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(),
                                                         ignore_index=IGNORED)
            self.assertLessEqual(relative_error(ours, expected.detach()), LOSS_BOUND["fp64"])

    def test_an_exported_model_loads_without_complaints_and_has_the_same_loss(self):
        for precision in ("fp32", "fp64"):
            with self.subTest(precision), tempfile.TemporaryDirectory() as folder:
                inputs = torch.randint(0, 300, (4, 20))
                batch = {"inputs": inputs, "targets": torch.where(torch.rand(inputs.shape) < 0.3, inputs, IGNORED)}
                save_file(batch, Path(folder, "batch.safetensors"))
                HELPER.run("export", folder, precision)
                with warnings.catch_warnings(), self.assertNoLogs("transformers", level="WARNING"):
                    warnings.simplefilter("error")
                    model, info = BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
                self.assertFalse([key for key, value in info.items() if value], info)
                self.assertEqual(model.dtype, DTYPE[precision])
                expected = load_file(Path(folder, "ours.safetensors"))["loss"]
                with torch.no_grad():
                    loss = loss_sum(model.eval(), **batch) / (batch["targets"] != IGNORED).sum()
                self.assertLessEqual(relative_error(loss, expected), LOSS_BOUND[precision])
                theirs = model.config.to_dict()
                for key, value in json.loads(Path(folder, "config.json").read_text()).items():
                    self.assertEqual(theirs[key], value, key)


class BertSteps(unittest.TestCase):
    """AdamW on whole batches by PyTorch, on what accrue's masks show, against `accrue train`."""

    @classmethod
    def setUpClass(cls):
        torch.manual_seed(4)
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        tiny_model(torch.float32, vocab=257, positions=CONTEXT).save_pretrained(cls.folder / "start")
        generator = torch.Generator().manual_seed(5)
        lengths = torch.randint(3, CONTEXT + 1, (SAMPLES,), generator=generator).tolist()
        texts = ["".join(chr(97 + i) for i in torch.randint(0, 26, (length,), generator=generator)) for length in lengths]
        (cls.folder / "train.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        HELPER.run("masks", cls.folder, SAMPLES * 2)
        cls.masks = load_file(cls.folder / "masks.safetensors")
        cls.expected = {compute: cls.train_by_torch(compute) for compute in STEP_BOUND}
        cls.known = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def train_by_torch(cls, compute, shift=0):
        """`shift` takes the masks of other draws."""
        model = BertForMaskedLM.from_pretrained(cls.folder / "start").to(DTYPE[compute]).train()
        optimizer = whole_batches.Optimizer(model, compute)
        draws = 0
        for _, window in zip(range(STEPS), whole_batches.windows(SAMPLES, BATCH)):
            total, weight = 0.0, 0
            for draw in range(draws, draws + window.stop - window.start):
                masks = (draw + shift) % (2 * SAMPLES)
                inputs, targets = cls.masks[f"inputs.{masks}"], cls.masks[f"targets.{masks}"]
                total = total + loss_sum(model, inputs[None], targets[None])
                weight += (targets != IGNORED).sum().item()
            draws += window.stop - window.start
            optimizer.step(total / weight)
        return whole_batches.tensors_of(model)

    def train_by_accrue(self, compute, name, *overrides):
        out, config = self.folder / name, self.folder / f"{name}.toml"
        data = f'train = ["{self.folder / "train.jsonl"}"]\n        tokenizer = "bytes"'
        config.write_text(whole_batches.config(out, self.folder / "start", data, STEPS, BATCH, compute,
                                               "[loss]\nmask_fraction = 0.3"))
        result = subprocess.run([ACCRUE, "train", str(config), *overrides], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")

    def trained(self, compute, micro):
        """The same run, in the folder COMPUTE-MICRO, for all tests that read it."""
        if (compute, micro) not in self.known:
            self.known[compute, micro] = self.train_by_accrue(compute, f"{compute}-{micro}", f"--batch.micro={micro}")
        return self.known[compute, micro]

    def test_any_split_ends_where_whole_batches_end(self):
        for compute, bound in STEP_BOUND.items():
            for micro in (1, 4, BATCH):
                with self.subTest(compute=compute, micro=micro):
                    self.assertLess(worst_error(self.trained(compute, micro), self.expected[compute]), bound)

    def test_packing_and_recomputation_change_nothing(self):
        for name, override in (("packed", "--data.packing=true"), ("full", "--memory.recompute=full"),
                               ("selective", "--memory.recompute=selective"),
                               ("plain", "--loss.cross_entropy=plain")):
            with self.subTest(name):
                actual = self.train_by_accrue("fp64", name, "--batch.micro=3", override)
                self.assertLess(worst_error(actual, self.expected["fp64"]), STEP_BOUND["fp64"])

    def test_an_exported_run_has_its_mask_in_the_tokenizer(self):
        weights = self.trained("fp32", 4)
        out = self.folder / "exported"
        subprocess.run([ACCRUE, "export", str(self.folder / "fp32-4"), "--out", str(out)], check=True, capture_output=True)
        tokenizer = AutoTokenizer.from_pretrained(out)
        self.assertEqual(tokenizer("a" + tokenizer.mask_token + "z")["input_ids"], [97, 256, 122])
        model = BertForMaskedLM.from_pretrained(out)
        for name, tensor in weights.items():
            self.assertTrue(torch.equal(model.state_dict()[name], tensor), name)
        self.assertIn("pipeline_tag: fill-mask", (out / "README.md").read_text())

    def test_the_comparison_sees_masks_of_other_draws(self):
        """Of the second epoch: the same samples, hidden otherwise."""
        others = self.train_by_torch("fp64", shift=SAMPLES)
        self.assertGreater(worst_error(others, self.expected["fp64"]), 1e4 * STEP_BOUND["fp64"])


if __name__ == "__main__":
    ACCRUE, HELPER = sys.argv.pop(2), RequestProgram(sys.argv.pop(1))
    unittest.main()
