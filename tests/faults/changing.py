"""Ranks that are killed, frozen or cut off while a run goes on, and come back: nothing is lost and nothing counted twice.

A run is disturbed for as long as a campaign asks, whatever the machine's speed, and then told to stop. One process that
nobody disturbs takes as many steps: parameters, the optimizer's state and every line of metrics.jsonl are the same to the
bit, but for the noise of gradients, which is not measured in a window whose ranks change.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import time
from collections.abc import Callable

import tinyrun
from lasting import LastingRun, Place
from tinyrun import Campaign, Options, expect

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "e2e"))

import netns  # noqa: E402

WORLD = 4
MICRO_BATCH_MS = 10
NO_PROGRESS = 120  # seconds without a step, or without all ranks, after which a run hangs
SECONDS_OF_ONE_PROCESS = 3600  # after which it is taken to hang; a soak has it take some 10,000 steps
TIMEOUT = 6  # dist.timeout, in seconds
KILLS_OF_A_RUN = 10
CONFIG = """
run = {{steps = {steps}, checkpoint_every = "{every} steps", eval_every = "40 steps", keep = 3, threads = 1}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"], val_fraction = 0.05}}
batch = {{tokens = 384, micro = 1}}
precision = {{accumulate = "fixed"}}
optim = {{schedule = {{kind = "constant"}}}}
dist = {{timeout = "{timeout} s", reduce = "%s"}}
observe = {{progress = "off", tensorboard = false, noise = "none"}}
"""


class Disturbed:
    """A run whose ranks are disturbed, and what it is to come to."""

    def __init__(self, options: Options, folder: pathlib.Path, reduce: str = "overlap", links: "Links | None" = None,
                 variables_of: Callable[[int], dict[str, str]] = lambda rank: {}):
        self.tiny = tinyrun.TinyRun(options.program, folder, steps=1_000_000, every=20, timeout=TIMEOUT, config=CONFIG % reduce)
        self.out = self.tiny.out("run")
        config = self.tiny.config.with_name("ranks.toml")
        config.write_text(self.tiny.config.read_text().replace("run = {", f'run = {{out = "{self.out}", ', 1))
        self.links = links
        self._steps_at_start = 0  # of the rank that was started last

        slow = tinyrun.slow(options.programs.fault_points, MICRO_BATCH_MS)

        def place_of(rank: int | None) -> Place:
            place = links.place_of(rank) if links else Place()
            if rank is None:
                return place
            variables = slow | variables_of(rank)
            if variables["LD_PRELOAD"] != slow["LD_PRELOAD"]:
                variables["LD_PRELOAD"] += ":" + slow["LD_PRELOAD"]
            return Place(place.prefix, place.variables | variables)

        self._port = tinyrun.ReservedPort()
        self.run = LastingRun(options.programs.store_host, [self.tiny.program, "train", str(config)], self.out, folder, WORLD,
                              self._port.number, place_of)

    def wait_for_steps(self, more: int) -> None:
        aim = self.run.steps() + more
        self.revive_until(lambda: self.run.steps() >= aim, "no further step")

    def wait_for_all(self) -> None:
        """A step that was under way when a rank was lost may yet be told of; no later one can have been taken without it."""
        def are_there() -> bool:
            step = self.run.last_step()
            return step.get("world") == WORLD and step["step"] > self._steps_at_start + 1 and not self.ended()
        self.revive_until(are_there, "the ranks are not all there")

    def start_again(self, rank: int) -> None:
        self.run.start_again(rank)
        self._steps_at_start = self.run.steps()

    def ended(self) -> list[int]:
        return [rank for rank, lived in enumerate(self.run.ranks) if lived.process.poll() is not None]

    def revive_until(self, is_so, otherwise: str) -> None:
        """Starts again what ended meanwhile, as a launcher would: who is lost while it joins is left out by the others."""
        deadline = time.monotonic() + NO_PROGRESS
        while not is_so():
            for rank in self.ended():
                self.start_again(rank)
            if time.monotonic() > deadline:
                raise tinyrun.Broken(f"{otherwise} in {NO_PROGRESS} s, after step {self.run.steps()}: {self.said()}")
            time.sleep(0.02)

    def said(self) -> str:
        return "; ".join(f"rank {rank}: {self.run.errors_of(rank).read_text()[-400:]}" for rank in range(WORLD))

    def kill(self, rank: int, campaign: Campaign) -> None:
        expect(self.run.kill(rank), f"rank {rank} had ended before it was killed: {self.said()}")
        campaign.note("kills")

    def freeze(self, rank: int, seconds: float, campaign: Campaign) -> None:
        """Until the kernel says that it is; then on again, which may be too late for the others."""
        process = self.run.ranks[rank].process.pid
        os.kill(process, signal.SIGSTOP)
        tinyrun.wait_until(lambda: "stopped" in tinyrun.status_of(process)["State"], f"rank {rank} was not frozen", 10)
        time.sleep(seconds)
        os.kill(process, signal.SIGCONT)
        campaign.note("times frozen")

    def expect_as_undisturbed(self, with_all_lines: bool = True) -> int:
        """Stops the run once all ranks are there, and compares it with one process. Returns how many steps it took."""
        self.wait_for_all()
        for lived in self.run.ranks:
            lived.process.send_signal(signal.SIGTERM)
        tinyrun.wait_until(lambda: len(self.ended()) == WORLD, "a rank does not stop", NO_PROGRESS)
        statuses = [lived.process.returncode for lived in self.run.ranks]
        expect(statuses == [tinyrun.INTERRUPTED] * WORLD, f"statuses {statuses} at the end: {self.said()}")
        steps = self.run.steps()
        alone = self.tiny.out("alone")
        ended = self.tiny.run(alone, f"--run.steps={steps}", seconds=SECONDS_OF_ONE_PROCESS)
        expect(ended.status == 0, f"one process, status {ended.status} in {ended.seconds:.0f} s: {ended.errors}")
        found, wanted = tinyrun.outcome(self.out), tinyrun.outcome(alone)
        expect(found.parameters == wanted.parameters, f"other parameters after {steps} steps")
        expect(found.optimizer == wanted.optimizer, f"another optimizer's state after {steps} steps")
        ours, theirs = ([line for line in map(json.loads, outcome.metrics) if "lr" in line] for outcome in (found, wanted))
        for line in ours:
            expect(line == theirs[line["step"] - 1], f"metrics {line} instead of {theirs[line['step'] - 1]}")
        numbers = [line["step"] for line in ours]
        expect(numbers == sorted(set(numbers)), "a step is told twice, or out of order")
        expect(len(ours) == steps or not with_all_lines, f"{len(ours)} lines for {steps} steps")
        expect(not tinyrun.leftovers(self.out), f"left behind: {tinyrun.leftovers(self.out)}")
        return steps


@contextlib.contextmanager
def disturbed(options: Options, **how):
    with tinyrun.scratch() as folder:
        made = Disturbed(options, pathlib.Path(folder), **how)
        try:
            made.wait_for_steps(2)
            yield made
        finally:
            made.run.end()


def campaign_of(name: str, options: Options, disturb, disturbances_of_a_run: int, runs_of=lambda number: {}) -> int:
    """Runs of which each is disturbed so many times, until there were `count`. `disturb(run, draw, campaign)` does it once, or a
    few times at once, and returns how often."""
    campaign = Campaign(name)

    def trial(draw: random.Random, number: int) -> None:
        left = min(disturbances_of_a_run, options.count - number * disturbances_of_a_run)
        with disturbed(options, **runs_of(number)) as run:
            while left > 0:
                run.wait_for_all()
                time.sleep(draw.uniform(0, 1.5))
                left -= disturb(run, draw, campaign)
                run.wait_for_steps(draw.randrange(1, 4))
            campaign.note("steps", run.expect_as_undisturbed())

    campaign.trials(-(-options.count // disturbances_of_a_run), options.seed, 1, trial)
    return campaign.end()


def kill_some(run: Disturbed, draw: random.Random, campaign: Campaign) -> int:
    """Mostly one; else two or three, one after the other, in the middle of what becomes of the first. One at least stays, with
    the run's state. Each comes back at once or later."""
    victims = draw.sample(range(WORLD), draw.choice([1, 1, 1, 2, 3]))
    for victim in victims:
        run.kill(victim, campaign)
        if draw.random() < 0.5:
            run.start_again(victim)
        time.sleep(draw.choice([0, draw.uniform(0, 3)]))
    return len(victims)


def killed(options: Options) -> int:
    """In half of the runs ranks keep their own micro-batches of the window in which another one is lost (dist.reduce)."""
    return campaign_of("ranks that are killed and come back", options, kill_some, KILLS_OF_A_RUN,
                       lambda number: {"reduce": ("end", "overlap")[number % 2]})


def freeze_one(run: Disturbed, draw: random.Random, campaign: Campaign) -> int:
    """Any for a moment; for longer than the others wait only one that does not hold the run directory."""
    teller = run.run.teller()
    if draw.random() < 0.5:
        run.freeze(draw.randrange(WORLD), draw.uniform(0.1, 3), campaign)
        return 1
    victim = draw.choice([rank for rank in range(WORLD) if rank != teller])
    run.freeze(victim, TIMEOUT + draw.uniform(1, 6), campaign)
    return 1


def frozen(options: Options) -> int:
    return campaign_of("ranks that are frozen and go on", options, freeze_one, KILLS_OF_A_RUN)


class Links:
    """The cables of a run's ranks, of which the store's host has the first."""

    def __init__(self, cable: netns.Cable):
        self._cable = cable

    def place_of(self, rank: int | None) -> Place:
        end = 0 if rank is None else rank + 1
        variables = self._cable.environment(end)
        for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
            variables.pop(name)
        return Place(tuple(self._cable.ends[end].enter()), variables)

    def cut(self, rank: int, seconds: float) -> None:
        """Nothing comes or goes: every packet is dropped."""
        self._cable.cut(rank + 1)
        expect(self._cable.is_cut(rank + 1), f"the link of rank {rank} was not cut")
        time.sleep(seconds)
        self._cable.mend(rank + 1)

    def drop(self, rank: int, seconds: float) -> None:
        """Most of what is more than two packets at once is dropped."""
        self._hold_up(rank, seconds, rate_mbit=2, queue_bytes=3100, counter=0, what="dropped")

    def delay(self, rank: int, seconds: float) -> None:
        self._hold_up(rank, seconds, rate_mbit=1, queue_bytes=1_000_000, counter=1, what="delayed")

    def _hold_up(self, rank: int, seconds: float, rate_mbit: float, queue_bytes: int, counter: int, what: str) -> None:
        self._cable.narrow(rank + 1, rate_mbit, queue_bytes)
        time.sleep(seconds)
        tinyrun.wait_until(lambda: self._cable.held_up(rank + 1)[counter] > 0, f"nothing was {what} on the link of rank {rank}",
                           NO_PROGRESS)
        self._cable.widen(rank + 1)


@contextlib.contextmanager
def links_of_ranks():
    """Raises netns.Unavailable."""
    with netns.cable(netns.Shape(rate_mbit=1000), WORLD + 1) as cable:
        yield Links(cable)


@contextlib.contextmanager
def links_where_possible(campaign: Campaign):
    """None where the machine cannot have them, which the campaign says."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(links_of_ranks())
        except netns.Unavailable as reason:
            campaign.note(f"without faults of links: {reason}")
            made = None
        yield made


def links(options: Options) -> int:
    """Links that drop, delay or are cut, for a moment or for longer than the others wait."""
    def disturb(run: Disturbed, draw: random.Random, campaign: Campaign) -> int:
        what = draw.choice(["cut", "cut for a moment", "drop", "delay"])
        # One that holds the run directory and is cut off holds it until it has noticed.
        rank = draw.choice([rank for rank in range(WORLD) if rank != run.run.teller()])
        if what == "cut":
            run.links.cut(rank, TIMEOUT + draw.uniform(1, 6))
        elif what == "cut for a moment":
            run.links.cut(rank, draw.uniform(0.1, 1))
        else:
            getattr(run.links, what)(rank, draw.uniform(0.5, 4))
        campaign.note(f"times {what}")
        return 1

    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(links_of_ranks())
        except netns.Unavailable as reason:
            raise tinyrun.LeftOut(str(reason), isinstance(reason, netns.MissingTool)) from reason
        return campaign_of("links of ranks", options, disturb, KILLS_OF_A_RUN, lambda number: {"links": made})
