"""Compares GGUF files with the package gguf and with transformers, in both directions: names, keys, bits of the tensors of
every type, losses, adapters.

gguf_golden.py HELPER: the C++ half (gguf_golden.cpp). Exit status 77 where a package is not there.
"""

import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402
from tolerance import LOSS_BOUND, relative_error  # noqa: E402

try:
    import gguf
    import numpy
    import torch
    from gguf import GGMLQuantizationType as Type
    from gguf import quants
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

import llama_golden  # noqa: E402

HELPER = None
ARCHITECTURES = {"Llama": "llama", "Mistral": "llama", "Qwen2": "qwen2", "Qwen3": "qwen3", "Gemma2": "gemma2",
                 "Gemma3": "gemma3"}
# What GGUF can state of each family: windows of llama.cpp's Gemma have the usual period, and scores are divided by the
# root of the width of a head.
SHAPE = llama_golden.SHAPE
GEMMA = dict(SHAPE, head_dim=32, query_pre_attn_scalar=32, sliding_window=8)
STATED = {
    **{family: llama_golden.FAMILIES[family] for family in (
        "llama", "llama plain, as many heads of keys", "llama tied (SmolLM)", "llama with biases", "llama, linear",
        "llama, yarn", "mistral without a window", "qwen2", "qwen3")},
    "gemma2": ("Gemma2", dict(GEMMA, attn_logit_softcapping=0.7, final_logit_softcapping=1.5)),
    "gemma3": ("Gemma3", dict(GEMMA, num_hidden_layers=7, rope_theta=7000.0, rope_local_base_freq=300.0)),
}
# transformers' own reader of GGUF does not take over scaled positions, biases of llama, the width of Qwen 3's heads and the
# root that divides Gemma's scores.
UNKNOWN_TO_TRANSFORMERS = {"llama", "llama, linear", "llama, yarn", "llama with biases", "qwen3", "gemma2", "gemma3"}


def tiny_model(family):
    name, config = STATED[family]
    with unittest.mock.patch.dict(llama_golden.FAMILIES, {family: (name, config)}):
        return llama_golden.tiny_model(family, torch.float32)


def save_batch(folder, vocab=199):
    ids = torch.randint(0, vocab, (3, 24))
    save_file({"inputs": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}, Path(folder, "batch.safetensors"))


def loss_of(folder, *arguments):
    HELPER.run(*arguments)
    return load_file(Path(folder, "ours.safetensors"))["loss"].item()


def as_neighbours(weight, heads):
    """How llama.cpp's converter reorders rows of queries and keys for rotations of neighbouring channels."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def expected_tensors(family, model):
    """The tensors that llama.cpp's converter makes, by name: names of the package gguf."""
    name, config = STATED[family][0], model.config
    arch = next(a for a, text in gguf.MODEL_ARCH_NAMES.items() if text == ARCHITECTURES[name])
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tensors = {}
    for hub, tensor in model.state_dict().items():
        if hub == "lm_head.weight" and config.tie_word_embeddings:
            continue
        own = names.get_name(hub, try_suffixes=(".weight", ".bias"))
        value = tensor.detach().numpy()
        if arch == gguf.MODEL_ARCH.LLAMA and ".q_proj." in hub:
            value = as_neighbours(value, config.num_attention_heads)
        if arch == gguf.MODEL_ARCH.LLAMA and ".k_proj." in hub:
            value = as_neighbours(value, config.num_key_value_heads)
        if name.startswith("Gemma") and hub.endswith("norm.weight"):
            value = value + 1
        tensors[own] = value
    return tensors


def check_keys_are_known(test, keys, architecture):
    known = {value for part in vars(gguf.Keys).values() if isinstance(part, type)
             for value in vars(part).values() if isinstance(value, str)}
    for key in keys:
        pattern = key.replace(f"{architecture}.", "{arch}.", 1) if key.startswith(f"{architecture}.") else key
        test.assertTrue(pattern in known or key.startswith("GGUF."), f"{key} is no key of the package")


def keys_of(file):
    return {name: field.contents() for name, field in gguf.GGUFReader(file).fields.items()}


def tensors_of(file):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}


def values_of(tensor):
    """The values of a tensor that the package read, as numpy has them."""
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)


class GgufOfModels(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def test_f32_has_the_names_and_bits_of_the_converter_and_its_loss(self):
        for family in STATED:
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = tiny_model(family)
                model.save_pretrained(folder)
                save_batch(folder)
                HELPER.run("write", folder, "f32")
                expected, found = expected_tensors(family, model), tensors_of(Path(folder, "ours.gguf"))
                found.pop("rope_freqs.weight", None)
                self.assertEqual(found.keys(), expected.keys())
                for name, value in expected.items():
                    self.assertEqual(found[name].tensor_type, Type.F32)
                    numpy.testing.assert_array_equal(values_of(found[name]), value, name)
                before = loss_of(folder, "loss", folder)
                after = loss_of(folder, "read", folder, "ours.gguf")
                if family.startswith("gemma"):  # a norm's weight plus one, minus one
                    self.assertLess(abs(after - before), LOSS_BOUND["fp32"] * abs(before))
                else:
                    self.assertEqual(after, before)

    def test_transformers_reads_the_same_model(self):
        for family in STATED.keys() - UNKNOWN_TO_TRANSFORMERS:
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = tiny_model(family).eval()
                model.save_pretrained(folder)
                HELPER.run("write", folder, "f32")
                theirs = AutoModelForCausalLM.from_pretrained(folder, gguf_file="ours.gguf",
                                                              attn_implementation="eager").eval()
                ids = torch.randint(0, 199, (2, 24))
                with torch.no_grad():
                    difference = relative_error(theirs(ids).logits, model(ids).logits)
                self.assertLess(difference, LOSS_BOUND["fp32"])

    def test_rotary_factors_are_those_of_transformers(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model("llama")
            model.save_pretrained(folder)
            HELPER.run("write", folder, "f16")
            factors = values_of(tensors_of(Path(folder, "ours.gguf"))["rope_freqs.weight"])
            scaled = model.model.rotary_emb.inv_freq.numpy()
            plain = 500.0 ** -(numpy.arange(0, 16, 2, dtype=numpy.float32) / 16)
            numpy.testing.assert_allclose(plain / factors, scaled, rtol=1e-5)
            self.assertGreater(factors.max(), 7.9)

    def test_matrices_have_the_bits_of_the_package_in_every_dtype(self):
        for dtype, kind in (("f16", Type.F16), ("bf16", Type.BF16), ("q8_0", Type.Q8_0)):
            with self.subTest(dtype), tempfile.TemporaryDirectory() as folder:
                model = tiny_model("qwen3")
                model.save_pretrained(folder)
                HELPER.run("write", folder, dtype)
                found = tensors_of(Path(folder, "ours.gguf"))
                for name, value in expected_tensors("qwen3", model).items():
                    wanted = kind if value.ndim == 2 else Type.F32
                    self.assertEqual(found[name].tensor_type, wanted, name)
                    packed = quants.quantize(value, wanted)
                    self.assertEqual(found[name].data.tobytes(), packed.tobytes(), name)

    def test_keys_say_what_the_config_does(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model("llama")
            model.save_pretrained(folder)
            HELPER.run("write", folder, "q8_0")
            keys = keys_of(Path(folder, "ours.gguf"))
        stated = {"general.architecture": "llama", "general.type": "model", "general.file_type": 7,
                  "general.quantization_version": 2, "llama.vocab_size": 199, "llama.context_length": 64,
                  "llama.embedding_length": 64, "llama.block_count": 3, "llama.feed_forward_length": 96,
                  "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.attention.key_length": 16,
                  "llama.attention.value_length": 16, "llama.rope.dimension_count": 16, "llama.rope.freq_base": 500.0,
                  "llama.rope.scaling.original_context_length": 16, "tokenizer.ggml.model": "none"}
        for key, value in stated.items():
            self.assertEqual(keys.get(key), value, key)
        self.assertAlmostEqual(keys["llama.attention.layer_norm_rms_epsilon"], 1e-6, delta=1e-12)
        check_keys_are_known(self, keys, "llama")

    def test_the_comparison_sees_rows_in_another_order(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model("llama plain, as many heads of keys")
            model.save_pretrained(folder)
            HELPER.run("write", folder, "f32")
            found = values_of(tensors_of(Path(folder, "ours.gguf"))["blk.0.attn_q.weight"])
            plain = model.state_dict()["model.layers.0.self_attn.q_proj.weight"].numpy()
            self.assertFalse(numpy.array_equal(found, plain))

    def test_an_adapter_has_llama_cpps_tensors(self):
        for family in ("llama plain, as many heads of keys", "qwen3"):
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                model = tiny_model(family)
                model.save_pretrained(folder)
                adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=10, use_rslora=True, init_lora_weights=False,
                                                           target_modules=["q_proj", "k_proj", "down_proj"]))
                adapted.save_pretrained(Path(folder, "adapter"))
                HELPER.run("adapter", folder)
                keys, found = keys_of(Path(folder, "adapter.gguf")), tensors_of(Path(folder, "adapter.gguf"))
                self.assertEqual([keys[k] for k in ("general.type", "adapter.type", "general.architecture")],
                                 ["adapter", "lora", ARCHITECTURES[STATED[family][0]]])
                self.assertAlmostEqual(keys["adapter.lora.alpha"] / 4, 10 / 4**0.5)
                stored = load_file(Path(folder, "adapter", "adapter_model.safetensors"))
                self.assertEqual(len(found), len(stored))
                for layer in range(3):
                    for hub, own in (("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                                     ("mlp.down_proj", "ffn_down")):
                        prefix = f"base_model.model.model.layers.{layer}.{hub}.lora_"
                        a, b = (stored[prefix + side + ".weight"].numpy() for side in "AB")
                        if "llama" in family and own != "ffn_down":
                            b = as_neighbours(b, 4)
                        numpy.testing.assert_array_equal(values_of(found[f"blk.{layer}.{own}.weight.lora_a"]), a)
                        numpy.testing.assert_array_equal(values_of(found[f"blk.{layer}.{own}.weight.lora_b"]), b)


class GgufOfThePackage(unittest.TestCase):
    """Files that the package wrote, with tensors of every type."""

    WIDTH, FFN, HEADS, HEAD, VOCAB = 256, 256, 2, 64, 48

    def random(self, *shape):
        return (0.05 * self.generator.standard_normal(shape)).astype(numpy.float32)

    def packed(self, value, kind):
        """`value` in blocks; of kinds that the package cannot pack, blocks of any bits with finite scales."""
        try:
            return quants.quantize(value, kind)
        except NotImplementedError:
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            blocks = self.generator.integers(0, 256, (value.shape[0], value.shape[1] // elements, size), dtype=numpy.uint8)
            scales = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}[kind]
            for at in scales:
                scale = (1e-4 * self.generator.random(blocks.shape[:2])).astype(numpy.float16)
                blocks[..., at:at + 2] = scale[..., None].view(numpy.uint8)
            return blocks.reshape(value.shape[0], -1)

    def write(self, file, kind, architecture="qwen3"):
        """A model of one block, and its values as Hugging Face has them."""
        self.generator = numpy.random.default_rng(3)
        width, ffn, vocab = self.WIDTH, self.FFN, self.VOCAB
        inner = self.HEADS * self.HEAD * 2  # whole blocks in the rows of the output projection
        shapes = {"token_embd": (vocab, width), "output": (vocab, width), "output_norm": (width,),
                  "blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,), "blk.0.attn_q": (inner, width),
                  "blk.0.attn_k": (inner // 2, width), "blk.0.attn_v": (inner // 2, width),
                  "blk.0.attn_output": (width, inner), "blk.0.ffn_gate": (ffn, width), "blk.0.ffn_up": (ffn, width),
                  "blk.0.ffn_down": (width, ffn)}
        if architecture == "qwen3":
            shapes |= {"blk.0.attn_q_norm": (self.HEAD,), "blk.0.attn_k_norm": (self.HEAD,)}
        writer = gguf.GGUFWriter(file, architecture)
        writer.add_context_length(32)
        writer.add_embedding_length(width)
        writer.add_block_count(1)
        writer.add_feed_forward_length(ffn)
        writer.add_head_count(2 * self.HEADS)
        writer.add_head_count_kv(self.HEADS)
        writer.add_key_length(self.HEAD)
        writer.add_value_length(self.HEAD)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_rope_freq_base(1e6)
        values = {}
        for name, shape in shapes.items():
            value = self.random(*shape)
            if len(shape) == 1 or kind == Type.F32:
                writer.add_tensor(name + ".weight", value)
            else:
                blocks = self.packed(value, kind)
                writer.add_tensor(name + ".weight", blocks, raw_dtype=kind)
                value = quants.dequantize(blocks, kind).reshape(shape)
            values[name] = value
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return values

    def test_tensors_of_every_type_are_unpacked_to_the_bit(self):
        hub = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm",
               "blk.0.attn_q": "model.layers.0.self_attn.q_proj", "blk.0.attn_output": "model.layers.0.self_attn.o_proj",
               "blk.0.attn_q_norm": "model.layers.0.self_attn.q_norm", "blk.0.ffn_norm":
               "model.layers.0.post_attention_layernorm", "blk.0.ffn_down": "model.layers.0.mlp.down_proj"}
        for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K):
            with self.subTest(kind.name), tempfile.TemporaryDirectory() as folder:
                values = self.write(Path(folder, "theirs.gguf"), kind)
                HELPER.run("read", folder, "theirs.gguf")
                ours = load_file(Path(folder, "ours.safetensors"))
                for name, theirs in hub.items():
                    numpy.testing.assert_array_equal(ours[theirs + ".weight"].numpy(), values[name], name)

    def test_rows_of_queries_are_put_back(self):
        with tempfile.TemporaryDirectory() as folder:
            values = self.write(Path(folder, "theirs.gguf"), Type.Q4_K, "llama")
            HELPER.run("read", folder, "theirs.gguf")
            ours = load_file(Path(folder, "ours.safetensors"))
            for hub, own, heads in (("q", "attn_q", 2 * self.HEADS), ("k", "attn_k", self.HEADS)):
                value = ours[f"model.layers.0.self_attn.{hub}_proj.weight"].numpy()
                numpy.testing.assert_array_equal(as_neighbours(value, heads), values["blk.0." + own])

    def test_another_bit_is_another_value(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "theirs.gguf")
            values = self.write(file, Type.Q8_0)
            tensor = tensors_of(file)["output.weight"]
            content = bytearray(file.read_bytes())
            content[int(tensor.data_offset) + 2] ^= 1
            file.write_bytes(content)
            HELPER.run("read", folder, "theirs.gguf")
            ours = load_file(Path(folder, "ours.safetensors"))["lm_head.weight"].numpy()
            self.assertEqual((ours != values["output"]).sum(), 1)


def tiny_gpt2():
    config = GPT2Config(vocab_size=211, n_positions=40, n_embd=64, n_layer=3, n_head=4, embd_pdrop=0, resid_pdrop=0,
                        attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def expected_gpt2_tensors(model):
    """The tensors that llama.cpp's converter makes: matrices as products have them, which Conv1D has the other way round."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, model.config.n_layer)
    tensors = {}
    for hub, tensor in model.state_dict().items():
        if hub == "lm_head.weight":
            continue
        value = tensor.detach().numpy()
        if hub.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            value = numpy.ascontiguousarray(value.T)
        tensors[names.get_name(hub, try_suffixes=(".weight", ".bias"))] = value
    return tensors


class GgufOfGpt2(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(13)
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def write(self, folder, dtype="f32"):
        model = tiny_gpt2()
        model.save_pretrained(folder)
        HELPER.run("write", folder, dtype)
        return model

    def test_f32_has_the_names_and_bits_of_the_converter_and_its_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.write(folder)
            save_batch(folder)
            expected, found = expected_gpt2_tensors(model), tensors_of(Path(folder, "ours.gguf"))
            self.assertEqual(found.keys(), expected.keys())
            for name, value in expected.items():
                numpy.testing.assert_array_equal(values_of(found[name]), value, name)
            before = loss_of(folder, "loss", folder)
            after = loss_of(folder, "read", folder, "ours.gguf")
            self.assertEqual(after, before)

    def test_matrices_have_the_bits_of_the_package_and_positions_stay_f32(self):
        for dtype, kind in (("f16", Type.F16), ("bf16", Type.BF16), ("q8_0", Type.Q8_0)):
            with self.subTest(dtype), tempfile.TemporaryDirectory() as folder:
                model = self.write(folder, dtype)
                found = tensors_of(Path(folder, "ours.gguf"))
                for name, value in expected_gpt2_tensors(model).items():
                    wanted = kind if value.ndim == 2 and name != "position_embd.weight" else Type.F32
                    self.assertEqual(found[name].tensor_type, wanted, name)
                    self.assertEqual(found[name].data.tobytes(), quants.quantize(value, wanted).tobytes(), name)

    def test_transformers_reads_the_same_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.write(folder)
            # transformers counts the tokens of a file for the size of the vocabulary, and this one has none.
            theirs = AutoModelForCausalLM.from_pretrained(folder, gguf_file="ours.gguf", config=model.config).eval()
            ids = torch.randint(0, 211, (2, 24))
            with torch.no_grad():
                difference = relative_error(theirs(ids).logits, model(ids).logits)
            self.assertLess(difference, LOSS_BOUND["fp32"])

    def test_keys_say_what_the_config_does(self):
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder, "f16")
            keys = keys_of(Path(folder, "ours.gguf"))
        stated = {"general.architecture": "gpt2", "general.type": "model", "general.file_type": 1, "gpt2.vocab_size": 211,
                  "gpt2.context_length": 40, "gpt2.embedding_length": 64, "gpt2.block_count": 3,
                  "gpt2.feed_forward_length": 256, "gpt2.attention.head_count": 4, "tokenizer.ggml.model": "none"}
        for key, value in stated.items():
            self.assertEqual(keys.get(key), value, key)
        self.assertAlmostEqual(keys["gpt2.attention.layer_norm_epsilon"], 1e-5, delta=1e-12)
        check_keys_are_known(self, keys, "gpt2")

    def test_the_comparison_sees_a_missing_transpose(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.write(folder)
            found = values_of(tensors_of(Path(folder, "ours.gguf"))["blk.1.attn_output.weight"])  # square
            plain = model.state_dict()["transformer.h.1.attn.c_proj.weight"].numpy()
            self.assertFalse(numpy.array_equal(found, plain))

    def theirs(self, folder, kind=Type.F32, head=None, **changed):
        """A file that the package wrote, and its values in Hugging Face's layout. The converter states the head twice."""
        model = tiny_gpt2()
        model.save_pretrained(folder)
        writer = gguf.GGUFWriter(Path(folder, "theirs.gguf"), "gpt2")
        writer.add_block_count(changed.get("blocks", 3))
        writer.add_context_length(40)
        writer.add_embedding_length(64)
        writer.add_feed_forward_length(changed.get("inner", 256))
        writer.add_head_count(4)
        writer.add_layer_norm_eps(changed.get("eps", 1e-5))
        tensors, values = expected_gpt2_tensors(model), {}
        tensors["output.weight"] = tensors["token_embd.weight"] if head is None else tensors["token_embd.weight"] + head
        for name, value in tensors.items():
            own = Type.F32 if value.ndim == 1 or name == "position_embd.weight" else kind
            packed = quants.quantize(value, own)
            writer.add_tensor(name, packed, raw_dtype=own)
            values[name] = quants.dequantize(packed, own).reshape(value.shape)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return values

    def test_what_the_package_wrote_is_read(self):
        hub = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "blk.2.attn_qkv": "h.2.attn.c_attn",
               "blk.0.attn_output": "h.0.attn.c_proj", "blk.1.ffn_up": "h.1.mlp.c_fc", "blk.1.ffn_down": "h.1.mlp.c_proj",
               "blk.0.attn_norm": "h.0.ln_1", "blk.2.ffn_norm": "h.2.ln_2"}
        for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0):
            with self.subTest(kind.name), tempfile.TemporaryDirectory() as folder:
                values = self.theirs(folder, kind)
                HELPER.run("read", folder, "theirs.gguf")
                ours = load_file(Path(folder, "ours.safetensors"))
                for own, theirs in hub.items():
                    value = ours[f"transformer.{theirs}.weight"].numpy()
                    is_conv = theirs.startswith("h.") and "ln" not in theirs
                    numpy.testing.assert_array_equal(value.T if is_conv else value, values[own + ".weight"], own)

    def test_what_gpt2_is_not_is_refused(self):
        for changed, words in (({"head": 1e-3}, "a tied head"), ({"inner": 128}, "blk.0.ffn_up.weight"),
                               ({"blocks": 4}, "tensors for 4 layers"), ({"blocks": 2}, "h.2.")):
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                self.theirs(folder, **changed)
                with self.assertRaises(subprocess.CalledProcessError) as raised:
                    HELPER.run("read", folder, "theirs.gguf")
                self.assertEqual(raised.exception.returncode, 2)
                self.assertIn(words, raised.exception.stderr)

    def test_an_adapter_has_llama_cpps_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_gpt2()
            model.save_pretrained(folder)
            adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, init_lora_weights=False, fan_in_fan_out=True,
                                                       target_modules=["c_attn", "c_fc"]))
            adapted.save_pretrained(Path(folder, "adapter"))
            HELPER.run("adapter", folder)
            keys, found = keys_of(Path(folder, "adapter.gguf")), tensors_of(Path(folder, "adapter.gguf"))
            self.assertEqual((keys["general.architecture"], keys["adapter.lora.alpha"]), ("gpt2", 8))
            stored = load_file(Path(folder, "adapter", "adapter_model.safetensors"))
            self.assertEqual(len(found), len(stored))
            for layer in range(3):
                for hub, own in (("attn.c_attn", "attn_qkv"), ("mlp.c_fc", "ffn_up")):
                    for side in "AB":
                        theirs = stored[f"base_model.model.transformer.h.{layer}.{hub}.lora_{side}.weight"].numpy()
                        ours = values_of(found[f"blk.{layer}.{own}.weight.lora_{side.lower()}"])
                        numpy.testing.assert_array_equal(ours, theirs)


if __name__ == "__main__":
    HELPER = RequestProgram(Path(sys.argv.pop(1)).resolve())
    unittest.main()
