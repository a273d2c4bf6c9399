#!/usr/bin/env python3
"""Training on files that are larger than memory: text through a tokenizer, JSON lines, conversations, standard input and, where
PYTHON has pyarrow, a Parquet file.

    large_files.py PROGRAM [--limit 320 --size 512] [--short] [--pyarrow PYTHON]

In a memory cgroup of LIMIT MiB each trains on a file of SIZE MiB, and nothing is killed. The short form needs no cgroup: a file
four times as large must not make more resident than a third of what it has more. Status 77 where no cgroup can be made, or Parquet is
left out.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import cgroup
from cgroup import MEBI, skips

CONFIG = """
[run]
steps = 2
threads = 2
[model]
layers = 1
heads = 2
width = 16
context = 1024
[data]
tokenizer = "tokenizer"
[batch]
samples = 2
micro = 1
[observe]
progress = "lines"
"""
KINDS = ("text", "jsonl", "chat", "input", "parquet")
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
TO_TABLE = """
import json, sys, pyarrow as pa, pyarrow.parquet as pq
with open(sys.argv[1]) as lines:
    writer = None
    while rows := [json.loads(line) for line in lines.readlines(16 << 20)]:
        table = pa.Table.from_pylist(rows)
        writer = writer or pq.ParquetWriter(sys.argv[2], table.schema, compression="none", use_dictionary=False)
        writer.write_table(table, row_group_size=len(rows))
    writer.close()
"""


def byte_characters() -> list[str]:
    """The characters that GPT-2 writes bytes as."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


def write_tokenizer(folder: pathlib.Path) -> None:
    folder.mkdir()
    vocab = {character: byte for byte, character in enumerate(byte_characters())}
    merges = [("t", "h"), ("th", "e"), ("o", "n"), ("i", "n")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": len(vocab), "content": "<|end|>", "special": True}], "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level, "model": {"type": "BPE", "vocab": vocab, "merges": [" ".join(m) for m in merges]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "chat_template": TEMPLATE}))


def paragraphs(size: int):
    """Texts of some hundred bytes, `size` bytes in all."""
    rng = random.Random(1)
    words = ["the", "ant", "in", "one", "nine", "Ocean,", "turns", "around.", "then", "ünter"]
    pool = [" ".join(rng.choice(words) for _ in range(rng.randint(40, 120))) for _ in range(4096)]
    written = 0
    while written < size:
        text = f"{written} {rng.choice(pool)}"
        written += len(text)
        yield text


def line_of(kind: str, text: str) -> str:
    if kind == "chat":
        return json.dumps({"messages": [{"role": "user", "content": text[:20]}, {"role": "assistant", "content": text[20:]}]}) + "\n"
    return (text if kind in ("text", "input") else json.dumps({"text": text})) + "\n"


def write_data(folder: pathlib.Path, kind: str, size: int, python: str) -> pathlib.Path:
    file = folder / ("data.txt" if kind in ("text", "input") else "data.jsonl")
    with open(file, "w") as out:
        out.writelines(line_of(kind, text) for text in paragraphs(size))
    if kind != "parquet":
        return file
    table = folder / "data.parquet"
    subprocess.run([python, "-c", TO_TABLE, file, table], check=True)
    file.unlink()
    return table


def train(program: str, kind: str, size: int, limit: int, python: str) -> tuple[int, int, float, str]:
    """Status, most resident bytes, seconds, and what the run said; `limit` 0: no cgroup."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("ACCRUE_LARGE_FILES")) as name:
        folder = pathlib.Path(name)
        write_tokenizer(folder / "tokenizer")
        data = write_data(folder, kind, size, python)
        (folder / "run.toml").write_text(CONFIG)
        command = [program, "train", "run.toml", "--run.out=out", f"--data.train={'-' if kind == 'input' else data.name}"]
        with cgroup.Group(limit) if limit else contextlib.nullcontext() as group:
            started = time.monotonic()
            with open(folder / "said", "w") as said, open(data) as given:
                process = subprocess.Popen(command, cwd=folder, stdin=given, stdout=said, stderr=said, preexec_fn=group and group.enter,
                                           env=os.environ | {"OMP_WAIT_POLICY": "passive"})
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss * 1024, time.monotonic() - started, (folder / "said").read_text()


def trains_within(program: str, kind: str, options: argparse.Namespace) -> bool:
    status, resident, seconds, said = train(program, kind, options.size * MEBI, options.limit * MEBI, options.pyarrow)
    print(f"{kind}: {options.size} MiB in a cgroup of {options.limit} MiB: status {status}, {resident / MEBI:.0f} MiB resident, {seconds:.0f} s",
          flush=True)
    if status != 0:
        print(said[-2000:], flush=True)
    return status == 0


def grows_little(program: str, kind: str, options: argparse.Namespace) -> bool:
    small, large = 32 * MEBI, 128 * MEBI
    runs = [train(program, kind, size, 0, options.pyarrow) for size in (small, large)]
    growth = runs[1][1] - runs[0][1]
    print(f"{kind}: {growth / MEBI:.1f} MiB more are resident where the file has {(large - small) // MEBI} MiB more; {runs[1][2]:.1f} s", flush=True)
    for status, _, _, said in runs:
        if status != 0:
            print(said[-2000:], flush=True)
    return all(run[0] == 0 for run in runs) and growth <= (large - small) // 3


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--limit", type=int, default=320, help="MiB")
    parser.add_argument("--size", type=int, default=512, help="MiB")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="all where none is named")
    parser.add_argument("--pyarrow", default="", help="a Python with pyarrow; none: Parquet is left out")
    options = parser.parse_args()
    if options.kinds and "parquet" in options.kinds and not options.pyarrow:
        print("error: large_files: expected a Python with pyarrow to write parquet, received none; try --pyarrow .venv-parquet/bin/python",
              file=sys.stderr)
        return 2
    options.program = str(pathlib.Path(options.program).resolve())
    if not options.short:
        try:
            with cgroup.Group(512 * MEBI):
                pass
        except OSError as error:
            skips.not_possible_here(f"no memory cgroup can be made here ({error})")
    kinds = [kind for kind in options.kinds or KINDS if kind != "parquet" or options.pyarrow]
    holds = grows_little if options.short else trains_within
    failed = [kind for kind in kinds if not holds(options.program, kind, options)]
    print(f"{len(kinds) - len(failed)} of {len(kinds)} train on files larger than memory")
    if failed:
        return 1
    if "parquet" not in kinds and not options.kinds:
        skips.missing_in_build("no Python with pyarrow is named (--pyarrow), so that Parquet was left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
