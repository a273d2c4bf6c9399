"""Half an hour of steps, evaluations and checkpoints: resident memory, descriptors and threads stay flat.

Flat: the median resident memory of the last quarter is at most 1% and 2 MiB above that of the second quarter, and
there are no more descriptors and threads at any time in the last quarter than in the second.
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

EVERY_SECONDS = 2.0
CHECKPOINT_SECONDS = 1


@dataclasses.dataclass(frozen=True)
class Sample:
    resident_kib: int
    descriptors: int
    threads: int


def sample(process: int) -> Sample:
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
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
    before, after = (statistics.median(s.resident_kib for s in part) for part in (early, late))
    print(f"{name}: resident {before / 1024:.1f} MiB in the second quarter, {after / 1024:.1f} in the last; "
          f"descriptors {max(s.descriptors for s in early)}, {max(s.descriptors for s in late)}; "
          f"threads {max(s.threads for s in early)}, {max(s.threads for s in late)}; {len(samples)} samples", flush=True)
    expect(after <= before * 1.01 + 2048, f"{name}: resident memory grows from {before} to {after} KiB")
    for what in ("descriptors", "threads"):
        expect(max(getattr(s, what) for s in late) <= max(getattr(s, what) for s in early), f"{name}: {what} grow")


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
        growing = [Sample(100_000 + 100 * i, 10, 4) for i in range(100)]
        try:
            check_flat(growing, "control")
            campaign.control(False, "growing memory passes as flat")
        except tinyrun.Broken:
            campaign.control(True, "")
    return campaign.end()
