"""Checks that Parquet files are read as pyarrow wrote them: parquet_golden.py PROGRAM ACCRUE FOLDER.

PROGRAM writes the rows of a file as lines of JSON, which have to be what pyarrow's own to_pylist() has; ACCRUE, which is loaded once
by what is built in FOLDER (started_once.py), trains on a table and on its lines with the same losses. Files that are cut, or lack what
is read, are refused with one error.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from request_program import RequestProgram  # noqa: E402
from started_once import StartedOnce  # noqa: E402

READ = ["text", "prompt", "completion", "input_ids", "labels", "attention_mask", "completion_mask", "assistant_masks", "loss_mask", "position_ids",
        "seq_lengths", "messages", "conversations", "tools", "chat_template_kwargs", "chosen", "rejected", "weight"]
ALPACA = ["instruction", "input", "output", "system", "history"]
GAPS = ["tools", "chat_template_kwargs", "weight", "input", "system", "history"]


def lines_of(program, file):
    lines = file.with_suffix(".lines")
    try:
        program.run(file, lines)
    except subprocess.CalledProcessError as error:
        return error.returncode, error.stderr
    return 0, [json.loads(x) for x in lines.read_text().splitlines()]


def without_gaps(value):
    """Fields of structs that have no value are not there."""
    if isinstance(value, dict):
        return {k: without_gaps(v) for k, v in value.items() if v is not None}
    return [without_gaps(v) for v in value] if isinstance(value, list) else value


def expected_lines(table):
    names = set(table.column_names)
    read = [*READ, *(ALPACA if {"instruction", "output"} <= names else ["system"] if "conversations" in names else [])]
    rows = [{k: v for k, v in row.items() if k in read and not (v is None and k in GAPS)} for row in table.to_pylist()]
    return [{k: without_gaps(v) for k, v in row.items()} for row in rows]


def words(rng):
    return "".join(rng.choice("ab \n\"\\é🙂") for _ in range(rng.randint(0, 30)))


def message(rng):
    return {"role": rng.choice(["user", "assistant"]), "content": words(rng), "name": rng.choice([None, "n"])}


def tables(rng):
    count = rng.randint(1, 600)

    def column(make):
        return [make() for _ in range(count)]

    yield pa.table({"id": column(lambda: rng.randint(0, 9)), "text": column(lambda: words(rng))})
    yield pa.table({"text": pa.array(column(lambda: words(rng)), pa.large_string()),
                    "weight": pa.array(column(lambda: rng.choice([None, 0.5, 2.0])), pa.float32())})
    yield pa.table({"prompt": column(lambda: words(rng)), "completion": column(lambda: words(rng)), "url": column(lambda: None)})
    yield pa.table({"messages": column(lambda: [message(rng) for _ in range(rng.randint(0, 4))]),
                    "tools": column(lambda: rng.choice([None, [{"name": "f", "strict": True}]]))})
    yield pa.table({"chosen": column(lambda: [message(rng)]), "rejected": column(lambda: [message(rng)])})
    ids = column(lambda: [rng.randint(0, 255) for _ in range(rng.randint(2, 9))])
    yield pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32())), "labels": pa.array(ids, pa.list_(pa.int64()))})
    bits = [[rng.random() < 0.5 for _ in row] for row in ids]
    yield pa.table({"input_ids": ids, "loss_mask": bits, "assistant_masks": [[float(b) for b in row] for row in bits],
                    "completion_mask": pa.array([[int(b) for b in row] for row in bits], pa.list_(pa.int8())), "seq_lengths": [[len(row)] for row in ids],
                    "attention_mask": [[1] * len(row) for row in ids], "position_ids": [list(range(len(row))) for row in ids], "url": column(lambda: "x")})
    yield pa.table({"instruction": column(lambda: words(rng)), "input": column(lambda: rng.choice([None, words(rng)])), "output": column(lambda: words(rng)),
                    "history": column(lambda: rng.choice([None, [[words(rng), words(rng)]]])), "id": column(lambda: 1)})
    yield pa.table({"conversations": column(lambda: [{"from": "human", "value": words(rng)}]), "system": column(lambda: rng.choice([None, "s"])),
                    "input": column(lambda: words(rng))})
    yield pa.table({"text": pa.array(column(lambda: rng.choice(["one", "two"]))).dictionary_encode().cast(pa.string())})


def check_rows(program, folder):
    for seed in range(3):
        rng = random.Random(seed)
        for number, table in enumerate(tables(rng)):
            file = folder / f"{seed}-{number}.parquet"
            pq.write_table(table, file, row_group_size=rng.choice([23, 300, 10_000]), compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
                           use_dictionary=rng.choice([True, False]), data_page_version=rng.choice(["1.0", "2.0"]))
            status, lines = lines_of(program, file)
            assert status == 0, lines
            assert lines == expected_lines(table), file
    # The comparison sees a row that is not there, and a column that is not read.
    assert lines[1:] != expected_lines(table)
    assert expected_lines(pa.table({"id": [1]})) == [{}]


def check_refusals(program, folder):
    def refused(file, *parts):
        status, said = lines_of(program, file)
        assert status == 2, (file, said)
        for part in ("data.train", file.name, *parts):
            assert part in said, (part, said)

    def written(name, table):
        pq.write_table(table, folder / name)
        return folder / name

    whole = written("whole.parquet", pa.table({"text": [f"row {i}" for i in range(2000)]}))
    content = whole.read_bytes()
    cut = folder / "cut.parquet"
    for length in (0, 3, 4, 8, 100, len(content) // 2, len(content) - 8, len(content) - 1):
        cut.write_bytes(content[:length])
        refused(cut, "a whole Parquet file")
    # Damage is refused, or leaves rows that can be read: nothing else.
    rng = random.Random(7)
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        cut.write_bytes(damaged)
        status, said = lines_of(program, cut)
        assert status in (0, 2), said
    (folder / "text.parquet").write_text("no table " * 100)
    refused(folder / "text.parquet", "a whole Parquet file")
    refused(written("columns.parquet", pa.table({"body": ["a"], "id": [1]})), 'a column "text"', "body, id")
    refused(written("numbers.parquet", pa.table({"text": [1, 2]})), 'text in the column "text"', "int64")
    refused(written("nulls.parquet", pa.table({"text": ["a", "b", None]})), "row 3", 'none in "text"')
    refused(written("bytes.parquet", pa.table({"text": pa.array([b"a", b"\xff"], pa.binary())})), "row 2", "UTF-8")


CONFIG = """
[run]
steps = 3
threads = 1
[model]
layers = 1
heads = 2
width = 16
context = 48
[data]
val_fraction = 0.1
[batch]
samples = 8
micro = 2
"""


def losses(accrue, folder, data, run=None):
    out = folder / (run or "run-" + pathlib.Path(data).suffix[1:])
    (folder / "run.toml").write_text(CONFIG)
    done = subprocess.run([accrue, "train", "run.toml", f"--data.train={data}", f"--run.out={out}"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(x)["loss"] for x in (out / "metrics.jsonl").read_text().splitlines() if "loss" in json.loads(x)]


def check_unread_columns(accrue, folder):
    """Columns that are not read are named once, also if the lines were kept."""
    pq.write_table(pa.table({"text": [f"row {i}" for i in range(40)], "id": list(range(40)), "url": ["x"] * 40}), folder / "more.parquet")
    for run in ("named-first", "named-again"):
        losses(accrue, folder, "more.parquet", run)
        events = (folder / run / "metrics.jsonl").read_text()
        assert events.count('columns that are not read: \\"id\\" and \\"url\\"') == 1, events


def check_training(accrue, folder):
    rows = [{"prompt": f"{i}+{i}=", "completion": str(2 * i)} for i in range(200)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), folder / "sums.parquet", row_group_size=33)
    found = losses(accrue, folder, "sums.parquet")
    assert len(found) == 3 and found == losses(accrue, folder, "sums.jsonl"), found
    kept = list((folder / ".accrue-text").glob("*.sums.parquet.jsonl"))
    assert len(kept) == 1, kept
    # Lines that are damaged, or of an earlier version, are made again, and that is reported.
    whole = kept[0].read_bytes()
    seal = 32
    damaged = [whole[:-seal], whole[:-1], whole + b"\n", b"", whole[: len(whole) // 2]]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:] for at in (0, len(whole) // 2, len(whole) - seal, len(whole) - 1)]
    for number, content in enumerate(damaged):
        kept[0].write_bytes(content)
        assert losses(accrue, folder, "sums.parquet", f"damaged-{number}") == found, number
        assert kept[0].read_bytes() == whole, number
        assert "it is made again" in (folder / f"damaged-{number}" / "metrics.jsonl").read_text(), number
    losses(accrue, folder, "sums.parquet", "whole")
    assert "made again" not in (folder / "whole" / "metrics.jsonl").read_text()


def main():
    program, accrue, built = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name, StartedOnce(accrue, built) as once:
        folder = pathlib.Path(name)
        check_rows(RequestProgram(program), folder)
        check_refusals(RequestProgram(program), folder)
        check_training(once.program, folder)
        check_unread_columns(once.program, folder)
    print("Parquet files are read as pyarrow wrote them")


if __name__ == "__main__":
    main()
