"""Checks that a tokenizer's folder comes to what transformers' AutoTokenizer makes of it: tokenizer_folder_golden.py PROGRAM [SEED].

Folders are drawn: a small tokenizer.json of one of five kinds, whose added tokens, ids, template and padding differ, and beside it, each
with fields present, absent, null, of another type or of another class, tokenizer_config.json, special_tokens_map.json, added_tokens.json,
config.json and generation_config.json. Compared are the special tokens and their ids, every added token with its id and properties, the
end of a text, the ids of texts with and without the template, and their text without special tokens. What transformers does not load may
be read or refused; of what it loads at most one in twenty may be refused, and each reason is printed.
"""

import collections
import json
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import transformers  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import golden_form  # noqa: E402
from token_patterns import LLAMA3  # noqa: E402

FOLDERS = golden_form.share(200, 10)
TEXTS = 12
REFUSED_AT_MOST = 0.05
NAMED = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
POOL = ["<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<bos>", "<eos>", "<mask>", "[SEP]", "[CLS]",
        "<x y>", "Ångström", " lead", "the", "a", "1"]
CLASSES = ["PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend", "GPT2Tokenizer", "GPT2TokenizerFast", "CodeGenTokenizer", "LlamaTokenizer",
           "LlamaTokenizerFast", "CodeLlamaTokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast", "Qwen3_5Tokenizer", "GemmaTokenizer", "GemmaTokenizerFast",
           "GPTNeoXTokenizerFast", "CohereTokenizerFast", "RobertaTokenizer", "LongformerTokenizerFast", "Phi3Tokenizer", "NobodysTokenizer"]
TYPES = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "gpt_neox", "olmo2", "nobodys_model"]
WRONG = [5, 1.5, True, [], {}, "", ["<s>"], {"content": 3}, {"content": "<s>", "lstrip": None}]
PIECES = ["the quick brown fox", "It's 1234 words", " ", "  ", "\n", "\t", "don't", "é", "中文", "🙂", "_x", "A", "ab cd", "Ångström", "end."]
TRAINING = ["the quick brown fox jumps over the lazy dog, and it's 12345 times that the fox doesn't\n\tsleep. 中文 é Ångström " * 3, "a ab abc abcd " * 9]


def trained(made: Tokenizer, special: list[str], **words) -> Tokenizer:
    made.train_from_iterator(TRAINING, trainers.BpeTrainer(vocab_size=460, special_tokens=special, show_progress=False, **words))
    return made


def of_bytes(pre_tokenizer, normalizer=None, **model) -> dict:
    made = Tokenizer(models.BPE(**model))
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trained(made, ["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return json.loads(made.to_str())


def of_characters(pre_tokenizer) -> dict:
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    trained(made, ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))], max_token_length=8)
    made.pre_tokenizer = pre_tokenizer
    return json.loads(made.to_str())


def kinds() -> list[dict]:
    level = pre_tokenizers.ByteLevel
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    gemma = of_characters(pre_tokenizers.Split(" ", "merged_with_previous"))
    gemma["normalizer"] = json.loads(normalizers.Replace(" ", "▁").__getstate__())
    return [of_bytes(level(add_prefix_space=False)),
            of_bytes(pre_tokenizers.Sequence([split, level(add_prefix_space=False, use_regex=False)]), ignore_merges=True),
            of_bytes(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level(add_prefix_space=False)]), normalizers.NFC()),
            of_characters(pre_tokenizers.Metaspace(prepend_scheme="first", split=False)), gemma]


class Drawing:
    """One folder. Probabilities are such that most folders are loaded, and most have something beside tokenizer.json that counts."""

    def __init__(self, number: int, seed: str, kind: dict):
        self.draw = random.Random(f"{seed} {number}")
        self.tokenizer = json.loads(json.dumps(kind))

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def text(self) -> str:
        return self.draw.choice(POOL)

    def properties(self) -> dict:
        return {name: self.chance(0.25) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}

    def marked(self) -> dict:
        return {"__type": "AddedToken", "content": self.text(), **{k: v for k, v in self.properties().items() if self.chance(0.8)}}

    def token(self):
        """A value of a named token in tokenizer_config.json."""
        chosen = self.draw.random()
        return None if chosen < 0.08 else self.marked() if chosen < 0.25 else self.draw.choice(WRONG) if chosen < 0.265 else self.text()

    def known_id(self, text: str) -> int:
        return self.tokenizer["model"]["vocab"].get(text, len(self.tokenizer["model"]["vocab"]))

    def draw_tokenizer(self) -> None:
        vocabulary, added = self.tokenizer["model"]["vocab"], self.tokenizer["added_tokens"]
        if self.chance(0.15):
            vocabulary["gapped"] = len(vocabulary) + self.draw.choice((1, 3, 40))
        size = len(vocabulary)
        for text in self.draw.sample(POOL, self.draw.choice((0, 0, 1, 2, 4))):
            if any(one["content"] == text for one in added):
                continue
            stated = vocabulary.get(text, size)
            size += text not in vocabulary
            added.append({"id": stated if self.chance(0.85) else stated + self.draw.choice((1, 5)), "content": text, **self.properties()})
        if added and self.chance(0.4):
            begin = self.draw.choice(added)["content"]
            known = Tokenizer.from_str(json.dumps(self.tokenizer)).token_to_id(begin)
            token = {"SpecialToken": {"id": begin, "type_id": 0}}
            around = [token] if self.chance(0.7) else []
            self.tokenizer["post_processor"] = {
                "type": "TemplateProcessing", "single": [*around, {"Sequence": {"id": "A", "type_id": 0}}, *([] if around else [token])],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {begin: {"id": begin, "ids": [known], "tokens": [begin]}}}
        if self.chance(0.15):
            self.tokenizer["padding"] = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                                         "pad_token": self.text()}

    def draw_settings(self) -> dict:
        settings = {}
        for name in NAMED:
            if self.chance(0.3):
                settings[name] = self.token()
        if self.chance(0.6):
            settings["tokenizer_class"] = self.draw.choice(CLASSES)
        if self.chance(0.4):
            settings["added_tokens_decoder"] = {
                str(self.known_id(text) + self.draw.choice((0, 0, 0, 1, 2, 30))): {"content": text, **self.properties()}
                for text in self.draw.sample(POOL, self.draw.choice((0, 1, 2, 4)))}
        for name in ("additional_special_tokens", "extra_special_tokens"):
            if self.chance(0.2):
                listed = [self.marked() if self.chance(0.3) else self.text() for _ in range(self.draw.choice((0, 1, 3)))]
                settings[name] = None if self.chance(0.1) else listed
        if self.chance(0.05):
            settings["extra_special_tokens"] = {"image_token": self.text(), "video": self.text()}
        if self.chance(0.1):
            settings[self.draw.choice(("image_token", "fim_token"))] = self.draw.choice((self.text(), self.text(), 7, self.marked()))
        for name in ("add_bos_token", "add_eos_token", "add_prefix_space", "legacy"):
            if self.chance(0.2):
                settings[name] = self.chance(0.5) if self.chance(0.9) else None
        if self.chance(0.06):
            settings["split_special_tokens"] = True
        settings["model_max_length"] = 128
        names = list(settings)
        self.draw.shuffle(names)
        return {name: settings[name] for name in names}

    def draw_map(self) -> dict:
        made = {}
        for name in [*NAMED, "image_token"]:
            if self.chance(0.25):
                chosen = self.draw.random()
                made[name] = None if chosen < 0.06 else {"content": self.text(), **self.properties()} if chosen < 0.4 else self.text()
        if self.chance(0.25):
            made[self.draw.choice(("additional_special_tokens", "extra_special_tokens"))] = [self.text() for _ in range(2)]
        return made

    def write(self, folder: pathlib.Path) -> None:
        self.draw_tokenizer()
        files = {"tokenizer.json": self.tokenizer}
        if self.chance(0.85):
            files["tokenizer_config.json"] = self.draw_settings()
        if self.chance(0.4):
            files["special_tokens_map.json"] = self.draw_map()
        if self.chance(0.3):
            files["added_tokens.json"] = {text: self.known_id(text) + self.draw.choice((0, 0, 1, 7)) for text in self.draw.sample(POOL, 2)}
        end = self.draw.choice((None, 2, 399, [self.known_id("<|endoftext|>"), 2], self.known_id("</s>")))
        if self.chance(0.6):
            files["config.json"] = {"model_type": self.draw.choice(TYPES), "eos_token_id": end} | ({"tokenizer_class": self.draw.choice(CLASSES)} if self.chance(0.1) else {})
        if self.chance(0.3):
            files["generation_config.json"] = {"eos_token_id": self.draw.choice((None, 399, [self.known_id("<|im_end|>"), 1]))}
        files["texts.json"] = self.texts(json.dumps([content for name, content in files.items() if name != "tokenizer.json"], ensure_ascii=False))
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content, ensure_ascii=False))

    def texts(self, beside: str) -> list[str]:
        """Of which most have tokens that a file names."""
        tokens = [text for text in POOL if text in beside] + [one["content"] for one in self.tokenizer["added_tokens"]] or ["<s>"]
        parts = lambda: self.draw.choice(tokens) if self.chance(0.4) else self.draw.choice(PIECES)  # noqa: E731
        return ["", *("".join(parts() for _ in range(self.draw.randint(1, 9))) for _ in range(TEXTS - 1))]


def stated_end(folder: pathlib.Path, tokenizer) -> int | None:
    """The end that the model's files name, of which accrue takes special tokens alone."""
    known = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    for name in ("generation_config.json", "config.json"):
        if (folder / name).exists():
            stated = json.loads((folder / name).read_text()).get("eos_token_id")
            ids = [id for id in (stated if isinstance(stated, list) else [stated]) if id is not None]
            if ids:
                return next((id for id in ids if id in known and tokenizer.backend_tokenizer.decode([id], skip_special_tokens=True) == ""), None)
    return None


def reference(folder: pathlib.Path) -> dict | None:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception:
        return None
    backend = tokenizer.backend_tokenizer

    def named(name: str):
        text = getattr(tokenizer, name)
        return None if text is None else [text, backend.token_to_id(text)]

    def encoded(text: str):
        try:
            ids = [tokenizer.encode(text, add_special_tokens=added) for added in (False, True)]
        except Exception:
            return None
        if any(id is None or backend.id_to_token(id) is None for id in ids[1]):
            return None
        return {"ids": ids[0], "with_template": ids[1], "without_special": backend.decode(ids[1], skip_special_tokens=True)}

    end = backend.token_to_id(tokenizer.eos_token) if tokenizer.eos_token is not None else stated_end(folder, tokenizer)
    added = [[id, one.content, one.single_word, one.lstrip, one.rstrip, one.normalized] for id, one in sorted(backend.get_added_tokens_decoder().items())]
    return {"bos": named("bos_token"), "eos": named("eos_token"), "pad": named("pad_token"), "unk": named("unk_token"), "end": end, "added": added,
            "texts": [encoded(text) for text in json.loads((folder / "texts.json").read_text())]}


def differences(ours: dict, theirs: dict) -> list[str]:
    """What differs, of the texts the first; a text that transformers does not encode is none."""
    found = [f"{key}: {ours[key]} instead of {theirs[key]}" for key in ("bos", "eos", "pad", "unk", "end", "added") if ours[key] != theirs[key]]
    for number, (own, other) in enumerate(zip(ours["texts"], theirs["texts"], strict=True)):
        if other is not None and own != other:
            return [*found, f"text {number}: {own} instead of {other}"]
    return found


def run(program: str, folders: list[pathlib.Path]) -> list[dict]:
    lines = subprocess.run([program, *map(str, folders)], check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def without_files_beside(folder: pathlib.Path) -> pathlib.Path:
    alone = folder.with_name(folder.name + "-alone")
    alone.mkdir()
    for name in ("tokenizer.json", "texts.json"):
        shutil.copy(folder / name, alone / name)
    return alone


def main() -> int:
    logging.disable(logging.WARNING)
    seed = sys.argv[2] if len(sys.argv) > 2 else "folders"
    with tempfile.TemporaryDirectory() as scratch:
        bases, folders = kinds(), [pathlib.Path(scratch) / f"folder-{number}" for number in range(FOLDERS)]
        for number, folder in enumerate(folders):
            folder.mkdir()
            Drawing(number, seed, bases[number % len(bases)]).write(folder)
        theirs = [reference(folder) for folder in folders]
        loaded = [number for number, one in enumerate(theirs) if one is not None]
        ours = run(sys.argv[1], [folders[number] for number in loaded])
        alone = run(sys.argv[1], [without_files_beside(folders[number]) for number in loaded])
        wrong, reasons = 0, collections.Counter()
        for number, own in zip(loaded, ours, strict=True):
            if "refused" in own:
                reasons[own["refused"].replace(str(folders[number]), "FOLDER")] += 1
            elif found := differences(own, theirs[number]):
                wrong += 1
                if wrong <= 5:
                    beside = {path.name: path.read_text()[:1500] for path in sorted(folders[number].iterdir()) if path.name != "tokenizer.json"}
                    print(f"folder {number} (seed {seed}): {found}\n    {json.dumps(beside, ensure_ascii=False)}")
        noticed = sum("refused" in one or bool(differences(one, theirs[number])) for number, one in zip(loaded, alone, strict=True))
    print(f"transformers {transformers.__version__}: {FOLDERS} folders, {FOLDERS - len(loaded)} that it does not load; {wrong} differ, {sum(reasons.values())} are refused")
    for reason, count in reasons.items():
        print(f"    {count} refused: {reason}")
    print(f"negative control: with tokenizer.json alone {noticed} differ")
    is_sound = noticed > len(loaded) // 2 and len(loaded) > FOLDERS // 2
    return 0 if wrong == 0 and sum(reasons.values()) <= REFUSED_AT_MOST * len(loaded) and is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
