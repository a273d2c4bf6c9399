#!/usr/bin/env python3
"""Writes the tables of Unicode that patterns of tokenizers are matched by:   scripts/unicode_tables.py [--check]

    .venv-unicode/bin/python scripts/unicode_tables.py

They are of the version that Oniguruma has in Hugging Face's tokenizers, whatever the libraries of a machine have. Their source is the package
`regex`, whose C tables are made from Unicode's files; `unicodedata2`, which is made from them by others, must have the same categories.
`scripts/setup.sh test` installs both into .venv-unicode. With --check nothing is written: exit status 1 and a message if the file differs
from what would be written, 77 if the packages are not there.
"""
import importlib.metadata
import pathlib
import sys

UNICODE = "16.0.0"
PACKAGES = {"regex": "2025.7.34", "unicodedata2": "16.0.0"}
WRITTEN = pathlib.Path(__file__).resolve().parents[1] / "src/data/tokenizer/unicode/unicode_data.cpp"

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
GROUPS = {"L": "Lu Ll Lt Lm Lo", "LC": "Lu Ll Lt", "M": "Mn Mc Me", "N": "Nd Nl No", "P": "Pc Pd Ps Pe Pi Pf Po", "S": "Sm Sc Sk So",
          "Z": "Zs Zl Zp", "C": "Cc Cf Cs Co Cn"}
LONG_NAMES = {"letter": "L", "casedletter": "LC", "mark": "M", "combiningmark": "M", "number": "N", "punctuation": "P", "symbol": "S",
              "separator": "Z", "other": "C"}
# Those of one code point each that Oniguruma knows.
BINARY = """Alphabetic ASCII_Hex_Digit Bidi_Control Case_Ignorable Cased Changes_When_Casefolded Changes_When_Casemapped
    Changes_When_Lowercased Changes_When_Titlecased Changes_When_Uppercased Dash Default_Ignorable_Code_Point Deprecated Diacritic Emoji
    Emoji_Component Emoji_Modifier Emoji_Modifier_Base Emoji_Presentation Extended_Pictographic Extender Grapheme_Base Grapheme_Extend
    Grapheme_Link Hex_Digit Hyphen ID_Compat_Math_Continue ID_Compat_Math_Start ID_Continue ID_Start Ideographic IDS_Binary_Operator
    IDS_Trinary_Operator IDS_Unary_Operator Join_Control Logical_Order_Exception Lowercase Math Modifier_Combining_Mark
    Noncharacter_Code_Point Other_Alphabetic Other_Default_Ignorable_Code_Point Other_Grapheme_Extend Other_ID_Continue Other_ID_Start
    Other_Lowercase Other_Math Other_Uppercase Pattern_Syntax Pattern_White_Space Prepended_Concatenation_Mark Quotation_Mark Radical
    Regional_Indicator Sentence_Terminal Soft_Dotted Terminal_Punctuation Unified_Ideograph Uppercase Variation_Selector White_Space
    XID_Continue XID_Start""".split()
# What these short names mean in patterns is said by POSIX's classes.
POSIX = {"alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "posixpunct", "print", "space", "upper", "word", "xdigit", "any", "assigned"}
# The package leaves the letters that Turkish folds otherwise alone; CaseFolding.txt has these beside the Turkish ones.
NOT_TURKISH = {"I": "i", "\u0130": "i\u0307"}
EVERY = range(0x110000)


def fail(operation: str, expected: str, received: str, suggestion: str, status: int = 1) -> None:
    print(f"error: {operation}: expected {expected}, received {received}; try {suggestion}", file=sys.stderr)
    sys.exit(status)


def expect_packages() -> None:
    for name, wanted in PACKAGES.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found != wanted:
            fail("unicode tables", f"{name} {wanted}", found, "scripts/setup.sh test, and .venv-unicode/bin/python", 77)


def loose(name: str) -> str:
    """As names of properties are compared: whatever their case and what separates words."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


class Source:
    def __init__(self):
        import regex
        import unicodedata2
        self.regex, self.core, self.data = regex, regex._regex, unicodedata2
        if unicodedata2.unidata_version != UNICODE:
            fail("unicode tables", f"Unicode {UNICODE}", unicodedata2.unidata_version, "the pinned unicodedata2")
        self.all = "".join(map(chr, EVERY))
        self.properties = self.core.get_properties()

    def ranges(self, expression: str) -> list[tuple[int, int]]:
        return [(found.start(), found.end() - 1) for found in self.regex.finditer(f"[{expression}]+", self.all)]

    def runs(self, expressions: dict[int, str]) -> list[tuple[int, int]]:
        """Where each value begins, of values that divide all code points."""
        found = sorted((first, last, value) for value, expression in expressions.items() for first, last in self.ranges(expression))
        ends = [last + 1 for _, last, _ in found]
        if [first for first, _, _ in found] != [0, *ends[:-1]] or ends[-1] != len(EVERY):
            fail("unicode tables", "one value for each code point", "gaps or overlaps", "the pinned packages")
        return [(first, value) for first, _, value in found]

    def values(self, name: str) -> list[list[str]]:
        """The names of each value of a property, in an order that does not depend on the package's numbers."""
        by_number: dict[int, list[str]] = {}
        for value, number in self.properties[name][1].items():
            by_number.setdefault(number, []).append(value.lower())
        return sorted(sorted(names, key=lambda own: (-len(own), own)) for names in by_number.values())

    def folded(self, c: int) -> str:
        full = self.regex.FULLCASE | self.regex.IGNORECASE | self.regex.UNICODE
        return NOT_TURKISH.get(chr(c)) or self.core.fold_case(int(full), chr(c))


def categories(source: Source, names: dict[str, tuple[str, int]]) -> list[tuple[int, int]]:
    runs = source.runs({number: rf"\p{{gc={name}}}" for number, name in enumerate(CATEGORIES)})
    ends = [first for first, _ in runs[1:]] + [len(EVERY)]
    for (first, value), end in zip(runs, ends):
        if any(source.data.category(chr(c)) != CATEGORIES[value] for c in range(first, end)):
            fail("unicode tables", "the categories of unicodedata2", f"others from U+{first:04X} on", "the pinned packages")
    masks = {name.lower(): 1 << number for number, name in enumerate(CATEGORIES)}
    for group, members in GROUPS.items():
        masks[group.lower()] = sum(masks[member.lower()] for member in members.split())
    for own in source.values("GENERALCATEGORY"):
        known = [masks[name] for name in own if name in masks]
        if len(known) == 1:
            masks.update({name: known[0] for name in own if "&" not in name})
    masks.update({name: masks[group.lower()] for name, group in LONG_NAMES.items()})
    for name, mask in masks.items():
        add_name(names, name, "category", mask)
    return runs


def add_name(names: dict[str, tuple[str, int]], name: str, table: str, value: int) -> None:
    if name in POSIX:
        return
    if names.setdefault(name, (table, value)) != (table, value):
        fail("unicode tables", "one meaning for each name", f"two for {name}", "another list of properties")


def valued(source: Source, names: dict[str, tuple[str, int]], table: str, before: str) -> list[tuple[int, int]]:
    """Scripts, or blocks."""
    values = source.values(table.upper())
    for number, own in enumerate(values):
        for name in own:
            add_name(names, before + name, table, number)
    return source.runs({number: rf"\p{{{table}={own[0]}}}" for number, own in enumerate(values)})


def changes(source: Source, names: dict[str, tuple[str, int]]) -> list[list[int]]:
    """Of each binary property the code points at which it begins and ends."""
    tables = []
    for number, name in enumerate(BINARY):
        mine = source.properties[loose(name).upper()][0]
        for alias, (other, _) in source.properties.items():
            if other == mine:
                add_name(names, alias.lower(), "binary", number)
        tables.append([edge for first, last in source.ranges(rf"\p{{{name}}}") for edge in (first, last + 1)])
    return tables


def folds(source: Source) -> tuple[list[int], list[int]]:
    """Characters that are the same but for case, and letters that a single character stands for, each list ending with a zero."""
    by_folded: dict[str, set[int]] = {}
    for c in EVERY:
        if not 0xD800 <= c < 0xE000 and source.folded(c) != chr(c):
            by_folded.setdefault(source.folded(c), set()).add(c)
    variants, expansions = [], []
    for folded, members in sorted(by_folded.items()):
        if len(folded) == 1:
            variants += [ord(folded), *sorted(members), 0]
        else:
            expansions += [*map(ord, folded), 0, *sorted(members), 0]
    return variants, expansions


def in_lines(items: list[str]) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def array(kind: str, name: str, items: list[str]) -> str:
    return f"constexpr {kind} {name}[] = {{\n{in_lines(items)}\n}};\n"


def runs_array(name: str, runs: list[tuple[int, int]]) -> str:
    return array("Run", name, [f"{{0x{first:x}, {value}}}" for first, value in runs])


def hexadecimal(numbers: list[int]) -> list[str]:
    return [f"0x{number:x}" for number in numbers]


def written() -> str:
    source, names = Source(), {}
    tables = [runs_array("category_runs", categories(source, names)), runs_array("script_runs", valued(source, names, "script", "")),
              runs_array("block_runs", valued(source, names, "block", "in"))]
    binaries = changes(source, names)
    tables += [array("char32_t", f"changes_of_{loose(name)}", hexadecimal(edges)) for name, edges in zip(BINARY, binaries)]
    tables.append(array("std::span<const char32_t>", "binary_changes", [f"changes_of_{loose(name)}" for name in BINARY]))
    tables.append(array("Name", "property_names", [f'{{"{name}", Table::{table}, {value}}}' for name, (table, value) in sorted(names.items())]))
    variants, expansions = folds(source)
    tables += [array("char32_t", "variants", hexadecimal(variants)), array("char32_t", "expansions", hexadecimal(expansions))]
    packages = ", ".join(f"{name} {version}" for name, version in PACKAGES.items())
    return f"""// Written by scripts/unicode_tables.py from {packages}; not to be edited.
// clang-format off
#include "data/tokenizer/unicode/unicode_data.h"

namespace accrue::data::unicode_data {{
namespace {{

{chr(10).join(tables)}
}}  // namespace

const std::string_view version = "{UNICODE}";
const std::span<const Run> categories = category_runs, scripts = script_runs, blocks = block_runs;
const std::span<const std::span<const char32_t>> binaries = binary_changes;
const std::span<const Name> names = property_names;
const std::span<const char32_t> case_variants = variants, case_expansions = expansions;

}}  // namespace accrue::data::unicode_data
"""


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        fail("unicode tables", "no argument, or --check", " ".join(sys.argv[1:]), "scripts/unicode_tables.py", 2)
    expect_packages()
    text = written()
    if not sys.argv[1:]:
        WRITTEN.write_text(text)
    elif WRITTEN.read_text() != text:
        fail("unicode tables", f"{WRITTEN.name} as this script writes it", "another", "scripts/unicode_tables.py without --check")
    return 0


if __name__ == "__main__":
    sys.exit(main())
