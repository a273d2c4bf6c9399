"""Checks that every code point is cut and normalized as Hugging Face's tokenizers do it, whatever the libraries of this machine know of
Unicode: unicode_golden.py PROGRAM, which is pattern_golden.cpp.

The long form takes all code points; the gate takes those whose category changed between Unicode 13 and 16 and a draw of the others.
"""

import pathlib
import random
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import golden_form  # noqa: E402
from pattern_requests import Request, answers  # noqa: E402
from token_patterns import BLANKS, CAPITALS, LETTERS, LLAMA3, QWEN2, SHORT, TEKKEN  # noqa: E402

O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{LETTERS}{SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}{SHORT}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS)
KIMI = r"[\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + BLANKS]
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
DIGITS = r"\d{1,3}(?=(?:\d{3})*\b)"


def split(pattern: str) -> pre_tokenizers.Split:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


PARTS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False), "llama3": split(LLAMA3), "qwen2": split(QWEN2),
    "tekken": split(TEKKEN), "o200k": split(O200K), "kimi": split(KIMI), "bloom": split(BLOOM), "digits by threes": split(DIGITS),
    "deepseek": pre_tokenizers.Sequence([split(pattern) for pattern in DEEPSEEK]), "words": split(r"\w+|[^\w\s]+"),
    "digits": pre_tokenizers.Digits(individual_digits=True), "white space": pre_tokenizers.WhitespaceSplit(),
    "NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD(), "strip": normalizers.Strip(),
}

# Code points whose general category differs between Unicode 13 and 16, and the numbers of Unicode 17.
CHANGED = """61d 870-88e 890-891 897-89f 8b5 8c8-8d2 c3c c5d cdd cf3 ece 170d 1715 171f 1734 180f 1ac1-1ace 1b4c 1b4e-1b4f 1b7d-1b7f
1c89-1c8a 1dfa 20c0 2427-2429 2c2f 2c5f 2e53-2e5d 2ffc-2fff 31e4-31e5 31ef 9ffd-9fff a7c0-a7c1 a7cb-a7cd a7d0-a7d1 a7d3 a7d5-a7dc a7f2-a7f4
fbc2 fd40-fd4f fdcf fdfe-fdff 10570-1057a 1057c-1058a 1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 105c0-105f3
10780-10785 10787-107b0 107b2-107ba 10d40-10d65 10d69-10d85 10d8e-10d8f 10ec2-10ec4 10efc-10eff 10f70-10f89 11070-11075 110c2 1123f-11241
11380-11389 1138b 1138e 11390-113b5 113b7-113c0 113c2 113c5 113c7-113ca 113cc-113d5 113d7-113d8 113e1-113e2 116b9 116d0-116e3 1171e
11740-11746 11ab0-11abf 11b00-11b09 11bc0-11be1 11bf0-11bf9 11f00-11f10 11f12-11f3a 11f3e-11f5a 12f90-12ff2 1342f 13439-13455 13460-143fa
16100-16139 16a70-16abe 16ac0-16ac9 16d40-16d79 18cff 1aff0-1aff3 1aff5-1affb 1affd-1affe 1b11f-1b122 1b132 1b155 1cc00-1ccf9 1cd00-1ceb3
1cf00-1cf2d 1cf30-1cf46 1cf50-1cfc3 1d1e9-1d1ea 1d2c0-1d2d3 1df00-1df1e 1df25-1df2a 1e030-1e06d 1e08f 1e290-1e2ae 1e4d0-1e4f9 1e5d0-1e5fa
1e5ff 1e7e0-1e7e6 1e7e8-1e7eb 1e7ed-1e7ee 1e7f0-1e7fe 1f6dc-1f6df 1f774-1f776 1f77b-1f77f 1f7d9 1f7f0 1f8b2-1f8bb 1f8c0-1f8c1 1f979 1f9cc
1fa75-1fa77 1fa7b-1fa7c 1fa87-1fa89 1fa8f 1faa9-1faaf 1fab7-1fabf 1fac3-1fac6 1face-1facf 1fad7-1fadc 1fadf-1fae9 1faf0-1faf8 1fbcb-1fbef
2a6de-2a6df 2b735-2b739 2ebf0-2ee5d 31350-323af 11de0-11de9 16ff4-16ff6"""
SURROGATES = range(0xD800, 0xE000)
TOGETHER = 8  # code points of one text
AT_ONCE = 4096  # texts of one request


def changed() -> list[int]:
    points = []
    for first, _, last in (part.partition("-") for part in CHANGED.split()):
        points += range(int(first, 16), int(last or first, 16) + 1)
    return points


def code_points() -> list[int]:
    new = changed()
    others = sorted(set(range(0x110000)) - set(SURROGATES) - set(new))
    return new + random.Random(5).sample(others, golden_form.share(len(others), 100))


def texts() -> list[str]:
    """Each code point beside letters, digits, spaces, marks, line ends and itself."""
    points = code_points()
    one = ["b{0}a A{0}b 1{0}2 {0}1{0} '{0}s\n{0}\n \u1100{0}\u0301\u0323{0}".format(chr(c)) for c in points]
    return ["".join(one[at:at + TOGETHER]) for at in range(0, len(one), TOGETHER)]


def compare(name: str, request: Request, ours) -> int:
    """How many texts differ, of which the first are shown."""
    if isinstance(ours, str):
        print(f"{name}: refused: {ours}")
        return len(request.texts)
    wrong = [(text, own, other) for text, own, other in zip(request.texts, ours, request.expected(), strict=True) if own != other]
    for text, own, other in wrong[:3]:
        at = next((place for place, pair in enumerate(zip(own, other)) if pair[0] != pair[1]), min(len(own), len(other)))
        print(f"{name}: {own[at:at + 2]} instead of {other[at:at + 2]} of {ascii(text)}")
    return len(wrong)


def control(program: str) -> int:
    """One block less among the letters is seen: that it is, is no difference."""
    block = [chr(c) for c in range(0x31350, 0x323B0)]
    requests = [Request(split(pattern), ["b" + character for character in block]) for pattern in (r"\p{L}+", r"[\p{L}&&[^\x{31350}-\x{323af}]]+")]
    ours = answers(program, requests)
    differences = sum(own != other for own, other in zip(ours[0], requests[1].expected(), strict=True))
    print(f"control: {differences} of {len(block)} differ")
    return int(differences != len(block) or ours[1] != requests[1].expected())


def main() -> int:
    print(f"tokenizers {tokenizers.__version__}")
    all_texts, wrong = texts(), dict.fromkeys(PARTS, 0)
    for begin in range(0, len(all_texts), AT_ONCE):
        requests = [Request(part, all_texts[begin:begin + AT_ONCE]) for part in PARTS.values()]
        for name, request, ours in zip(PARTS, requests, answers(sys.argv[1], requests), strict=True):
            wrong[name] += compare(name, request, ours)
    for name, count in wrong.items():
        print(f"{name}: {count} of {len(all_texts)} texts differ")
    return 1 if any(wrong.values()) or control(sys.argv[1]) else 0


if __name__ == "__main__":
    sys.exit(main())
