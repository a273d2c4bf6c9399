"""Checks that a tokenizer.json gives the ids, and the texts, that Hugging Face's tokenizers gives: tokenizer_golden.py PROGRAM.

Tokenizers of the kinds that GPT-2, SmolLM, Llama 2 and 3, Qwen and Gemma have are trained on texts of this machine (Python's own
sources, and many scripts); the vocabularies of those models themselves cannot be had without a network. At least 10 MB of mixed text,
code and drawn texts of many scripts are encoded by both, and decoded again.
"""

import array
import json
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import golden_form  # noqa: E402
from token_patterns import LLAMA3, QWEN2  # noqa: E402

WHOLE = 2_600_000
BYTES = golden_form.share(WHOLE, 5)  # of text, for each of the tokenizers
# Blocks of scripts, in code points; all were there before Unicode 14.
SCRIPTS = [(0x20, 0x7E), (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939), (0xE01, 0xE3A),
           (0x1100, 0x1160), (0x3041, 0x3096), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x300, 0x340), (0x2000, 0x206F), (0x1F600, 0x1F64F)]
SPACES = ["\n", "\r\n", "\t", "  ", " ", "\u00a0", "\u2028", "\u3000", "\u0085", "\u180e", "\x1c", "\u200b"]
ODD = ["'S", "'ſ", "don't", "WE'LL", "１２３", "½", "٣", "²", "e\u0301", "\u1100\u1161", "ﬁ", "Å", "\ufeff", "\U0001f468\u200d\U0001f469", "_", "\u203f", "\x00".replace("\x00", "\x01")]


def byte_level(**words):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **words)


def gpt2() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = byte_level()
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return trained(made, ["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def smollm() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    made.decoder = decoders.ByteLevel()
    return trained(made, ["<|im_start|>", "<|im_end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def with_words(pattern: str, special: list[str]) -> Tokenizer:
    made = Tokenizer(models.BPE(ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(use_regex=False)])
    made.decoder = decoders.ByteLevel()
    return trained(made, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama3() -> Tokenizer:
    made = with_words(LLAMA3, ["<|begin_of_text|>", "<|eot_id|>"])
    begin = ("<|begin_of_text|>", made.token_to_id("<|begin_of_text|>"))
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                               processors.TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])])
    return made


def qwen2() -> Tokenizer:
    made = with_words(QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    made.normalizer = normalizers.NFC()
    return made


def characters(**words) -> Tokenizer:
    """Byte fallback needs its tokens in the vocabulary, which a trainer makes of special ones."""
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>", **words))
    return made


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2() -> Tokenizer:
    made = characters()
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made = trained(made, ["<unk>", "<s>", "</s>", *BYTE_TOKENS], max_token_length=12, pre=pre_tokenizers.Metaspace(prepend_scheme="never"))
    begin = ("<s>", made.token_to_id("<s>"))
    made.post_processor = processors.TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])
    return made


def llama2_metaspace() -> Tokenizer:
    """As newer conversions have it (legacy = false)."""
    made = characters()
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made = trained(made, ["<unk>", "<s>", "</s>", *BYTE_TOKENS], max_token_length=12, pre=pre_tokenizers.Metaspace(prepend_scheme="first"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return made


def gemma() -> Tokenizer:
    made = characters()
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made = trained(made, ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", *BYTE_TOKENS], max_token_length=12,
                   pre=pre_tokenizers.Metaspace(prepend_scheme="never"))
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return made


def trained(made: Tokenizer, special: list[str], pre=None, **words) -> Tokenizer:
    pre_tokenizer, normalizer = made.pre_tokenizer, made.normalizer
    if pre is not None:  # merges over spaces would take hours to train
        made.pre_tokenizer, made.normalizer = pre, None
    trainer = trainers.BpeTrainer(vocab_size=6000, special_tokens=special, show_progress=False, **words)
    made.train_from_iterator(training_texts(), trainer)
    if pre is not None:
        if pre_tokenizer is None:
            return without_pre_tokenizer(made, normalizer)
        made.pre_tokenizer, made.normalizer = pre_tokenizer, normalizer
    return made


def without_pre_tokenizer(made: Tokenizer, normalizer) -> Tokenizer:
    stated = json.loads(made.to_str())
    stated["pre_tokenizer"] = None
    made = Tokenizer.from_str(json.dumps(stated))
    if normalizer is not None:
        made.normalizer = normalizer
    return made


def sources() -> list[str]:
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return [path.read_text(errors="replace") for path in sorted(folder.glob("*.py"))]


def training_texts() -> list[str]:
    draw = random.Random(3)
    return sources()[:60] + [drawn(draw) for _ in range(2000)]


def drawn(draw: random.Random) -> str:
    """A text of many scripts."""
    parts = []
    for _ in range(draw.randint(1, 60)):
        low, high = draw.choice(SCRIPTS)
        kind = draw.random()
        if kind < 0.6:
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 8))))
        elif kind < 0.85:
            parts.append(draw.choice(SPACES) * draw.choice((1, 1, 1, 2, 5)))
        else:
            parts.append(draw.choice(ODD))
    return "".join(parts).replace("\x00", "")


def with_tokens(draw: random.Random, text: str, tokens: list[str]) -> str:
    """The text with added tokens in it, beside spaces and letters."""
    for _ in range(draw.randint(0, 3)):
        at = draw.randint(0, len(text))
        text = text[:at] + draw.choice(("", " ", "  ", "a")) + draw.choice(tokens) + draw.choice(("", " ", "\n", "b")) + text[at:]
    return text


def texts_for(tokens: list[str]) -> list[str]:
    draw, texts, size = random.Random(7), ["", " ", "\n", "a", " a", "▁", "a▁ b"], 0
    corpus = sources()
    while size < BYTES:
        text = draw.choice(corpus) if draw.random() < 0.02 else drawn(draw)
        text = with_tokens(draw, text, tokens)
        texts.append(text)
        size += len(text.encode())
    return texts


def add_tokens(made: Tokenizer) -> list[str]:
    """Tokens of every kind, of which some begin like others."""
    made.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<tool>s", normalized=False), AddedToken("Ångström", normalized=True),
                     AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
                     AddedToken("word", single_word=True, normalized=False), AddedToken("   ", normalized=False)])
    return ["<tool>", "<tool>s", "Ångström", "A\u030angstro\u0308m", "<left>", "<right>", "word", "   "]


def run(program: str, what: str, folder: pathlib.Path, content: bytes) -> bytes:
    (folder / "in").write_bytes(content)
    subprocess.run([program, what, str(folder / "tokenizer.json"), str(folder / "in"), str(folder / "out")], check=True)
    return (folder / "out").read_bytes()


def differing(name: str, texts: list, ours: list, theirs: list) -> int:
    count = 0
    for text, own, other in zip(texts, ours, theirs, strict=True):
        if own != other:
            count += 1
            if count <= 3:
                at = next((i for i, (a, b) in enumerate(zip(own, other)) if a != b), min(len(own), len(other)))
                print(f"{name}: differs at {at}: {own[at - 3:at + 5]} instead of {other[at - 3:at + 5]}\n    of {text[:300]!r}")
    return count


def check(program: str, name: str, made: Tokenizer) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        special = [token.content for token in made.get_added_tokens_decoder().values() if not token.content.startswith("<0x")]
        texts = texts_for(special + add_tokens(made))
        made.save(str(folder / "tokenizer.json"))
        made = Tokenizer.from_file(str(folder / "tokenizer.json"))
        theirs = [encoding.ids for encoding in made.encode_batch(texts, add_special_tokens=False)]
        written = array.array("i", run(program, "encode", folder, b"".join(text.encode() + b"\0" for text in texts)))
        ours, own = [], []
        for id in written:
            if id == -1:
                ours.append(own)
                own = []
            else:
                own.append(id)
        wrong = differing(name, texts, ours, theirs)
        flat = array.array("i", [id for ids in theirs for id in (*ids, -1)])
        decoded = run(program, "decode", folder, flat.tobytes()).decode().split("\0")[:-1]
        wrong += differing(name + ", decoded", theirs, decoded[0::3], made.decode_batch(theirs, skip_special_tokens=False))
        wrong += differing(name + ", decoded without special ones", theirs, decoded[1::3], made.decode_batch(theirs, skip_special_tokens=True))
        wrong += differing(name + ", as a stream", theirs, decoded[2::3], decoded[0::3])
        wrong += check_parts(program, name, made, folder, "\n".join(texts))
    print(f"{name}: {len(texts)} texts, {sum(len(ids) for ids in theirs)} tokens of {made.get_vocab_size()}: {wrong} differ")
    return wrong


def check_parts(program: str, name: str, made: Tokenizer, folder: pathlib.Path, text: str) -> int:
    """One text that is read by parts has the ids of the whole."""
    (folder / "in").write_bytes(text.encode())
    command = [program, "parts", str(folder / "tokenizer.json"), str(folder / "in"), str(folder / "out")]
    count = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ours = array.array("i", (folder / "out").read_bytes()).tolist()
    wrong = differing(f"{name}, by parts", [text], [ours], [made.encode(text, add_special_tokens=False).ids])
    has_parts = "llama2" not in name  # which puts something before every text
    print(f"{name}: {count} parts")
    return wrong + (has_parts != (count > 20 * BYTES // WHOLE))


def main() -> int:
    kinds = (gpt2, smollm, llama3, qwen2, llama2, llama2_metaspace, gemma)
    print(f"tokenizers {tokenizers.__version__}")
    return 1 if sum(check(sys.argv[1], kind.__name__, kind()) for kind in kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
