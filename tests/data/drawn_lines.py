"""Lines of JSON as other tools write them, drawn at random, with what is learned of each: written from the documentation of TRL's
collator (masks, seq_lengths), of LLaMA-Factory's two formats and of axolotl's roles.
"""

import json
import random
from dataclasses import dataclass, field

MASKS = ["completion_mask", "assistant_masks", "loss_mask"]
IGNORED = -100


@dataclass
class DrawnLine:
    text: str
    samples: list = field(default_factory=list)  # of ids, labels, weight
    unread: list = field(default_factory=list)
    broken: str = ""  # the key with a value that no tool would write


def object_text(pairs):
    """An object of JSON whose keys may come twice."""
    return "{" + ", ".join(f"{json.dumps(key)}: {value if isinstance(value, Raw) else json.dumps(value)}" for key, value in pairs) + "}"


class Raw(str):
    """Text that stands in a line as it is."""


def lengths_of(rng, tokens):
    cuts = sorted(rng.sample(range(1, tokens), rng.randint(0, min(3, tokens - 1)))) if tokens > 1 else []
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, tokens])]


def mask_of(rng, tokens):
    bits = [rng.randint(0, 1) for _ in range(tokens)]
    return bits, rng.choice([bits, [bool(bit) for bit in bits], [float(bit) for bit in bits]])


def right_fields(rng):
    """Fields of ids, and what is learned of them."""
    ids = [rng.randrange(1000) for _ in range(rng.randint(1, 9))]
    fields, learned = {"input_ids": ids}, [True] * len(ids)
    for name in MASKS:
        if rng.random() < 0.4:
            bits, fields[name] = mask_of(rng, len(ids))
            learned = [known and bool(bit) for known, bit in zip(learned, bits)]
    labels = list(ids)
    if not any(name in fields for name in MASKS) or rng.random() < 0.6:
        labels = fields["labels"] = [i if rng.random() < 0.8 else IGNORED for i in ids]
    labels = [label if known else IGNORED for label, known in zip(labels, learned)]
    lengths = [len(ids)]
    packing = rng.randrange(4)
    if packing:
        lengths = lengths_of(rng, len(ids))
    if packing in (1, 3):
        fields["position_ids"] = [i for length in lengths for i in range(length)]
    if packing in (2, 3):
        fields["seq_lengths"] = lengths
    if rng.random() < 0.3:
        fields["attention_mask"] = [1] * len(ids)
    weight = 1
    if rng.random() < 0.3:
        weight = fields["weight"] = rng.choice([0, 0.5, 1, 2, 1e-3])
    return fields, [(part, known, weight) for part, known in zip(cut(ids, lengths), cut(labels, lengths))]


def cut(values, lengths):
    parts, begin = [], 0
    for length in lengths:
        parts.append(values[begin:begin + length])
        begin += length
    return parts


def unknown_fields(rng):
    return {name: rng.choice([None, 1, "x", [1, {"labels": 2}], {"text": [3]}, 10**30])
            for name in rng.sample(["id", "meta", "input", "history", "special_tokens_mask", "length"], rng.randrange(3))}


ALPACA = ["instruction", "input", "output", "system", "history"]


def right_line(rng):
    fields, samples = right_fields(rng)
    unknown = unknown_fields(rng)
    pairs = list({**fields, **unknown}.items())
    rng.shuffle(pairs)
    # Keys that Alpaca has, too, are named behind the others.
    unread = [key for key, _ in pairs if key in unknown and key not in ALPACA] + [name for name in ALPACA if name in unknown]
    return DrawnLine(object_text(pairs), samples, unread)


def broken_value(rng, name, value):
    """A value that says nothing that could be honoured."""
    if name == "weight":
        return rng.choice([None, "1", [1], {}, True, -1, Raw("NaN"), Raw("-Infinity"), Raw("1e999"), 2**64])
    anything = [None, "1", {}, 1, [value], value + ["1"], value + [None], value + [0.5], Raw("[NaN]")]
    if name == "seq_lengths":
        return rng.choice(anything + [value + [0], value + [1], value[:-1], [-1] + value])
    if name == "position_ids":
        return rng.choice(anything + [value + [0], value[:-1], [i + 1 for i in value], [i - 1 for i in value]])
    if name in MASKS:
        return rng.choice(anything + [value + [1], value[:-1], [2] + value[1:], [-1] + value[1:]])
    return rng.choice(anything + [value[:-1], [-1] + value[1:], [2**63] + value[1:], [True] + value[1:]])


def broken_line(rng):
    """One field of a line that is otherwise right has a value that nobody means, or is there twice."""
    fields, _ = right_fields(rng)
    name = rng.choice([key for key in fields if key != "attention_mask"])
    pairs = list(fields.items())
    if rng.random() < 0.2:
        pairs.append((name, fields[name]))
    else:
        broken = broken_value(rng, name, fields[name])
        pairs = [(key, broken if key == name else value) for key, value in pairs]
    rng.shuffle(pairs)
    return DrawnLine(object_text(pairs), broken=name)


TEXTS = ["", "Add.", "2 3", "a\nb", "é🙂", "\"", " "]


def alpaca_line(rng):
    fields = {"instruction": rng.choice(TEXTS), "output": rng.choice(TEXTS)}
    if rng.random() < 0.7:
        fields["input"] = rng.choice([*TEXTS, None])
    for name, nothing in (("system", ["", None]), ("history", [[], None])):
        if rng.random() < 0.2:
            fields[name] = rng.choice(nothing)
    given = "".join(part + "\n" for part in (fields["instruction"], fields.get("input")) if part).encode()
    answer = fields["output"].encode()
    pairs = list(fields.items())
    rng.shuffle(pairs)
    return DrawnLine(object_text(pairs), [(list(given + answer), [IGNORED] * len(given) + list(answer), 1)])


ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system", "tool": "tool", "observation": "tool"}


def sharegpt_message(rng):
    besides = rng.choice([{}, {"weight": 0}, {"name": None}, {"tool_calls": [{"x": 2**63}]}])
    if rng.random() < 0.2:
        call = {"name": "f", "arguments": {"x": rng.randrange(9)}}
        calls = [{"type": "function", "function": call}]
        return {"from": "function_call", "value": json.dumps(rng.choice([call, [call]]))}, {"role": "assistant", "tool_calls": calls}
    name, value = rng.choice(list(ROLES)), rng.choice([*TEXTS, None])
    return {"from": name, "value": value, **besides}, {"role": ROLES[name], "content": value, **besides}


def foreign_line(rng):
    """A line of ShareGPT's or Alpaca's, and the line with messages that it is."""
    besides = rng.choice([{}, {"id": 7}, {"tools": [{"x": 2**63}]}, {"weight": 0.5}])
    system = rng.choice([{}, {}, {"system": "Be brief."}, {"system": ""}, {"system": None}])
    first = [{"role": "system", "content": "Be brief."}] if system.get("system") else []
    if rng.random() < 0.5:
        stated, messages = zip(*(sharegpt_message(rng) for _ in range(rng.randint(1, 4))))
        if first and messages[0]["role"] == "system":
            first, system = [], {}
        return {"conversations": list(stated), **system, **besides}, {"messages": first + list(messages), **besides}
    fields = {"instruction": rng.choice(TEXTS), "output": rng.choice(TEXTS), **rng.choice([{}, {"input": rng.choice(TEXTS)}, {"input": None}])}
    history = [[rng.choice(TEXTS), rng.choice(TEXTS)] for _ in range(rng.randrange(3))]
    if history:
        fields["history"] = history
    said = "\n".join(part for part in (fields["instruction"], fields.get("input")) if part)
    turns = [*history, [said, fields["output"]]]
    messages = [{"role": role, "content": text} for turn in turns for role, text in zip(("user", "assistant"), turn)]
    return {**fields, **system, **besides}, {"messages": first + messages, **besides}


def drawn(seed, count, draw):
    rng = random.Random(seed)
    return [draw(rng) for _ in range(count)]
