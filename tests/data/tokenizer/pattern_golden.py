"""Checks that patterns are read as Hugging Face's tokenizers read them: pattern_golden.py PROGRAM, which is pattern_golden.cpp.

Patterns of Oniguruma's syntax are drawn, with what other libraries read otherwise: classes within classes, counts, options, lines, case,
words, references, matches of nothing. Each cuts drawn texts, in each of the ways of Split; some replace. What tokenizers refuses is left out.
"""

import os
import pathlib
import random
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import golden_form  # noqa: E402
from pattern_requests import Request, answers  # noqa: E402

PATTERNS, TEXTS = golden_form.share(40_000, 20), 8
BEHAVIOURS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
CHARACTERS = list("abABsSkK1239 \n\r\t'.-_") + ["é", "ſ", "\u212a", "ß", "ẞ", "ﬁ", "ǰ", "İ", "ı", "Σ", "ς", "٣", "½", "一", "\U00031350", "\u0301", "\u3000",
                                               "\u2028", "\U0001f600", "₂", "\u180e", "\u200d"]
PROPERTIES = ["L", "Lu", "Ll", "N", "Nd", "P", "S", "M", "Z", "Han", "Latin", "Letter", "Punct", "Alphabetic", "^L", "White_Space", "greek", "In_Hebrew", "Emoji"]
POSIX = ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"]
SETS = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\H"]
REPEATS = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{,2}", "{2,}", "{1,2}?", "{2}?", "{1,2}+", "{2,1}", "{1", "+*"]
MARKS = ["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G"]
ESCAPED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "a": r"\x61", "A": r"\u0041", "1": r"\061", "一": r"\x{4e00}", "é": r"\xc3\xa9", "s": r"\o{163}"}


class Drawn:
    """A pattern."""

    def __init__(self, draw: random.Random):
        self.draw, self.groups = draw, 0
        self.pattern = self.alternatives(3)

    def character(self) -> str:
        character = self.draw.choice(CHARACTERS)
        if character in ESCAPED and self.draw.random() < 0.4:
            return ESCAPED[character]
        return "\\" + character if character in ".-" else character

    def property(self) -> str:
        return rf"\{self.draw.choice('ppP')}{{{self.draw.choice(PROPERTIES)}}}"

    def inside(self, depth: int) -> str:
        """A part of a class."""
        kind = self.draw.random()
        if kind < 0.45:
            return self.character()
        if kind < 0.6:
            return self.draw.choice(["a-z", "A-Z", "0-9", "a-s", "一-鿿", r"\x{0}-\x{7f}", "k-", "-k"])
        if kind < 0.75:
            return self.draw.choice(SETS)
        if kind < 0.85:
            return self.property()
        if kind < 0.9:
            return f"[:{self.draw.choice(['', '^'])}{self.draw.choice(POSIX)}:]"
        if depth > 1:
            return "b"
        return self.draw.choice(["&&", ""]) + self.bracket(depth + 1)

    def bracket(self, depth: int = 0) -> str:
        return f"[{self.draw.choice(['', '', '^'])}{''.join(self.inside(depth) for _ in range(self.draw.randint(1, 3)))}]"

    def atom(self, depth: int) -> str:
        kind = self.draw.random()
        if kind < 0.4:
            return "".join(self.character() for _ in range(self.draw.randint(1, 3)))
        if kind < 0.5:
            return self.draw.choice([*SETS, ".", r"\R", r"\N", r"\O"])
        if kind < 0.58:
            return self.property()
        if kind < 0.72:
            return self.bracket()
        if kind < 0.78 and self.groups:
            return rf"\{self.draw.randint(1, min(self.groups, 9))}" if self.draw.random() < 0.3 else rf"(?#{self.draw.choice('ab')})a"
        if depth == 0:
            return "a"
        return self.group(depth - 1)

    def group(self, depth: int) -> str:
        kind = self.draw.choice(["(", "(?:", "(?:", "(?i:", "(?i:", "(?>", "(?m:", "(?x:", "(?i)", "(?-i:"])
        if kind == "(":
            self.groups += 1
        if kind == "(?i)":
            return f"(?:a(?i){self.alternatives(depth)})"
        return kind + self.alternatives(depth) + ")"

    def part(self, depth: int) -> str:
        kind = self.draw.random()
        if kind < 0.06:
            return self.draw.choice(MARKS)
        if kind < 0.11 and depth > 0:
            return self.draw.choice(["(?=", "(?!"]) + self.alternatives(depth - 1) + ")"
        if kind < 0.15:
            behind = self.draw.choice(["a", r"\p{L}", "[ab]", "s|k", r"\n", "(?i:s)", r"a\w", r"^", r"\b"])
            return self.draw.choice(["(?<=", "(?<!"]) + behind + ")"
        atom, repeat = self.atom(depth), self.draw.choice(REPEATS)
        # Counts of a part that may match nothing before something are refused by name. They are drawn rarely.
        if atom.startswith("(") and repeat.startswith("{") and self.draw.random() < 0.8:
            repeat = ""
        return atom + repeat

    def alternatives(self, depth: int) -> str:
        return "|".join("".join(self.part(depth) for _ in range(self.draw.randint(1, 3))) for _ in range(self.draw.choice((1, 1, 2, 3))))


# Each is one that some library reads otherwise.
STATED = [r"(\d)(?=(\d{3})+(?!\d))", r"(?=(?:\d{3})+(?!\d))", r"(?<=\p{Ll})(?=\p{Lu})", " ?[^(\\s|[.,!?…。，、।۔،])]+", r"[\p{L}&&[^\p{Han}]]+", r"a(?i)b|c", r"\p{N}{1,3}+",
          r"(?i:ss)", r"(?i:ß)", r"(?i:[ß])", r"(?i:[^s])", r"(?i:ffi|ﬃ)", r"(?i)[a-z]+", r"(?i)\p{Lu}", r"[[:punct:]]+", r"\p{Punct}+", r"(?<q>['.]).*?\k<q>", r"(.)\1", "", r"x*",
          r"[]a]+", r"[^]a]+", r"[a-c-e]", r"[\w-]+", "(?:" + "|".join(chr(0x4E00 + place) for place in range(300)) + ")", r"a\Kb", r"(?m)a.", r"(?x) a b # c"]


def drawn_text(draw: random.Random) -> str:
    if draw.random() < 0.05:  # longer than what is looked at at first
        return "".join(draw.choice(CHARACTERS) * draw.choice((1, 2, 200)) for _ in range(8))
    return "".join(draw.choice(CHARACTERS) for _ in range(draw.randint(0, 14)))


def part_of(pattern: str, draw: random.Random):
    """None where tokenizers refuses the pattern."""
    try:
        if draw.random() < 0.1:
            return normalizers.Replace(Regex(pattern), draw.choice(("", "x", "一")))
        return pre_tokenizers.Split(Regex(pattern), draw.choice(BEHAVIOURS), draw.random() < 0.2)
    except Exception:
        return None


def requests_of(draw: random.Random) -> list[tuple[str, Request]]:
    patterns = STATED + [Drawn(draw).pattern for _ in range(PATTERNS)]
    parts = [(pattern, part_of(pattern, draw)) for pattern in patterns]
    return [(pattern, Request(part, [drawn_text(draw) for _ in range(TEXTS)])) for pattern, part in parts if part is not None]


def expected_of(request: Request):
    """None where Oniguruma gives up, which tokenizers tells by a panic."""
    try:
        return request.expected()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def main() -> int:
    os.environ["RUST_BACKTRACE"] = "0"  # Oniguruma's giving up is expected
    drawn = requests_of(random.Random(11))
    refused, wrong, cut = [], 0, 0
    for (pattern, request), ours in zip(drawn, answers(sys.argv[1], [request for _, request in drawn]), strict=True):
        theirs = expected_of(request)
        if theirs is None:
            continue
        if isinstance(ours, str):
            refused.append(f"{pattern!r}: {ours}")
        elif ours != theirs:
            wrong += 1
            text, own, other = next(each for each in zip(request.texts, ours, theirs, strict=True) if each[1] != each[2])
            if wrong <= 20:
                print(f"{pattern!r} of {text!r}: {own} instead of {other} ({request.part})")
        else:
            cut += sum(len(words) > 1 for words in ours)
    for line in refused[:20]:
        print(line)
    print(f"{len(drawn)} patterns of {PATTERNS + len(STATED)}: {wrong} differ, {len(refused)} are refused; {cut} texts were cut")
    return 1 if wrong or len(refused) > len(drawn) // 20 or cut < len(drawn) else 0


if __name__ == "__main__":
    sys.exit(main())
