"""Templates and variables drawn from a small grammar of Jinja, for chat_template_golden.py: most render, some raise."""
import random

TEXTS = ["", " ", "a", "Abc def", "  x y\n", "héllo ß", "日本", "😀", "1", " 42 ", "3.5", "it's", '"q"', "a,b,,c", "\t\n\x1c", "a-b (c)", "ǆ", "İ", "<&>"]
NAMES = ["text", "number", "real", "flag", "nothing", "items", "mixed", "table", "rows", "missing"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "count", "first", "last", "list", "string", "int", "float", "abs", "reverse", "sort", "unique | list", "tojson",
           "join", "join(', ')", "join('-', attribute='a')", "default('d')", "default('d', true)", "d(1)", "replace('a', 'XY')", "replace('', '.')", "replace('a', 'b', 1)", "indent", "indent(2, true)",
           "indent('> ', blank=true)", "items | list", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)", "map('upper') | list", "map(attribute='a') | list", "map(attribute='b.c', default=0) | list",
           "map('default', 'z') | join", "select | list", "select('string') | list", "select('gt', 1) | list", "reject('none') | list", "selectattr('a') | list", "selectattr('a', 'equalto', 1) | list",
           "rejectattr('a', 'defined') | list", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(sort_keys=true, indent=1)", "max", "min", "sum", "int(7)", "float(0.5)",
           "trim('a ')", "format(1)", "sort(reverse=true)", "sort(attribute='a')", "length | string", "list | length", "safe"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "even", "odd", "divisibleby 3", "divisibleby(2)", "equalto 1", "eq 'a'",
         "ne(1)", "gt 1", "lt(2)", "ge 1", "le 1", "in [1, 'a', none]", "in 'abc'", "upper", "lower", "callable", "sameas none", "sameas true"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "upper()", "lower()", "title()", "capitalize()", "split()", "split(',')", "split(None, 1)", "rsplit(' ', 1)", "split('')", "splitlines()", "startswith('a')",
           "endswith(('c', 'y'))", "replace('a', 'b')", "find('b')", "rfind('c')", "count('a')", "index('a')", "join(['x', 'y'])", "join(items)", "items()", "keys()", "values()", "get('a')", "get('zz', 5)", "get(1)",
           "isdigit()", "isalpha()", "isupper()", "islower()", "isspace()", "partition('b')", "rpartition(' ')", "removeprefix('a')", "removesuffix('c')", "append(1)", "copy()", "nope()", "isalnum()", "lstrip('A')"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]
ATTRIBUTES = ["a", "b", "c", "items", "get", "zz", "upper", "keys", "0", "1"]


def literal(draw: random.Random) -> str:
    kind = draw.randrange(9)
    if kind == 0:
        return draw.choice(("0", "1", "2", "3", "7", "-1", "10", "1_000"))
    if kind == 1:
        return draw.choice(("0.5", "1.0", "2.5e3", "1e-7", "1e16", "-0.25", "1e22", "123456789.125"))
    if kind in (2, 3, 4):
        return quoted(draw)
    if kind == 5:
        return draw.choice(("true", "false", "none", "True", "False", "None"))
    if kind == 6:
        return "[" + ", ".join(literal(draw) for _ in range(draw.randrange(4))) + "]"
    if kind == 7:
        return "(" + "".join(literal(draw) + ", " for _ in range(draw.randrange(4))) + ")"
    return "{" + ", ".join(f"{draw.choice((quoted(draw), '1', 'true'))}: {literal(draw)}" for _ in range(draw.randrange(3))) + "}"


def quoted(draw: random.Random) -> str:
    text = draw.choice(TEXTS)
    if draw.random() < 0.2:
        text += draw.choice(("\\n", "\\t", "\\x41", "\\u00e9", "\\101", "\\q", "\\\\", "\\é", "\\'", "%s", "%d", "%5.2f|", "%%"))
    quote = draw.choice("'\"")
    return quote + text.replace(quote, "\\" + quote) + quote


def expression(draw: random.Random, depth: int = 0) -> str:
    if depth > 3 or draw.random() < 0.25:
        return draw.choice(NAMES) if draw.random() < 0.6 else literal(draw)
    inner = lambda: expression(draw, depth + 1)
    kind = draw.randrange(14)
    if kind < 3:
        return f"{inner()} {draw.choice(OPERATORS[:-1])} {inner()}"
    if kind == 3:
        return f"({inner()})"
    if kind < 6:
        return f"{inner()} | {draw.choice(FILTERS)}"
    if kind == 6:
        return f"{inner()} is {draw.choice(('', 'not '))}{draw.choice(TESTS)}"
    if kind == 7:
        return f"({inner()}).{draw.choice(METHODS)}"
    if kind == 8:
        return f"({inner()}).{draw.choice(ATTRIBUTES)}"
    if kind == 9:
        return f"({inner()})[{inner()}]"
    if kind == 10:
        bounds = [draw.choice(("", "", "0", "1", "-1", "2", "-2", "5", "none")) for _ in range(3)]
        # Of a name: what jinja2 can compute ahead, as 2[1:], it takes for undefined instead of raising.
        return f"{draw.choice(NAMES)}[{bounds[0]}:{bounds[1]}{draw.choice(('', ':' + draw.choice(('', '2', '-1', '1'))))}]"
    if kind == 11:
        return f"{inner()} if {inner()} else {inner()}" if draw.random() < 0.8 else f"{inner()} if {inner()}"
    if kind == 12:
        return draw.choice(("not ", "- ", "+ ")) + inner()
    return draw.choice((f"range({draw.randrange(5)}) | list", "dict(a=1, b=text)", f"namespace(a={inner()}).a", f"{draw.randrange(-3, 4)} ** {draw.randrange(4)}", "(items | map('string') | join(text))",
                        f"{inner()} < {inner()} <= {inner()}", "'%s-%s' % (text, number)", "'%05d|%-6s|%+.3f' % (number, text, real)", "strftime_now('%d %b %Y %H:%M:%S %j %A')", "raise_exception('no')", "text.0", "table['a']",
                        "range(3)", "1 + 2 is odd", "-1 | abs", "2 ** 3 ** 1", "'a' 'b'"))


def tag(draw: random.Random, inside: str) -> str:
    return "{%" + draw.choice(("", "", "-", "+")) + f" {inside} " + draw.choice(("", "", "-", "+")) + "%}"


def printed(draw: random.Random) -> str:
    return "{{" + draw.choice((" ", " ", "- ")) + expression(draw) + draw.choice((" ", " ", " -")) + "}}"


def text(draw: random.Random) -> str:
    return draw.choice(("a", "\n", "  \n", " ", "  ", "\n\n  ", "b\n\t", "{", "}", "é\n", "{# note #}", "{#- note\n -#}\n", "{# x +#}\n", "{% raw %}{{ x }}{% endraw %}", "\r\n", "{%- raw -%} {% {% {%+ endraw %}\n", "\u3000", "%}", "}}"))


def statement(draw: random.Random, depth: int) -> str:
    body = lambda: statements(draw, depth + 1)
    kind = draw.randrange(16)
    if depth > 2 or kind < 4:
        return printed(draw)
    if kind < 7:
        return text(draw)
    if kind == 7:
        other = tag(draw, "else") + body() if draw.random() < 0.5 else ""
        more = tag(draw, f"elif {expression(draw)}") + body() if draw.random() < 0.3 else ""
        return tag(draw, f"if {expression(draw)}") + body() + more + other + tag(draw, "endif")
    if kind in (8, 9):
        return loop(draw, body)
    if kind == 10:
        return tag(draw, f"set {draw.choice(NAMES)} = {expression(draw)}")
    if kind == 11:
        name = draw.choice(("text", "x"))
        return tag(draw, f"set {name}" + draw.choice(("", " | upper", " | trim | length"))) + body() + tag(draw, "endset") + "{{ " + name + " }}"
    if kind == 12:
        return (tag(draw, f"macro m(p, q={expression(draw, 2)})") + "[{{ p }}|{{ q }}]" + body() + tag(draw, "endmacro") + "{{ m("
                + draw.choice(("", expression(draw, 2), "q=1", f"{expression(draw, 2)}, 2", "1, 2, 3", "p=1, q=text")) + ") }}")
    if kind == 13:
        return tag(draw, "set ns = namespace(n=0)") + tag(draw, "for i in items") + tag(draw, f"set ns.n = {draw.choice(('ns.n + 1', 'i', 'ns.n ~ i'))}") + tag(draw, "endfor") + "{{ ns.n }}"
    if kind == 14:
        return tag(draw, f"with w = {expression(draw, 2)}") + "{{ w }}" + body() + tag(draw, "endwith")
    return tag(draw, "filter " + draw.choice(("upper", "trim", "replace('a', 'b')", "indent(3)"))) + body() + tag(draw, "endfilter")


def loop(draw: random.Random, body) -> str:
    target, items = draw.choice((("x", "items"), ("x", "mixed"), ("text", "text"), ("k, v", "table.items()"), ("k, v", "table | dictsort"), ("x", "rows"), ("x", "range(3)"), ("a, b", "[(1, 2), (3, 4)]"),
                                 ("x", "missing"), ("x", "[]"), ("x", expression(draw, 2)), ("x", "items[::-1]"), ("(a, b), c", "[((1, 2), 3)]"), ("x", "rows | selectattr('a')"), ("k", "table")))
    shown = draw.choice(("{{ loop.index }}", "{{ loop.index0 }}{{ loop.first }}", "{{ loop.last }}", "{{ loop.length }}", "{{ loop.revindex }}", "{{ loop.previtem }}|{{ loop.nextitem }}", "{{ loop.cycle('o', 'e') }}",
                         "{{ loop.changed(loop.index // 2) }}", "{{ x }}", "{{ k }}={{ v }}", "", "{{ loop['index'] }}"))
    condition = draw.choice(("", "", " if loop_is_missing is undefined", " if x", " if x is string", f" if {expression(draw, 3)}"))
    leave = draw.choice(("", "", "", "{% if loop.index == 2 %}{% break %}{% endif %}", "{% if x is string %}{% continue %}{% endif %}", "{% set text = text ~ 1 %}{{ text }}"))
    other = tag(draw, "else") + "none" if draw.random() < 0.3 else ""
    return tag(draw, f"for {target} in {items}{condition}") + leave + shown + body() + other + tag(draw, "endfor")


def statements(draw: random.Random, depth: int = 0) -> str:
    return "".join(statement(draw, depth) for _ in range(draw.choice((1, 1, 2, 3))))


def drawn_template(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return "{{ " + expression(draw) + " }}"
    return statements(draw)


def drawn_variables(draw: random.Random) -> dict:
    return {"text": draw.choice(TEXTS), "number": draw.choice((0, 1, -3, 12, 2**40)), "real": draw.choice((0.0, 1.5, -2.25, 1e-9, 1e300, 100.0)), "flag": draw.random() < 0.5, "nothing": None,
            "items": draw.choice(([], [1, 2, 3], ["b", "A", "a"], [3, 1, 2, 1], ["x"])), "mixed": [1, "a", None, 2.5, True, ["n"], {"k": "v"}],
            "table": draw.choice(({}, {"a": 1, "b": 2}, {"b": "x", "a": {"c": [1]}, "items": 3}, {"é": None, "Z": "z", "a": "y"})),
            "rows": draw.choice(([], [{"a": 1, "b": {"c": 1}}, {"a": 2}], [{"a": 1}, {"b": {"c": "q"}}, {"a": 0}]))}
