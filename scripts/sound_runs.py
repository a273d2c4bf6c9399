#!/usr/bin/env python3
"""Asks `accrue verify` about runs in which nothing is wrong: a difference that it reports is a false alarm.

Each run is drawn from the seed and its number: model, shape, data, precision, the sum's format, recomputation, micro-batch, optimizer, ranks,
stages, threads, and how many other processes keep the machine busy meanwhile. A config that training refuses is drawn again.

    scripts/sound_runs.py build/release/accrue                    # 300 of them, about half an hour on two cores
    scripts/sound_runs.py build/release/accrue --first 17 --runs 1 --show    # one of them again, with verify's table

Exit status 0: no false alarm; 1: some; 2: verify failed otherwise, or the control, a model whose masks depend on the split, was not seen.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from mutant_data import write_data  # noqa: E402

EQUAL, DIFFERS, REFUSED, GIVEN_UP = 0, 3, 2, -1
SECONDS = 600  # after which a run is given up as a failure
BUSY = "import itertools\nfor _ in itertools.repeat(0): pass"


def model_of(draw: random.Random) -> dict[str, object]:
    """Keys of model, data and loss."""
    kind = draw.choice(("gpt2", "gpt2", "gpt2", "vit", "resnet"))
    heads = draw.choice((1, 2, 4))
    if kind == "resnet":
        keys = {"model.layers": 8, "model.width": draw.choice((4, 8)), "model.batchnorm": draw.choice(("exact", "convert-group"))}
    else:
        keys = {"model.layers": draw.randint(1, 4), "model.heads": heads, "model.width": heads * draw.choice((8, 16, 24)),
                "model.dropout": draw.choice((0, 0, 0.1, 0.3))}
    keys["model.kind"] = kind
    if kind == "gpt2":
        data = draw.choice(("text.txt", "text.txt", "short.txt", "chat.jsonl"))
        keys |= {"model.context": draw.choice((16, 32, 48)) if data != "chat.jsonl" else 64, "data.train": [data]}
        if data == "chat.jsonl":
            keys["data.packing"] = draw.random() < 0.5
        if draw.random() < 0.3:
            keys |= {"loss.label_smoothing": 0.1, "loss.z_loss": 1e-3}
    else:
        keys |= {"data.train": ["train-images-idx3-ubyte"], "data.format": "images"}
        if kind == "vit":
            keys["model.context"] = 9
    return keys


def optimizer_of(draw: random.Random) -> dict[str, object]:
    kind = draw.choice(("adamw", "adamw", "adam", "sgd", "rmsprop", "adama"))
    keys: dict[str, object] = {"optim.kind": kind, "optim.lr": draw.choice((1e-4, 1e-3, 1e-2))}
    if kind == "sgd":
        keys["optim.momentum"] = draw.choice((0.0, 0.9))
    keys["optim.clip"] = 0 if kind == "adama" else draw.choice((0, 0.1, 1))
    if kind == "sgd" and keys["optim.clip"] == 0 and draw.random() < 0.5:
        keys["memory.gradients"] = "optimizer"
    return keys


def drawn(seed: int) -> tuple[dict[str, object], list[str], int]:
    """The keys of a config, further arguments of verify, and the number of busy processes."""
    draw = random.Random(seed)
    samples = draw.choice((8, 16, 16, 30, 64))
    keys = {"run.out": "out", "run.steps": 4, "run.threads": draw.choice((1, 2, 2, 4)), "run.seed": draw.randrange(1000),
            "batch.samples": samples, "batch.micro": draw.randint(1, max(1, samples // 2)),
            "precision.compute": draw.choice(("fp32", "fp32", "bf16", "bf16", "fp64")),
            "memory.recompute": draw.choice(("none", "selective", "full")), **model_of(draw), **optimizer_of(draw)}
    if draw.random() < 0.4:
        keys["precision.accumulate"] = draw.choice(("fp64", "fixed", "bf16-kahan", "bf16-stochastic"))
    words = []
    if draw.random() < 0.15:
        keys["dist.stages"] = 2
    elif draw.random() < 0.25:
        words += ["--ranks", str(draw.choice((2, 3)))]
        keys["dist.reduce"] = draw.choice(("overlap", "end"))
        keys["dist.shard"] = draw.choice(("none", "optimizer"))
    return keys, words, draw.choice((0, 0, 1, 2, 4))


def toml_of(keys: dict[str, object]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())


@contextlib.contextmanager
def busy(count: int):
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_program(program: pathlib.Path, folder: pathlib.Path, *words: str) -> tuple[int, str, str]:
    try:
        asked = subprocess.run([str(program), *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS,
                               env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    except subprocess.TimeoutExpired:
        return GIVEN_UP, "", f"it took more than {SECONDS} s"
    return asked.returncode, asked.stdout, asked.stderr


def ask(program: pathlib.Path, folder: pathlib.Path, keys: dict[str, object], words: list[str]) -> tuple[int, str, str]:
    (folder / "run.toml").write_text(toml_of(keys))
    return run_program(program, folder, "verify", "run.toml", "--json", *words)


def is_refused_by_training(program: pathlib.Path, folder: pathlib.Path, words: list[str], errors: str) -> bool:
    """Whether training takes the config of the last question no more than verify does. Of several ranks, which a dry run
    does not have, verify's own errors tell by their beginning."""
    if errors.startswith("error: verify"):
        return False
    return bool(words) or run_program(program, folder, "train", "run.toml", "--dry-run")[0] == REFUSED


def write_foreign_dropout(folder: pathlib.Path) -> dict[str, object]:
    """The control: a module of which the masks come from the global generator, so that they depend on the split."""
    script = """
import torch
class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(144, 10)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.dropout(x.flatten(1), 0.5, self.training))
torch.manual_seed(1)
torch.jit.script(Masked()).save("masked.pt")
"""
    (folder / "masked.py").write_text(script)  # torch.jit reads the source
    subprocess.run([sys.executable, "-W", "ignore", "masked.py"], cwd=folder, check=True)
    return {"run.out": "out", "run.steps": 4, "model.kind": "torchscript", "model.from": "masked.pt",
            "data.train": ["train-images-idx3-ubyte"], "data.format": "images", "batch.samples": 16, "batch.micro": 4}


def in_words(keys: dict[str, object], words: list[str], load: int) -> str:
    shown = {name: value for name, value in keys.items() if name not in ("run.out", "run.steps")}
    return " ".join([f"{name}={json.dumps(value)}" for name, value in shown.items()] + words + [f"(load {load})"])


class Campaign:
    def __init__(self, program: pathlib.Path, folder: pathlib.Path, show: bool) -> None:
        self.program, self.folder, self.show = program.resolve(), folder, show
        self.counts: collections.Counter[str] = collections.Counter()
        self.conclusions: collections.Counter[str] = collections.Counter()
        self.nearest: list[tuple[float, int]] = []

    def run(self, seed: int) -> bool:
        """Whether the drawn config is one that training takes."""
        keys, words, load = drawn(seed)
        with busy(load):
            status, out, errors = ask(self.program, self.folder, keys, words)
        if status == REFUSED and is_refused_by_training(self.program, self.folder, words, errors):
            if self.show:
                print(f"{seed}: refused: {errors.strip()}\n    {in_words(keys, words, load)}")
            return False
        self.counts[{EQUAL: "sound", DIFFERS: "false alarm"}.get(status, "failed")] += 1
        if status in (EQUAL, DIFFERS):
            self.note(seed, json.loads(out))
        if status != EQUAL or self.show:
            print(f"{seed}: exit {status}: {in_words(keys, words, load)}\n    {self.told(out) if status == DIFFERS else errors.strip()}", flush=True)
        return True

    def note(self, seed: int, report: dict) -> None:
        self.conclusions["equal" if not report["left_out"] else "with something left out"] += 1
        compared = report["splits"] + ([report["steps"]] if "steps" in report else [])
        self.nearest += [(part["relative_error"] / part["bound"], seed) for part in compared if part["bound"]]

    @staticmethod
    def told(out: str) -> str:
        report = json.loads(out)
        return f"{report['cause']}: {report['conclusion']}"


def control_is_seen(program: pathlib.Path, folder: pathlib.Path) -> bool:
    status, out, errors = ask(program.resolve(), folder, write_foreign_dropout(folder), [])
    if status != DIFFERS:
        print(f"the control was not seen: exit {status}: {errors.strip()[-500:]}", file=sys.stderr)
    return status == DIFFERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first draw")
    parser.add_argument("--show", action="store_true", help="what each run was, and what verify printed beside its report")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder)
        if not control_is_seen(options.program, folder):
            return 2
        campaign = Campaign(options.program, folder, options.show)
        seed, taken = options.first, 0
        while taken < options.runs:
            taken += campaign.run(seed)
            seed += 1
    campaign.nearest.sort(reverse=True)
    print(f"{taken} runs of {seed - options.first} drawn, {time.monotonic() - began:.0f} s: " +
          ", ".join(f"{count} {what}" for what, count in sorted(campaign.counts.items())) + "; " +
          ", ".join(f"{count} {what}" for what, count in sorted(campaign.conclusions.items())))
    print("nearest to their bounds: " + ", ".join(f"{ratio:.2f} (seed {seed})" for ratio, seed in campaign.nearest[:5]))
    return 2 if campaign.counts["failed"] else 1 if campaign.counts["false alarm"] else 0


if __name__ == "__main__":
    sys.exit(main())
