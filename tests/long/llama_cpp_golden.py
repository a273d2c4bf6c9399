"""Compares GGUF files with llama.cpp itself, by its Python bindings: the ids of every tokenizer that GGUF states, the logits of every
family, and which tokens end a text. Of tokenizers that are refused unless the nearest is asked for, llama.cpp makes other ids of some
text.

llama_cpp_golden.py HELPER: gguf_golden of tests/golden, with the Python of .venv-llama-cpp (scripts/setup.sh llama-cpp).
"""

import ctypes
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "golden"), str(ROOT / "support")]
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402

try:
    import llama_cpp
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh llama-cpp installs it")

import gguf_golden  # noqa: E402
import gguf_tokenizer_golden as of_tokens  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from transformers.utils import logging  # noqa: E402

F32 = 0  # ggml's number
# Largest difference of log-probabilities. llama.cpp looks GELU and SiLU up in tables of fp16.
BOUND = 5e-3


class Model:
    """A model of a file, for as long as the object is there."""

    def __init__(self, file, vocab_only=False):
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = vocab_only
        parameters.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(file).encode(), parameters)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {file}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        llama_cpp.llama_model_free(self.model)

    def encode(self, text, around=False):
        data = text.encode()
        room = len(data) + 16
        ids = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, room, around, True)
        if count < 0:
            raise RuntimeError(f"{-count} tokens of {text!r}")
        return list(ids[:count])

    def ends(self):
        return [number for number in range(llama_cpp.llama_vocab_n_tokens(self.vocab))
                if llama_cpp.llama_vocab_is_eog(self.vocab, number)]

    def log_probabilities(self, ids):
        """Of each position, [tokens, vocabulary]."""
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = 64, 64, 64
        parameters.n_threads = parameters.n_threads_batch = 1
        parameters.type_k = parameters.type_v = F32
        context = llama_cpp.llama_init_from_model(self.model, parameters)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for place, number in enumerate(ids):
                batch.token[place], batch.pos[place] = number, place
                batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, 0, True
            if llama_cpp.llama_decode(context, batch) != 0:
                raise RuntimeError("llama_decode failed")
            rows = llama_cpp.llama_vocab_n_tokens(self.vocab)
            logits = [numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, place), shape=(rows,)).copy()
                      for place in range(len(ids))]
        finally:
            llama_cpp.llama_batch_free(batch)
            llama_cpp.llama_free(context)
        return torch.log_softmax(torch.from_numpy(numpy.stack(logits)), -1)


def other_texts(folder, data):
    """The texts of which llama.cpp makes other ids than the tokenizer."""
    theirs = Tokenizer.from_str(json.dumps(data))
    with Model(folder / "ours.gguf", vocab_only=True) as model:
        return [text for text in of_tokens.texts()
                if model.encode(text) != theirs.encode(text, add_special_tokens=False).ids
                or model.encode(text, around=True) != theirs.encode(text).ids]


class TokensOfLlamaCpp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = of_tokens.GgufTokenizers()
        of_tokens.GgufTokenizers.setUpClass()

    @classmethod
    def tearDownClass(cls):
        of_tokens.GgufTokenizers.tearDownClass()

    def test_what_is_stated_makes_the_same_ids(self):
        for name, (make, _) in of_tokens.STATED.items():
            with self.subTest(name):
                data = make()
                self.files.write(data)
                self.assertEqual(other_texts(self.files.folder, data), [])

    def test_what_is_refused_unless_the_nearest_will_do_makes_others(self):
        """The negative control, too."""
        for name, (make, _, is_near) in of_tokens.REFUSED.items():
            if is_near:
                with self.subTest(name):
                    data = make()
                    self.files.write(data, nearest=True)
                    self.assertTrue(other_texts(self.files.folder, data))

    def test_the_ends_of_a_text_are_those_that_are_stated(self):
        data = of_tokens.gpt2()
        ids = Tokenizer.from_str(json.dumps(data)).token_to_id
        ends = [ids("<|begin|>"), ids("<|user|>"), ids("<|end|>")]
        self.files.write(data, ends=ends, eos_token="<|begin|>")
        with Model(self.files.folder / "ours.gguf", vocab_only=True) as model:
            self.assertEqual(model.ends(), sorted(ends))

    def test_a_text_without_an_end_token_does_not_end_at_token_11(self):
        self.files.write(of_tokens.llama3())
        with Model(self.files.folder / "ours.gguf", vocab_only=True) as model:
            self.assertNotIn(11, model.ends())


class LogitsOfLlamaCpp(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(17)
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def difference(self, model, other=None):
        """The largest of log-probabilities between llama.cpp's of `model` and transformers' of `other`, the same by default."""
        ids = torch.randint(0, model.config.vocab_size, (1, 24))
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            gguf_golden.HELPER.run("write", folder, "f32")
            with Model(Path(folder, "ours.gguf")) as ours:
                found = ours.log_probabilities(ids[0].tolist())
        with torch.no_grad():
            wanted = torch.log_softmax((other or model).eval()(ids).logits[0], -1)
        return (found - wanted).abs().max().item()

    def test_each_family_has_the_same_logits(self):
        for family in gguf_golden.STATED:
            with self.subTest(family):
                self.assertLess(self.difference(gguf_golden.tiny_model(family)), BOUND)

    def test_a_gpt2_has_the_same_logits(self):
        self.assertLess(self.difference(gguf_golden.tiny_gpt2()), BOUND)

    def test_the_comparison_sees_another_model(self):
        model, other = gguf_golden.tiny_gpt2(), gguf_golden.tiny_gpt2()
        self.assertGreater(self.difference(model, other), 10 * BOUND)


if __name__ == "__main__":
    gguf_golden.HELPER = RequestProgram(Path(sys.argv.pop(1)).resolve())
    # What llama.cpp says of each file it loads is of no use here.
    SILENT = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(SILENT, ctypes.c_void_p(0))
    unittest.main()
