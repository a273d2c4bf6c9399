#!/usr/bin/env python3
"""Lines of conversations against transformers' apply_chat_template(): chat_lines_golden.py PROGRAM.

Folders of tokenizers are drawn, with the chat templates of model families in each place that transformers reads them from, and lines of JSON
with what other tools write: nulls, integers of any size, tools as text, weights of messages, conversations that begin with the assistant. Of
each line the texts, and what is to be learned of them part by part, have to be equal, or both refuse it.
"""
import datetime
import json
import pathlib
import random
import sys
import tempfile

import tokenizers
import transformers
from chat_template_golden import TEMPLATES, TOKENS, asked, call, conversation, differing, golden_form, plain_conversation, report, tool
from learned_rule import WEIGHTS, is_withheld, joined, learned_sequences, pieces_of
from transformers.utils import chat_template_utils as theirs

FOLDERS = golden_form.share(200, 8)
LINES = 12  # of each folder
BROKEN = "{{ messages | no_such_filter }}"
MARKED = "chatml_generation"  # the family that marks what is learned
NULLS = ("content", "tool_calls", "name", "tool_call_id", "reasoning_content", "thinking", "weight", "train", "audio")


class FixedDate(datetime.datetime):
    """The date that accrue shows templates."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def tokenizer_file() -> str:
    """Bytes: templates make no difference between tokenizers."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return made.to_str()


def family(draw: random.Random) -> str:
    return TEMPLATES[draw.choice([name for name in TEMPLATES if name != MARKED])]


def templates_in_config(draw: random.Random):
    """A value of chat_template; of some, conversations without tools have no template."""
    named = [{"name": "default", "template": family(draw)}, {"name": "tool_use", "template": family(draw)}, {"name": "rag", "template": BROKEN}]
    if draw.random() < 0.1:
        return draw.choice((named[1:], None, []))
    return draw.choice((family(draw), family(draw), named[:2], named, named[:1], {one["name"]: one["template"] for one in named}, [*named, named[0] | {"template": family(draw)}]))


def write_folder(draw: random.Random, folder: pathlib.Path, tokenizer: str) -> None:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **{name: text for name, text in TOKENS.items() if draw.random() < 0.8}}
    if draw.random() < 0.97:
        config["chat_template"] = templates_in_config(draw)
    if draw.random() < 0.3:
        (folder / "chat_template.jinja").write_text(family(draw))
    if draw.random() < 0.25:
        more = folder / "additional_chat_templates"
        more.mkdir()
        for name in draw.choice((("tool_use", "default"), ("tool_use", "default", "rag"), ("default",), ("tool_use", "rag"), ())):
            (more / f"{name}.jinja").write_text(BROKEN if name == "rag" else family(draw))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def drawn_messages(draw: random.Random) -> list:
    messages = conversation(draw) if draw.random() < 0.15 else plain_conversation(draw)
    if draw.random() < 0.12:
        messages.insert(0, {"role": "assistant", "content": draw.choice(("Hi!", "", "a", "<think>\nso\n</think>\n\nyes", " b"))})
    if draw.random() < 0.06:
        messages.append({"role": "assistant", "content": "And more."})
    if draw.random() < 0.06:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call(draw)]})
    for message in messages:
        for name in NULLS:
            if draw.random() < 0.08:
                message.setdefault(name, None)
        if message.get("role") == "assistant" and draw.random() < 0.15:
            message[draw.choice((*WEIGHTS, "masked"))] = draw.choice((0, 1, True, False, 0.0, 1.0))
        if draw.random() < 0.1:
            message["metadata"] = {"id": draw.choice((2**64, -(2**80), 7, None)), "list": [None, 2**63]}
    return messages


def stated_tools(draw: random.Random):
    """Tools as a line states them, or `...` for a line without."""
    tools = draw.choice(([], [tool(draw, "f")], [tool(draw, "get_weather"), tool(draw, "f")]))
    if draw.random() < 0.05:
        return draw.choice((tools[0] if tools else 3, [json.dumps(tools)], "f"))
    return draw.choice((..., ..., None, tools, tools, tools, json.dumps(tools), json.dumps(tools), "null"))


def drawn_line(draw: random.Random) -> dict:
    line = {"messages": drawn_messages(draw)}
    tools = stated_tools(draw)
    if tools is not ...:
        line["tools"] = tools
    if draw.random() < 0.15:
        line["chat_template_kwargs"] = draw.choice(({"enable_thinking": False}, {"date_string": "1 Jan 2025"}, {}, None))
    items = list(line.items())
    draw.shuffle(items)
    return dict(items)


def line_renderer(tokenizer, line: dict, with_tools: bool = True):
    """Texts as transformers gives them; tools as text are read before, as TRL does it."""
    def render(messages: list, add_generation_prompt: bool):
        try:
            tools = line.get("tools") if with_tools else None
            tools = json.loads(tools) if isinstance(tools, str) else tools
            if not isinstance(tools, list | None):
                return None  # of a dict transformers takes the keys for tools, and raises unless it is empty
            more = line.get("chat_template_kwargs") or {}
            text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=add_generation_prompt, **more)
            text.encode()
            return text
        except RecursionError:
            raise
        except Exception:
            return None
    return render


def contradicts_itself(messages: list) -> bool:
    for message in messages:
        stated = {bool(message[name]) for name in WEIGHTS if message.get(name) is not None} | ({False} if message.get("masked") else set())
        if len(stated) > 1:
            return True
    return False


def expected_of(tokenizer, line: dict, with_tools: bool = True):
    return learned_sequences(line_renderer(tokenizer, line, with_tools), line["messages"], tokenizer.special_tokens_map.get("eos_token", ""))


def check_lines(program: str, scratch: pathlib.Path) -> int:
    draw = random.Random(50)
    tokenizer = tokenizer_file()
    requests, others, without_tools = [], [], []
    for i in range(FOLDERS):
        folder = scratch / str(i)
        write_folder(draw, folder, tokenizer)
        loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        for _ in range(LINES):
            line = drawn_line(draw)
            if contradicts_itself(line["messages"]):
                continue
            requests.append({"folder": str(folder), "line": json.dumps(line, ensure_ascii=draw.random() < 0.5)})
            others.append(expected_of(loaded, line))
            without_tools.append(expected_of(loaded, line, with_tools=False))
    ours = asked(program, requests)
    for own in ours:
        if "sequences" in own:
            own["sequences"] = [joined(sequence) for sequence in own["sequences"]]
    wrong = differing("lines", requests, ours, others, "sequences")
    return report("lines", others, wrong) + check_controls(ours, others, without_tools, wrong)


def check_controls(ours: list, others: list, without_tools: list, wrong: int) -> int:
    """One part altered has to be seen, and so has a reader that takes no notice of tools."""
    at = next(i for i, other in enumerate(others) if other)
    altered = [dict(own) for own in ours]
    altered[at]["sequences"] = [[[text, not is_learned] for text, is_learned in sequence] for sequence in altered[at].get("sequences", [])]
    seen = sum(own.get("sequences") != other for own, other in zip(altered, others, strict=True))
    blind = sum(own.get("sequences") != other for own, other in zip(ours, without_tools, strict=True))
    if (seen != wrong + 1 and wrong == 0) or blind < len(others) // 20:
        print(f"lines: altered parts seen {seen}, a reader without tools would differ in {blind}")
        return 1
    return 0


def marked_sequences(tokenizer, line: dict):
    """Of a template with {% generation %} blocks: its i-th block is the i-th answer's."""
    messages = line["messages"]
    try:
        shown = theirs._alias_reasoning_fields(theirs._normalize_chat_messages(messages))
        text, places = theirs._render_with_assistant_indices(theirs._compile_jinja_template(TEMPLATES[MARKED]), shown, None, None, False, **tokenizer.special_tokens_map)
    except Exception:
        return None
    answers = [message for message in messages if message.get("role") == "assistant"]
    if len(places) != len(answers) or not messages:
        return None
    marks = bytearray(len(text))
    for (begin, end), message in zip(places, answers, strict=True):
        if not is_withheld(message):
            marks[begin:end] = b"\1" * (end - begin)
    return [pieces_of(text, marks)] if any(marks) or any(map(is_withheld, answers)) else None


def check_marked(program: str, scratch: pathlib.Path) -> int:
    draw = random.Random(51)
    folder = scratch / MARKED
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer_file())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATES[MARKED], **TOKENS}))
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    lines = [line for line in ({"messages": drawn_messages(draw)} for _ in range(FOLDERS)) if not contradicts_itself(line["messages"])]
    requests = [{"folder": str(folder), "line": json.dumps(line)} for line in lines]
    others = [marked_sequences(loaded, line) for line in lines]
    ours = asked(program, requests)
    for own in ours:
        if "sequences" in own:
            own["sequences"] = [joined(sequence) for sequence in own["sequences"]]
    return report("marked lines", others, differing("marked lines", requests, ours, others, "sequences"))


def main() -> int:
    program = sys.argv[1]
    theirs.datetime = FixedDate
    theirs._compile_jinja_template.cache_clear()
    print(f"transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        wrong = check_lines(program, pathlib.Path(scratch)) + check_marked(program, pathlib.Path(scratch))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
