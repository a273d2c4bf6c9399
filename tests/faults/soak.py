"""Half an hour of steps, evaluations and checkpoints: resident memory, descriptors and threads stay flat.

Flat: the median resident memory of the last quarter is at most 1% and 2 MiB above that of the second quarter, and the
medians of descriptors and threads are no larger. (What is open for a moment, while a checkpoint is written, is seen or
not as it happens; a leak stays, and with a checkpoint a second its median grows by hundreds.)
"""
import dataclasses
import os
import pathlib
import signal
import statistics
import subprocess
import time

import launchers
import tinyrun
from tinyrun import Campaign, Options, expect

EVERY_SECONDS = 0.5
CHECKPOINT_SECONDS = 1


@dataclasses.dataclass(frozen=True)
class Sample:
    resident_kib: int
    descriptors: int
    threads: int


def sample(process: int) -> Sample:
    status = tinyrun.status_of(process)
    return Sample(int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{process}/fd")), int(status["Threads"]))


def watch(process: subprocess.Popen, seconds: float) -> list[Sample]:
    samples = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        samples.append(sample(process.pid))
        time.sleep(EVERY_SECONDS)
    return samples


def check_flat(samples: list[Sample], name: str) -> None:
    quarter = len(samples) // 4
    early, late = samples[quarter:2 * quarter], samples[-quarter:]

    def medians(what: str) -> tuple[float, float]:
        return tuple(statistics.median(getattr(s, what) for s in part) for part in (early, late))

    before, after = medians("resident_kib")
    descriptors, threads = medians("descriptors"), medians("threads")
    print(f"{name}: medians of the second and the last quarter: resident {before / 1024:.1f} and {after / 1024:.1f} MiB; "
          f"descriptors {descriptors[0]:g} and {descriptors[1]:g}; threads {threads[0]:g} and {threads[1]:g}; "
          f"{len(samples)} samples", flush=True)
    expect(after <= before * 1.01 + 2048, f"{name}: resident memory grows from {before} to {after} KiB")
    expect(descriptors[1] <= descriptors[0], f"{name}: descriptors grow from {descriptors[0]} to {descriptors[1]}")
    expect(threads[1] <= threads[0], f"{name}: threads grow from {threads[0]} to {threads[1]}")


def is_flat(samples: list[Sample]) -> bool:
    try:
        check_flat(samples, "control")
    except tinyrun.Broken:
        return False
    return True


def soak(options: Options, minutes: float) -> int:
    campaign = Campaign("soak")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=100_000_000, every=1000)
        out = tiny.out("run")

        def trial(_draw, _number) -> None:
            process = tiny.start(out, f"--run.checkpoint_every=\"{CHECKPOINT_SECONDS} s\"")
            launchers.wait_for_steps(out, 5)
            samples = watch(process, minutes * 60)
            process.send_signal(signal.SIGTERM)
            ended = tinyrun.wait(process)
            expect(ended.status == 130, f"status {ended.status}: {ended.errors}")
            check_flat(samples, f"{minutes} minutes of training")
            steps = len(tinyrun.metrics(out))
            campaign.note("lines of metrics", steps)

        campaign.trials(1, options.seed, 1, trial)
        for what, growing in {"memory": lambda i: Sample(100_000 + 100 * i, 10, 4),
                              "descriptors": lambda i: Sample(100_000, 10 + i // 20, 4),
                              "threads": lambda i: Sample(100_000, 10, 4 + i // 40)}.items():
            campaign.control(not is_flat([growing(i) for i in range(100)]), f"growing {what} pass as flat")
    return campaign.end()
