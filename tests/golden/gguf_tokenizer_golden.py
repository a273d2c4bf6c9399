"""Compares the tokenizers that go into GGUF files and come out of them with those of the library tokenizers: what GGUF can state
makes the same ids, and what it cannot is refused by name.

gguf_tokenizer_golden.py HELPER: the C++ half (gguf_golden.cpp). Exit status 77 where a package is not there.
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import gguf_golden
from gguf_golden import SHAPE, keys_of
from request_program import RequestProgram
from spm_ids import SpmIds
from token_patterns import GPT2, LLAMA3, QWEN2, TEKKEN

import gguf
import llama_golden
import torch
from golden_form import share
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils import logging

ROWS = 1000
TEXTS = ["The cat isn't 12345 years old.", "  two  spaces\n\n\nand lines\t", "straße, naïve, 漢字 and 🙂", "", " ", "a", "<0x41>",
         "<|user|>hello<|end|>", "x<|end|>", "e\u0301 combined ﬁne\r\nÅ", "don't STOP'S we'll", "1 22 333 4444", " <s>a", "▁▁a ▁"]
DRAWN = share(400, 4)  # texts for each tokenizer


def corpus():
    source = random.Random(5)
    words = ["the", "cat", "isn't", "years", "old", "two", "spaces", "and", "lines", "straße", "naïve", "漢字", "12345", "hello"]
    return [("  " if number % 5 == 0 else " ").join(source.choices(words, k=12)) for number in range(300)]


def texts():
    source = random.Random(1)
    letters = ["a", "b", "c", "d", "e", " ", "  ", "this", "no", "'", "1", "2", "漢", "ß", "\n", "\r\n", "▁", "<|end|>", "e\u0301", "é",
               "ﬁ", "É", "cat", "spaces ", "12345", "\t", "<s>"]
    return TEXTS + ["".join(source.choices(letters, k=30)) for _ in range(DRAWN)] + corpus()[:20]


# Parts of the tokenizers, and what is changed of them.

def nothing(tokenizer):
    pass


def normalized(*steps):
    def change(tokenizer):
        tokenizer.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(list(steps))

    return change


def cut(*steps):
    def change(tokenizer):
        tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(list(steps))

    return change


def all_of(*changes):
    def change(tokenizer):
        for one in changes:
            one(tokenizer)

    return change


def stated(**parts):
    """Changes what the file says of the model: ignore_merges, for one."""
    def change(data):
        data["model"].update(parts)

    return change


def added(token, **flags):
    def change(tokenizer):
        tokenizer.add_tokens([AddedToken(token, **flags)])

    return change


def around(single):
    def change(tokenizer):
        tokens = [(name, tokenizer.token_to_id(name)) for name in ("<|end|>", "<|begin|>", "<s>", "</s>")
                  if tokenizer.token_to_id(name) is not None]
        tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=tokens)

    return change


def words_of(pattern, behavior="isolated", invert=False):
    return [pre_tokenizers.Split(Regex(pattern), behavior, invert), pre_tokenizers.ByteLevel(False, use_regex=False)]


def byte_level(pre, change=nothing, change_file=nothing, ignore_merges=False):
    """BPE of bytes whose words `pre` cuts."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pre) if isinstance(pre, list) else pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=380, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False), AddedToken("<|begin|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|user|>", normalized=False)])
    change(tokenizer)
    return changed_file(tokenizer, change_file)


def changed_file(tokenizer, change):
    data = json.loads(tokenizer.to_str())
    change(data)
    return data


def without_merge(data):
    """A token that no merge makes."""
    data["model"]["merges"] = [merge for merge in data["model"]["merges"] if merge != data["model"]["merges"][-1]]


BYTE_PIECES = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA2 = normalized(normalizers.Prepend("▁"), normalizers.Replace(" ", "▁"))
GEMMA = normalized(normalizers.Replace(" ", "▁"))


def characters(change=LLAMA2, change_file=nothing):
    """BPE of characters with a token for each byte, trained as a BPE of words with their spaces."""
    source = Tokenizer(models.BPE(unk_token="<unk>"))
    source.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    source.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], show_progress=False))
    trained = json.loads(source.to_str())["model"]
    pieces = BYTE_PIECES + [piece for piece in trained["vocab"] if piece not in BYTE_PIECES and "漢" not in piece]
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in trained["merges"] if "漢" not in "".join(merge)]
    return of_pieces(ids, merges, change, change_file)


def of_pieces(ids, merges, change=LLAMA2, change_file=nothing):
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in BYTE_PIECES[:3]])
    change(tokenizer)
    return changed_file(tokenizer, change_file)


def sentencepiece(change=LLAMA2):
    """Merges as transformers makes them of a SentencePiece model's scores: all ways to put a token together."""
    letters = sorted({letter for text in corpus() for letter in text.replace(" ", "▁")} - {"漢"})
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
    ids = {piece: number for number, piece in enumerate(BYTE_PIECES + parts + letters)}
    merges = []
    for number, part in enumerate(parts):
        local = [(part[:at], part[at:], -number) for at in range(1, len(part)) if part[:at] in ids and part[at:] in ids]
        merges += sorted(local, key=lambda merge: (ids[merge[0]], ids[merge[1]]))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    return of_pieces(ids, [merge[:2] for merge in merges], change)


def letters_and(merges, change=GEMMA, more=()):
    """A tokenizer of few letters with just these merges, in their order."""
    wholes = ["".join(merge) for merge in merges]
    ids = {piece: number for number, piece in enumerate(BYTE_PIECES + list("abcxy▁") + wholes + list(more))}
    return of_pieces(ids, merges, change)


gpt2 = lambda *changes, **words: byte_level(pre_tokenizers.ByteLevel(False), *changes, **words)  # noqa: E731
llama3 = lambda *changes, **words: byte_level(words_of(LLAMA3), *changes, **words)  # noqa: E731
metaspace = lambda scheme, split: cut(pre_tokenizers.Metaspace("▁", scheme, split))  # noqa: E731

# By name: how it is made, and what a GGUF file calls it.
STATED = {
    "gpt2 words": (gpt2, "gpt-2"),
    "gpt2 words as a pattern": (lambda: byte_level(words_of(GPT2)), "gpt-2"),
    "gpt2 words, ignore_merges that does nothing": (lambda: gpt2(ignore_merges=True), "gpt-2"),
    "gpt2 words, an empty normalizer": (lambda: gpt2(normalized(normalizers.Sequence([]))), "gpt-2"),
    "gpt2 words with a begin": (lambda: gpt2(around("<|begin|> $A")), "gpt-2"),
    "gpt2 words with an end": (lambda: gpt2(around("$A <|end|>")), "gpt-2"),
    "gpt2 words, a token of the user": (lambda: gpt2(added("cat s", normalized=True)), "gpt-2"),
    "smollm": (lambda: byte_level([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]), "smollm"),
    "llama3 words": (lambda: llama3(ignore_merges=True), "llama-bpe"),
    "llama3 words, merges alone": (llama3, "dbrx"),
    "llama3 words, a token out of reach": (lambda: llama3(nothing, without_merge, ignore_merges=True), "llama-bpe"),
    "llama3 words, the same with merges alone": (lambda: llama3(nothing, without_merge), "dbrx"),
    "llama3 words, the rest removed": (lambda: byte_level(words_of(LLAMA3, "removed", True)), "dbrx"),
    "qwen2 words": (lambda: byte_level(words_of(QWEN2)), "qwen2"),
    "what llama.cpp does without a name": (lambda: byte_level([
        pre_tokenizers.Split(Regex(r"[\p{P}\$\+<=>\^~\|]+"), "isolated"), pre_tokenizers.Split(Regex(GPT2), "isolated"),
        pre_tokenizers.Split(Regex(r"\p{N}+"), "isolated"), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        pre_tokenizers.ByteLevel(False, use_regex=False)]), "default"),
    "llama2": (characters, None),
    "llama2, spaces first": (lambda: characters(normalized(normalizers.Replace(" ", "▁"), normalizers.Prepend("▁"))), None),
    "llama2, of scores": (sentencepiece, None),
    "llama2 with a begin and an end": (lambda: characters(all_of(LLAMA2, around("<s> $A </s>"))), None),
    "gemma": (lambda: characters(all_of(GEMMA, cut(pre_tokenizers.Split(" ", "merged_with_previous")))), None),
    "gemma, a token of the user": (lambda: characters(all_of(GEMMA, added("catcat", normalized=True))), None),
    "metaspace, no space before": (lambda: characters(metaspace("never", False)), None),
    "metaspace that cuts within no token": (
        lambda: letters_and([("a", "b"), ("▁", "a"), ("▁a", "c")], metaspace("never", True)), None),
    "metaspace behind the normalizer's space": (lambda: characters(all_of(LLAMA2, metaspace("always", False))), None),
    "merges in another order than their lengths": (lambda: letters_and([("b", "c"), ("a", "bc"), ("a", "b"), ("x", "y")]), None),
}

# By name: how it is made, what the refusal says, and whether llama.cpp has one that is nearly the same.
REFUSED = {
    "gpt2 words, NFKC": (lambda: gpt2(normalized(normalizers.NFKC())), "NFKC", False),
    "gpt2 words, NFC": (lambda: gpt2(normalized(normalizers.NFC())), "NFC", True),
    "llama3 words, NFC": (lambda: llama3(normalized(normalizers.NFC()), ignore_merges=True), "NFC", True),
    "qwen2 words, NFC": (lambda: byte_level(words_of(QWEN2), normalized(normalizers.NFC())), "NFC", True),
    "gpt2 words, NFD": (lambda: gpt2(normalized(normalizers.NFD())), "NFD", False),
    "gpt2 words, CRLF": (lambda: gpt2(normalized(normalizers.Replace("\r\n", "\n"))), "Replace", False),
    "gpt2 words, one space": (lambda: gpt2(normalized(normalizers.Replace(Regex(" +"), " "))), "Replace", False),
    "gpt2 words, stripped": (lambda: gpt2(normalized(normalizers.Strip())), "Strip", False),
    "gpt2 words, a space before": (lambda: byte_level(pre_tokenizers.ByteLevel(True)), "add_prefix_space", False),
    "gpt2 words, ignore_merges": (lambda: gpt2(nothing, without_merge, ignore_merges=True), "ignore_merges", False),
    "gpt2 words, digits in threes": (lambda: byte_level([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                                                         pre_tokenizers.ByteLevel(False)]), "pre-tokenizer", False),
    "gpt2 words, lstrip": (lambda: gpt2(added("<mask>", lstrip=True)), "lstrip", False),
    "gpt2 words, single_word": (lambda: gpt2(added("cat", single_word=True)), "single_word", False),
    "gpt2 words, two tokens before": (lambda: gpt2(around("<|begin|> <|end|> $A")), "post_processor", False),
    "tekken": (lambda: byte_level(words_of(TEKKEN), ignore_merges=True), "tekken", True),
    "words at spaces": (lambda: byte_level([pre_tokenizers.Split(" ", "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]),
                        "pre-tokenizer", False),
    "llama2, NFKC": (lambda: characters(normalized(normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁"))),
                     "NFKC", False),
    "llama2, one space": (lambda: characters(normalized(normalizers.Replace(Regex(" {2,}"), " "), normalizers.Prepend("▁"),
                                                        normalizers.Replace(" ", "▁"))), "Replace", False),
    "llama2, two spaces before": (lambda: characters(normalized(normalizers.Prepend("▁"), normalizers.Prepend("▁"),
                                                                normalizers.Replace(" ", "▁"))), "Prepend", False),
    "spaces as they are": (lambda: characters(nothing), "spaces that stay as they are", False),
    "metaspace, a space before": (lambda: characters(metaspace("always", False)), "Metaspace", True),
    "metaspace, a space before the first": (lambda: characters(metaspace("first", False)), "Metaspace", True),
    "metaspace that cuts": (lambda: characters(metaspace("first", True)), "cuts within the token", False),
    "digits": (lambda: characters(all_of(GEMMA, cut(pre_tokenizers.Digits(True)))), "Digits", False),
    "llama2, a token in normalized text": (lambda: characters(all_of(LLAMA2, added("catcat", normalized=True))), "normalized", False),
    "llama2, rstrip": (lambda: characters(all_of(LLAMA2, added("<end>", rstrip=True, normalized=False))), "rstrip", False),
    "merges that are not all": (lambda: letters_and([("a", "b"), ("b", "c"), ("a", "bc")]), "no merge of", False),
    "merges apart": (lambda: letters_and([("a", "b"), ("b", "c"), ("ab", "c"), ("x", "y"), ("a", "bc")]), "apart", False),
    "a token without merges": (lambda: letters_and([("a", "b")], more=["xy"]), "no merge of", False),
    "a character without a token": (lambda: letters_and([("a", "b")], more=["漢字"]), "character", False),
    "no bytes": (lambda: characters(LLAMA2, without_byte), "of each byte", False),
    "two tokens before a text": (lambda: characters(all_of(LLAMA2, around("<s> <s> $A"))), "post_processor", False),
}


def without_byte(data):
    """The vocabulary without one byte's token, the others moved down."""
    gone = data["model"]["vocab"].pop("<0x41>")
    for token, number in data["model"]["vocab"].items():
        data["model"]["vocab"][token] = number - (number > gone)


class GgufTokenizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(2)
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.place.name)
        config = dict(SHAPE, vocab_size=ROWS, num_hidden_layers=1)
        with unittest.mock.patch.dict(llama_golden.FAMILIES, {"this": ("Llama", config)}):
            llama_golden.tiny_model("this", torch.float32).save_pretrained(cls.folder)
        config = json.loads((cls.folder / "config.json").read_text())
        (cls.folder / "config.json").write_text(json.dumps(config | {"bos_token_id": None, "eos_token_id": None}))
        (cls.folder / "texts.json").write_text(json.dumps(texts()))

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def write(self, data, nearest=False, ends=None, **settings):
        """Writes the GGUF file of a tokenizer.json, and reads the tokenizer in it."""
        (self.folder / "ours.gguf").unlink(missing_ok=True)
        (self.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        (self.folder / "tokenizer.json").write_text(json.dumps(data))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | settings
        (self.folder / "tokenizer_config.json").write_text(json.dumps(settings))
        gguf_golden.HELPER.run("write", self.folder, "f16", *(["nearest"] if nearest else []))
        gguf_golden.HELPER.run("tokenizer", self.folder, "ours.gguf")
        return keys_of(self.folder / "ours.gguf")

    def read_again(self):
        return Tokenizer.from_file(str(self.folder / "read" / "tokenizer.json"))

    def our_ids(self):
        gguf_golden.HELPER.run("encode", self.folder)
        return json.loads((self.folder / "ids.json").read_text())

    def check(self, data, keys):
        """accrue's ids, those of tokenizers on what accrue read, and of characters llama.cpp's, are those of the tokenizer."""
        theirs, again = Tokenizer.from_str(json.dumps(data)), self.read_again()
        by_llama_cpp = SpmIds(keys) if keys["tokenizer.ggml.model"] == "llama" else None
        for text, ours in zip(texts(), self.our_ids(), strict=True):
            self.assertEqual(ours, theirs.encode(text).ids, repr(text))
            wanted = theirs.encode(text, add_special_tokens=False).ids
            self.assertEqual(again.encode(text, add_special_tokens=False).ids, wanted, repr(text))
            if by_llama_cpp:
                self.assertEqual(by_llama_cpp.encode(text), wanted, repr(text))

    def test_what_is_stated_makes_the_same_tokens(self):
        for name, (make, pre) in STATED.items():
            with self.subTest(name):
                data = make()
                keys = self.write(data)
                self.check(data, keys)
                model = "gpt2" if pre else "llama"
                self.assertEqual((keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"]), (model, pre or "default"))
                self.assertEqual(json.loads((self.folder / "differences.json").read_text()), [])
                tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
                self.assertEqual((len(tokens), len(set(tokens)), len(kinds)), (ROWS, ROWS, ROWS))
                for token, number in Tokenizer.from_str(json.dumps(data)).get_vocab().items():
                    self.assertEqual(tokens[number], token)

    def test_what_cannot_be_stated_is_refused_by_name(self):
        for name, (make, words, is_near) in REFUSED.items():
            with self.subTest(name):
                data = make()
                with self.assertRaises(subprocess.CalledProcessError) as raised:
                    self.write(data)
                self.assertEqual(raised.exception.returncode, 2)
                self.assertIn(words, raised.exception.stderr)
                self.assertEqual("--nearest-tokenizer" in raised.exception.stderr, is_near)
                self.assertEqual(list(self.folder.glob("ours.gguf*")), [])
                if is_near:
                    self.write(data, nearest=True)
                    self.assertTrue(json.loads((self.folder / "differences.json").read_text()))
                else:
                    with self.assertRaises(subprocess.CalledProcessError):
                        self.write(data, nearest=True)

    def test_the_nearest_makes_the_same_tokens_of_other_texts(self):
        for name, differ in (("qwen2 words, NFC", "e\u0301 combined"), ("metaspace, a space before", " a cat")):
            with self.subTest(name):
                data = REFUSED[name][0]()
                self.write(data, nearest=True)
                theirs, ours = Tokenizer.from_str(json.dumps(data)), self.read_again()
                for text in ("The cat isn't 12345 years old.", "straße, naïve"):
                    self.assertEqual(ours.encode(text, add_special_tokens=False).ids, theirs.encode(text, add_special_tokens=False).ids)
                self.assertNotEqual(ours.encode(differ, add_special_tokens=False).ids, theirs.encode(differ, add_special_tokens=False).ids)

    def test_special_tokens_and_chat_templates(self):
        data = gpt2(around("<|begin|> $A"))
        keys = self.write(data, bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|end|>", chat_template=[
            {"name": "default", "template": "{{ messages }}"}, {"name": "tool use", "template": "{{ tools }}"}])
        ids = Tokenizer.from_str(json.dumps(data)).token_to_id
        stated = {"bos_token_id": ids("<|begin|>"), "eos_token_id": ids("<|end|>"), "padding_token_id": ids("<|end|>"),
                  "add_bos_token": True, "add_eos_token": False}
        self.assertEqual({name: keys["tokenizer.ggml." + name] for name in stated}, stated)
        self.assertEqual((keys["tokenizer.chat_template"], keys["tokenizer.chat_template.tool_use"]), ("{{ messages }}", "{{ tools }}"))
        self.assertEqual(keys["tokenizer.chat_templates"], ["tool_use"])
        kinds = keys["tokenizer.ggml.token_type"]
        self.assertEqual((kinds[ids("<|end|>")], kinds[ids("<|user|>")], kinds[-1], kinds[0]),
                         (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED, gguf.TokenType.UNUSED, gguf.TokenType.NORMAL))
        settings = json.loads((self.folder / "read" / "tokenizer_config.json").read_text())
        self.assertEqual((settings["bos_token"], settings["eos_token"]), ("<|begin|>", "<|end|>"))
        self.assertEqual((self.folder / "read" / "chat_template.jinja").read_text(), "{{ messages }}")
        self.assertEqual((self.folder / "read" / "additional_chat_templates" / "tool_use.jinja").read_text(), "{{ tools }}")

    def test_end_tokens_have_three_keys(self):
        data = gpt2()
        ids = Tokenizer.from_str(json.dumps(data)).token_to_id
        ends = [ids("<|begin|>"), ids("<|user|>"), ids("<|end|>")]
        for count in (1, 2, 3):
            keys = self.write(data, ends=ends[:count], eos_token="<|begin|>")
            found = [keys.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
            self.assertEqual(found, (ends[:count] + [None] * 3)[:3])
            self.assertEqual(json.loads((self.folder / "ends.json").read_text()), ends[:count])
        # llama.cpp takes <|end|> for an end by its text, and no other of these.
        self.write(data, ends=[*ends, ids("<|user|>")], eos_token="<|begin|>")
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            self.write(data, ends=[*ends[:2], 1, 2], eos_token="<|begin|>")
        self.assertIn("at most 3 tokens that end a text", raised.exception.stderr)

    def test_a_tokenizer_without_an_end_names_a_row_that_no_text_leads_to(self):
        keys = self.write(gpt2())
        self.assertEqual(keys["tokenizer.ggml.token_type"][keys["tokenizer.ggml.eos_token_id"]], gguf.TokenType.UNUSED)
        self.assertEqual(json.loads((self.folder / "ends.json").read_text()), [])
        self.assertNotIn("eos_token", json.loads((self.folder / "read" / "tokenizer_config.json").read_text()))

    def test_the_comparison_sees_another_pattern_and_other_scores(self):
        keys = self.write(STATED["qwen2 words"][0]())
        with self.assertRaises(AssertionError):
            self.check(gpt2(), keys)
        data = characters()
        keys = self.write(data)
        keys["tokenizer.ggml.scores"] = keys["tokenizer.ggml.scores"][::-1]
        with self.assertRaises(AssertionError):
            self.check(data, keys)

    def test_merges_that_scores_cannot_state_make_other_tokens(self):
        """The refusal has a reason: joined by scores, some text has other ids."""
        for name, text in (("merges that are not all", "abc"), ("a token without merges", "xy")):
            data = REFUSED[name][0]()
            ids = data["model"]["vocab"]
            tokens = sorted(ids, key=ids.get)
            ranks = {"".join(merge): -float(rank) for rank, merge in reversed(list(enumerate(data["model"]["merges"])))}
            keys = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [ranks.get(token, -1e9) for token in tokens],
                    "tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.token_type": [1] * len(tokens)}
            self.assertNotEqual(SpmIds(keys).encode(text), Tokenizer.from_str(json.dumps(data)).encode(text).ids, name)


if __name__ == "__main__":
    gguf_golden.HELPER = RequestProgram(Path(sys.argv.pop(1)).resolve())
    unittest.main()
