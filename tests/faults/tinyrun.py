"""A training run of a second, and what stays of it: what all campaigns share. Only the standard library."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import started_once  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402, F401

SECONDS = 600  # after which a process is taken to hang
INTERRUPTED = 130  # the status of a run that a signal stopped
TIMES = {"time", "elapsed", "seconds", "tokens_per_second", "updates_per_hour", "accumulation_seconds",
         "optimizer_seconds", "reduce_seconds", "reduce_exposed_seconds", "peak_bytes", "micro_batch_peak_bytes",
         "wire_bytes", "world", "budget_bytes", "micro_batches", "retries", "joules", "epoch_seconds", "micro_batch_seconds",
         "data_seconds", "checkpoint_seconds", "share_of_ceiling", "memory", "pipeline_bubble",
         "offload_read_bytes", "offload_written_bytes", "offload_wait_seconds"}
CONFIG = """
[run]
steps = {steps}
checkpoint_every = "{every} steps"
eval_every = "25 steps"
keep = 3
threads = 1
[model]
layers = 1
heads = 1
width = 16
context = 16
[data]
train = ["{text}"]
val_fraction = 0.05
[batch]
tokens = 96
micro = 1
[precision]
accumulate = "fixed"
[dist]
timeout = "{timeout} s"
[observe]
progress = "off"
"""


@dataclasses.dataclass
class Ended:
    status: int  # the exit status; -N: ended by signal N
    errors: str
    seconds: float
    hung: bool = False
    output: bytes = b""  # where it goes to a pipe


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a finished run left that does not depend on time."""
    parameters: bytes
    optimizer: bytes
    metrics: tuple[str, ...]


class TinyRun:
    """A config and its text in a folder of their own; runs beside each other there."""

    def __init__(self, program: str, folder: pathlib.Path, steps: int = 100, every: int = 4, timeout: int = 20,
                 config: str = CONFIG):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / "text.txt"
        text.write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(600)))
        self.config = folder / "run.toml"
        self.config.write_text(config.format(steps=steps, every=every, text=text, timeout=timeout))

    def out(self, name: str) -> pathlib.Path:
        return self.folder / name

    def command(self, out: pathlib.Path, *words: str) -> list[str]:
        return [self.program, "train", str(self.config), f"--run.out={out}", *words]

    def start(self, out: pathlib.Path, *words: str, environment: dict[str, str] | None = None,
              prefix: list[str] | None = None) -> subprocess.Popen:
        return subprocess.Popen([*(prefix or []), *self.command(out, *words)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, env=alone() | (environment or {}))

    def run(self, out: pathlib.Path, *words: str, seconds: float = SECONDS) -> Ended:
        return wait(started_once.start(self.command(out, *words), alone()), seconds)

    def undisturbed(self, out: pathlib.Path) -> tuple["Outcome", float]:
        """What a run that nobody disturbs leaves, and its seconds."""
        ended = self.run(out)
        expect(ended.status == 0, f"the undisturbed run fails: {ended.errors}")
        return outcome(out), ended.seconds

    def finish(self, out: pathlib.Path) -> Ended:
        """To the end: a new run where there is none."""
        return self.run(out, *(["--resume"] if (out / "config.toml").exists() else []))

    def verify(self, out: pathlib.Path) -> Ended:
        return wait(started_once.start([self.program, "checkpoint", "verify", str(out)], alone()))


def alone() -> dict[str, str]:
    """No launcher's variables, and one thread that does not spin."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "ACCRUE_RUN_", "ACCRUE_STORE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return kept | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


def wait(process: subprocess.Popen, seconds: float = SECONDS) -> Ended:
    begin = time.monotonic()
    hung = False
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        hung = True
        process.kill()
        output, errors = process.communicate()
    return Ended(process.returncode, errors.decode(errors="replace"), time.monotonic() - begin, hung, output or b"")


def checkpoints(out: pathlib.Path) -> list[pathlib.Path]:
    folder = out / "checkpoints"
    return sorted(folder.glob("step-*")) if folder.exists() else []


def events(out: pathlib.Path, name: str) -> list[str]:
    return [line["reason"] for line in metrics(out) if line.get("event") == name]


def status_of(process: int) -> dict[str, str]:
    """What the kernel says of a process."""
    return dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())


def wait_until(is_so: Callable[[], bool], otherwise: str, seconds: float = SECONDS) -> None:
    """Broken where it does not come to that."""
    deadline = time.monotonic() + seconds
    while not is_so():
        expect(time.monotonic() < deadline, f"{otherwise} in {seconds:.0f} s")
        time.sleep(0.02)


def metrics(out: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def outcome(out: pathlib.Path) -> Outcome:
    last = checkpoints(out)[-1]
    steps = [{key: value for key, value in line.items() if key not in TIMES} for line in metrics(out)
             if "event" not in line]
    return Outcome((last / "model.safetensors").read_bytes(), (last / "optimizer.safetensors").read_bytes(),
                   tuple(json.dumps(step) for step in steps))


def leftovers(out: pathlib.Path) -> list[str]:
    """What no run leaves once it has ended: hidden and partial files and folders."""
    found = [path.name for path in (*out.iterdir(), *(out / "checkpoints").iterdir())]
    return [name for name in found if name.startswith(".") or ".partial" in name]


def copy(source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target


class Broken(Exception):
    """A promise that was not kept; says which and how."""


class LeftOut(Exception):
    """A campaign that cannot run, and why. `could_be_set_up`: something is missing that a build or a set-up brings."""

    def __init__(self, reason: str, could_be_set_up: bool = False):
        super().__init__(reason)
        self.could_be_set_up = could_be_set_up


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


def expect_same(out: pathlib.Path, wanted: Outcome, when: str = "", with_metrics: bool = True) -> None:
    """The bits of parameters, optimizer and metrics; says which differ first."""
    found = outcome(out)
    expect(found.parameters == wanted.parameters, f"{when}: other parameters")
    expect(found.optimizer == wanted.optimizer, f"{when}: another optimizer's state")
    if not with_metrics:
        return
    for ours, theirs in zip(found.metrics, wanted.metrics):
        expect(ours == theirs, f"{when}: metrics {ours} instead of {theirs}")
    expect(len(found.metrics) == len(wanted.metrics),
           f"{when}: {len(found.metrics)} lines of metrics instead of {len(wanted.metrics)}, the last being {found.metrics[-1]}")


@dataclasses.dataclass
class Campaign:
    """Trials by seed; a table of what was seen, and the broken ones by their seeds."""
    name: str
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    broken: list[str] = dataclasses.field(default_factory=list)

    def note(self, what: str, count: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + count

    def trials(self, count: int, seed: int, jobs: int, trial: Callable[[random.Random, int], None], first: int = 0) -> None:
        def attempt(number: int) -> None:
            try:
                trial(random.Random(f"{self.name} {seed} {number}"), number)
                self.note("trials as promised")
            except Broken as broken:
                self.broken.append(f"{self.name}, seed {seed}, trial {number}: {broken}")
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(attempt, range(first, first + count)))

    def trials_until(self, what: str, count: int, seed: int, jobs: int, trial: Callable[[random.Random, int], None]) -> None:
        """As many trials, each with a number of its own, as it takes to note `what` so often; none behind a broken one."""
        first = 0
        while self.counts.get(what, 0) < count and not self.broken:
            self.trials(jobs, seed, jobs, trial, first)
            first += jobs

    def control(self, holds: bool, what: str) -> None:
        """A negative control: the comparison has to see a difference that is there."""
        self.note("controls that hold" if holds else "controls that FAIL")
        if not holds:
            self.broken.append(f"{self.name}: the control does not hold: {what}")

    def end(self) -> int:
        print(f"{self.name}: " + ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items())), flush=True)
        for line in self.broken:
            print("BROKEN " + line, flush=True)
        return 1 if self.broken else 0


@dataclasses.dataclass(frozen=True)
class Programs:
    """What the tests build beside accrue."""
    store_host: pathlib.Path
    fault_points: pathlib.Path   # a library
    failing_calls: pathlib.Path  # another
    python: pathlib.Path         # that has torchrun
    tables: pathlib.Path         # a Python that writes Parquet


@dataclasses.dataclass(frozen=True)
class Options:
    program: str
    count: int
    seed: int
    jobs: int
    programs: Programs


def slow(fault_points: pathlib.Path, milliseconds: int) -> dict[str, str]:
    """The variables of a process whose micro-batches take longer, as on a slower machine."""
    return {"LD_PRELOAD": str(fault_points), "ACCRUE_FAULT": f"at=micro-batch count=every do=sleep:{milliseconds / 1000}"}


class Pause:
    """Meets a process at a named point: `do=pause:NAME` of fault_points.cpp, with `folder` as ACCRUE_FAULT_FOLDER. The process waits there
    until release()."""

    def __init__(self, folder: pathlib.Path, name: str):
        self._folder, self._name = folder, name
        self._arrived, self._go = folder / f"{name}.arrived", folder / f"{name}.go"
        for fifo in (self._arrived, self._go):
            os.mkfifo(fifo)
        self._end = os.open(self._arrived, os.O_RDONLY | os.O_NONBLOCK)

    def variables(self, fault_points: pathlib.Path, point: str) -> dict[str, str]:
        """Of a process that waits at `point`, the words of a rule of ACCRUE_FAULT without its do."""
        return {"LD_PRELOAD": str(fault_points), "ACCRUE_FAULT": f"{point} do=pause:{self._name}", "ACCRUE_FAULT_FOLDER": str(self._folder)}

    def wait(self, *processes: subprocess.Popen, seconds: float = SECONDS) -> None:
        """Until a process is there. Broken if one of `processes` ends before. To be called once."""
        ends = {os.pidfd_open(process.pid): process for process in processes}
        try:
            poll = select.poll()
            for descriptor in (self._end, *ends):
                poll.register(descriptor, select.POLLIN)
            ready = dict(poll.poll(seconds * 1000))
            ended = [wait(process) for descriptor, process in ends.items() if descriptor in ready]
            expect(self._end in ready, f"nobody came to {self._arrived}" + (f": {ended}" if ended else f" in {seconds:.0f} s"))
        finally:
            for descriptor in (self._end, *ends):
                os.close(descriptor)

    def release(self) -> None:
        os.close(os.open(self._go, os.O_WRONLY))


def scratch(where: pathlib.Path | None = None) -> tempfile.TemporaryDirectory:
    """In `where`, or among the temporary folders."""
    return tempfile.TemporaryDirectory(prefix="accrue-faults-", dir=where)
