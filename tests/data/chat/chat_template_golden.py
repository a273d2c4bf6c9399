#!/usr/bin/env python3
"""Chat templates against Python's jinja2 in the environment of transformers: chat_template_golden.py PROGRAM.

The templates beside this file are those of model families; each renders many conversations, of which texts are to be equal byte by byte, and
refusals have to be refusals on both sides. Then templates drawn from a small grammar, and what is to be learned of conversations.
"""
import collections.abc
import dataclasses
import datetime
import itertools
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import jinja2
import transformers
from chat_template_grammar import drawn_template, drawn_variables
from learned_rule import joined, learned_sequences, pieces_of
from transformers.utils import chat_template_utils as theirs

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import golden_form  # noqa: E402

NOW = datetime.datetime(2026, 3, 7, 9, 5, 4)
TEMPLATES = {path.stem: path.read_text() for path in sorted((pathlib.Path(__file__).parent / "templates").glob("*.jinja"))}
CONVERSATIONS = golden_form.share(400, 4)  # for each template
DRAWN = golden_form.share(5_000, 4)  # templates
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
PLAIN = ["Hello", "What is 2 + 2?", "It's \"quoted\" 'twice'", "", " ", "\n", "  two  spaces ", "\n\nlines\n\n", "\ttab\t", "a\r\nb\rc", "é ü ñ", "日本語のテキスト", "😀👍🏽",
         "\u00a0x\u2003", "\x1cfs\x1f", "\u200bzero", "<|im_end|>", "[/INST]", "{{ x }}", "{% if %}", "\\n \\", "</think>", "<b>&amp;</b>", "١٢", "ß ŉ ǆ", "x" * 300, "\u2028\u2029", "null", "0"]
THOUGHTS = ["<think>\nso\n</think>\n\nyes", "<think></think>no", "a</think>b</think>c", "<think>\n\n\n</think>\n\n\nthree"]
SCHEMAS = [{"type": "object", "properties": {}}, {"type": "object", "properties": {"city": {"type": "string", "description": "Ürgüp's \"city\""}}, "required": ["city"]},
           {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2, -3]}, "deep": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "number"}}}},
                                             "any": {}}, "required": ["n"]}]
ARGUMENTS = [{}, {"city": "Köln"}, {"n": 1, "x": 1.5, "y": 1e100, "z": -0.0, "on": True, "off": None}, {"deep": {"list": [1, [2, {"a": "<&>\u2028\x7f"}]]}}, {"text": "line\n\"x\"\t\\ 😀"},
             {"n": 2**63, "id": -(2**64) - 1, "deep": [10**40, 2**64 - 1, 1e20]}]


def content(draw: random.Random) -> str:
    return "".join(draw.choice(PLAIN) for _ in range(draw.choice((1, 1, 1, 2, 3))))


def tool(draw: random.Random, name: str) -> dict:
    function = {"name": name, "description": content(draw), "parameters": draw.choice(SCHEMAS)}
    if draw.random() < 0.2:
        function["return"] = {"type": "string"}
    return {"type": "function", "function": function}


def call(draw: random.Random) -> dict:
    arguments = draw.choice(ARGUMENTS)
    made = {"type": "function", "function": {"name": draw.choice(("get_weather", "brave_search", "f")), "arguments": json.dumps(arguments) if draw.random() < 0.2 else arguments}}
    if draw.random() < 0.8:
        made["id"] = draw.choice(("abcdefghi", "123456789"))
    return made if draw.random() < 0.9 else made["function"]


def answer(draw: random.Random) -> dict:
    message = {"role": "assistant", "content": draw.choice(THOUGHTS) if draw.random() < 0.2 else content(draw)}
    if draw.random() < 0.15:
        message[draw.choice(("reasoning_content", "reasoning", "thinking"))] = content(draw)
    if draw.random() < 0.1:
        message["tool_calls"] = draw.choice(([], None))
    return message


def with_parts(draw: random.Random, message: dict) -> dict:
    message["content"] = [{"type": "text", "text": message["content"]}] + ([{"type": "image"}] if draw.random() < 0.5 else [])
    return message


def plain_conversation(draw: random.Random) -> list:
    """One that every template takes: turns of texts that alternate."""
    messages = []
    for _ in range(draw.randint(1, 4)):
        messages += [{"role": "user", "content": content(draw)}, {"role": "assistant", "content": draw.choice((content(draw), draw.choice(THOUGHTS)))}]
    return messages if draw.random() < 0.7 else messages[:-1]


def conversation(draw: random.Random) -> list:
    if draw.random() < 0.35:
        return plain_conversation(draw)
    messages = []
    if draw.random() < 0.4:
        messages.append({"role": "system", "content": content(draw)})
    for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        messages.append({"role": "user", "content": content(draw)})
        if draw.random() < 0.2:
            calls = [call(draw) for _ in range(draw.choice((1, 1, 2)))]
            messages.append({"role": "assistant", "content": draw.choice((None, "", content(draw))), "tool_calls": calls})
            for _ in calls:
                result = draw.choice((content(draw), content(draw), {"content": "42"}, ["a", 1]))
                messages.append({"role": draw.choice(("tool", "tool", "ipython")), "content": result, "name": "f", "tool_call_id": "abcdefghi"})
        messages.append(answer(draw))
    if messages and draw.random() < 0.3:
        messages.pop()
    if messages and draw.random() < 0.05:
        del draw.choice(messages)["content"]
    if messages and draw.random() < 0.05:
        draw.shuffle(messages)
    if messages and draw.random() < 0.1:
        one = draw.choice(messages)
        if isinstance(one.get("content"), str):
            with_parts(draw, one)
    return messages


def extras(draw: random.Random) -> dict:
    made = dict(TOKENS)
    for name, choices in (("enable_thinking", (True, False)), ("date_string", ("1 Jan 2025",)), ("tools_in_user_message", (True, False)),
                          ("builtin_tools", (["brave_search", "code_interpreter"], [])), ("custom_tools", ([],))):
        if draw.random() < 0.2:
            made[name] = draw.choice(choices)
    return made


def setting(draw: random.Random) -> tuple:
    tools = draw.choice((None, None, [], [tool(draw, "get_weather")], [tool(draw, "get-weather"), tool(draw, "f")]))
    return conversation(draw), tools, extras(draw)


def compiled(source: str):
    made = theirs._compile_jinja_template(source)
    made.environment.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return made


def expected(source: str, variables: dict):
    """What jinja2 renders; None where it refuses."""
    try:
        text = compiled(source).render(**variables)
        text.encode()
        return text
    except RecursionError:
        raise
    except Exception:
        return None


def shown_variables(messages, tools, more, add_generation_prompt) -> dict:
    """What transformers' apply_chat_template() gives a template."""
    messages = theirs._alias_reasoning_fields(theirs._normalize_chat_messages(messages))
    return {**more, "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": add_generation_prompt}


def asked(program: str, requests: list) -> list:
    time = NOW.timetuple()
    now = [*time[:6], (time.tm_wday + 1) % 7, time.tm_yday - 1]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "requests").write_text("".join(json.dumps({**request, "now": now}) + "\n" for request in requests))
        subprocess.run([program, str(folder / "requests"), str(folder / "answers")], check=True)
        return [json.loads(line) for line in (folder / "answers").open()]


@dataclasses.dataclass
class Check:
    """Requests, and how many of their answers are wrong. The requests of all checks go to one process: a start takes half a second."""
    requests: list
    judge: collections.abc.Callable[[list], int]


def differing(name: str, requests: list, ours: list, others: list, key: str = "text") -> int:
    count = 0
    for request, own, other in zip(requests, ours, others, strict=True):
        if own.get(key) != other:
            count += 1
            if count <= 4:
                print(f"{name}: differs:\n  ours   {own!r:.1500}\n  jinja2 {other!r:.1500}\n  of {request!r:.3000}")
    return count


def report(name: str, others: list, wrong: int, more: str = "") -> int:
    refused = sum(other is None for other in others)
    print(f"{name}: {len(others)} compared, {refused} of them refused by both{more}: {wrong} differ", flush=True)
    return wrong


def check_family(name: str) -> Check:
    draw = random.Random(name)
    requests, others = [], []
    for _ in range(CONVERSATIONS):
        messages, tools, more = setting(draw)
        for add_generation_prompt in (False, True):
            variables = shown_variables(messages, tools, more, add_generation_prompt)
            requests.append({"template": TEMPLATES[name], "variables": variables})
            others.append(expected(TEMPLATES[name], variables))

    def judge(ours: list) -> int:
        wrong = differing(name, requests, ours, others)
        return report(name, others, wrong) + check_negative_control(name, ours, others, wrong)

    return Check(requests, judge)


def check_negative_control(name: str, ours: list, others: list, wrong: int) -> int:
    """One character of one text changed has to be seen."""
    at = next(i for i, other in enumerate(others) if other)
    altered = [dict(own) for own in ours]
    altered[at]["text"] = altered[at].get("text", "")[:-1] + "#"
    seen = sum(own.get("text") != other for own, other in zip(altered, others, strict=True))
    if seen != wrong + 1 and wrong == 0:
        print(f"{name}: an altered text was not seen")
        return 1
    return 0


def beyond_this_version(own: dict, other) -> bool:
    """What is refused here and not there by contract: values that print as an address, integers of any size, ranges that are printed."""
    reasons = ("63 bits", "that can be printed", "units of work", "through 'safe'", "'sameas' of", "read what it sets")
    return "error" in own and (any(reason in own["error"] for reason in reasons) or (other is not None and " at 0x" in other))


def check_drawn() -> Check:
    draw = random.Random(11)
    drawn = [{"template": drawn_template(draw), "variables": drawn_variables(draw)} for _ in range(DRAWN)]
    expectations = [expected(request["template"], request["variables"]) for request in drawn]

    def judge(answers: list) -> int:
        compared = [triple for triple in zip(drawn, answers, expectations, strict=True) if not beyond_this_version(triple[1], triple[2])]
        requests, ours, others = (list(part) for part in zip(*compared))
        wrong = differing("drawn templates", requests, ours, others)
        return report("drawn templates", others, wrong, f", {DRAWN - len(compared)} left out")

    return Check(drawn, judge)


def renderer(source: str, tools, more: dict):
    return lambda messages, add_generation_prompt: expected(source, shown_variables(messages, tools, more, add_generation_prompt))


def check_learned(name: str) -> Check:
    draw = random.Random(name + " learned")
    requests, others = [], []
    for _ in range(CONVERSATIONS // 2):
        messages, tools, more = setting(draw)
        requests.append({"template": TEMPLATES[name], "messages": messages, "tools": tools, "variables": more})
        others.append(learned_sequences(renderer(TEMPLATES[name], tools, more), messages, more["eos_token"]))

    def judge(ours: list) -> int:
        for own in ours:
            if "sequences" in own:
                own["sequences"] = [joined(sequence) for sequence in own["sequences"]]
        several = sum(other is not None and len(other) > 1 for other in others)
        return report(f"{name}, learned", others, differing(f"{name}, learned", requests, ours, others, "sequences"), f", {several} of several sequences")

    return Check(requests, judge)


def generated(source: str, variables: dict):
    """The pieces that transformers' assistant mask is made of."""
    try:
        words = dict(variables)
        text, places = theirs._render_with_assistant_indices(compiled(source), words.pop("messages"), words.pop("tools"), words.pop("documents"), words.pop("add_generation_prompt"), **words)
    except Exception:
        return None
    marks = bytearray(len(text))
    for begin, end in places:
        marks[begin:end] = b"\1" * (end - begin)
    return pieces_of(text, marks)


def check_generated(name: str) -> Check:
    draw = random.Random(name + " generated")
    requests, others = [], []
    for _ in range(CONVERSATIONS):
        messages, tools, more = setting(draw)
        variables = shown_variables(messages, tools, more, False)
        requests.append({"template": TEMPLATES[name], "variables": variables, "pieces": True})
        others.append(generated(TEMPLATES[name], variables))

    def judge(ours: list) -> int:
        for own in ours:
            if "pieces" in own:
                own["pieces"] = joined(own["pieces"])
        return report(f"{name}, generated", others, differing(f"{name}, generated", requests, ours, others, "pieces"))

    return Check(requests, judge)


def main() -> int:
    warnings.simplefilter("ignore", SyntaxWarning)  # of Python, on what drawn templates do with numbers
    print(f"jinja2 {jinja2.__version__}, transformers {transformers.__version__}")
    checks = [check_family(name) for name in TEMPLATES]
    for name in TEMPLATES:
        has_generation = re.search(r"\{%-?\s*generation\s*-?%\}", TEMPLATES[name])
        checks.append(check_generated(name) if has_generation else check_learned(name))
    checks.append(check_drawn())
    answers = iter(asked(sys.argv[1], [request for check in checks for request in check.requests]))
    wrong = [check.judge(list(itertools.islice(answers, len(check.requests)))) for check in checks]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
