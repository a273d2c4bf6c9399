"""Half an hour of steps, evaluations and checkpoints, by one process or by ranks that meet faults of all kinds: resident
memory, descriptors and threads stay flat.

Flat: the median resident memory of the last quarter is at most 1% and 2 MiB above that of the second quarter, and the
medians of descriptors and threads are no larger. (What is open for a moment, while a checkpoint is written, is seen or
not as it happens; a leak stays, and with a checkpoint a second its median grows by hundreds.)
"""
import dataclasses
import os
import pathlib
import random
import signal
import statistics
import subprocess
import threading
import time

import changing
import inside
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
            expect(ended.status == tinyrun.INTERRUPTED, f"status {ended.status}: {ended.errors}")
            check_flat(samples, f"{minutes} minutes of training")
            steps = len(tinyrun.metrics(out))
            campaign.note("lines of metrics", steps)

        campaign.trials(1, options.seed, 1, trial)
        for what, growing in {"memory": lambda i: Sample(100_000 + 100 * i, 10, 4),
                              "descriptors": lambda i: Sample(100_000, 10 + i // 20, 4),
                              "threads": lambda i: Sample(100_000, 10, 4 + i // 40)}.items():
            campaign.control(not is_flat([growing(i) for i in range(100)]), f"growing {what} pass as flat")
    return campaign.end()


class Watcher:
    """Samples of a process that lives long, beside what is done to it."""

    def __init__(self, process: subprocess.Popen):
        self.samples: list[Sample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(process,))
        self._thread.start()

    def _watch(self, process: subprocess.Popen) -> None:
        while process.poll() is None and not self._over.wait(EVERY_SECONDS):
            try:
                self.samples.append(sample(process.pid))
            except OSError:
                return  # it ended meanwhile, which whoever disturbs the run finds out

    def end(self) -> list[Sample]:
        self._over.set()
        self._thread.join()
        return self.samples


SURVIVOR = changing.WORLD - 1  # whom nothing befalls that a process may end of
# Faults that a process survives, and with them the run's step.
BEARABLE = ("short write", "slow disk", "clock jump")


class FaultsOfAllKinds:
    """One fault after the other, drawn at random, in a run that goes on; each is seen to happen."""

    def __init__(self, run: changing.Disturbed, calls: list[inside.FailingCalls], draw: random.Random, campaign: Campaign):
        self._run, self._calls, self._draw, self._campaign = run, calls, draw, campaign
        self._kinds = [self.kill, self.kill_two, self.freeze_for_a_moment, self.freeze_for_long, self.bear,
                       self.come_without_memory]
        if run.links:
            self._kinds += [self.cut, self.cut_for_a_moment, self.drop, self.delay]

    def next(self) -> None:
        self._draw.choice(self._kinds)()

    def _victim(self) -> int:
        return self._draw.randrange(SURVIVOR)

    def _victim_that_tells_nothing(self) -> int:
        teller = self._run.run.teller()
        return self._draw.choice([rank for rank in range(SURVIVOR) if rank != teller])

    def kill(self) -> None:
        self._run.kill(self._victim(), self._campaign)

    def kill_two(self) -> None:
        for victim in self._draw.sample(range(SURVIVOR), 2):
            self._run.kill(victim, self._campaign)
            time.sleep(self._draw.uniform(0, 2))

    def freeze_for_a_moment(self) -> None:
        self._run.freeze(self._draw.randrange(changing.WORLD), self._draw.uniform(0.1, 2), self._campaign)

    def freeze_for_long(self) -> None:
        self._run.freeze(self._victim_that_tells_nothing(), changing.TIMEOUT + self._draw.uniform(1, 4), self._campaign)

    def full_disk(self) -> None:
        """Whoever writes ends with its next checkpoint, and the next one takes over."""
        teller = self._run.run.teller()
        expect(teller is not None and teller != SURVIVOR, f"rank {teller} holds the run directory")
        self._calls[teller].order("full disk", times=1_000_000)
        process = self._run.run.ranks[teller].process
        tinyrun.wait_until(lambda: process.poll() is not None, f"rank {teller} goes on with a full disk", changing.NO_PROGRESS)
        expect(self._calls[teller].happened("full disk") > 0 and process.returncode == 1,
               f"rank {teller} did not end of a full disk: {self._run.said()}")
        self._calls[teller].take_back("full disk")
        self._campaign.note("times full disk")

    def bear(self) -> None:
        """Of the process that writes, or, of the clock, of any."""
        kind = self._draw.choice(BEARABLE)
        teller = self._run.run.teller()
        victim = self._draw.randrange(changing.WORLD) if kind == "clock jump" else teller
        if victim is not None:
            self._order(victim, kind, self._draw.randrange(1, 10), inside.ORDERS[kind](self._draw)[1])

    def come_without_memory(self) -> None:
        """A process that is refused memory as it comes back, and comes once more."""
        victim = self._victim()
        self._run.kill(victim, self._campaign)
        calls = self._calls[victim]
        before = calls.happened("no memory")
        calls.order("no memory", self._draw.randrange(1, 4), 1)
        self._run.start_again(victim)
        tinyrun.wait_until(lambda: calls.happened("no memory") > before, "no memory was refused", changing.NO_PROGRESS)
        calls.take_back("no memory")
        self._campaign.note("times no memory")

    def _order(self, rank: int, kind: str, times: int, amount: int = 0) -> None:
        calls = self._calls[rank]
        before = calls.happened(kind)
        calls.order(kind, times, amount)
        try:
            tinyrun.wait_until(lambda: calls.happened(kind) > before, f"no {kind} of rank {rank}", changing.NO_PROGRESS)
        finally:
            calls.take_back(kind)
        self._campaign.note(f"times {kind}")

    def cut(self) -> None:
        self._run.links.cut(self._victim_that_tells_nothing(), changing.TIMEOUT + self._draw.uniform(1, 4))
        self._campaign.note("times cut")

    def cut_for_a_moment(self) -> None:
        self._run.links.cut(self._draw.randrange(changing.WORLD), self._draw.uniform(0.1, 0.8))
        self._campaign.note("times cut for a moment")

    def drop(self) -> None:
        self._run.links.drop(self._draw.randrange(changing.WORLD), self._draw.uniform(0.5, 3))
        self._campaign.note("times dropped")

    def delay(self) -> None:
        self._run.links.delay(self._draw.randrange(changing.WORLD), self._draw.uniform(0.5, 3))
        self._campaign.note("times delayed")


def soak_of_ranks(options: Options, minutes: float) -> int:
    """Four ranks, and faults of all kinds for as long: the run goes on, the survivor stays flat, and no sum is wrong."""
    campaign = Campaign("soak of ranks")

    def trial(draw: random.Random, _number: int) -> None:
        with tinyrun.scratch() as pages, changing.links_where_possible(campaign) as links:
            calls = [inside.FailingCalls(options.programs.failing_calls, pathlib.Path(pages) / str(rank))
                     for rank in range(changing.WORLD)]
            with changing.disturbed(options, links=links, variables_of=lambda rank: calls[rank].environment) as run:
                faults = FaultsOfAllKinds(run, calls, draw, campaign)
                watcher = Watcher(run.run.ranks[SURVIVOR].process)
                try:
                    endure(run, faults, draw, minutes)
                finally:
                    samples = watcher.end()
                check_flat(samples, f"{minutes} minutes of rank {SURVIVOR}")
                # Lines that do not fit on a full disk are left out of metrics.jsonl.
                campaign.note("steps", run.expect_as_undisturbed(with_all_lines=False))

    campaign.trials(1, options.seed, 1, trial)
    return campaign.end()


def endure(run: changing.Disturbed, faults: FaultsOfAllKinds, draw: random.Random, minutes: float) -> None:
    survivor = run.run.ranks[SURVIVOR].process
    for _ in range(SURVIVOR):
        run.wait_for_all()
        faults.full_disk()
    deadline = time.monotonic() + 60 * minutes
    while time.monotonic() < deadline:
        run.wait_for_all()
        time.sleep(draw.uniform(0, 2))
        faults.next()
        run.wait_for_steps(draw.randrange(1, 4))
        expect(survivor.poll() is None, f"rank {SURVIVOR} ended: {run.said()}")
