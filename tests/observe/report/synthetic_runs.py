#!/usr/bin/env python3
"""Writes run folders like those of training, in a second and with known numbers:

    synthetic_runs.py FOLDER [--runs N] [--steps N] [--ranks N] [--samples] [--plain]

FOLDER/run-0, run-1, ... differ in learning rate and batch. --samples: of images, without tokens. --plain: only what
metrics.jsonl had at first, of one process, without plan. Only the standard library.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import random

CONTEXT = 256
MIB = 2**20
BEGIN = 1764000000  # Unix time of the first step
HOSTILE = "</script><script>document.title='taken'</script><!-- <img src=x onerror=alert(1)> & \"quoted\" \\u003c {{data}}"


@dataclasses.dataclass
class Shape:
    index: int = 0
    steps: int = 600
    ranks: int = 1
    tokens: bool = True
    plain: bool = False

    @property
    def lr(self) -> float:
        return (6e-4, 3e-4, 1e-3, 1e-4)[self.index % 4]

    @property
    def samples(self) -> int:
        return 64 * (1 + self.index % 3)

    @property
    def micro_batch(self) -> int:
        return 8 if self.index % 2 == 0 else 4


def learning_rate(shape: Shape, step: int) -> float:
    warm_up = max(1, shape.steps // 20)
    if step <= warm_up:
        return shape.lr * step / warm_up
    return shape.lr * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (shape.steps - warm_up))))


def expected_loss(shape: Shape, step: int) -> float:
    progress = step / shape.steps
    return 1.35 + 0.06 * shape.index + 4.2 * (1 + 900 * progress) ** -0.42


def memory_of(shape: Shape, draw: random.Random) -> dict:
    return {"parameters": 41 * MIB, "gradients": 41 * MIB, "optimizer": 82 * MIB, "packed": 20 * MIB,
            "activations": int((19 * shape.micro_batch + draw.random()) * MIB), "reserved": 380 * MIB}


def step_line(shape: Shape, step: int, elapsed: float, draw: random.Random, seconds: float) -> dict:
    """What a step measures; in the order of the contract."""
    noise = draw.gauss(0, 1)
    parts = {"optimizer": seconds * 0.06, "data": seconds * 0.02 * (1 + abs(noise)), "rest": seconds * 0.01}
    reduce_seconds = seconds * 0.2 if shape.ranks > 1 else None
    exposed = seconds * 0.05 if shape.ranks > 1 else None
    line = {"step": step, "epoch": step * shape.samples / 40000, "time": BEGIN + elapsed, "elapsed": elapsed,
            "samples": step * shape.samples}
    if shape.tokens:
        line["tokens"] = step * shape.samples * CONTEXT
    line |= {"weight": shape.samples * (CONTEXT if shape.tokens else 1), "loss": expected_loss(shape, step) * (1 + 0.012 * noise),
             "grad_norm": 0.4 + 2.5 * (1 + 60 * step / shape.steps) ** -0.5 * math.exp(0.15 * noise), "lr": learning_rate(shape, step),
             "micro_batch": shape.micro_batch, "micro_batches": shape.samples // shape.micro_batch}
    if shape.tokens:
        line["batch_tokens"] = shape.samples * CONTEXT
    line["seconds"] = seconds
    if shape.tokens:
        line["tokens_per_second"] = shape.samples * CONTEXT / seconds
    line |= {"updates_per_hour": 3600 / seconds, "accumulation_seconds": seconds - parts["optimizer"] - parts["rest"] - (exposed or 0),
             "optimizer_seconds": parts["optimizer"] + (exposed or 0)}
    if shape.ranks > 1:
        line |= {"reduce_seconds": reduce_seconds, "reduce_exposed_seconds": exposed, "wire_bytes": 43 * MIB}
    line |= {"peak_bytes": int((190 + 19 * shape.micro_batch + draw.random()) * MIB), "budget_bytes": 512 * MIB,
             "quarantined": 0, "retries": 0, "world": shape.ranks}
    return line if shape.plain else line | later_fields(shape, step, seconds, parts, noise, draw)


def later_fields(shape: Shape, step: int, seconds: float, parts: dict, noise: float, draw: random.Random) -> dict:
    micro = seconds * 0.9 / (shape.samples // shape.micro_batch)
    fields = {"data_seconds": parts["data"], "share_of_ceiling": 0.62 * (1 - 0.03 * abs(noise)),
              "micro_batch_seconds": {"median": micro, "max": micro * (1.1 + 0.3 * draw.random())}, "memory": memory_of(shape, draw),
              "joules": 60 * seconds}
    if step % 10 == 0:
        fields |= {"noise_scale": 20000 * (step / shape.steps) ** 0.8 * math.exp(0.3 * noise), "gradient_variance": 0.02 * math.exp(0.3 * noise)}
    if step % max(1, shape.steps // 6) == 0:
        fields["checkpoint_seconds"] = 0.4
    return fields


def write_metrics(folder: pathlib.Path, shape: Shape) -> None:
    draw = random.Random(shape.index)
    elapsed, evaluate_every = 0.0, max(1, shape.steps // 24)
    with open(folder / "metrics.jsonl", "w") as file:
        for name, reason in (("start", "model of 10.8 M parameters, a new run"), ("plan", "micro-batches of 8: the fastest that fits")):
            time = BEGIN * 1e6 if name == "start" else BEGIN  # in microseconds, as no version has it
            file.write(json.dumps({"step": 0, "time": time, "event": name, "reason": reason}) + "\n")
        for step in range(1, shape.steps + 1):
            seconds = shape.samples * CONTEXT / 5200 * (1 + 0.05 * abs(draw.gauss(0, 1)) + (0.6 if step % 97 == 0 else 0))
            elapsed += seconds
            file.write(json.dumps(step_line(shape, step, elapsed, draw, seconds)) + "\n")
            if step % evaluate_every == 0:
                loss = expected_loss(shape, step) * 1.03
                file.write(json.dumps({"step": step, "time": BEGIN + elapsed, "eval_loss": loss, "eval_accuracy": 1 / (1 + loss), "weight": 1e5, "seconds": 2.0}) + "\n")
            for name, reason in events_at(shape, step):
                file.write(json.dumps({"step": step, "time": BEGIN + elapsed, "event": name, "reason": reason}) + "\n")


def events_at(shape: Shape, step: int) -> list[tuple[str, str]]:
    at = {shape.steps // 3: ("quarantine", "micro-batch 3 gave a loss that is not finite: samples 1032 to 1039; " + HOSTILE),
          shape.steps // 2: ("out_of_memory", "micro-batches of 16 do not fit beside 82 MiB of optimizer state; 8 from here on"),
          shape.steps * 2 // 3: ("loss_spike", "loss 3.1 after a median of 1.9; the window's samples: 40211, 40377, 41002"),
          shape.steps - 1: ("checkpoint", "written in 0.4 s")}
    return [at[step]] if step in at else []


def plan_of(shape: Shape) -> dict:
    alternatives = [{"micro_batch": micro, "micro_batches": shape.samples // micro, "recompute": recompute,
                     "predicted_peak_bytes": int((164 + (19 if recompute == "none" else 8) * micro) * MIB),
                     "seconds_per_step": shape.samples * CONTEXT / 5200 * (1 + 0.5 / micro + (0.22 if recompute != "none" else 0)),
                     "within_limit": micro < 32} for micro in (1, 2, 4, 8, 16, 32) for recompute in ("none", "selective")]
    chosen = next(one for one in alternatives if one["micro_batch"] == shape.micro_batch and one["recompute"] == "none")
    steps = shape.samples // shape.micro_batch // shape.ranks
    return chosen | {"reason": "the fastest of those within the budget", "alternatives": [one for one in alternatives if one is not chosen],
                     "budget_bytes": 512 * MIB, "measured_peak_bytes": chosen["predicted_peak_bytes"] + MIB,
                     "effective_batch": {"micro_batch": shape.micro_batch, "accumulation_steps": steps, "ranks": shape.ranks,
                                         "samples": shape.samples, "tokens": shape.samples * CONTEXT}}


def config_of(shape: Shape) -> dict:
    return {"run": {"out": f"run-{shape.index}", "steps": shape.steps, "seed": 1337 + shape.index},
            "model": {"kind": "gpt2", "layers": 6, "heads": 6, "width": 384, "context": CONTEXT, "dropout": 0.1},
            "data": {"train": ["corpus/**/*.txt"], "val_fraction": 0.05, "format": "text"},
            "batch": {"samples": shape.samples, "micro": "auto"}, "precision": {"compute": "bf16", "accumulate": "fp32"},
            "memory": {"budget": "512MiB", "recompute": "auto"}, "optim": {"kind": "adamw", "lr": shape.lr, "betas": [0.9, 0.95], "clip": 1.0}}


def run_json(shape: Shape) -> dict:
    facts = {"versions": {"accrue": "0.1.0", "libtorch": "2.13.0", "gemm": "oneDNN 3.2"},
             "machine": {"host": "node7", "processor": "AMD EPYC 9654", "isa": "AVX512", "threads": 2}, "seed": 1337 + shape.index,
             "command": ["accrue", "train", "gpt.toml", f"--run.out=run-{shape.index}"], "started": "2025-11-24T16:00:00Z", "resumed": []}
    if shape.plain:
        return facts
    return facts | {"config": config_of(shape), "plan": plan_of(shape), "total_steps": shape.steps, "parameters": 10_788_864,
                    "unit": "tokens" if shape.tokens else "samples", "working_directory": "/home/ada/gpt", "commit": "4f2c9d1e",
                    "data": {"train": [{"path": "corpus/a.txt", "bytes": 41_200_333, "fingerprint": "9f"}, {"path": "corpus/b.txt", "bytes": 1_200_333, "fingerprint": "7a"}], "val": []},
                    "ended": {"time": "2025-11-24T18:12:09Z", "step": shape.steps, "state": "done"}}


def write_run(folder: pathlib.Path, shape: Shape) -> pathlib.Path:
    run = folder / f"run-{shape.index}"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(run_json(shape), indent=2))
    write_metrics(run, shape)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    for index in range(arguments.runs):
        print(write_run(arguments.folder, Shape(index, arguments.steps, arguments.ranks, not arguments.samples, arguments.plain)))


if __name__ == "__main__":
    main()
