#!/usr/bin/env python3
"""Federated rounds by real processes: five clients over TLS on the loopback interface, beside one process with the pooled data.

    bench/e2e/federated.py [--steps 20] [--rounds 3] [--parts bits killed cost] [--size medium] [--poll 1]
                           [--out bench/results/federated.json] [--quick]

Flower's SuperLink, five authenticated SuperNodes and `flwr run` (flower.py), a gpt2 with exact windows and accumulate = "fixed".

- bits: the parameters of plain rounds and of rounds with secure sums are those of `accrue train` on the pooled data.
- killed: two clients are killed (SIGKILL) in the middle, and the rounds after that close by quorum: the parameters are those of
  one process with the pooled data without theirs.
- cost: bytes and seconds of a round with secure sums beside one without, in turn; the first round of each run, in which units settle
  and clients start, is left out. Bytes are what a relay in front of the SuperLink passes on, TLS and Flower's polls included.

Exit status 1 if bits differ. Needs the Python package and Flower on PATH of this interpreter, and the program (ACCRUE_PROGRAM, or the
release build).
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file

import accrue
from accrue.federated.shares import draws

from flower import Deployment, EndedEarly, write_project
from results import ACCRUE
from runs import save

PROGRAM = os.environ.get("ACCRUE_PROGRAM", str(ACCRUE))
# The samples of each client in a window.
SHARES = {"ann": 4, "bob": 2, "cleo": 4, "dan": 2, "eve": 4}
KILLED = ("bob", "dan")
THRESHOLD = 3
VOCAB, CONTEXT = 256, 64
SIZES = {"small": dict(layers=1, width=32), "medium": dict(layers=2, width=128), "large": dict(layers=4, width=256)}
PLAIN, SECURE = "plain", "secure sums"
MODES = {PLAIN: "ExactWindow()", SECURE: f"SecureSums(threshold={THRESHOLD})"}
CONFIG = """
[run]
out = "{out}"
steps = {steps}
threads = 1
[model]
heads = 4
layers = {layers}
width = {width}
vocab = {vocab}
context = {context}
[data]
train = {data}
order = "sequential"
[batch]
samples = {samples}
micro = 2
[precision]
accumulate = "fixed"
[optim]
lr = 1e-3
[observe]
progress = "off"
tensorboard = false
"""
APP = """
import json
import pathlib
import time

import torch

from accrue.federated import ExactWindow, SecureSums, client_app, server_app

DATA, OUT, MODE = pathlib.Path({data!r}), pathlib.Path({out!r}), {mode}


def note(report):
    with (OUT / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(dict(time=time.time(), window=report.window, loss=report.loss, counted=list(report.weights), absent=dict(report.absent),
                                   refused=dict(report.refused))) + "\\n")


client = client_app(DATA / "client.toml", mode=MODE, overrides=lambda context: [f'data.train=["{{DATA}}/{{context.node_config["name"]}}.jsonl"]'])
server = server_app(DATA / "client.toml", clients={clients}, quorum={quorum}, grace={grace}, timeout={timeout}, mode=MODE, on_round=note,
                    on_end=lambda stepper: torch.save(stepper.parameters(), OUT / "model.pt"))
"""


@dataclasses.dataclass(frozen=True)
class Job:
    """The data of five clients in a folder, pooled data in the order of windows, and the configs of both."""

    folder: pathlib.Path
    size: str
    steps: int

    def config(self, name: str, files: list[str]) -> pathlib.Path:
        file = self.folder / f"{name}.toml"
        data = json.dumps([str(self.folder / f"{each}.jsonl") for each in files])
        file.write_text(CONFIG.format(out=self.folder / f"{name}-run", steps=self.steps, data=data, vocab=VOCAB, context=CONTEXT,
                                      samples=sum(SHARES.values()), **SIZES[self.size]))
        return file

    def write(self) -> None:
        lines = {name: self._lines(seed, share) for seed, (name, share) in enumerate(SHARES.items())}
        for name, mine in lines.items():
            (self.folder / f"{name}.jsonl").write_text("".join(mine))
        pooled = [line for step in range(self.steps) for name, share in SHARES.items() for line in lines[name][step * share:(step + 1) * share]]
        (self.folder / "pooled.jsonl").write_text("".join(pooled))
        self.config("client", ["nobody"])

    def _lines(self, seed: int, share: int) -> list[str]:
        """Unlike data: each client has a range of tokens of its own, and lengths of its own."""
        draw, first = random.Random(seed), 40 * seed
        texts = ([draw.randrange(first, first + 80) for _ in range(draw.randint(8 + 8 * seed, CONTEXT))] for _ in range(self.steps * share))
        return [json.dumps({"input_ids": ids, "labels": ids}) + "\n" for ids in texts]

    def pooled(self) -> dict[str, torch.Tensor]:
        """Returns the parameters of `accrue train` with all data."""
        subprocess.run([PROGRAM, "train", str(self.config("pooled", ["pooled"])), "--quiet"], check=True, capture_output=True)
        files = load_file(self.folder / "pooled-run" / "checkpoints" / f"step-{self.steps:08}" / "model.safetensors")
        return {name: value.T if ".c_" in name and value.dim() == 2 else value for name, value in files.items()}  # GPT-2's matrices are transposed in files

    def without(self, counted: list[list[str]]) -> dict[str, torch.Tensor]:
        """Returns the parameters of one process that has all data and leaves out the samples of those that did not count."""
        file, total = self.config("whole", list(SHARES)), self.steps * sum(SHARES.values())
        worker = accrue.WindowWorker(file)
        stepper = accrue.SumStepper(file, worker.shape)
        for window, names in enumerate(counted):
            ranges, first = [], 0
            for name, share in SHARES.items():
                ranges += draws(window, share, first, self.steps * share, total) if name in names else []
                first += self.steps * share
            worker.load(stepper.parameters())
            stepper.step(worker.run(window, ranges, stepper.units))
        return stepper.parameters()


@dataclasses.dataclass
class Outcome:
    """Of each round: seconds and bytes since the last one, and who counted."""

    seconds: list[float]
    bytes: list[int]
    counted: list[list[str]]
    absent: list[dict[str, str]]
    parameters: dict[str, torch.Tensor]


def equal(these: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return set(these) == set(others) and all(torch.equal(these[name], others[name]) for name in these)


def rounds_of(out: pathlib.Path) -> list[dict]:
    file = out / "rounds.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(deployment: Deployment, job: Job, name: str, mode: str, options: argparse.Namespace, kill_after: int | None = None) -> Outcome:
    out = job.folder / name
    out.mkdir()
    app = APP.format(data=str(job.folder), out=str(out), mode=MODES[mode], clients=len(SHARES), quorum=THRESHOLD if kill_after else len(SHARES),
                     grace=options.grace, timeout=options.timeout)
    run = deployment.submit(write_project(job.folder / f"project-{name}", app))
    marks, asked = [], time.monotonic()
    while not (out / "model.pt").exists():
        rounds = rounds_of(out)
        if len(rounds) > len(marks):
            marks += [deployment.relay.bytes] * (len(rounds) - len(marks))
            print(f"  {name}: round {len(rounds)} of {job.steps}, counted {', '.join(rounds[-1]['counted'])}", flush=True)
            if kill_after is not None and len(rounds) == kill_after:
                for victim in KILLED:
                    deployment.kill(victim)
        if time.monotonic() - asked > 20:
            asked = time.monotonic()
            status, reason = deployment.status(run)
            if status.startswith("finished") and not (out / "model.pt").exists():
                raise EndedEarly(f"{name}: {status}, {reason}:\n{deployment.log('superlink')[-3000:]}")
        time.sleep(0.05)
    rounds = rounds_of(out)
    marks += [deployment.relay.bytes] * (len(rounds) - len(marks))
    while not deployment.status(run)[0].startswith("finished"):
        time.sleep(1)
    times = [each["time"] for each in rounds]
    return Outcome([after - before for before, after in zip(times, times[1:])], [after - before for before, after in zip(marks, marks[1:])],
                   [each["counted"] for each in rounds], [each["absent"] for each in rounds], torch.load(out / "model.pt"))


def expect_bits(what: str, mine: dict[str, torch.Tensor], reference: dict[str, torch.Tensor], wrong: dict[str, torch.Tensor]) -> bool:
    """Says whether the bits are the reference's. The comparison has to notice parameters that are wrong."""
    same = equal(mine, reference) and not equal(mine, wrong)
    print(f"{what}: {'the same bits' if same else 'OTHER BITS'}", flush=True)
    return same


def figures(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratio(secure: list[float], plain: list[float]) -> float:
    return statistics.median(secure) / statistics.median(plain)


def measure(folder: pathlib.Path, options: argparse.Namespace) -> tuple[dict, bool]:
    job = Job(folder, options.size, options.steps)
    job.write()
    pooled = job.pooled()
    everyone = [list(SHARES)] * job.steps
    without_bob = [[name for name in names if name != "bob"] if window == 0 else names for window, names in enumerate(everyone)]
    results, same = {"clients": len(SHARES), "steps": job.steps, "parameters": sum(value.numel() for value in pooled.values())}, True
    deployment = Deployment(folder, list(SHARES), options.poll, options.timeout)
    try:
        runs: dict[str, list[Outcome]] = {mode: [] for mode in options.modes}
        for count in range(options.rounds if "cost" in options.parts else 1):
            for mode in options.modes if count % 2 == 0 else reversed(options.modes):
                outcome = train(deployment, job, f"{mode.replace(' ', '-')}-{count}", mode, options)
                runs[mode].append(outcome)
                same &= expect_bits(f"{mode}, {job.steps} steps beside accrue train", outcome.parameters, pooled, job.without(without_bob))
        for mode, outcomes in runs.items():
            results[mode] = {"seconds": figures([value for each in outcomes for value in each.seconds]),
                             "bytes": figures([value for each in outcomes for value in each.bytes]),
                             "seconds_of_runs": [statistics.median(each.seconds) for each in outcomes],
                             "bytes_of_runs": [statistics.median(each.bytes) for each in outcomes]}
        if len(runs) == 2:
            for what in ("seconds", "bytes"):
                results[f"{what}_ratio"] = ratio(*([value for each in runs[mode] for value in getattr(each, what)] for mode in (SECURE, PLAIN)))
        if "killed" in options.parts:
            outcome = train(deployment, job, "killed", options.modes[-1] if options.kill_secure else PLAIN, options, kill_after=job.steps // 2)
            left = [name for name in SHARES if name not in KILLED]
            closed = outcome.counted == everyone[:job.steps // 2] + [left] * (job.steps - job.steps // 2)
            print(f"two of five killed after round {job.steps // 2}: {'rounds closed without them' if closed else 'OTHER CLIENTS COUNTED'}")
            same &= closed and expect_bits("killed, beside one process without their samples", outcome.parameters, job.without(outcome.counted), pooled)
            results["killed"] = {"after": job.steps // 2, "seconds": figures(outcome.seconds[job.steps // 2:])}
        results["same_bits"] = same
    finally:
        deployment.close()
    return results, same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=3, help="of plain and secure runs in turn")
    parser.add_argument("--parts", nargs="+", default=["bits", "killed", "cost"], choices=["bits", "killed", "cost"])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--size", choices=SIZES, default="medium", help="of the model")
    parser.add_argument("--poll", type=float, default=1.0, help="FLWR_SUPEREXEC_TASK_POLL_INTERVAL, seconds; 1 is Flower's own")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds for clients after the quorum")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a round, and for processes to start")
    parser.add_argument("--kill-secure", action="store_true", help="kill two clients of rounds with secure sums")
    parser.add_argument("--quick", action="store_true", help="a small model, four steps, one round")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/federated.json")
    options = parser.parse_args()
    if options.quick:
        options.size, options.steps, options.rounds = "small", 4, 1
    with tempfile.TemporaryDirectory() as name:
        results, same = measure(pathlib.Path(name), options)
    for mode in options.modes:
        seconds, size = results[mode]["seconds"], results[mode]["bytes"]
        print(f"{mode:12} a round {seconds['median']:6.1f} s ({seconds['least']:.1f} to {seconds['most']:.1f}), {size['median'] / 1e6:8.3f} MB "
              f"({size['least'] / 1e6:.3f} to {size['most'] / 1e6:.3f})")
    if "seconds_ratio" in results:
        print(f"secure / plain: {results['seconds_ratio']:.2f} times the seconds, {results['bytes_ratio']:.3f} times the bytes")
    save("federated.json", {"federated": results}, options.out, options.quick)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
