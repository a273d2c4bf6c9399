"""Compares accrue's adapters (LoRA, DoRA, rank-stabilised LoRA) with PEFT's, in both directions.

adapter_golden.py HELPER: the C++ half (adapter_golden.cpp). Exit status 77 where PEFT is not there.
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
from tolerance import relative_error  # noqa: E402

try:
    import peft
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

from llama_golden import (  # noqa: E402
    GRADIENT_BOUND, IGNORED, LENGTH, LOSS_BOUND, SHAPE, in_double, random_samples, rows_of,
    softmax_in_the_models_dtype, summed_loss)

HELPER = None
DTYPE = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}
GPT2 = dict(vocab_size=199, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
BASES = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig, SHAPE),
    "qwen2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config, SHAPE),  # biases under adapters
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config, GPT2),      # weights [in, out]
}
TARGETS = {
    "llama": ["all-linear", ["q_proj", "v_proj"], "model.layers.[02].*.(up|down)_proj"],
    "qwen2": ["all-linear"],
    "gpt2": [["c_attn", "c_fc", "c_proj"], ["attn.c_proj"], ["c_attn"]],
}
KINDS = {
    "lora": dict(r=4, lora_alpha=6),
    "dora": dict(r=3, lora_alpha=3, use_dora=True),
    "rslora": dict(r=9, lora_alpha=4, use_rslora=True),
    "dora, rank-stabilised": dict(r=4, lora_alpha=5, use_rslora=True, use_dora=True),
}
CASES = [(base, targets, kind) for base in BASES for targets in TARGETS[base] for kind in KINDS]


def our_name(name):
    """PEFT's name of a parameter, without the prefix and the adapter's name."""
    return name.removeprefix("base_model.model.").replace(".default", "").replace("_vector.weight", "_vector")


def tiny_base(name, dtype):
    make_model, make_config, shape = BASES[name]
    model = make_model(make_config(**shape, attn_implementation="eager")).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.08 * torch.randn_like(parameter))
    return model


def adapted(base, kind, **keys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fan_in_fan_out, which PEFT sets
        return peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **KINDS[kind], **keys))


def perturbed(model):
    """A second factor is 0 at first, and a magnitude the norm that there is: mistakes would not show."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.train()


def mean_loss(model, samples):
    model = in_double(model)
    with softmax_in_the_models_dtype():
        loss = sum(summed_loss(model, *sample) for sample in samples)
    return loss / sum((targets != IGNORED).sum() for _, targets in samples)


class AdapterGolden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        logging.set_verbosity_error()

    def saved(self, folder, base, kind, precision, **keys):
        """A model of PEFT's, whose base and adapter are saved in `folder`."""
        model = tiny_base(base, DTYPE[precision])
        model.save_pretrained(Path(folder, "base"))
        model = perturbed(adapted(model, kind, **keys))
        self.assertLess(model.num_parameters(), 250_000)
        model.save_pretrained(Path(folder, "adapter"))
        return model

    def ours(self, folder, samples, *arguments):
        save_file(rows_of(samples), Path(folder, "batch.safetensors"))
        HELPER.run(arguments[0], folder, *arguments[1:])
        return load_file(Path(folder, "ours.safetensors"))

    def assert_same(self, ours, loss, gradients, precision):
        self.assertLessEqual(relative_error(ours["loss"], loss), LOSS_BOUND[precision])
        self.assertEqual(set(ours), {"loss", *gradients})
        for name, expected in gradients.items():
            self.assertLessEqual(relative_error(ours[name], expected), GRADIENT_BOUND[precision], name)

    def reference(self, model, samples):
        loss = mean_loss(model, samples)
        loss.backward()
        return loss.detach(), {our_name(name): p.grad for name, p in model.named_parameters() if p.requires_grad}

    def test_adapters_of_peft_have_the_same_loss_and_gradients(self):
        for base, targets, kind in CASES:
            for precision in ("fp64", "fp32"):
                with self.subTest(base=base, targets=targets, kind=kind, precision=precision), \
                        tempfile.TemporaryDirectory() as folder:
                    model = self.saved(folder, base, kind, precision, target_modules=targets)
                    samples = random_samples(199, (LENGTH, 13))
                    ours = self.ours(folder, samples, "gradients", precision)
                    self.assert_same(ours, *self.reference(model, samples), precision)

    def test_a_base_in_bf16_has_nearly_the_same(self):
        for base in BASES:
            with self.subTest(base), tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, base, "lora", "bf16", target_modules=TARGETS[base][0])
                samples = random_samples(199, (LENGTH, LENGTH))
                ours = self.ours(folder, samples, "gradients", "bf16")
                self.assert_same(ours, *self.reference(model, samples), "bf16")

    def test_the_comparison_sees_what_is_wrong(self):
        """Negative controls: another alpha, another way of scaling, a gradient that is larger by a thousandth."""
        for base, kind, changes in (("llama", "lora", {"lora_alpha": 6.01}), ("gpt2", "lora", {"use_rslora": True}),
                                    ("llama", "dora", {"lora_alpha": 4})):
            with self.subTest(base=base, kind=kind), tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, base, kind, "fp64", target_modules=TARGETS[base][0])
                samples = random_samples(199, (LENGTH, LENGTH))
                loss, gradients = self.reference(model, samples)
                ours = self.ours(folder, samples, "gradients", "fp64")
                for name, expected in gradients.items():
                    self.assertGreater(relative_error(1.001 * ours[name], expected), GRADIENT_BOUND["fp64"], name)
                path = Path(folder, "adapter", "adapter_config.json")
                path.write_text(json.dumps(json.loads(path.read_text()) | changes))
                other = self.ours(folder, samples, "gradients", "fp64")
                self.assertGreater(relative_error(other["loss"], loss), LOSS_BOUND["fp32"])

    def loss_by_peft(self, folder, base, samples, dtype):
        """The adapter in `folder`/copy or /adapter, loaded onto the base without complaints."""
        model = BASES[base][0].from_pretrained(Path(folder, "base"), attn_implementation="eager", dtype=dtype)
        adapter = Path(folder, "copy") if Path(folder, "copy").exists() else Path(folder, "adapter")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # PEFT warns of missing and unexpected tensors
            warnings.simplefilter("ignore", FutureWarning)  # of names in transformers that PEFT still uses
            model = peft.PeftModel.from_pretrained(model, adapter)
        with torch.no_grad():
            return model, mean_loss(model.eval(), samples)

    def test_an_adapter_that_went_through_us_is_the_same_and_merges_into_the_same_model(self):
        for base, targets, kind in CASES:
            with self.subTest(base=base, targets=targets, kind=kind), tempfile.TemporaryDirectory() as folder:
                before = self.saved(folder, base, kind, "fp32", target_modules=targets)
                samples = random_samples(199, (LENGTH, LENGTH))
                expected = self.ours(folder, samples, "copy", "fp32")["loss"]
                after, loss = self.loss_by_peft(folder, base, samples, torch.float32)
                self.assertLessEqual(relative_error(loss, expected), LOSS_BOUND["fp32"])
                theirs = peft.get_peft_model_state_dict(before)
                ours = peft.get_peft_model_state_dict(after)
                self.assertEqual(set(theirs), set(ours))
                for name, values in theirs.items():
                    self.assertTrue(torch.equal(ours[name].float(), values), name)
                merged = BASES[base][0].from_pretrained(Path(folder, "merged"), attn_implementation="eager")
                with torch.no_grad():
                    loss = mean_loss(merged.eval(), samples)
                self.assertLessEqual(relative_error(loss, expected), LOSS_BOUND["fp32"])

    def test_an_adapter_of_ours_loads_in_peft_with_the_same_loss(self):
        for base in BASES:
            for kind in ("lora", "dora"):
                with self.subTest(base=base, kind=kind), tempfile.TemporaryDirectory() as folder:
                    tiny_base(base, torch.float32).save_pretrained(Path(folder, "base"))
                    samples = random_samples(199, (LENGTH, LENGTH))
                    expected = self.ours(folder, samples, "new", kind)["loss"]
                    model, loss = self.loss_by_peft(folder, base, samples, torch.float32)
                    self.assertLessEqual(relative_error(loss, expected), LOSS_BOUND["fp32"])
                    config = model.peft_config["default"]
                    self.assertEqual((config.r, config.lora_alpha, config.use_dora), (3, 4, kind == "dora"))
                    plain = BASES[base][0].from_pretrained(Path(folder, "base"), attn_implementation="eager")
                    with torch.no_grad():
                        without = mean_loss(plain.eval(), samples)
                    self.assertGreater(relative_error(without, expected), LOSS_BOUND["fp32"])


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
