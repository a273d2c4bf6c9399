#!/usr/bin/env python3
"""Shows what accumulation leaves alone, with the command line itself.

    bench/e2e/equivalence.py [--out docs/notes]

1. The same batch in K = 1, 4 and 64 micro-batches, 3 seeds, with dropout: validation curves (equivalence.svg).
2. A residual network with BatchNorm on the handwritten digits, batches of 64 in small micro-batches: statistics
   of the micro-batch, of the whole batch (exact), and the norms that treat each sample by itself.

Prints both as tables in Markdown. The digits come from scikit-learn; run it with .venv-test/bin/python.
"""
import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile

import svg

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCRUE = ROOT / "build" / "release" / "accrue"
SEEDS = (1, 2, 3)


def train(folder: pathlib.Path, name: str, config: str, *overrides: str) -> list[dict]:
    """The evaluation lines of a run."""
    path = folder / "config.toml"
    path.write_text(config)
    command = [str(ACCRUE), "train", str(path), f"--run.out={folder / name}", "--observe.progress=off", *overrides]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed:\n{done.stderr}")
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "eval_loss" in line]


# --- 1. K micro-batches -------------------------------------------------------------------------------------

def text_config() -> str:
    stdlib = sysconfig.get_paths()["stdlib"]
    return f"""
        [run]
        steps = 80
        eval_every = 8
        eval_batches = 4
        keep_best = false
        [model]
        layers = 2
        heads = 4
        width = 96
        context = 64
        dropout = 0.1
        [data]
        train = ["{stdlib}/[a-s]*.py"]
        val = ["{stdlib}/[t-z]*.py"]
        [batch]
        tokens = 4096
        [optim]
        lr = 2e-3
        schedule = {{warmup = 8}}
        """


def curves(folder: pathlib.Path) -> dict:
    result = {}
    for count in (1, 4, 64):
        for seed in SEEDS:
            lines = train(folder, f"k{count}-{seed}", text_config(), f"--batch.micro={64 // count}",
                          f"--run.seed={seed}")
            result[count, seed] = [(line["step"], line["eval_loss"]) for line in lines]
    return result


def print_curves(result: dict) -> None:
    print("| step | " + " | ".join(f"K = {k}: mean of {len(SEEDS)} seeds" for k in (1, 4, 64)) +
          " | spread over seeds | largest difference over K |")
    print("|---|---|---|---|---|---|")
    for i, (step, _) in enumerate(result[1, SEEDS[0]]):
        means = [statistics.mean(result[k, s][i][1] for s in SEEDS) for k in (1, 4, 64)]
        spread = max(result[1, s][i][1] for s in SEEDS) - min(result[1, s][i][1] for s in SEEDS)
        over_k = max(abs(result[k, s][i][1] - result[1, s][i][1]) for k in (4, 64) for s in SEEDS)
        print(f"| {step} | " + " | ".join(f"{m:.4f}" for m in means) + f" | {spread:.4f} | {over_k:.1e} |")


def svg_of(result: dict) -> str:
    width, height, left, top = 640, 380, 60, 30
    colours = dict(zip((1, 4, 64), svg.COLOURS))
    widths = {1: 7, 4: 4, 64: 1.5}  # drawn over each other: all three stay visible
    points = [p for curve in result.values() for p in curve]
    last = max(step for step, _ in points)
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)

    def x(step):
        return left + (width - left - 20) * step / last

    def y(loss):
        return top + (height - top - 50) * (high - loss) / (high - low)

    parts = []
    for i in range(5):
        loss = low + (high - low) * i / 4
        parts += [svg.line(left, y(loss), width - 20, y(loss)), svg.text(left - 6, y(loss) + 4, f"{loss:.2f}", "end")]
        step = last * i // 4
        parts.append(svg.text(x(step), height - 30, str(step), "middle"))
    for (count, _), curve in result.items():
        parts.append(svg.polyline([(x(step), y(loss)) for step, loss in curve], colours[count], widths[count], 0.8))
    for i, count in enumerate(colours):
        parts += [svg.rect(width - 130, top + 18 * i, 18, widths[count], colours[count]),
                  svg.text(width - 105, top + 6 + 18 * i, f"K = {count}")]
    parts += [svg.text(width / 2, height - 8, "optimizer step", "middle"),
              svg.text(left, 18, "validation loss (nats per byte), 3 seeds each")]
    return svg.document(width, height, parts)


# --- 2. BatchNorm -------------------------------------------------------------------------------------------

def write_digits(folder: pathlib.Path) -> None:
    from sklearn.datasets import load_digits  # only this part needs it
    digits = load_digits()
    pixels = (digits.images * 255 / 16).astype("uint8")
    labels = digits.target.astype("uint8")
    for name, part in (("train", slice(0, 1437)), ("val", slice(1437, None))):
        images, classes = pixels[part], labels[part]
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, *images.shape) + images.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, len(classes)) + classes.tobytes())


def digits_config(folder: pathlib.Path) -> str:
    return f"""
        [run]
        epochs = 6
        keep_best = false
        [model]
        kind = "resnet"
        layers = 8
        width = 16
        [data]
        train = ["{folder}/train-images-idx3-ubyte"]
        val = ["{folder}/val-images-idx3-ubyte"]
        format = "images"
        [batch]
        samples = 64
        [optim]
        kind = "sgd"
        lr = 0.05
        weight_decay = 5e-4
        clip = 0
        schedule = {{warmup = "5%"}}
        """


def norms(folder: pathlib.Path) -> None:
    write_digits(folder)
    print("| model.batchnorm | micro-batch | accuracy, mean of 3 seeds (min to max) | validation loss |")
    print("|---|---|---|---|")
    rows = [("micro", 64), ("micro", 4), ("micro", 2), ("exact", 2), ("convert-group", 2), ("convert-layer", 2),
            ("convert-instance", 2)]
    for policy, micro in rows:
        last = [train(folder, f"{policy}-{micro}-{seed}", digits_config(folder), f"--model.batchnorm={policy}",
                      f"--batch.micro={micro}", f"--run.seed={seed}")[-1] for seed in SEEDS]
        accuracy = [line["eval_accuracy"] for line in last]
        loss = statistics.mean(line["eval_loss"] for line in last)
        note = " (the whole batch)" if micro == 64 else ""
        print(f"| {policy} | {micro}{note} | {statistics.mean(accuracy):.4f} ({min(accuracy):.4f} to "
              f"{max(accuracy):.4f}) | {loss:.4f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "notes", help="folder of equivalence.svg")
    parser.add_argument("--only", choices=("curves", "norms"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if arguments.only != "norms":
            result = curves(folder)
            print_curves(result)
            (arguments.out / "equivalence.svg").write_text(svg_of(result))
        if arguments.only != "curves":
            norms(folder)


if __name__ == "__main__":
    main()
