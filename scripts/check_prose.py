#!/usr/bin/env python3
"""Whether what people read is plain technical English:   scripts/check_prose.py [ROOT]

Looks for words that readers had to read twice, in the texts of ROOT (default: this repository). Each pattern below has a reason, a
suggestion and the groups of texts that it holds for; text in code blocks and in back quotes is not looked at.

    scripts/check_prose.py                   reports file, line, the words and the suggestion
    scripts/check_prose.py --count           how often each pattern occurs in each group, whether it holds there or not
    scripts/check_prose.py --group headers   all patterns in one group, whether they hold there or not
    scripts/check_prose.py --commits RANGE   whether commit subjects have at most 72 characters: a range of git (v0.1.0..HEAD), or the
                                             commit behind which to begin; "tag": the last tag

Exit status 0: nothing was found; 1: something was found; 2: no such group or range.
"""
import argparse
import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

LONGEST_SUBJECT = 72
# The beginning of a sentence, of a comment behind code or of an item of a list.
BEHIND_CODE = "\N{PILCROW SIGN}"
START = rf"(?:\A *|(?<=[.:!?])[ \n] *|(?<=\n\n) *|\n *[-*] +|{BEHIND_CODE} *)"
CONDITION = (r"(?:there\s+(?:is|are|was|were|has|have)|nothing|none|nobody|no|not|needed|possible|wanted|asked"
             r"|(?:it|they|this|that)\s+(?:cannot|can|could|does|do|did|fails?|(?:is|are|was|were)\s+(?:not|no|none|possible|needed|asked|wanted)))\b")


@dataclass(frozen=True)
class Pattern:
    name: str
    regex: str  # of any case, unless it begins with START
    reason: str
    suggestion: str
    holds_in: tuple[str, ...]


# The groups that a pattern holds in. Notes and guides may begin a sentence with "What".
EVERYWHERE = ("readme", "documents", "changelog", "headers", "sources", "messages", "python")
OUTSIDE_DOCUMENTS = ("readme", "changelog", "headers", "sources", "messages", "python")

OLD = "nobody in this field writes it"
PLACES = '"where" is for places'
PROGRAMS = "programs do not talk"
WHO = "a reader has to know who it is"
FIRST = "a reader learns the subject last"

PATTERNS = (
    Pattern("anew", r"\banew\b", OLD, '"again", or what happens: "restarts", "is computed again"', EVERYWHERE),
    Pattern("how-manieth", r"\bhow-manieth\b", "it is no word", '"the index of", "the position of"', EVERYWHERE),
    Pattern("of one's own", r"\bof\s+one's\s+own\b", OLD, '"your own", "its own"', EVERYWHERE),
    Pattern("tells of", r"\b(?:tells?|told)\s+of\b", PROGRAMS, '"reports", "prints", "logs"', EVERYWHERE),
    Pattern("a program tells", r"\b(?:accrue|report|step|run|verify|doctor|it|which|that|interval|file)\s+tells\b", PROGRAMS, '"reports", "shows", "states"', EVERYWHERE),
    Pattern("is told", r"\b(?:is|are|was|were|be)\s+told\b(?!\s+(?:apart|from|to)\b)", PROGRAMS, '"is reported", "receives", "is passed"', EVERYWHERE),
    Pattern("says of", r"\b(?:says?|said)\s+of\b", PROGRAMS, '"reports about", "states for"', EVERYWHERE),
    Pattern("where: a condition", rf"\bwhere\s+{CONDITION}", PLACES, '"if" or "when"', EVERYWHERE),
    Pattern("where: after a result",
            r"\b(?:errors?|null|none|nullopt|undefined|nothing|empty|false|true|refused|refuses|throws|fails|failed|ignored|skipped)\s+where\b",
            PLACES, '"if" or "when"', EVERYWHERE),
    Pattern("where: begins a sentence", START + r"Where\s[^.?!]{0,200}?,", PLACES, '"If" or "When"', EVERYWHERE),
    Pattern("nobody", r"\bnobody\b", WHO, '"no rank", "no test", "no one"', EVERYWHERE),
    Pattern("whoever", r"\b(?:whoever|whosoever|whatsoever)\b", WHO, '"a caller that", "users who", "code that"', EVERYWHERE),
    Pattern("somebody", r"\bsomebody(?:'s)?\b", WHO, '"another process", "a user", "another program"', EVERYWHERE),
    Pattern("archaic",
            r"\b(?:whereof|thereof|wherein|whereby|therein|hereby|thereby|therewith|lest|whilst|amongst|hence|heretofore|hitherto|aught|naught|albeit)\b",
            OLD, '"in which", "by which", "so", "while", "among"', EVERYWHERE),
    Pattern("but for", r",\s+but\s+for\b", OLD, '"except", "without"', EVERYWHERE),
    Pattern("what is, is", r"\bwhat\s[^.,;:?!]{1,70}\s(?:is|are|was),\s+(?:is|are|was)\b", FIRST, "name the thing", EVERYWHERE),
    Pattern("goes with ... alone", r"\b(?:goes|go|works|work|runs|run)\s+with\s+[^.,;]{1,40}\s+alone\b", "it is a requirement", '"requires"', EVERYWHERE),
    Pattern("deaf", r"\bdeaf\b", "programs do not hear", '"ignores messages", "does not answer"', EVERYWHERE),
    Pattern("lives on", r"\blives?\s+on\b", "data do not live", '"stays", "continues to exist"', EVERYWHERE),
    Pattern("padding",
            r"\b(?:in\s+order\s+to|due\s+to\s+the\s+fact\s+that|it\s+is\s+(?:worth\s+noting|important\s+to\s+note)\s+that|utili[sz]es?|needless\s+to\s+say|of\s+course|obviously)\b",
            "it adds nothing", 'nothing, or "to", "because", "use"', EVERYWHERE),
    Pattern("what: begins a comment", START + r"What\s(?!to\s+do:)(?![^.!]{0,300}\?)[^.]{0,300}\.", FIRST, "name the thing, then its meaning", OUTSIDE_DOCUMENTS),
)


@dataclass(frozen=True)
class Text:
    """A text to be read, with all line ends of its file, so that its lines are those of the file."""
    path: pathlib.Path
    prose: str


@dataclass(frozen=True)
class Finding:
    path: pathlib.Path
    line: int
    words: str
    pattern: Pattern

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.words}" ({self.pattern.reason}); try {self.pattern.suggestion}'


def line_ends(match: re.Match) -> str:
    return "\n" * match[0].count("\n")


def code_as_a_word(match: re.Match) -> str:
    """A word that no pattern has."""
    return "___" + line_ends(match)


NOT_PROSE = re.compile(r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)[^\n]*$|<!--.*?-->|(?<=\])\([^)\s]*\)|https?://[^\s)]*", re.DOTALL | re.MULTILINE)
IN_BACK_QUOTES = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def markdown(text: str) -> str:
    return IN_BACK_QUOTES.sub(code_as_a_word, NOT_PROSE.sub(line_ends, text))


def newest_section(text: str) -> str:
    """Of a change log: up to its second heading of the second level."""
    headings = [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)]
    return markdown(text[:headings[1]] if len(headings) > 1 else text)


TOKENS = re.compile(r'(?=[R"\'/])(?:(?P<raw>R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)")|(?P<string>"(?:\\.|[^"\\\n])*")'
                    r"|'(?:\\.|[^'\\\n])'|(?P<comment>//[^\n]*|/\*.*?\*/))", re.DOTALL)
SIGN = re.compile(r"//[/!]?<?")


def kept(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """The pieces, each of which stands for text[begin:end], and the line ends of the rest."""
    parts, place = [], 0
    for begin, end, piece in pieces:
        parts += ["\n" * text.count("\n", place, begin), piece]
        place = end
    return "".join(parts) + "\n" * text.count("\n", place)


def comments(text: str) -> str:
    """Comments on consecutive lines are one paragraph: a line without a comment is empty here and ends it."""
    return IN_BACK_QUOTES.sub(code_as_a_word, kept(text, (
        (token.start(), token.end(), SIGN.sub(BEHIND_CODE if token[0].startswith("///<") else "", token[0], count=1)) for token in TOKENS.finditer(text) if token["comment"])))


def messages(text: str) -> str:
    """String literals of at least three words. Those on consecutive lines are one text."""
    return kept(text, ((token.start(), token.end(), token[0][1:-1]) for token in TOKENS.finditer(text) if token["string"] and token[0].count(" ") >= 2))


def docstrings(text: str) -> str:
    """Of modules, classes and functions, without their examples, and comments."""
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    spans = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            first = node.body[0].value
            spans.append((begins[first.lineno - 1], begins[first.end_lineno]))
    pieces = [(begin, end, text[begin:end].replace('"""', BEHIND_CODE, 1).replace('"""', "")) for begin, end in spans]
    pieces += [(match.start(), match.end(), match[0][2:]) for match in re.finditer(r"(?<=\s)# [^\n]*", text)
               if not any(begin <= match.start() < end for begin, end in spans)]
    return IN_BACK_QUOTES.sub(code_as_a_word, kept(text, sorted(pieces)))


def files_of(root: pathlib.Path, *globs: str) -> list[pathlib.Path]:
    return sorted({path for glob in globs for path in root.glob(glob) if path.is_file()})


@dataclass(frozen=True)
class Group:
    globs: tuple[str, ...]
    prose_of: Callable[[str], str]
    left_out: tuple[str, ...] = ()


# Written from tests/mutants/mutants.toml, and from bench/results and docs/benchmarks.in.md.
GENERATED = ("docs/notes/mutants.md", "docs/benchmarks.md")
GROUPS = {
    "readme": Group(("README.md", "CONTRIBUTING.md", "SECURITY.md"), markdown),
    "documents": Group(("docs/**/*.md",), markdown, GENERATED),
    "changelog": Group(("CHANGELOG.md",), newest_section),
    "headers": Group(("include/**/*.h",), comments),
    "sources": Group(("src/**/*.h", "src/**/*.cpp"), comments),
    "messages": Group(("src/**/*.h", "src/**/*.cpp"), messages),
    "python": Group(("python/accrue/*.py", "python/accrue/*.pyi"), docstrings),
}


def texts_of(root: pathlib.Path, group: Group) -> list[Text]:
    return [Text(path.relative_to(root), group.prose_of(path.read_text())) for path in files_of(root, *group.globs) if str(path.relative_to(root)) not in group.left_out]


def find(text: Text, pattern: Pattern) -> list[Finding]:
    findings = []
    for match in re.finditer(pattern.regex, text.prose, 0 if START in pattern.regex else re.IGNORECASE):
        begin = match.start() + len(match[0]) - len(match[0].lstrip(f" \n-*{BEHIND_CODE}"))
        words = " ".join(text.prose[begin:match.end()].split())
        findings.append(Finding(text.path, text.prose.count("\n", 0, begin) + 1, words if len(words) <= 80 else words[:77] + "...", pattern))
    return findings


def check(root: pathlib.Path, only: str = "") -> list[Finding]:
    findings = []
    for name, group in GROUPS.items():
        patterns = [pattern for pattern in PATTERNS if only or name in pattern.holds_in]
        if patterns and only in ("", name):
            findings += [finding for text in texts_of(root, group) for pattern in patterns for finding in find(text, pattern)]
    return findings


def git(root: pathlib.Path, *words: str) -> str:
    ended = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    if ended.returncode:
        print(f"error: check_prose: expected a tag, a commit or a range of commits, received {' '.join(words)}: {ended.stderr.strip()}; try --commits HEAD~20", file=sys.stderr)
        sys.exit(2)
    return ended.stdout


def long_subjects(root: pathlib.Path, commits: str) -> list[str]:
    """Of merges too, which people read as well."""
    begin = git(root, "describe", "--tags", "--abbrev=0").strip() if commits == "tag" else commits
    subjects = git(root, "log", "--format=%h %s", begin if ".." in begin else f"{begin}..HEAD").splitlines()
    lengths = [(len(line.partition(" ")[2]), line) for line in subjects]
    return [f"{line}: {length} characters; try at most {LONGEST_SUBJECT}, with the reasons in the body" for length, line in lengths if length > LONGEST_SUBJECT]


def print_counts(root: pathlib.Path) -> None:
    texts = {name: texts_of(root, group) for name, group in GROUPS.items()}
    print(f"{'':<26}" + "".join(f"{name:>11}" for name in GROUPS))
    for pattern in PATTERNS:
        counts = (sum(len(find(text, pattern)) for text in texts[name]) for name in GROUPS)
        print(f"{pattern.name:<26}" + "".join(f"{count:>11}" for count in counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--group", default="")
    parser.add_argument("--commits", metavar="RANGE")
    arguments = parser.parse_args()
    if arguments.group and arguments.group not in GROUPS:
        print(f"error: check_prose: expected a group among {', '.join(GROUPS)}, received {arguments.group}; try --count", file=sys.stderr)
        return 2
    if arguments.count:
        print_counts(arguments.root)
        return 0
    findings = long_subjects(arguments.root, arguments.commits) if arguments.commits else check(arguments.root, arguments.group)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
