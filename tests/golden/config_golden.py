"""Compares how accrue and transformers read the folders of models that others wrote: the keys of config.json, and files of weights.

config_golden.py HELPER: the C++ half (config_golden.cpp). Exit status 77 if transformers is not there.

Of each family the keys of transformers' configuration class are in a table: read by accrue, without effect on what is computed, or
refused unless they are at their default. Besides, whole folders are drawn, and have the same loss, or are refused by name.
"""

import collections
import contextlib
import dataclasses
import io
import json
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import golden_form  # noqa: E402
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402
from tolerance import relative_error  # noqa: E402

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers.utils import logging

    from llama_golden import in_double, softmax_in_the_models_dtype
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

HELPER = None
IGNORED = -100
DRAWS = golden_form.share(100, 8)
BOUND = 1e-9  # relative, of losses in fp64; gelu_fast has a constant of ten digits
SEEN = 1e-5  # what changes the computation changes the loss by more
MOST_REFUSED = 0.05
LENGTH, CONTEXT, LAYERS = 40, 64, 3
GLOBAL, LOCAL = "full_attention", "sliding_attention"

COMMON = dict(vocab_size=97, initializer_range=0.3, bos_token_id=None, eos_token_id=None, pad_token_id=None)
# The width's root is a number in fp32, as transformers rounds Gemma's scale of embeddings to it at any precision.
LLAMA = dict(COMMON, hidden_size=64, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=1e-3, head_dim=16)
MISTRAL = dict(LLAMA, sliding_window=8)
QWEN = dict(LLAMA, use_sliding_window=True, sliding_window=8, max_window_layers=1)
GEMMA2 = dict(LLAMA, query_pre_attn_scalar=24, sliding_window=8)
BASES = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "ministral": MISTRAL,
    "qwen2": QWEN,
    "qwen3": QWEN,
    "gemma": LLAMA,
    "gemma2": dict(GEMMA2, attn_logit_softcapping=0.7, final_logit_softcapping=5.5),
    "gemma3_text": dict(GEMMA2, sliding_window_pattern=2),
    "gpt2": dict(COMMON, n_positions=CONTEXT, n_embd=48, n_layer=LAYERS, n_head=4, layer_norm_epsilon=1e-3),
    "bert": dict(COMMON, max_position_embeddings=CONTEXT, hidden_size=48, num_hidden_layers=LAYERS, num_attention_heads=4,
                 intermediate_size=80, layer_norm_eps=1e-3),
}

# Tables of keys. READ: with another value that fits the same weights, if there is one; the value changes the loss.
SHAPES = dict.fromkeys(["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                        "num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings"])
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}
READ = {
    "llama": dict(SHAPES, hidden_act="gelu_pytorch_tanh", rms_norm_eps=0.3, attention_bias=None, rope_parameters=LINEAR),
    "mistral": dict(SHAPES, hidden_act="gelu_new", rms_norm_eps=0.3, rope_parameters=LINEAR, sliding_window=5),
    "ministral": dict(SHAPES, hidden_act="gelu_new", rms_norm_eps=0.3, rope_parameters=LINEAR, sliding_window=5,
                      layer_types=[GLOBAL, LOCAL, GLOBAL]),
    "qwen2": dict(SHAPES, hidden_act="gelu_new", rms_norm_eps=0.3, rope_parameters=LINEAR, use_sliding_window=False,
                  sliding_window=5, max_window_layers=2, layer_types=[LOCAL, LOCAL, GLOBAL]),
    "gemma": dict(SHAPES, hidden_act="silu", rms_norm_eps=0.3, rope_parameters=LINEAR, attention_bias=None),
    "gemma2": dict(SHAPES, hidden_activation="silu", rms_norm_eps=0.3, rope_parameters=LINEAR, attention_bias=None,
                   query_pre_attn_scalar=70, sliding_window=5, layer_types=[GLOBAL, LOCAL, GLOBAL],
                   attn_logit_softcapping=0.9, final_logit_softcapping=6.5),
    "gpt2": dict(SHAPES, n_positions=None, n_embd=None, n_layer=None, n_head=None, n_inner=None, activation_function=None,
                 layer_norm_epsilon=0.3),
    "bert": dict(SHAPES, type_vocab_size=None, hidden_act=None, layer_norm_eps=0.3),
}
READ["qwen3"] = dict(READ["qwen2"], attention_bias=None)
READ["gemma3_text"] = dict(READ["gemma2"], rope_parameters={GLOBAL: LINEAR, LOCAL: dict(LINEAR, factor=2.0)},
                           layer_types=[GLOBAL, LOCAL, LOCAL])
del READ["gemma3_text"]["attn_logit_softcapping"]
# Without effect on what is computed, with another value than usual.
OF_ALL = dict(transformers_version="9.9.9", architectures=["Other"], output_hidden_states=True, return_dict=True, dtype="float64",
              chunk_size_feed_forward=0, is_encoder_decoder=True, id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0},
              problem_type="regression", initializer_range=0.7, use_cache=False, pad_token_id=3, bos_token_id=1,
              eos_token_id=[2, 5])
WITHOUT_EFFECT = {
    "llama": dict(OF_ALL, attention_dropout=0.5, pretraining_tp=4),
    "gpt2": dict(OF_ALL, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5, summary_type="mean", summary_use_proj=False,
                 summary_activation="tanh", summary_proj_to_labels=False, summary_first_dropout=0.5,
                 reorder_and_upcast_attn=True),
    "bert": dict(OF_ALL, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5, classifier_dropout=0.5),
}
for family in ("mistral", "ministral", "qwen2", "qwen3", "gemma", "gemma2"):
    WITHOUT_EFFECT[family] = dict(OF_ALL, attention_dropout=0.5)
WITHOUT_EFFECT["gemma3_text"] = dict(OF_ALL, attention_dropout=0.5, attn_logit_softcapping=20.0)
# Refused unless at the default.
REFUSED = {
    "llama": dict(mlp_bias=True),
    "gemma": dict(use_bidirectional_attention=True),
    "gemma2": dict(use_bidirectional_attention=True),
    "gemma3_text": dict(use_bidirectional_attention=True),
    "gpt2": dict(scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True, add_cross_attention=True, tie_word_embeddings=False),
    "bert": dict(is_decoder=True, add_cross_attention=True, tie_word_embeddings=False),
}
for family in ("gpt2", "bert"):
    for key in REFUSED[family].keys() & READ[family].keys():
        del READ[family][key]
# Keys that no class has as a field of its own.
OTHERS_READ = {
    "llama": dict(rope_theta=100.0, rope_scaling=LINEAR),
    "mistral": dict(rope_theta=100.0, rope_scaling={"type": "linear", "factor": 3.0}, layer_types=[GLOBAL, LOCAL, GLOBAL]),
    "ministral": dict(rope_theta=100.0),
    "qwen2": dict(rope_theta=100.0),
    "qwen3": dict(rope_theta=100.0),
    "gemma": dict(rope_theta=100.0),
    "gemma2": dict(rope_theta=100.0),
    "gemma3_text": dict(rope_theta=100.0, rope_local_base_freq=77.0, sliding_window_pattern=3,
                        rope_scaling={"rope_type": "linear", "factor": 3.0}),
    "gpt2": {},
    "bert": {},
}
OTHERS_WITHOUT_EFFECT = dict(torch_dtype="float64", key_of_a_later_version={"a": [1]}, per_layer_config={}, temperature=0.3,
                             attn_implementation="eager", rope_interleaved=True, tie_encoder_decoder=True)
OTHERS_REFUSED = dict(is_causal="yes", per_layer_config={"0": {"attention_dropout": 0.3}}, configuration_files=["config.4.0.0.json"],
                      quantization_config={"quant_method": "gptq", "bits": 4})


def config_class(family):
    return transformers.models.auto.configuration_auto.CONFIG_MAPPING[family]


def quietly(function, *arguments, **words):
    """Without warnings and reports of what was not loaded."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return function(*arguments, **words)


def batch_of(family, vocab):
    ids = torch.randint(0, vocab, (2, LENGTH + 1))
    targets = ids[:, 1:].clone()
    if family == "bert":
        targets = torch.where(torch.rand(targets.shape) < 0.4, targets, IGNORED)
    return {"inputs": ids[:, :-1].contiguous(), "targets": targets}


def loss_of(model, batch):
    with torch.no_grad(), softmax_in_the_models_dtype():
        logits = in_double(model).eval()(input_ids=batch["inputs"], return_dict=True).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED)


def class_for(family):
    return AutoModelForMaskedLM if family == "bert" else AutoModelForCausalLM


class Folder:
    """A folder of a drawn model, and the losses of its batch."""

    def __init__(self, path, family, config):
        self.path, self.family = Path(path), family
        self.write_config(json.dumps(dict(config, model_type=family)))
        made = quietly(AutoConfig.from_pretrained, self.path)
        model = quietly(class_for(family).from_config, made, attn_implementation="eager").double()
        with torch.no_grad():
            for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
                parameter.add_(0.1 * torch.randn_like(parameter))
        text = (self.path / "config.json").read_text()
        quietly(model.save_pretrained, self.path)
        self.write_config(text)
        self.batch = batch_of(family, made.vocab_size)
        save_file(self.batch, self.path / "batch.safetensors")

    def write_config(self, text):
        (self.path / "config.json").write_text(text)

    def weights(self):
        return load_file(self.path / "model.safetensors")

    def theirs(self):
        """Loads it again, as a user would."""
        model = quietly(class_for(self.family).from_pretrained, self.path, dtype=torch.float64, attn_implementation="eager")
        return quietly(loss_of, model, self.batch)

    def ours(self):
        """CalledProcessError if it is refused."""
        HELPER.run("loss", self.path)
        return load_file(self.path / "ours.safetensors")["loss"]


def save_in_parts(path, weights, parts=2, **absent):
    """In files of about as many tensors, with their index; `absent`: what the index names besides, and where."""
    names = sorted(weights)
    index = dict(absent)
    for part in range(parts):
        file = f"model-{part + 1:05d}-of-{parts:05d}.safetensors"
        own = {name: weights[name] for name in names[part::parts]}
        save_file(own, path / file, metadata={"format": "pt"})
        index.update(dict.fromkeys(own, file))
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": index}))
    (path / "model.safetensors").unlink()


class KeyTables(unittest.TestCase):
    """Every key of every class, one after the other, on the same weights."""

    def setUp(self):
        torch.manual_seed(5)
        logging.set_verbosity_error()

    FAMILIES = list(BASES)[: golden_form.share(len(BASES), 10)]

    def test_each_key_of_a_class_is_in_one_table(self):
        for family in BASES:
            fields = {field.name for field in dataclasses.fields(config_class(family))}
            tables = [READ[family], WITHOUT_EFFECT[family], REFUSED.get(family, {})]
            names = [name for table in tables for name in table]
            names = [name for name in names if name in fields or name not in SHAPES]
            self.assertEqual(sorted(names), sorted(set(names)), family)
            self.assertEqual(fields - set(names), set(), family)
            self.assertEqual(set(names) - fields, set(), family)

    def changed(self, folder, text, key, value):
        folder.write_config(json.dumps(dict(json.loads(text), **{key: value})))
        return folder

    def test_keys_that_are_read_change_the_loss_as_transformers_has_it(self):
        for family in self.FAMILIES:
            with tempfile.TemporaryDirectory() as path:
                folder = Folder(path, family, BASES[family])
                text = (folder.path / "config.json").read_text()
                before = folder.ours()
                self.assertLess(relative_error(before, folder.theirs()), BOUND, family)
                for key, value in (READ[family] | OTHERS_READ[family]).items():
                    if value is None:
                        continue
                    with self.subTest(family=family, key=key):
                        after = self.changed(folder, text, key, value).ours()
                        self.assertLess(relative_error(after, folder.theirs()), BOUND)
                        self.assertGreater(relative_error(after, before), SEEN, "a negative control")

    def test_other_keys_change_nothing_there_and_here(self):
        for family in self.FAMILIES:
            with tempfile.TemporaryDirectory() as path:
                folder = Folder(path, family, BASES[family])
                text = (folder.path / "config.json").read_text()
                before = folder.ours()
                for key, value in (WITHOUT_EFFECT[family] | OTHERS_WITHOUT_EFFECT).items():
                    with self.subTest(family=family, key=key):
                        self.changed(folder, text, key, value)
                        self.assertTrue(torch.equal(folder.ours(), before))
                        if key != "reorder_and_upcast_attn":  # not in fp64 there
                            self.assertLess(relative_error(folder.theirs(), before), BOUND)

    def test_refused_keys_are_named(self):
        for family in self.FAMILIES:
            with tempfile.TemporaryDirectory() as path:
                folder = Folder(path, family, BASES[family])
                text = (folder.path / "config.json").read_text()
                for key, value in (REFUSED.get(family, {}) | OTHERS_REFUSED).items():
                    with self.subTest(family=family, key=key):
                        self.changed(folder, text, key, value)
                        with self.assertRaises(subprocess.CalledProcessError) as refused:
                            folder.ours()
                        self.assertEqual(refused.exception.returncode, 2)
                        self.assertIn(f"{key} = ", refused.exception.stderr)


def some_rope(draw, nested):
    """Keys of rotary positions: both forms, one beside the other, with old names, and what is left out."""
    theta = draw.choice([100.0, 5000.0, 10000])
    kinds = [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": draw.choice([2.0, 3, 8.0])},
        {"type": "linear", "factor": 2.0},
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 16},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 0.5,
         "mscale": 0.8, "mscale_all_dim": 1.1, "truncate": draw.choice([True, False, None])},
        {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.3, "beta_fast": 0, "mscale": 0},
        {"rope_type": "proportional", "factor": 2.0},
    ]
    scaling, other = draw.choice(kinds), draw.choice(kinds)
    keys = {}
    if draw.random() < 0.6:
        keys["rope_theta"] = theta
    if nested:
        usual = [{"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0, "rope_theta": 60.0}, {"rope_theta": 800.0}]
        form = draw.randrange(4)
        if form >= 2:
            keys["rope_parameters"] = {GLOBAL: dict(draw.choice(usual)), LOCAL: dict(draw.choice(usual))}
        if form % 2 == 1:
            keys["rope_scaling"] = draw.choice([{"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}])
        if draw.random() < 0.4:
            keys["rope_local_base_freq"] = 90.0
        return keys
    form = draw.randrange(5)
    if form in (1, 3):
        keys["rope_parameters"] = dict(scaling, **({"rope_theta": 700.0} if draw.random() < 0.5 else {}))
    if form in (2, 3):
        keys["rope_scaling"] = dict(other)
    if form == 4:
        keys["rope_scaling"] = draw.choice([None, {}])
    if draw.random() < 0.2:
        keys["original_max_position_embeddings"] = 32
    if draw.random() < 0.1 and "rope_parameters" not in keys and not keys.get("rope_scaling"):
        keys["partial_rotary_factor"] = 0.5
    return keys


def some_layers(draw):
    return [draw.choice([GLOBAL, LOCAL, "attention"]) for _ in range(LAYERS)]


def some_windows(draw, family):
    keys = {}
    if family in ("mistral", "ministral"):
        keys["sliding_window"] = draw.choice([3, 8, 500])
        if family == "mistral" and draw.random() < 0.3:
            keys["sliding_window"] = None
        elif draw.random() < 0.6:
            keys["layer_types"] = draw.choice([None, some_layers(draw)])
    if family.startswith("qwen"):
        keys.update(use_sliding_window=draw.random() < 0.7, max_window_layers=draw.randrange(LAYERS + 1))
        if keys["use_sliding_window"] and draw.random() < 0.5:
            keys["layer_types"] = some_layers(draw)
    if family in ("gemma2", "gemma3_text"):
        keys["sliding_window"] = draw.choice([3, 8])
        if draw.random() < 0.5:
            keys["layer_types"] = some_layers(draw)
    if family == "gemma3_text":
        keys["sliding_window_pattern"] = draw.choice([1, 2, 3])
    return keys


ABSENT = object()
TANH = ["gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_python_tanh", "gelu_accurate"]


def some_of_llama(draw, family):
    keys = dict(some_rope(draw, family == "gemma3_text"), **some_windows(draw, family))
    heads = 8 if family == "mistral" and draw.random() < 0.3 else 4
    keys["num_attention_heads"] = heads
    keys["num_key_value_heads"] = draw.choice([1, 2, 4]) if heads == 4 else ABSENT  # 8
    if family in ("llama", "qwen2", "qwen3") and draw.random() < 0.2:
        keys["num_key_value_heads"] = None  # as many as heads
    if family == "gemma2" and draw.random() < 0.3:
        keys["num_key_value_heads"] = ABSENT  # 4
    if family in ("llama", "qwen2") or (family == "mistral" and "layer_types" not in keys):
        keys["head_dim"] = draw.choice([16, 8, ABSENT])
    if family in ("qwen3", "gemma", "gemma2") and draw.random() < 0.2:
        keys["head_dim"] = ABSENT  # 128 and 256
    if family in ("llama", "qwen3", "gemma", "gemma2", "gemma3_text"):
        keys["attention_bias"] = draw.random() < 0.3
    activation = "hidden_activation" if family in ("gemma2", "gemma3_text") else "hidden_act"
    keys[activation] = draw.choice([ABSENT, "silu", "swish", *TANH, *(["gelu"] if family == "gemma" else [])])
    keys["rms_norm_eps"] = draw.choice([ABSENT, 1e-6, 1e-2, 0.3])
    keys["tie_word_embeddings"] = draw.choice([ABSENT, True, False])
    if family in ("gemma2", "gemma3_text"):
        keys["final_logit_softcapping"] = draw.choice([ABSENT, None, 7.5])
        keys["attn_logit_softcapping"] = draw.choice([ABSENT, None, 0.9])
        keys["query_pre_attn_scalar"] = draw.choice([16, 70])
    if draw.random() < 0.3:
        keys["max_position_embeddings"] = draw.choice([ABSENT, 128])
    return keys


def some_of_gpt2(draw):
    keys = dict(n_inner=draw.choice([ABSENT, None, 192, 80]), activation_function=draw.choice([ABSENT, *TANH]),
                layer_norm_epsilon=draw.choice([ABSENT, 1e-6, 0.1]))
    if draw.random() < 0.3:
        keys.update(n_head=ABSENT, num_attention_heads=2)
    if draw.random() < 0.2:
        keys.update(n_layer=5, num_hidden_layers=2)  # of two names the one of other models counts
    return keys


def some_of_bert(draw):
    return dict(layer_norm_eps=draw.choice([ABSENT, 1e-6, 0.1]), type_vocab_size=draw.choice([ABSENT, 1, 3]),
                hidden_act=draw.choice([ABSENT, "gelu", "gelu_python"]), pad_token_id=draw.choice([0, None, 4]))


def drawn_config(draw, family):
    """What somebody's config.json says, and a key of it that accrue refuses, if there is one."""
    config = dict(BASES[family])
    some = {"gpt2": some_of_gpt2, "bert": some_of_bert}.get(family)
    config.update(some(draw) if some else some_of_llama(draw, family))
    for key in draw.sample(sorted(WITHOUT_EFFECT[family]), 3):
        if draw.random() < 0.5 and key not in ("initializer_range", "reorder_and_upcast_attn"):
            config[key] = WITHOUT_EFFECT[family][key]
    for key in draw.sample(sorted(OTHERS_WITHOUT_EFFECT), 2):
        config[key] = OTHERS_WITHOUT_EFFECT[key]
    config = {key: value for key, value in config.items() if value is not ABSENT}
    refused = None
    if draw.random() < 0.03 and family in REFUSED:
        refused = draw.choice(sorted(REFUSED[family]))
        config[refused] = REFUSED[family][refused]
    return config, refused


def text_of(draw, config):
    """JSON, in some order, perhaps with another value of a key before the one that counts."""
    items = list(config.items())
    draw.shuffle(items)
    if draw.random() < 0.3:
        items.insert(0, (draw.choice(sorted(config)), "stale"))
    return "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in items) + "}"


HEAD = {"gpt2": "lm_head.weight", "bert": "cls.predictions.decoder.weight"}
EMBEDDING = {"gpt2": "transformer.wte.weight", "bert": "bert.embeddings.word_embeddings.weight"}
PREFIX = {"gpt2": "transformer.", "bert": None}


def some_files(draw, folder):
    """Puts the weights into other files, as others write them; returns what was done, and what is left out."""
    family, path = folder.family, folder.path
    head, embedding = HEAD.get(family, "lm_head.weight"), EMBEDDING.get(family, "model.embed_tokens.weight")
    weights = folder.weights()
    kinds = ["plain", "parts", "extra", "index names more", "other file", "twice in parts"]
    is_tied = head not in weights
    if is_tied:
        kinds += ["other name", "other name", "both names"]
        if family not in HEAD:
            kinds.append("another head")
    if PREFIX.get(family, "model."):
        kinds.append("no prefix")
    kind, left_out, file = draw.choice(kinds), [], path / "model.safetensors"
    metadata = {"format": "pt"}
    if kind == "other name":
        weights[head] = weights.pop(embedding)
        metadata = {embedding: head}
    if kind == "both names":
        weights[head] = weights[embedding].clone()
    if kind == "another head":
        weights[head] = torch.randn_like(weights[embedding])
    if kind == "no prefix":
        prefix = PREFIX.get(family, "model.")
        weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    if kind == "extra":
        left_out = ["score.weight", "v_head.summary.bias"]
        weights.update({name: torch.ones(2) for name in left_out})
    save_file(weights, file, metadata=metadata)
    if kind in ("parts", "extra") or (kind == "other name" and draw.random() < 0.5):
        save_in_parts(path, weights, draw.choice([2, 3]))
    if kind == "index names more":
        save_in_parts(path, weights, 2, **{"old.weight": "model-00001-of-00002.safetensors"})
    if kind == "twice in parts":
        save_in_parts(path, weights, 2)
        part = path / "model-00002-of-00002.safetensors"
        save_file(dict(load_file(part), **{min(weights): weights[min(weights)]}), part, metadata=metadata)
    if kind == "other file":
        file.rename(path / "weights.safetensors")
        save_file({"x": torch.ones(1)}, file, metadata=metadata)
        text = (path / "config.json").read_text()
        folder.write_config('{"transformers_weights": "weights.safetensors", ' + text[1:])
    return kind, left_out


class DrawnFolders(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)
        logging.set_verbosity_error()

    def test_drawn_folders_have_the_same_loss_or_are_refused_by_name(self):
        draw = random.Random(17)
        told = collections.Counter()
        refusals = collections.Counter()
        for number in range(DRAWS):
            family = list(BASES)[number % len(BASES)]
            config, refused = drawn_config(draw, family)
            with self.subTest(number=number, family=family, config=config), tempfile.TemporaryDirectory() as path:
                try:
                    folder = Folder(path, family, config)
                except Exception as error:  # noqa: BLE001: whatever transformers does not load
                    told[f"no model of transformers: {type(error).__name__}"] += 1
                    continue
                folder.write_config(text_of(draw, dict(config, model_type=family)))
                kind, left_out = some_files(draw, folder)
                told[kind] += 1
                try:
                    ours = folder.ours()
                except subprocess.CalledProcessError as error:
                    self.assertEqual(error.returncode, 2, error.stderr)
                    self.assertIsNotNone(refused, error.stderr)
                    self.assertIn(f"{refused} = ", error.stderr)
                    refusals[f"{family}: {refused}"] += 1
                    continue
                self.assertIsNone(refused)
                self.assertLess(relative_error(ours, folder.theirs()), BOUND, kind)
                self.assertEqual(sorted(json.loads((folder.path / "left_out.json").read_text())), sorted(left_out), kind)
        print(f"{DRAWS} folders: {dict(told)}; refused: {dict(refusals)}", file=sys.stderr)
        self.assertLessEqual(sum(refusals.values()), max(1, MOST_REFUSED * DRAWS))
        self.assertLessEqual(sum(n for what, n in told.items() if what.startswith("no model")), max(1, 0.2 * DRAWS))

    def test_stale_and_absent_tensors_are_named_with_their_files(self):
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(path, "llama", LLAMA)
            weights = folder.weights()
            save_in_parts(folder.path, weights)
            self.assertLess(relative_error(folder.ours(), folder.theirs()), BOUND)
            second = folder.path / "model-00002-of-00002.safetensors"
            own = load_file(second)
            first_name, own_name = sorted(weights)[0], sorted(own)[0]
            for changes, words in (
                ({first_name: torch.randn_like(weights[first_name])}, (first_name, second.name, "00001-of")),
                ({own_name: None}, (own_name, second.name, "index.json says")),
            ):
                changed = {name: value for name, value in dict(own, **changes).items() if value is not None}
                save_file(changed, second, metadata={"format": "pt"})
                with self.assertRaises(subprocess.CalledProcessError) as refused:
                    folder.ours()
                for word in words:
                    self.assertIn(word, refused.exception.stderr)
            second.unlink()
            with self.assertRaises(subprocess.CalledProcessError) as refused:
                folder.ours()
            self.assertIn(second.name, refused.exception.stderr)


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
