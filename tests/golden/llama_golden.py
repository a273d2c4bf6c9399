"""Compares accrue's Llama with transformers' Llama, Mistral, Ministral, Qwen 2 and 3, Gemma 1 to 3, in both directions.

llama_golden.py HELPER: the C++ half (llama_golden.cpp). Exit status 77 where transformers is not there.
"""

import json
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

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
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

HELPER = None
IGNORED = -100
DTYPE = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.float32}
LENGTH = 32

# Widths whose root is a number in fp32, as transformers rounds Gemma's scale of embeddings to it at any precision.
SHAPE = dict(vocab_size=199, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)


def rope(kind, **keys):
    return {"rope_scaling": {"rope_type": kind, **keys}, "rope_theta": 500.0}


# Windows and original contexts are shorter than the samples, soft caps near the values that they cap.
GEMMA = dict(SHAPE, head_dim=32, query_pre_attn_scalar=24, sliding_window=8)
FAMILIES = {
    "llama": ("Llama", dict(SHAPE, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                          original_max_position_embeddings=16))),
    "llama plain, as many heads of keys": ("Llama", dict(SHAPE, num_key_value_heads=4)),
    "llama tied (SmolLM)": ("Llama", dict(SHAPE, tie_word_embeddings=True, num_key_value_heads=1)),
    "llama with biases": ("Llama", dict(SHAPE, attention_bias=True)),
    "llama, linear": ("Llama", dict(SHAPE, **rope("linear", factor=4.0))),
    "llama, yarn": ("Llama", dict(SHAPE, **rope("yarn", factor=4.0, original_max_position_embeddings=16))),
    "llama, yarn with all keys": ("Llama", dict(SHAPE, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=0.8,
        mscale_all_dim=1.1, truncate=False))),
    "mistral": ("Mistral", dict(SHAPE, sliding_window=8)),
    "mistral without a window": ("Mistral", dict(SHAPE, sliding_window=None)),
    "qwen2": ("Qwen2", dict(SHAPE)),
    "qwen2 with windows": ("Qwen2", dict(SHAPE, use_sliding_window=True, sliding_window=8, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(SHAPE, head_dim=32, tie_word_embeddings=True)),
    "gemma2": ("Gemma2", dict(GEMMA, attn_logit_softcapping=0.7, final_logit_softcapping=1.5)),
    "gemma3": ("Gemma3", dict(GEMMA, sliding_window_pattern=2, rope_theta=7000.0, rope_local_base_freq=300.0)),
    "gemma3, linear": ("Gemma3", dict(GEMMA, sliding_window_pattern=3,
                                      rope_scaling={"rope_type": "linear", "factor": 8.0})),
    "ministral": ("Ministral", dict(SHAPE, head_dim=16, sliding_window=8,
                                    layer_types=["full_attention", "sliding_attention", "full_attention"])),
    "gemma": ("Gemma", dict(SHAPE, head_dim=32)),
}


def classes_of(family):
    name = FAMILIES[family][0]
    config = getattr(transformers, name + ("TextConfig" if name == "Gemma3" else "Config"))
    return config, getattr(transformers, name + "ForCausalLM")


def tiny_model(family, dtype):
    """A model whose parameters are away from 1 and 0, where mistakes would not show."""
    make_config, make_model = classes_of(family)
    config = make_config(**FAMILIES[family][1], attn_implementation="eager")
    model = make_model(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.08 * torch.randn_like(parameter))
    return model.train()


def exact_norm(norm, x):
    """A norm that is not rounded to fp32 in an fp64 model."""
    eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    factor = 1 + norm.weight if "Gemma" in type(norm).__name__ else norm.weight
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * factor


def in_double(model):
    """The model in fp64 throughout, but for the tables of rotary positions, which transformers has in fp32."""
    model = model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(exact_norm, module)
    return model


def softmax_in_the_models_dtype():
    softmax = torch.nn.functional.softmax
    return mock.patch.object(torch.nn.functional, "softmax",
                             lambda x, dim=None, dtype=None: softmax(x, dim=dim))


def summed_loss(model, ids, targets):
    """In the model's own dtype; transformers' loss function rounds logits to fp32 first."""
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED,
                                             reduction="sum")


def random_samples(vocab, lengths):
    """Of each sample ids and targets aligned with them: targets[i] is what position i predicts."""
    samples = []
    for length in lengths:
        ids = torch.randint(0, vocab, (1, length + 1))
        samples.append((ids[:, :-1].clone(), ids[:, 1:].clone()))
    return samples


def rows_of(samples):
    """A row for each sample, padded on the right."""
    inputs = torch.zeros(len(samples), LENGTH, dtype=torch.int64)
    targets = torch.full_like(inputs, IGNORED)
    for row, (ids, labels) in enumerate(samples):
        inputs[row, : ids.shape[1]], targets[row, : ids.shape[1]] = ids[0], labels[0]
    return {"inputs": inputs, "targets": targets}


def placed(samples, places):
    """Samples at (row, begin): several share a row, with padding before, between and behind them."""
    inputs = torch.full((1 + max(row for row, _ in places), LENGTH), 7)
    targets = torch.full_like(inputs, IGNORED)
    spans = []
    for (ids, labels), (row, begin) in zip(samples, places):
        end = begin + ids.shape[1]
        inputs[row, begin:end], targets[row, begin:end] = ids[0], labels[0]
        spans.append([row, begin, end])
    return {"inputs": inputs, "targets": targets, "spans": torch.tensor(spans)}


def key_bias_floor(name, gradients):
    """What a projection of the gradient of a key's bias is measured beside in bf16, where it is larger: the gradient of
    the query's bias. That of the key's cancels (softmax would not see the bias at all if keys did not rotate), so that
    roundings of its terms are a larger share of it."""
    if not name.endswith("k_proj.bias"):
        return 0
    return gradients[name.replace("k_proj", "q_proj")].square().mean().sqrt().item()


class LlamaGolden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        logging.set_verbosity_warning()

    def saved(self, folder, family, precision, stored=None):
        """A model of transformers, saved in `folder`; `stored` is the dtype of its weights there."""
        model = tiny_model(family, stored or DTYPE[precision])
        self.assertLess(model.num_parameters(), 200_000)
        model.save_pretrained(folder)
        return model

    def reference(self, model, samples):
        """The mean loss and its gradients in fp64, each sample by itself."""
        model = in_double(model)
        with softmax_in_the_models_dtype():
            loss = sum(summed_loss(model, *sample) for sample in samples)
            loss = loss / sum((targets != IGNORED).sum() for _, targets in samples)
            loss.backward()
        return loss.detach(), {name: p.grad for name, p in model.named_parameters()}

    def ours(self, folder, batch, precision):
        save_file(batch, Path(folder, "batch.safetensors"))
        HELPER.run("gradients", folder, precision)
        return load_file(Path(folder, "ours.safetensors"))

    def assert_same(self, ours, loss, gradients, precision):
        self.assertLessEqual(relative_error(ours.pop("loss"), loss), LOSS_BOUND[precision])
        self.assertEqual(ours.keys(), gradients.keys())
        for name, expected in gradients.items():
            self.assertLessEqual(relative_error(ours[name], expected), GRADIENT_BOUND[precision], name)
            floor = key_bias_floor(name, gradients) if precision == "bf16" else 0
            self.assertLessEqual(projection_error(ours[name], expected, floor), PROJECTION_LIMIT, name)

    def test_loss_and_gradients_of_every_family(self):
        for family in FAMILIES:
            for precision in ("fp64", "fp32", "bf16"):
                with self.subTest(family=family, precision=precision), tempfile.TemporaryDirectory() as folder:
                    model = self.saved(folder, family, precision)
                    # In bf16 more samples, over which the roundings in a bias's gradient average out.
                    rows = 6 if precision == "bf16" else 2
                    samples = random_samples(model.config.vocab_size, (LENGTH,) * rows + (LENGTH - 9,))
                    samples[0][1][0, 13:] = IGNORED
                    ours = self.ours(folder, rows_of(samples), precision)
                    self.assert_same(ours, *self.reference(model, samples), precision)

    def test_samples_that_share_rows_and_left_padding(self):
        for family in FAMILIES:
            for precision in ("fp64", "fp32"):
                with self.subTest(family=family, precision=precision), tempfile.TemporaryDirectory() as folder:
                    model = self.saved(folder, family, precision)
                    samples = random_samples(model.config.vocab_size, (17, 11, 20, 5))
                    batch = placed(samples, [(0, 3), (0, 20), (1, 12), (1, 0)])
                    self.assert_same(self.ours(folder, batch, precision), *self.reference(model, samples), precision)

    def test_the_loss_is_the_one_that_transformers_has_without_our_changes_to_it(self):
        for family in FAMILIES:
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, family, "fp32")
                samples = random_samples(model.config.vocab_size, (LENGTH,))
                ids, targets = samples[0]
                labels = torch.cat([ids[:, :1], targets], dim=1)  # labels[i] is what position i-1 predicts
                with torch.no_grad():
                    expected = model(input_ids=torch.nn.functional.pad(ids, (0, 1)), labels=labels).loss
                ours = self.ours(folder, rows_of(samples), "fp32")
                self.assertLessEqual(relative_error(ours["loss"], expected), LOSS_BOUND["fp32"])

    def test_weights_in_half_precision_are_converted(self):
        for family, stored in (("llama", torch.bfloat16), ("qwen3", torch.float16), ("gemma3", torch.bfloat16)):
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, family, "fp64", stored)
                samples = random_samples(model.config.vocab_size, (LENGTH, LENGTH))
                ours = self.ours(folder, rows_of(samples), "fp64")
                # What is rounded to half a precision besides the weights is made anew in fp64.
                whole = type(model)(model.config)
                whole.load_state_dict(model.state_dict())
                self.assert_same(ours, *self.reference(whole, samples), "fp64")

    def test_a_model_in_several_files_has_the_same_gradients(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.saved(folder, "gemma2", "fp64")
            batch = rows_of(random_samples(model.config.vocab_size, (LENGTH, LENGTH)))
            whole = self.ours(folder, batch, "fp64")
            Path(folder, "model.safetensors").unlink()
            model.save_pretrained(folder, max_shard_size="200KB")
            index = json.loads(Path(folder, "model.safetensors.index.json").read_text())
            self.assertGreater(len(set(index["weight_map"].values())), 2)
            parts = self.ours(folder, batch, "fp64")
            for name, expected in whole.items():
                self.assertTrue(torch.equal(parts[name], expected), name)

    def test_a_tied_head_may_be_stated_twice_and_is_not_tied_where_it_is_another(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.saved(folder, "qwen3", "fp32")
            batch = rows_of(random_samples(model.config.vocab_size, (LENGTH,)))
            once = self.ours(folder, batch, "fp32")["loss"]
            file = Path(folder, "model.safetensors")
            weights = load_file(file)
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
            save_file(weights, file)
            self.assertTrue(torch.equal(self.ours(folder, batch, "fp32")["loss"], once))
            weights["lm_head.weight"][5, 7] += 0.3
            save_file(weights, file)
            other = self.ours(folder, batch, "fp32")["loss"]
            self.assertGreater(relative_error(other, once), LOSS_BOUND["fp32"])
            logging.set_verbosity_error()
            model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").double()
            with torch.no_grad(), softmax_in_the_models_dtype():
                expected = summed_loss(in_double(model.eval()), batch["inputs"], batch["targets"])
            self.assertLessEqual(relative_error(other, expected / (batch["targets"] != IGNORED).sum()), LOSS_BOUND["fp32"])

    def test_the_comparison_sees_every_key_of_the_config(self):
        """Negative controls: a model made by another value of one key has another loss."""
        half = dict(rope_theta=777.0, rms_norm_eps=1e-2)
        changes = {
            "llama": dict(half, rope_scaling=None),
            "mistral": dict(half, sliding_window=9),
            "qwen2 with windows": dict(half, sliding_window=7, layer_types=["full_attention"] * 3),
            "qwen3": half,
            "gemma2": dict(half, attn_logit_softcapping=0.75, final_logit_softcapping=1.6, query_pre_attn_scalar=32,
                           sliding_window=9, layer_types=["full_attention", "sliding_attention", "full_attention"]),
            "gemma3": dict(half, query_pre_attn_scalar=32, sliding_window=9, rope_local_base_freq=310.0,
                           layer_types=["full_attention", "full_attention", "sliding_attention"]),
        }
        for family, keys in changes.items():
            with tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, family, "fp64")
                batch = rows_of(random_samples(model.config.vocab_size, (LENGTH, LENGTH)))
                loss = self.ours(folder, batch, "fp64")["loss"]
                path = Path(folder, "config.json")
                config = json.loads(path.read_text())
                parameters = config.pop("rope_parameters")
                of_all = parameters.get("full_attention", parameters)
                config["rope_theta"] = of_all["rope_theta"]
                config["rope_scaling"] = None if of_all["rope_type"] == "default" else of_all
                if "sliding_attention" in parameters:
                    config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
                path.write_text(json.dumps(config))
                self.assertTrue(torch.equal(self.ours(folder, batch, "fp64")["loss"], loss), "the old form says the same")
                for key, value in keys.items():
                    with self.subTest(family=family, key=key):
                        changed = dict(config)
                        changed[key] = value
                        if key == "rope_theta" and changed["rope_scaling"]:
                            changed["rope_scaling"] = dict(changed["rope_scaling"], rope_theta=value)
                        path.write_text(json.dumps(changed))
                        other = self.ours(folder, batch, "fp64")["loss"]
                        self.assertGreater(relative_error(other, loss), LOSS_BOUND["fp32"])

    def test_the_comparison_sees_a_wrong_gradient(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.saved(folder, "llama", "fp32")
            samples = random_samples(model.config.vocab_size, (LENGTH, LENGTH))
            ours = self.ours(folder, rows_of(samples), "fp32")
            _, gradients = self.reference(model, samples)
            for name, expected in gradients.items():
                self.assertGreater(relative_error(ours[name] * 1.001, expected), GRADIENT_BOUND["fp32"], name)

    def test_the_comparison_sees_a_wrong_factor_in_bf16(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.saved(folder, "gemma3", "bf16")
            samples = random_samples(model.config.vocab_size, (LENGTH, LENGTH))
            ours = self.ours(folder, rows_of(samples), "bf16")
            _, gradients = self.reference(model, samples)
            for name, expected in gradients.items():
                for factor in (0.97, 1.03):
                    self.assertGreater(projection_error(factor * ours[name], expected), PROJECTION_LIMIT, name)

    def assert_loads(self, folder, precision, batch, expected):
        """Loads a folder of ours without complaints, with the same loss. Returns the model."""
        with warnings.catch_warnings(), self.assertNoLogs("transformers", level="WARNING"):
            warnings.simplefilter("error")
            model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                               attn_implementation="eager")
        self.assertFalse([key for key, value in info.items() if value], info)
        self.assertEqual(model.dtype, DTYPE[precision])
        with torch.no_grad(), softmax_in_the_models_dtype():
            loss = summed_loss(in_double(model.eval()), batch["inputs"], batch["targets"])
        weight = (batch["targets"] != IGNORED).sum()
        self.assertLessEqual(relative_error(loss / weight, expected), LOSS_BOUND[precision])
        return model

    def test_a_model_of_ours_loads_without_complaints_and_has_the_same_loss(self):
        for precision in ("fp32", "fp64"):
            with self.subTest(precision), tempfile.TemporaryDirectory() as folder:
                (ids, targets), = random_samples(300, (20,))
                batch = {"inputs": ids, "targets": targets}
                save_file(batch, Path(folder, "batch.safetensors"))
                HELPER.run("export", folder, precision)
                expected = load_file(Path(folder, "ours.safetensors"))["loss"]
                model = self.assert_loads(folder, precision, batch, expected)
                self.assertEqual(type(model).__name__, "LlamaForCausalLM")
                theirs = model.config.to_dict()
                for key, value in json.loads(Path(folder, "config.json").read_text()).items():
                    if key != "rope_theta":  # in rope_parameters there
                        self.assertEqual(theirs[key], value, key)
                self.assertEqual(theirs["rope_parameters"]["rope_theta"], 10000.0)

    def test_a_folder_that_went_through_us_is_the_same_model(self):
        for family in FAMILIES:
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = self.saved(folder, family, "fp32", torch.bfloat16)
                batch = rows_of(random_samples(model.config.vocab_size, (LENGTH, LENGTH)))
                save_file(batch, Path(folder, "batch.safetensors"))
                HELPER.run("copy", folder, "fp32")
                expected = load_file(Path(folder, "ours.safetensors"))["loss"]
                copied = self.assert_loads(Path(folder, "copy"), "fp32", batch, expected)
                self.assertIs(type(copied), type(model))
                before, after = model.config.to_dict(), copied.config.to_dict()
                for key in before.keys() | after.keys():
                    if key not in ("dtype", "_name_or_path"):
                        self.assertEqual(after.get(key), before.get(key), key)
                for name, values in model.state_dict().items():
                    self.assertTrue(torch.equal(copied.state_dict()[name].float(), values.float()), name)


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
