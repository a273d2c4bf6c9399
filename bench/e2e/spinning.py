"""What waiting threads cost: accrue train with each way to wait, alone and beside a second such program.

Every policy in turn, again and again, so that what else the machine does falls on all of them; medians of the pairs' ratios.
Run it alone on the machine. --quick: two rounds of the tiny model, kept nowhere."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from runs import BUILD, gpt2, save

# GOMP_SPINCOUNT=300000 is what libgomp does where its environment says nothing.
POLICIES = {
    "libgomp's default": {"GOMP_SPINCOUNT": "300000"},
    "10000 spins": {"GOMP_SPINCOUNT": "10000"},
    "1000 spins": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
MODELS = {"tiny": dict(samples=16, micro=8, steps=30), "10.8M": dict(samples=16, micro=8, steps=4)}


class Training:
    """One process, which may run beside another one."""

    def __init__(self, folder: pathlib.Path, size: str, policy: dict[str, str]):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        model = MODELS[size]
        config = self.folder / "empty.toml"
        config.write_text("")
        words = [str(BUILD / "accrue"), "train", str(config), f"--run.out={self.folder / 'run'}", f"--run.steps={model['steps']}",
                 f"--batch.micro={model['micro']}", "--observe.progress=off", *gpt2(folder, size, model["samples"])]
        environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        self.process = subprocess.Popen(words, env=environment | policy, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def seconds_per_step(self) -> float:
        """Of all steps but the first."""
        errors = self.process.communicate()[1]
        if self.process.returncode != 0:
            raise RuntimeError(errors)
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        return statistics.median([line["seconds"] for line in lines if "loss" in line][1:])


def measure(folder: pathlib.Path, size: str, policy: dict[str, str], beside: int) -> float:
    trainings = [Training(folder, size, policy) for _ in range(1 + beside)]
    return max(training.seconds_per_step() for training in trainings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/spinning.json")
    arguments = parser.parse_args()
    rounds, sizes = (2, ["tiny"]) if arguments.quick else (9, list(MODELS))
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for size in sizes:
            for beside in (0, 1):
                seconds = {policy: [] for policy in POLICIES}
                for _ in range(rounds):
                    for policy, environment in POLICIES.items():
                        seconds[policy].append(measure(folder, size, environment, beside))
                first = next(iter(POLICIES))
                for policy, measured in seconds.items():
                    ratio = statistics.median(a / b for a, b in zip(measured, seconds[first]))
                    results.append(dict(model=size, beside=beside, policy=policy, seconds_per_step=statistics.median(measured),
                                        spread=[min(measured), max(measured)], relative=ratio))
                    print(f"{size:8} {'beside another' if beside else 'alone':16} {policy:20} "
                          f"{1e3 * statistics.median(measured):10.2f} ms a step  {ratio:6.2f} x", flush=True)
    save("spinning.json", {"rounds": rounds, "policies": results}, arguments.out, arguments.quick)


if __name__ == "__main__":
    main()
