#!/usr/bin/env python3
"""Trains the same small GPT-2 on real text by two ranks over a link of 100 Mbit/s, with each kind of dist.compress and
with local steps, from several seeds: validation loss by steps and by seconds.

    bench/e2e/curves.py [--out FOLDER]
    bench/e2e/curves.py --quick         a tiny model and one seed: whether everything runs, in a minute

The ranks are processes in two network namespaces of this machine, joined by a shaped cable (netns.py), each on a core
of its own. Each seed runs all variants, beginning with another one; all have its initial weights and batches, and the
same learning rates. A control differs from "none" in rounding alone. Where the kernel has no namespaces or cannot shape
them, it says so, and the ranks meet on the loopback device: then there are losses and bytes, but no seconds. Only the
standard library, whose sources are also the text. See docs/notes/compression.md and docs/notes/local_steps.md.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import statistics
import sys
import sysconfig
import tempfile
from collections.abc import Iterator

import curves_report
import netns
from links import LINKS, WORLD, probe
from peers import rotated
from runs import GPT2, QUICK, RESULTS, ROOT, flags, lines_of, save, steps_of, train_command
from ranks import free_port
from results import provenance

LINK = LINKS["100 Mbit/s"]
LOCAL_STEPS = 8
RUN_SECONDS = 600  # that one run may take

LOCAL = flags("dist", local_steps=LOCAL_STEPS)
VARIANTS = {
    curves_report.REFERENCE: [],
    curves_report.CONTROL: flags("loss", cross_entropy="plain"),
    "bf16": flags("dist", compress="bf16"),
    "int8": flags("dist", compress="int8"),
    "powersgd": flags("dist", compress="powersgd"),
    f"local_steps = {LOCAL_STEPS}": [*LOCAL, *flags("dist", outer="{lr = 1, momentum = 0}")],
    "DiLoCo": [*LOCAL, *flags("dist", outer="{lr = 0.7, momentum = 0.9}")],
}

# Samples are those of a step over both ranks. Steps and evaluations are whole rounds of local steps.
JOB = dict(model=dict(layers=2, heads=4, width=96, context=128), samples=8, micro=2, steps=1200, eval_every=120,
           eval_batches=32, seeds=(1, 2, 3))
QUICK_JOB = dict(model=GPT2["tiny"], samples=8, micro=2, steps=16, eval_every=8, eval_batches=2, seeds=(1,))
# The same for all variants: none has been tuned.
OPTIMIZER = dict(kind="adamw", lr=3e-3, betas="[0.9, 0.95]", weight_decay=0.1, clip=1.0,
                 schedule='{kind = "cosine", warmup = "5%", min_lr = 1e-4}')


@dataclasses.dataclass(frozen=True)
class LoopbackEnd:
    def enter(self, *words: str) -> list[str]:
        return list(words)


@dataclasses.dataclass(frozen=True)
class Loopback:
    """What there is instead of a cable, for netns.run_ranks."""
    port: int
    ends = (LoopbackEnd(), LoopbackEnd())

    def environment(self, rank: int) -> dict[str, str]:
        return os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD),
                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port), "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def cable_or_loopback() -> Iterator[tuple[netns.Cable | Loopback, dict | None]]:
    """And what plain sockets get over it; none on the loopback device, whose seconds would say nothing."""
    with contextlib.ExitStack() as stack:
        try:
            cable = stack.enter_context(netns.cable(LINK))
            link = {"rate_mbit": LINK.rate_mbit, "delay_ms": LINK.delay_ms if cable.delays else None,
                    "probe": probe(cable)}
        except netns.Unavailable as reason:
            print(f"no link of {LINK.rate_mbit} Mbit/s: {reason}; on the loopback device, without seconds",
                  file=sys.stderr, flush=True)
            cable, link = Loopback(free_port()), None
        yield cable, link


def arguments(job: dict, seed: int) -> list[str]:
    """As scripts/demo.sh has it: files whose names begin with t to z are held out."""
    library = sysconfig.get_paths()["stdlib"]
    model = job["model"]
    return [*flags("run", steps=job["steps"], seed=seed, threads=1, eval_every=job["eval_every"],
                   eval_batches=job["eval_batches"], checkpoint_every="1000000 steps", keep_best="false"),
            *flags("model", kind="gpt2", **model),
            *flags("data", train=f'["{library}/[_a-s]*.py", "{library}/[_a-r]*/**/*.py"]',
                   val=f'["{library}/[t-z]*.py"]'),
            *flags("batch", tokens=job["samples"] * model["context"], micro=job["micro"]),
            *flags("precision", compute="fp32"), *flags("optim", **OPTIMIZER), *flags("dist", shares="equal")]


def run_variant(variant: str, seed: int, cable: netns.Cable | Loopback, job: dict) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        command = train_command(out.parent, "run", [*arguments(job, seed), *VARIANTS[variant]])
        netns.run_ranks(cable, lambda rank: command, RUN_SECONDS)
        about = json.loads((out / "run.json").read_text())
        return {"versions": about["versions"],
                "machine": {key: about["machine"][key] for key in ("processor", "isa", "threads")},
                "curve": curve_of(out), "per_step": per_step(steps_of(out))}


def curve_of(out: pathlib.Path) -> dict[str, list]:
    """At each evaluation: training losses are means since the one before; seconds are those of training alone."""
    steps = steps_of(out)
    evaluations = [line for line in lines_of(out) if "eval_loss" in line]
    ends = [evaluation["step"] for evaluation in evaluations]
    return {"steps": ends, "eval_losses": [evaluation["eval_loss"] for evaluation in evaluations],
            "train_losses": [statistics.mean(step["loss"] for step in steps[begin:end])
                             for begin, end in zip([0, *ends], ends)],
            "seconds": [sum(step["seconds"] for step in steps[:end]) for end in ends]}


def per_step(steps: list[dict]) -> dict[str, float]:
    """Means over whole rounds of local steps, of rank 0; of the seconds the median round's, which another program's
    burst does not move."""
    if any(step["world"] != WORLD for step in steps):
        sys.exit(f"error: {WORLD} ranks: received {steps[0]['world']}")
    return {"wire_bytes": sum(step.get("wire_bytes", 0) for step in steps) / len(steps),
            "seconds": statistics.median(statistics.mean(step["seconds"] for step in steps[begin:begin + LOCAL_STEPS])
                                         for begin in range(0, len(steps), LOCAL_STEPS))}


def measure(job: dict) -> Iterator[dict]:
    """What there is to report after each seed."""
    with cable_or_loopback() as (cable, link):
        result = {"link": link, "job": job, "optimizer": OPTIMIZER,
                  "python": platform.python_version(), "variants": {variant: {} for variant in VARIANTS}}
        for number, seed in enumerate(job["seeds"]):
            for variant in rotated(list(VARIANTS), number):
                print(f"seed {seed}: {variant}", file=sys.stderr, flush=True)
                outcome = run_variant(variant, seed, cable, job)
                result |= {what: outcome[what] for what in ("machine", "versions")}
                result["variants"][variant][str(seed)] = {what: outcome[what] for what in ("curve", "per_step")}
            yield result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="folder of curves.json and curves.svg; these are in "
                        "bench/results and docs/notes otherwise")
    options = parser.parse_args()
    folder = options.out or (QUICK if options.quick else None)
    try:
        for result in measure(QUICK_JOB if options.quick else JOB):
            save("curves.json", result, (folder or RESULTS) / "curves.json", versions=result["versions"])
    except netns.RankFailed as failed:
        sys.exit(f"error: {failed}")
    print(curves_report.tables(result, provenance()))
    ((folder or ROOT / "docs" / "notes") / "curves.svg").write_text(curves_report.plot(result))


if __name__ == "__main__":
    main()
