"""Compares accrue's GPT-2 with transformers' own, in both directions.

gpt2_golden.py HELPER: the C++ half (gpt2_golden.cpp). Exit status 77 where transformers is not there.
"""

import json
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
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

HELPER = None
IGNORED = -100
DTYPE = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.float32}


def random_batch(vocab, rows, length):
    """Ids and targets aligned with them: targets[i] is what position i predicts."""
    ids = torch.randint(0, vocab, (rows, length + 1))
    batch = {"inputs": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}
    batch["targets"][0, length // 2 :] = IGNORED
    return batch


def mean_loss(model, batch):
    """In the model's own dtype; transformers' loss function rounds logits to fp32 first."""
    logits = model(input_ids=batch["inputs"]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(),
                                             ignore_index=IGNORED)


def loss_by_transformers(model, batch):
    """Its labels are aligned with the ids: labels[i] is what position i-1 predicts."""
    first = torch.full_like(batch["targets"][:, :1], IGNORED)
    labels = torch.cat([first, batch["targets"]], dim=1)
    return model(input_ids=torch.nn.functional.pad(batch["inputs"], (0, 1)), labels=labels).loss


def tiny_model(dtype):
    config = GPT2Config(vocab_size=211, n_positions=40, n_embd=48, n_layer=3, n_head=4,
                        embd_pdrop=0, resid_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train()


class Gpt2Golden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        logging.set_verbosity_warning()

    def reference(self, folder, precision):
        """Saves a model of transformers with a batch and returns its loss and gradients in fp64."""
        model = tiny_model(DTYPE[precision])
        self.assertLess(model.num_parameters(), 200_000)
        model.save_pretrained(folder)
        batch = random_batch(model.config.vocab_size, 3, 32)
        save_file(batch, Path(folder, "batch.safetensors"))
        model = model.double()
        loss = mean_loss(model, batch)
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
                for name, expected in gradients.items():
                    self.assertLessEqual(relative_error(ours[name], expected),
                                         GRADIENT_BOUND[precision], name)
                    self.assertLessEqual(projection_error(ours[name], expected), PROJECTION_LIMIT, name)

    def test_a_model_in_several_files_has_the_same_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            loss, _ = self.reference(folder, "fp64")
            HELPER.run("gradients", folder, "fp64")
            whole = load_file(Path(folder, "ours.safetensors"))
            model = GPT2LMHeadModel.from_pretrained(folder)
            Path(folder, "model.safetensors").unlink()
            model.save_pretrained(folder, max_shard_size="300KB")
            index = json.loads(Path(folder, "model.safetensors.index.json").read_text())
            self.assertGreater(len(set(index["weight_map"].values())), 2)
            HELPER.run("gradients", folder, "fp64")
            parts = load_file(Path(folder, "ours.safetensors"))
            self.assertLessEqual(relative_error(parts["loss"], loss), LOSS_BOUND["fp64"])
            for name, expected in whole.items():
                self.assertTrue(torch.equal(parts[name], expected), name)

    def test_the_comparison_sees_a_wrong_gradient(self):
        with tempfile.TemporaryDirectory() as folder:
            _, gradients = self.reference(folder, "fp32")
            HELPER.run("gradients", folder, "fp32")
            ours = load_file(Path(folder, "ours.safetensors"))
            name = "transformer.h.1.attn.c_proj.weight"  # square: only its values tell a missing transpose
            self.assertGreater(relative_error(ours[name].t(), gradients[name]), GRADIENT_BOUND["fp32"])
            self.assertGreater(relative_error(ours[name] * 1.001, gradients[name]), GRADIENT_BOUND["fp32"])

    def test_the_comparison_sees_a_wrong_factor_in_bf16(self):
        with tempfile.TemporaryDirectory() as folder:
            _, gradients = self.reference(folder, "bf16")
            HELPER.run("gradients", folder, "bf16")
            ours = load_file(Path(folder, "ours.safetensors"))
            for name, expected in gradients.items():
                for factor in (0.97, 1.03):
                    self.assertGreater(projection_error(factor * ours[name], expected), PROJECTION_LIMIT, name)

    def test_an_exported_model_loads_without_complaints_and_has_the_same_loss(self):
        for precision in ("fp32", "fp64"):
            with self.subTest(precision), tempfile.TemporaryDirectory() as folder:
                batch = random_batch(300, 4, 20)
                save_file(batch, Path(folder, "batch.safetensors"))
                HELPER.run("export", folder, precision)
                with warnings.catch_warnings(), self.assertNoLogs("transformers", level="WARNING"):
                    warnings.simplefilter("error")
                    model, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
                self.assertFalse([key for key, value in info.items() if value], info)
                self.assertEqual(model.dtype, DTYPE[precision])
                expected = load_file(Path(folder, "ours.safetensors"))["loss"]
                with torch.no_grad():
                    loss = mean_loss(model.eval(), batch)
                    fp32_loss = loss_by_transformers(model, batch)
                self.assertLessEqual(relative_error(loss, expected), LOSS_BOUND[precision])
                self.assertLessEqual(relative_error(fp32_loss, expected), LOSS_BOUND["fp32"])
                # What transformers would write itself has no other value for a key of ours.
                theirs = model.config.to_dict()
                for key, value in json.loads(Path(folder, "config.json").read_text()).items():
                    self.assertEqual(theirs[key], value, key)


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
