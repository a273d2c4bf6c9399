"""Tokenizers, chat templates and other JSON that would take all of the time or memory: each ends with a result or one clear error, within bounds."""
import json
import pathlib
import random
import sys
from collections.abc import Callable

import hostile
import tinyrun
from hostile import World, write
from hostile_pipes import GIB
from tinyrun import Campaign, Options, expect

PROCESSOR_SECONDS = 20
SETTINGS = "hf/tokenizer_config.json"
# What tokenizes, by the folder of a tokenizer: of a model, whose vocabulary it has to fit, or of a new one. And what fills a template.
CALLS = {"hf": ("eval hf --data held.txt", "sample hf --prompt aaaaaaaaaaaaaaaa --tokens 4"),
         "words": ("train run.toml --run.out=runs/new", "data run.toml --show 3", "tokenize run.toml --out tokens", "doctor run.toml")}
OTHER_JSON = {"hf/config.json": "eval hf --data held.txt", "hf/tokenizer_config.json": "sample hf --prompt x --tokens 2", "runs/first/run.json": "runs runs"}
CHAT = "sample hf --chat --prompt aaaaaaaaaaaaaaaa --tokens 4"
REGEXES = ("(a+)+$", "(a|aa)+b", "(a*)*x", "((a{{1,{n}}}){{1,{n}}}){{1,{n}}}", "(.*.*.*.*.*=)+", "(?:a?){{{n}}}a{{{n}}}", "(?=(a+))\\1*b", "(\\p{{L}}+\\p{{L}}*)*\\d",
           "(?i:(a|A)*)*c", "\\p{{L}}{{{n},}}", "{deep}a{close}", "(?<!a{{{n}}})a*?b", "[^\\s]*?(x|)*y", "(a|b|ab)*(?!.)c", "|" * 1000)
AT_EACH_LETTER = ("a*b|.", "[^@]*@|.", "(?=[^@]*@)|.", "(a+){{1,{n}}}b|.", "[^@]{{0,{n}}}@|.")  # each match ends soon, and there are as many
Bomb = Callable[[dict, random.Random], dict | bytes]  # of a tokenizer.json another


def large(draw: random.Random, most: int) -> int:
    """Up to `most`, all orders of magnitude alike."""
    return int(most ** draw.uniform(0.4, 1))


def nested(kind: str, key: str, within: object, depth: int) -> bytes:
    """A part in a part, deeper than this interpreter writes."""
    begin = f'{{"type": {json.dumps(kind)}, {json.dumps(key)}: ['
    return (begin * depth + json.dumps(within) + "]}" * depth).encode()


def replacement(pattern: str, content: str, is_regex: bool = False) -> dict:
    return {"type": "Replace", "pattern": {"Regex" if is_regex else "String": pattern}, "content": content}


def growing(t: dict, draw: random.Random) -> dict:
    count, times, letter = large(draw, 256), draw.choice((2, 10, 1000)), draw.choice("ae ")
    parts = [replacement(letter, letter * times) for _ in range(count)]
    if draw.random() < 0.5:
        parts[::2] = [draw.choice(({"type": "Prepend", "prepend": "a" * times}, replacement(".", "aa", True), replacement("", "a"), {"type": "NFKD"})) for _ in parts[::2]]
    return t | {"normalizer": {"type": "Sequence", "normalizers": parts}}


def growing_decoders(t: dict, draw: random.Random) -> dict:
    parts = [replacement("a", "aa") for _ in range(large(draw, 256))]
    return t | {"decoder": {"type": "Sequence", "decoders": [*parts, {"type": "Strip", "content": "a", "start": large(draw, 2 ** draw.choice((20, 62))), "stop": 0}, {"type": "Fuse"}]}}


def growing_words(t: dict, draw: random.Random) -> dict:
    """Parts that cut or prefix one after the other."""
    of = ({"type": "Metaspace", "replacement": "▁" * large(draw, 1000), "prepend_scheme": "always", "split": True}, {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True},
          {"type": "Digits", "individual_digits": True}, {"type": "WhitespaceSplit"},
          {"type": "Split", "pattern": {"String": "a"}, "behavior": draw.choice(("Isolated", "MergedWithPrevious", "Contiguous")), "invert": draw.random() < 0.5})
    return t | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [draw.choice(of) for _ in range(large(draw, 260))]}}


def deep(t: dict, draw: random.Random) -> bytes:
    part, key = draw.choice((("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("decoder", "decoders"), ("post_processor", "processors")))
    hole = json.dumps(t | {part: "@"}).encode()
    return hole.replace(b'"@"', nested("Sequence", key, {"type": "ByteLevel"}, large(draw, draw.choice((40, 1_000_000)))))


def deep_json(t: dict, draw: random.Random) -> bytes:
    begin, end = draw.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    depth = large(draw, 3_000_000)
    return (begin * depth + draw.choice(("1", "")) + end * draw.choice((depth, 0))).encode()


def regex(t: dict, draw: random.Random, patterns: tuple[str, ...] = REGEXES) -> dict:
    n = large(draw, 1000)
    pattern = draw.choice(patterns).format(n=n, deep="(" * n * 30, close=")*" * n * 30)
    if draw.random() < 0.3:
        return t | {"normalizer": replacement(pattern, "a", True)}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": draw.choice(("Isolated", "Removed", "MergedWithNext")), "invert": draw.random() < 0.5}
    return t | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split] * draw.choice((1, 1, 64))}}


def merges(t: dict, draw: random.Random) -> dict:
    """Tokens of tokens of ... the same letter, or many of few letters."""
    vocab, pairs = dict(t["model"]["vocab"]), []
    if draw.random() < 0.5:
        whole = "a"
        for _ in range(min(20, large(draw, 40))):
            pairs.append(f"{whole} {whole}")
            whole += whole
            vocab.setdefault(whole, len(vocab) + 1)
    else:
        pieces = ["a", "e", "n"]
        for _ in range(large(draw, 200_000)):
            left, right = draw.choice(pieces[-50:]), draw.choice(pieces[:50])
            if left + right not in vocab and len(left + right) < 200:
                vocab[left + right] = len(vocab) + 1
                pieces.append(left + right)
            pairs.append(f"{left} {right}")
    more = {} if draw.random() < 0.6 else {"merges": pairs * 3 + ["a b c", " ", "", "zz qq"]}
    return t | {"pre_tokenizer": None, "model": t["model"] | {"vocab": vocab, "merges": pairs, "ignore_merges": draw.random() < 0.3} | more}


def added_tokens(t: dict, draw: random.Random) -> dict:
    count = large(draw, 200_000)
    first = len(t["model"]["vocab"]) + 1
    text = draw.choice((lambda i: f"a{i}", lambda i: "a" * (i % 3000 + 1), lambda i: f"{i % 7}" * (i % 90) + f"{i}b", lambda i: "line", lambda i: ""))
    flags = {name: draw.random() < 0.4 for name in ("special", "lstrip", "rstrip", "single_word", "normalized")}
    return t | {"added_tokens": t["added_tokens"] + [{"id": first + i, "content": text(i)} | flags for i in range(count)]}


def many_parts(t: dict, draw: random.Random) -> dict:
    """Of no use, in lists and objects."""
    count, part = large(draw, 2_000_000), draw.choice(({}, [], 0, {"a": {}}))
    return t | {"unread": draw.choice((lambda: [part] * count, lambda: {str(i): part for i in range(count)}))()}


def numbers(t: dict, draw: random.Random) -> bytes:
    number = draw.choice(("1e308", "1e999999", "-1", "9223372036854775808", "18446744073709551616", "9" * large(draw, 1_000_000), "1e-400", "NaN", "2147483647", "4294967296", "0.5"))
    hole = draw.choice((t | {"added_tokens": [{"id": "@", "content": "line", "special": True}]}, t | {"model": t["model"] | {"vocab": t["model"]["vocab"] | {"line": "@"}}},
                        t | {"padding": {"strategy": {"Fixed": "@"}, "direction": "Right", "pad_to_multiple_of": "@", "pad_id": "@", "pad_type_id": 0, "pad_token": "a"}},
                        t | {"truncation": {"max_length": "@", "strategy": "LongestFirst", "stride": "@", "direction": "Right"}},
                        t | {"model": {"type": "Unigram", "unk_id": "@", "vocab": [["a", "@"], ["b", "@"]]}},
                        t | {"model": {"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": "@", "continuing_subword_prefix": "##", "vocab": {"a": 0, "##a": 1}}}))
    return json.dumps(hole).encode().replace(b'"@"', number.encode())


def around(t: dict, draw: random.Random) -> dict:
    """What is put around each text."""
    pieces = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * large(draw, draw.choice((60, 200_000)))
    template = {"type": "TemplateProcessing", "single": [*pieces, {"Sequence": {"id": "A", "type_id": 0}}] * draw.choice((1, 2)), "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1] * large(draw, 60), "tokens": ["a"]}}}
    return t | {"post_processor": {"type": "Sequence", "processors": [template] * draw.choice((1, 2, 16))}}


TOKENIZERS: dict[str, Bomb] = {"replacements that grow": growing, "decoders that grow": growing_decoders, "cuts behind cuts": growing_words, "sequences in sequences": deep,
              "deep JSON": deep_json, "patterns": regex, "patterns at each letter": lambda t, draw: regex(t, draw, AT_EACH_LETTER), "merges": merges, "added tokens": added_tokens, "numbers": numbers,
              "many parts": many_parts, "what is put around": around}
TEMPLATES = (
    "{{% for i in range({n}) %}}{{% for j in range({n}) %}}{{% for k in range({n}) %}}x{{% endfor %}}{{% endfor %}}{{% endfor %}}",
    "{{% for i in range({n}) %}}{{% endfor %}}", "{{{{ range({n}) | list | length }}}}", "{{{{ 'a' * {n} }}}}", "{{{{ ([0] * {n}) | length }}}}",
    "{{% macro f(n) %}}{{{{ f(n + 1) }}}}{{% endmacro %}}{{{{ f(0) }}}}", "{{% macro f(n) %}}{{{{ f(n) }}}}{{{{ f(n) }}}}{{% endmacro %}}{{{{ f(0) }}}}",
    "{{% macro f(n) %}}{{% if n > 0 %}}{{{{ f(n - 1) }}}}{{{{ f(n - 1) }}}}{{% endif %}}{{% endmacro %}}{{{{ f({n}) }}}}",
    "{{% set ns = namespace(x='a') %}}{{% for i in range({n}) %}}{{% set ns.x = ns.x + ns.x %}}{{% endfor %}}{{{{ ns.x | length }}}}",
    "{{% set ns = namespace(x=[1]) %}}{{% for i in range({n}) %}}{{% set ns.x = [ns.x, ns.x] %}}{{% endfor %}}{{{{ ns.x }}}}",
    "{{% set ns = namespace(x=[1]) %}}{{% for i in range({n}) %}}{{% set ns.x = ns.x + ns.x %}}{{% endfor %}}{{{{ ns.x | tojson }}}}",
    "{{% for x in messages recursive %}}{{{{ loop(messages) }}}}{{% endfor %}}", "{{{{ {open}1{close} }}}}", "{ifs}x{endifs}", "{{{{ {nots}true }}}}",
    "{{{{ 1{plus} }}}}", "{{{{ messages{subscripts} }}}}", "{{{{ 'a'{filters} }}}}", "{{{{ [{lists}] }}}}", "{{{{ 10 ** 10 ** {n} }}}}", "{{{{ {digits} }}}}",
    "{{{{ '%{n}d' % 1 }}}}", "{{{{ '%{n}d' | format(1) }}}}", "{{{{ messages[0].content.replace('a', 'a' * {n}).replace('a', 'a' * {n}) | length }}}}",
    "{{{{ ('a' * {n}) | indent({n}) | length }}}}", "{{{{ 'x'.join(range({n})) }}}}", "{{{{ ('ab' * {n}).split('a') | length }}}}", "{{{{ messages | tojson(indent={n}) }}}}",
    "{{{{ 'a'.center({n}) }}}}", "{{{{ 'a'[::{n}] }}}}{{{{ range({n})[::-1] | list | sum }}}}", "{open_blocks}", "{{#" * 9 + "{comment}",
)


def template(draw: random.Random) -> str:
    n = large(draw, draw.choice((30, 1000, 10 ** 5, 10 ** 12)))
    d = large(draw, draw.choice((250, 200_000)))
    return draw.choice(TEMPLATES).format(n=n, open="(" * d, close=")" * d, ifs="{% if true %}" * d, endifs="{% endif %}" * d, nots="not " * d, plus=" + 1" * d,
                                         subscripts="[0]" * d, filters=" | upper" * d, lists="[" * d + "]" * d, digits="9" * d, open_blocks="{% if a %}{% for b in c %}" * d,
                                         comment="{% raw %}" * d)


def bombs(options: Options, world: World) -> Campaign:
    campaign = Campaign("tokenizer bombs")

    def trial(draw: random.Random, number: int) -> None:
        folder = world.fresh(f"bomb{number}", "text")
        # Some words that are long, without an end to cut at.
        for name in ("text.txt", "held.txt"):
            with open(folder / name, "a") as text:
                text.write(draw.choice(("a", "ab", "a ", "é", "1")) * large(draw, 2_000_000))
        if number % 4 == 0:
            call = CHAT
            settings = json.loads((folder / SETTINGS).read_text()) | {"chat_template": template(draw)}
            write(folder / SETTINGS, settings)
            name = f"template {settings['chat_template'][:200]!r}"
        elif number % 8 == 2:
            name, call = draw.choice(sorted(OTHER_JSON.items()))
            write(folder / name, many_parts(json.loads((folder / name).read_text()), draw))
            name = f"many parts in {name}"
        else:
            name, at = list(TOKENIZERS)[number % len(TOKENIZERS)], draw.choice(("hf", "words", "words"))
            call, file = draw.choice(CALLS[at]), folder / at / "tokenizer.json"
            write(file, TOKENIZERS[name](json.loads(file.read_text()), draw))
        try:
            campaign.note("refused" if expect_bounded(world, folder, call) else "done")
        except tinyrun.Broken as broken:
            raise tinyrun.Broken(f"{name}, accrue {call}: {broken}") from None
        tinyrun.shutil.rmtree(folder)

    campaign.trials(options.count, options.seed, options.jobs, trial)
    spent = hostile.call([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], world.folder)
    campaign.control(spent.processor_seconds >= 0.5, f"what takes processor time is not seen: {spent.processor_seconds} s")
    return campaign


def expect_bounded(world: World, folder: pathlib.Path, call: str) -> bool:
    """Returns whether it was refused."""
    ended = world.call(folder, call.split(" "))
    what = f"{ended.processor_seconds:.1f} s of a processor, {ended.bytes / GIB:.2f} GiB, {ended.told()}"
    expect(not ended.hung and ended.processor_seconds < PROCESSOR_SECONDS and ended.bytes < GIB, what)
    expect(ended.status == 0 or ended.status in (1, 2) and b"error: " in ended.errors, what)
    expect(len(ended.errors) < 1 << 16, f"a message of {len(ended.errors)} bytes")
    return ended.status != 0
