"""Where a mutant's edits go: an expression within a symbol, found by the sources themselves and not by the lines around it.

A symbol is what stands at the level of declarations: a function, a method (`Window::commit`), a class, a table. It is found by the end
of its qualified name, so that namespaces may be left out. All bodies of that name in a file count as one (overloads); `update_at(AdamPass)`
are only those that have this word before their body. Symbols of the Python package are functions, methods and classes.
"""
import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".cpp", ".h", ".py")
FOLDERS = ("src", "include", "python/accrue")
OPERATOR = re.compile(r"\boperator\s*(?P<sign>\(\s*\)|[^\w\s(]+)")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|[^\w\s]')
HIDDEN = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)")|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b(?P<name>[\w:\s]*)$")
CLASS = re.compile(r"\b(?:class|struct|union)\s+(?:HWY_\w+\s+)?(?P<name>[\w:]+)")
CLOSING = {"(": ")", "[": "]", "{": "}"}


class NotFound(Exception):
    """An edit has no place in the sources, or several."""


@dataclass
class Edit:
    find: str
    replace: str
    file: str = ""    # where the symbol was when the mutant was made; it is looked for elsewhere when it is there no more
    symbol: str = ""  # neither file nor symbol: somewhere in the file of the edit before, as for an include
    nth: int = 0      # 0: the expression occurs once; else which of them, from 1

    def is_python(self) -> bool:
        return self.file.endswith(".py")


@dataclass
class Place:
    path: Path
    begin: int
    end: int


@dataclass
class Symbol:
    name: tuple[str, ...]
    begin: int
    end: int


def hidden(text: str) -> str:
    """The text with comments, literals and preprocessor lines blanked, byte for byte in its place."""
    return HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def end_of_group(code: str, begin: int) -> int:
    """Behind the bracket that closes the one at `begin`."""
    open_ones = []
    for place in range(begin, len(code)):
        if code[place] in CLOSING:
            open_ones.append(CLOSING[code[place]])
        elif open_ones and code[place] == open_ones[-1]:
            open_ones.pop()
            if not open_ones:
                return place + 1
    return len(code)


def without_groups(head: str) -> str:
    """A declaration's head with what stands in (), [] and <> blanked, of which the brackets stay; `operator<` is no bracket."""
    out, open_ones = [], []
    pairs = {"(": ")", "[": "]", "<": ">", "{": "}"}
    place = 0
    while place < len(head):
        operator = OPERATOR.match(head, place)
        if operator and not open_ones:
            out.append(re.sub(r"[^\w]", "_", operator[0]))
            place = operator.end()
            continue
        character = head[place]
        if open_ones and character == open_ones[-1] and head[place - 1] != "-":
            open_ones.pop()
            out.append(character if not open_ones else " ")
        elif character in pairs and not (character == "<" and open_ones and open_ones[-1] != ">"):
            out.append(character if not open_ones else " ")
            open_ones.append(pairs[character])
        else:
            out.append(" " if open_ones else character)
        place += 1
    return "".join(out)


def has_initializers(flat: str) -> bool:
    """A constructor's head behind its parameters: `: a_(a), b_{b}`."""
    return re.search(r"\)[^:]*(?<!:):(?!:)", flat) is not None


def name_of_declared(head: str) -> tuple[str, ...]:
    """The name that a declaration declares, split at `::`; empty if it has none."""
    flat = without_groups(head)
    flat = re.sub(r"\b(template|requires|alignas|decltype|noexcept|explicit)(?=\s*[<(])\s*[<(]\s*[>)]", " ", flat)
    flat = re.sub(r"\[\s*\[?\s*\]?\s*\]", " ", flat)
    flat = re.sub(r"(?<=\w)\s*<\s*>", "", flat)
    ends = re.search(r"=|\(|\{|;|$", flat)
    names = re.findall(r"~?\w+(?:\s*::\s*~?\w+)*", flat[:ends.start()])
    name = re.split(r"\s*::\s*", names[-1]) if names else []
    if name and re.fullmatch(r"operator_+", name[-1]):
        name[-1] = "operator" + re.sub(r"\s", "", OPERATOR.search(head)["sign"])
    return tuple(name)


def symbols_in(code: str, begin: int, end: int, scope: tuple[str, ...] = ()) -> Iterator[Symbol]:
    """The declarations of `code`, which has been through `hidden`, with those of namespaces and classes within."""
    start = place = begin
    while place < end:
        if start == place:
            skipped = ACCESS.match(code, place, end) or re.compile(r"[\s;]+").match(code, place, end)
            if skipped:
                start = place = skipped.end()
                continue
        character = code[place]
        if character in "([":
            place = end_of_group(code, place)
        elif character == ";":
            place += 1
            yield Symbol(scope + name_of_declared(code[start:place]), start, place)
            start = place
        elif character == "{":
            head, after = code[start:place], end_of_group(code, place)
            flat = without_groups(head)
            if namespace := NAMESPACE.search(head.strip()):
                yield from symbols_in(code, place + 1, after - 1, scope + tuple(re.findall(r"\w+", namespace["name"])))
                start = place = after
            elif head.strip() == "extern":
                yield from symbols_in(code, place + 1, after - 1, scope)
                start = place = after
            elif (named := CLASS.search(flat)) and not re.search(r"[(=]", flat[named.end():]) and "(" not in flat[:named.start()]:
                name = scope + tuple(named["name"].split("::"))
                yield from symbols_in(code, place + 1, after - 1, name)
                closed = code.find(";", after, end)
                place = end if closed < 0 else closed + 1
                yield Symbol(name, start, place)
                start = place
            elif "(" in flat and "=" not in flat.split("(")[0]:
                if has_initializers(flat) and re.search(r"[\w>]\s*$", head):
                    place = after
                    continue
                yield Symbol(scope + name_of_declared(head), start, after)
                start = place = after
            else:
                place = after
        else:
            place += 1


def symbols_in_python(text: str) -> Iterator[Symbol]:
    """Functions and classes, with those within."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def within(node: ast.AST, scope: tuple[str, ...]) -> Iterator[Symbol]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield Symbol((*scope, child.name), lines[child.lineno - 1], lines[child.end_lineno])
                yield from within(child, (*scope, child.name))
            else:
                yield from within(child, scope)

    yield from within(ast.parse(text), ())


@functools.lru_cache(maxsize=256)
def all_symbols(text: str, is_python: bool = False) -> list[Symbol]:
    if is_python:
        return list(symbols_in_python(text))
    code = hidden(text)
    return list(symbols_in(code, 0, len(code)))


def pattern_of(expression: str) -> re.Pattern:
    """The expression however clang-format breaks its lines."""
    tokens = TOKEN.findall(expression)
    joined = re.escape(tokens[0])
    for before, token in zip(tokens, tokens[1:]):
        words = re.match(r"\w", token) and re.match(r"\w", before)
        joined += (r"\s+" if words else r"\s*") + re.escape(token)
    return re.compile((r"(?<!\w)" if re.match(r"\w", tokens[0]) else "") + joined + (r"(?!\w)" if re.match(r"\w", tokens[-1]) else ""))


def name_and_word(symbol: str) -> tuple[tuple[str, ...], str]:
    name, word = re.fullmatch(r"(.*?)(?:\((\w+)\))?", symbol).groups()
    return tuple(name.split("::")), word or ""


def ranges_of(text: str, symbol: str, is_python: bool = False) -> list[tuple[int, int]]:
    wanted, word = name_and_word(symbol)
    if wanted[-1] not in text:
        return []
    found = [one for one in all_symbols(text, is_python) if one.name[-len(wanted):] == wanted]
    heads = {one.begin: hidden(text[one.begin:one.end]).split("{")[0] for one in found} if word else {}
    return sorted({(one.begin, one.end) for one in found if not word or re.search(rf"\b{word}\b", heads[one.begin])})


def hits(text: str, edit: Edit) -> list[tuple[int, int]]:
    """Where the expression is in the symbol."""
    pattern = pattern_of(edit.find)
    ranges = ranges_of(text, edit.symbol, edit.is_python()) if edit.symbol else [(0, len(text))]
    return sorted({found.span() for begin, end in ranges for found in pattern.finditer(text, begin, end)})


def sources(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)


def read(path: Path, contents: dict[Path, str]) -> str:
    if path not in contents:
        contents[path] = path.read_text()
    return contents[path]


def place_of(root: Path, edit: Edit, contents: dict[Path, str], before: Path | None = None) -> Place:
    """Where the edit goes. `contents` has files as earlier edits of the same mutant left them; `before`: the file of the last one."""
    where = f"'{edit.symbol}'" if edit.symbol else "the file"
    times = f"{edit.nth} times or more" if edit.nth else "once"
    expected = f"expected {where} to have {times}: {edit.find}"
    named = root / edit.file if edit.symbol else before
    if named is None:
        raise NotFound("expected a file and a symbol in a mutant's first edit, received neither")
    if named.is_file() and (found := hits(read(named, contents), edit)):
        return chosen(named, found, edit, f"{expected}, received {len(found)} in {named.relative_to(root)}")
    if not edit.symbol:
        raise NotFound(f"{expected}, received none in {named.relative_to(root)}")
    last_name = name_and_word(edit.symbol)[0][-1]
    others = [path for path in sources(root)
              if path != named and (path.suffix == ".py") == edit.is_python() and last_name in read(path, contents)]
    pattern = pattern_of(edit.find)
    elsewhere = [(path, found) for path in others if pattern.search(contents[path]) and (found := hits(contents[path], edit))]
    if not elsewhere:
        having = [named] * named.is_file() + others
        seen = [str(path.relative_to(root)) for path in having if ranges_of(contents[path], edit.symbol, edit.is_python())]
        received = "none in " + ", ".join(seen) if seen else "no such symbol in " + " or ".join(FOLDERS)
        raise NotFound(f"{expected}, received {received}")
    if len(elsewhere) > 1:
        files = ", ".join(str(path.relative_to(root)) for path, _ in elsewhere)
        raise NotFound(f"{expected}, received it in {files}; try naming the file")
    path, found = elsewhere[0]
    return chosen(path, found, edit, f"{expected}, received {len(found)} in {path.relative_to(root)}")


def chosen(path: Path, found: list[tuple[int, int]], edit: Edit, complaint: str) -> Place:
    if edit.nth > len(found) or (edit.nth == 0 and len(found) > 1):
        raise NotFound(complaint + ("" if edit.nth else "; try a longer expression, or nth"))
    return Place(path, *found[max(edit.nth, 1) - 1])


def replaced(text: str, place: Place, replacement: str) -> str:
    """With nothing in its place, lines that the expression filled go with it."""
    begin, end = place.begin, place.end
    if not replacement:
        line = text.rfind("\n", 0, begin) + 1
        closed = re.compile(r"[ \t]*\n").match(text, end)
        if not text[line:begin].strip() and closed:
            begin, end = line, closed.end()
    return text[:begin] + replacement + text[end:]


def planted(root: Path, edits: list[Edit]) -> tuple[dict[Path, str], list[str]]:
    """The files that the edits change, as they are afterwards, and remarks on symbols that are in another file than the table says."""
    contents: dict[Path, str] = {}
    changed: dict[Path, str] = {}
    remarks: list[str] = []
    before: Path | None = None
    for edit in edits:
        place = place_of(root, edit, contents, before)
        before = place.path
        if edit.symbol and place.path != root / edit.file:
            remarks.append(f"{edit.symbol} is in {place.path.relative_to(root)}, no more in {edit.file}")
        contents[place.path] = changed[place.path] = replaced(contents[place.path], place, edit.replace)
    return changed, remarks
