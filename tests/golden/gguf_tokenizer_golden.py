"""Compares the tokenizers that go into GGUF files and come out of them with those of the library tokenizers.

gguf_tokenizer_golden.py HELPER: the C++ half (gguf_golden.cpp). Exit status 77 where a package is not there.
"""

import json
import random
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import gguf_golden
from gguf_golden import SHAPE, keys_of
from request_program import RequestProgram

import gguf
import llama_golden
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.utils import logging

WORDS = {
    "llama-bpe": (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                  r"\s+(?!\S)|\s+"),
    "qwen2": (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+"),
}
TEXTS = ["The cat isn't 12345 years old.", "  two  spaces\n\n\nand lines\t", "straße, naïve, 漢字 and 🙂", "", " ", "a",
         "<|user|>hello<|end|>", "x<|end|>", "e\u0301 combined", "don't STOP'S we'll", "1 22 333 4444"]


def corpus():
    source = random.Random(5)
    words = ["the", "cat", "isn't", "years", "old", "two", "spaces", "and", "lines", "straße", "naïve", "漢字", "12345", "hello"]
    return [" ".join(source.choices(words, k=12)) for _ in range(300)]


def byte_level(name):
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    if name in WORDS:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(WORDS[name]), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    elif name == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=380, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|user|>", normalized=False)])
    return tokenizer


def sentencepiece():
    """A tokenizer of characters and bytes, merges as transformers makes them of a SentencePiece model's scores."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    characters = sorted({character for text in corpus() for character in text.replace(" ", "▁")} - {"漢"})
    source, words = random.Random(8), [word for text in corpus() for word in ("▁" + text.replace(" ", " ▁")).split()]
    parts = set()
    while len(parts) < 90:
        word = source.choice(words)
        begin = source.randrange(len(word))
        part = word[begin:begin + source.randrange(2, 6)]
        if len(part) > 1 and "漢" not in part:
            parts.add(part)
    # SentencePiece has merges in steps of one character's or token's: prefixes of what there is.
    parts |= {part[:length] for part in parts for length in range(2, len(part))}
    parts = sorted(parts, key=lambda part: (len(part), part))
    pieces += parts + characters
    ids = {piece: number for number, piece in enumerate(pieces)}
    scores = {part: -float(number) for number, part in enumerate(parts)}
    merges = []
    for part, score in scores.items():
        local = [(part[:cut], part[cut:], score) for cut in range(1, len(part)) if part[:cut] in ids and part[cut:] in ids]
        merges += sorted(local, key=lambda merge: (ids[merge[0]], ids[merge[1]]))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    tokenizer = Tokenizer(models.BPE(ids, [merge[:2] for merge in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in pieces[:3]])
    return tokenizer


class GgufTokenizers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def write(self, folder, tokenizer, **settings):
        config = dict(SHAPE, vocab_size=tokenizer.get_vocab_size() + 5, num_hidden_layers=1)
        with unittest.mock.patch.dict(llama_golden.FAMILIES, {"this": ("Llama", config)}):
            llama_golden.tiny_model("this", torch.float32).save_pretrained(folder)
        tokenizer.save(str(Path(folder, "tokenizer.json")))
        Path(folder, "tokenizer_config.json").write_text(json.dumps(settings))
        gguf_golden.HELPER.run("write", folder, "f16")
        gguf_golden.HELPER.run("tokenizer", folder, "ours.gguf")
        return Tokenizer.from_file(str(Path(folder, "read", "tokenizer.json")))

    def check(self, ours, theirs):
        source = random.Random(1)
        texts = TEXTS + ["".join(source.choices("abcde thisno'12 漢ß\n▁<|end|>", k=40)) for _ in range(200)] + corpus()[:20]
        for text in texts:
            wanted = theirs.encode(text, add_special_tokens=False).ids
            self.assertEqual(ours.encode(text, add_special_tokens=False).ids, wanted, repr(text))
            self.assertEqual(ours.decode(wanted, skip_special_tokens=False), theirs.decode(wanted, skip_special_tokens=False))

    def test_tokens_are_those_of_the_tokenizer(self):
        for name in ("llama-bpe", "qwen2", "smollm", "gpt-2"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                theirs = byte_level(name)
                ours = self.write(folder, theirs, eos_token="<|end|>", chat_template="{{ messages }}")
                self.check(ours, theirs)
                keys = keys_of(Path(folder, "ours.gguf"))
                end = theirs.token_to_id("<|end|>")
                self.assertEqual((keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"]), ("gpt2", name))
                self.assertEqual(keys["tokenizer.ggml.eos_token_id"], end)
                self.assertEqual(keys["tokenizer.chat_template"], "{{ messages }}")
                kinds = keys["tokenizer.ggml.token_type"]
                self.assertEqual(len(kinds), theirs.get_vocab_size() + 5)
                self.assertEqual((kinds[end], kinds[theirs.token_to_id("<|user|>")], kinds[-1]),
                                 (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED, gguf.TokenType.UNUSED))
                settings = json.loads(Path(folder, "read", "tokenizer_config.json").read_text())
                self.assertEqual(settings["eos_token"], "<|end|>")
                self.assertEqual(Path(folder, "read", "chat_template.jinja").read_text(), "{{ messages }}")

    def test_tokens_of_sentencepiece(self):
        with tempfile.TemporaryDirectory() as folder:
            theirs = sentencepiece()
            ours = self.write(folder, theirs, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
            self.check(ours, theirs)
            keys = keys_of(Path(folder, "ours.gguf"))
            self.assertEqual((keys["tokenizer.ggml.model"], keys["tokenizer.ggml.bos_token_id"]), ("llama", 1))
            self.assertEqual(keys["tokenizer.ggml.token_type"][:4],
                             [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, gguf.TokenType.BYTE])

    def test_the_comparison_sees_another_pattern(self):
        with tempfile.TemporaryDirectory() as folder:
            ours = self.write(folder, byte_level("qwen2"))
            with self.assertRaises(AssertionError):
                self.check(ours, byte_level("gpt-2"))


if __name__ == "__main__":
    gguf_golden.HELPER = RequestProgram(Path(sys.argv.pop(1)).resolve())
    unittest.main()
