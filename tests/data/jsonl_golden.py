"""Checks that JSON lines mean what they mean to transformers and TRL: jsonl_golden.py PROGRAM.

A small random GPT-2 gives, from what PROGRAM makes of a file, padded and packed, the loss that
transformers' own model takes from the samples and their labels one by one. Lines with the keys that
other tools write beside ids are drawn, and compared id by id and label by label with what is learned
of them; in the long form TRL itself says that.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import drawn_lines

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from golden_form import share  # noqa: E402

CONTEXT = 48
TOLERANCE = 1e-5  # fp32 sums of some thousand terms


def make_samples():
    random.seed(1)
    samples = []
    for _ in range(40):
        text = "".join(random.choice("ab \n\"\\é🙂") for _ in range(random.randint(2, 11)))
        form = random.randrange(3)
        if form == 0:
            samples.append({"text": text})
        elif form == 1:
            samples.append({"prompt": text, "completion": text[::-1]})
        else:
            ids = [random.randrange(256) for _ in range(random.randint(2, CONTEXT))]
            samples.append({"input_ids": ids,
                            "labels": [i if random.random() < 0.7 else -100 for i in ids]})
    return [s for s in samples if len(ids_and_labels(s)[0]) <= CONTEXT]


def ids_and_labels(sample):
    if "input_ids" in sample:
        return sample["input_ids"], sample["labels"]
    if "text" in sample:
        ids = list(sample["text"].encode())
        return ids, ids
    prompt, completion = list(sample["prompt"].encode()), list(sample["completion"].encode())
    return prompt + completion, [-100] * len(prompt) + completion


def loss_of_transformers(model, samples):
    total = 0.0
    for sample in samples:
        ids, labels = (torch.tensor([x]) for x in ids_and_labels(sample))
        count = int((labels[:, 1:] != -100).sum())
        if count:
            total += model(input_ids=ids, labels=labels).loss.item() * count
    return total


def loss_of_rows(model, inputs, targets):
    logits = model(input_ids=torch.tensor(inputs)).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten(),
                                             ignore_index=-100, reduction="sum").item()


def answers(lines, what):
    """What PROGRAM makes of each line."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(line + "\n" for line in lines)
        file.flush()
        return [json.loads(x) for x in subprocess.check_output([sys.argv[1], file.name, what], text=True).splitlines()]


def is_learned_as(line, answer):
    """The first label of a sample counts nowhere."""
    samples = answer.get("samples", [])
    return len(samples) == len(line.samples) and answer["unread"] == line.unread and all(
        found["ids"] == ids and found["labels"][1:] == labels[1:] and abs(found["weight"] - weight) < 1e-6
        for found, (ids, labels, weight) in zip(samples, line.samples))


def check_right_lines():
    lines = drawn_lines.drawn(3, share(4000, 10), drawn_lines.right_line) + drawn_lines.drawn(4, share(1000, 10), drawn_lines.alpaca_line)
    found = answers([line.text for line in lines], "samples")
    for line, answer in zip(lines, found):
        assert is_learned_as(line, answer), (line, answer)
    # The comparison sees a token that is learned and should not be, a boundary and a key that are not there.
    with_two = next(line for line in lines if len(line.samples) > 1 and any(label != -100 for label in line.samples[1][1][1:]))
    answer = found[lines.index(with_two)]
    for change in (lambda a: a["samples"][1]["labels"].__setitem__(slice(1, None), [-100] * (len(a["samples"][1]["labels"]) - 1)),
                   lambda a: a["samples"].pop(), lambda a: a["unread"].append("x"), lambda a: a["samples"][0]["ids"].append(1)):
        changed = json.loads(json.dumps(answer))
        change(changed)
        assert not is_learned_as(with_two, changed)
    return lines


def check_broken_lines():
    lines = drawn_lines.drawn(5, share(4000, 10), drawn_lines.broken_line)
    for line, answer in zip(lines, answers([line.text for line in lines], "samples")):
        assert line.broken in answer.get("refused", ""), (line, answer)
    assert {line.broken for line in lines} >= {"input_ids", "labels", "loss_mask", "position_ids", "seq_lengths", "weight"}


def check_foreign_lines():
    pairs = drawn_lines.drawn(6, share(2000, 10), drawn_lines.foreign_line)
    found = answers([json.dumps(stated) for stated, _ in pairs], "messages")
    for (stated, expected), answer in zip(pairs, found):
        assert answer == expected, (stated, expected, answer)
    assert found[1:] != [expected for _, expected in pairs][:-1]
    return pairs


def check_trl(lines, pairs):
    """The drawn lines' own account of what is learned is TRL's."""
    from datasets import Dataset
    from trl import maybe_convert_to_chatml
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling, SFTTrainer

    trainer = types.SimpleNamespace(completion_only_loss=True)
    settings = types.SimpleNamespace(dataset_num_proc=None, max_length=None, shuffle_dataset=False)
    collator = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    compared, most = 0, 500  # a data set of its own is made of each
    for line in lines:
        fields = json.loads(line.text)
        if compared == most or "input_ids" not in fields or "loss_mask" in fields or ("labels" in fields and any(mask in fields for mask in drawn_lines.MASKS)):
            continue
        row = {key: fields[key] for key in ("input_ids", "labels", "completion_mask", "assistant_masks") if key in fields}
        row = SFTTrainer._prepare_dataset(trainer, Dataset.from_list([row]), None, settings, False, None, "drawn")[0]
        row["seq_lengths"] = [len(ids) for ids, _, _ in line.samples]
        batch = collator([row])
        labels = [label if i else -100 for _, labels, _ in line.samples for i, label in enumerate(labels)]
        assert batch["labels"][0].tolist() == labels, (line, batch)
        positions = fields.get("position_ids", [i for length in row["seq_lengths"] for i in range(length)])
        assert batch["position_ids"][0].tolist() == positions, (line, batch)
        compared += 1
    assert compared == most, compared
    for stated, expected in pairs:
        names = {message.get("from") for message in stated.get("conversations", [])}
        if names and names <= {"user", "assistant", "system", "tool"} and "system" not in stated:
            assert maybe_convert_to_chatml(json.loads(json.dumps(stated))) == expected, stated


def check_losses() -> int:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=32, n_layer=1,
                                       n_head=2)).eval()
    samples = make_samples()
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file, torch.no_grad():
        file.writelines(json.dumps(sample) + "\n" for sample in samples)
        file.flush()
        padded, packed = (
            json.loads(subprocess.check_output([sys.argv[1], file.name, str(CONTEXT), mode]))
            for mode in ("padded", "packed"))
        expected = loss_of_transformers(model, samples)
        found = {
            "padded": loss_of_rows(model, padded["inputs"], padded["targets"]),
            "packed": sum(loss_of_rows(model, [packed["inputs"][row][begin:end]],
                                       [packed["targets"][row][begin:end]])
                          for row, begin, end in packed["spans"])}
        shifted = loss_of_rows(model, padded["inputs"],
                               [row[1:] + [-100] for row in padded["targets"]])
    if len(packed["inputs"]) >= len(samples):
        print("nothing was packed")
        return 1
    for name, loss in found.items():
        print(f"{name}: {loss:.6f}, transformers: {expected:.6f}")
        if not abs(loss - expected) <= TOLERANCE * expected:
            return 1
    # The comparison must see labels that are one place off.
    return 1 if abs(shifted - expected) <= 100 * TOLERANCE * expected else 0


def main() -> int:
    lines = check_right_lines()
    check_broken_lines()
    pairs = check_foreign_lines()
    if os.environ.get("ACCRUE_GOLDEN") == "whole":
        check_trl(lines, pairs)
    return check_losses()


if __name__ == "__main__":
    sys.exit(main())
