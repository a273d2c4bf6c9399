"""Checks that JSON lines mean what they mean to transformers: jsonl_golden.py PROGRAM.

A small random GPT-2 gives, from what PROGRAM makes of a file, padded and packed, the loss that
transformers' own model takes from the samples and their labels one by one.
"""

import json
import random
import subprocess
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

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


def main() -> int:
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


if __name__ == "__main__":
    sys.exit(main())
