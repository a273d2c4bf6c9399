"""kill -9 at named points of runs of all kinds, of a process that begins or goes on: the spans that a trace shows, and "load"."""
import array
import collections
import dataclasses
import itertools
import json
import math
import pathlib
import random
import shutil
import signal
import subprocess

import estates
import launchers
import started_once
import tinyrun
from tinyrun import Campaign, Options, expect

CONFIG = """
[run]
steps = 6
checkpoint_every = "{every}"
eval_every = "3 steps"
keep = 3
threads = 1
{run}
[model]
{model}
[data]
{data}
[batch]
{batch}
[precision]
accumulate = "{accumulate}"
[dist]
timeout = "20 s"
{dist}
[observe]
progress = "off"
{memory}
"""
GPT2 = 'kind = "gpt2"\nlayers = 2\nheads = 1\nwidth = 16\ncontext = 32'
TEXT = 'train = ["text.txt"]\nval_fraction = 0.05'
# What comes before a trace begins.
EARLY = {"load": 1}
# The root mean square by which parameters may differ that have the same total of what compression left out, and not the same bits.
CLOSE = 5e-5
# A micro-batch takes so long where checkpoints lie in the middle of windows.
SLOW_SECONDS = 0.04


UNUSED = 86  # the status of a program that never came to the point


@dataclasses.dataclass(frozen=True)
class Kind:
    """A run that begins anew or goes on, killed at any of its points. Ranks wait for each other, so that none goes on alone."""
    run: str = ""
    model: str = GPT2
    data: str = TEXT
    batch: str = "tokens = 384\nmicro = 2"
    accumulate: str = "fixed"
    dist: str = ""
    every: str = "2 steps"
    ranks: int = 1
    slow: bool = False
    has_same_bits: bool = True  # as it goes on
    memory: str = ""            # its section

    def config(self) -> str:
        return CONFIG.format(every=self.every, run=self.run, model=self.model, data=self.data, batch=self.batch, accumulate=self.accumulate,
                             dist=self.dist, memory=self.memory)


KINDS = {
    "gpt2": Kind(),
    "llama with adapters": Kind(model=GPT2.replace("gpt2", "llama") + "\n[lora]\nrank = 2"),
    "resnet on images": Kind(model='kind = "resnet"\nlayers = 8\nwidth = 4\nbatchnorm = "convert-group"',
                             data='train = ["images/*/*.png"]\nval_fraction = 0.2', batch="samples = 8\nmicro = 4"),
    "preference pairs": Kind(data='train = ["pairs.jsonl"]\nval_fraction = 0.2\n[loss]\nkind = "orpo"', batch="tokens = 512\nmicro = 2"),
    "adaptive batch": Kind(batch='tokens = 384\nmicro = 2\n[adapt]\nbatch = "noise-scale"'),
    "changing batch": Kind(batch='tokens = 384\nmicro = 2\nramp = {from = 128, over = "60%", by = "doubling"}'),
    "mixture of sources": Kind(data='train = [{path = "text.txt", weight = 3}, {path = "lines.jsonl", weight = 1}]\nval = ["held.txt"]'),
    "kept in the middle of windows": Kind(every="0.1 s", slow=True),
    "second folder": Kind(run='replica = "copies/{out}"'),
    "sharded ranks": Kind(dist='shard = "optimizer"\nmin_ranks = 2', ranks=2),
    "local steps": Kind(dist='local_steps = 2\nshares = "equal"', ranks=2, accumulate="fp32"),
    "pipeline stages": Kind(dist="stages = 2", ranks=2),
    "compressed sums": Kind(dist='compress = "int8"\nshares = "equal"', ranks=2, accumulate="fp32", has_same_bits=False),  # docs/notes/compression.md
}
# Matrices of 64 KiB and more are offloaded. A budget makes all of the state leave memory before each step.
WIDE = GPT2.replace("heads = 1", "heads = 4").replace("width = 16", "width = 128")
OFFLOADED = '[memory]\noffload = "{disk}"\nbudget = "4GiB"'
KINDS_ON_DISK = {
    "offloaded gpt2": Kind(model=WIDE, memory=OFFLOADED),
    "offloaded llama with codes": Kind(model=WIDE.replace("gpt2", "llama"), memory=OFFLOADED + '\n[optim]\nstate = "int8"'),
    "offloaded base of adapters": Kind(model=WIDE.replace("gpt2", "llama") + "\n[lora]\nrank = 2", memory=OFFLOADED),
}
# The points at which parts of an offloaded state are underway: where they are moved, in a segment that uses them, and in a step's pieces.
UNDERWAY = ("offload:", "segment:", "optimizer:")


@dataclasses.dataclass(frozen=True)
class Kill:
    at: str
    count: int
    rank: int | None  # None: there is one process

    def rule(self) -> str:
        return f"at={self.at} count={self.count} do=kill" + ("" if self.rank is None else f" rank={self.rank}")

    def __str__(self) -> str:
        return f"arrival {self.count} at {self.at}" + ("" if self.rank is None else f" of rank {self.rank}")


def point_of(span: str) -> str:
    """As fault_points.cpp has it."""
    return span.replace(": ", ":").replace(" ", "-")


class Runs:
    """Of one kind, in a folder: the undisturbed one, what it left and where it came by."""

    def __init__(self, options: Options, kind: Kind, folder: pathlib.Path):
        self._options, self._folder = options, folder
        self.kind = kind
        self.disk = folder / "disk"  # of an offloaded state
        folder.mkdir()
        self.disk.mkdir()
        for write in (estates.write_text, estates.write_lines, estates.write_pairs, estates.write_images):
            write(folder)
        self.run(self.out("whole"), "--trace", "trace.json")
        self.wanted = tinyrun.outcome(self.out("whole"))
        self.points = dict(arrivals(folder / "trace.json")) | EARLY

    def out(self, name: str) -> pathlib.Path:
        return self._folder / name

    def draw(self, draw: random.Random, resumes: bool) -> Kill:
        """Points are met alike, however often a run comes by. What goes on comes by less often than what begins."""
        at = draw.choice(sorted(self.points))
        most = max(1, self.points[at] // 2) if resumes else self.points[at]
        return Kill(at, draw.randint(1, most), draw.randrange(self.kind.ranks) if self.kind.ranks > 1 else None)

    def start(self, out: pathlib.Path, *words: str, kill: Kill | None = None) -> list[subprocess.Popen]:
        """It begins, or goes on if there is one."""
        words = (*words, *(["--resume"] if (out / "config.toml").exists() else []))
        config = out.with_suffix(".toml")
        config.write_text(self.kind.config().replace("{out}", out.name).replace("{disk}", str(self.disk)))
        self._port = tinyrun.ReservedPort()
        rules = [kill.rule()] if kill else []
        rules += [f"at=micro-batch count=every do=sleep:{SLOW_SECONDS}"] if self.kind.slow else []
        faults = {"LD_PRELOAD": str(self._options.programs.fault_points), "ACCRUE_FAULT": ";".join(rules)} if rules else {}
        command = [self._options.program, "train", config.name, f"--run.out={out.name}", *words]
        return [started_once.start(command, tinyrun.alone() | faults | self._variables(rank), self._folder) for rank in range(self.kind.ranks)]

    def _variables(self, rank: int) -> dict[str, str]:
        return launchers.environment("by hand", rank, self._port.number, self.kind.ranks) if self.kind.ranks > 1 else {}

    def run(self, out: pathlib.Path, *words: str) -> None:
        ended = [tinyrun.wait(process) for process in self.start(out, *words)]
        expect(all(end.status == 0 for end in ended), f"it does not end well: {[(end.status, end.errors) for end in ended]}")

    def killed(self, out: pathlib.Path, kill: Kill) -> bool:
        """False if it came to its end before: the point is one that comes by the clock, or on another rank alone."""
        processes = self.start(out, kill=kill)
        victim = tinyrun.wait(processes[kill.rank or 0])
        expect(not victim.hung, f"{kill}: it hangs")
        was_killed = victim.status == -signal.SIGKILL
        expect(not any(self.disk.iterdir()), f"{kill}: left behind: {list(self.disk.iterdir())}")
        others = [process for rank, process in enumerate(processes) if rank != (kill.rank or 0)]
        for process in others if was_killed else []:
            process.kill()
        ended = [tinyrun.wait(process) for process in others]
        expect(was_killed or {victim.status, *(end.status for end in ended)} <= {0, UNUSED},
               f"{kill}: status {victim.status}: {victim.errors} {[(end.status, end.errors) for end in ended]}")
        return was_killed

    def killed_anew(self, out: pathlib.Path, draw: random.Random) -> tuple[Kill, int]:
        """Of a run that begins: the kill, and how many runs ended before, as their points come by the clock or on another rank alone."""
        for ended in itertools.count():
            kill = self.draw(draw, resumes=False)
            if self.killed(out, kill):
                return kill, ended
            for folder in (out, self.out("copies") / out.name):
                shutil.rmtree(folder, ignore_errors=True)

    def expect_whole(self, out: pathlib.Path, when: str) -> None:
        if self.kind.has_same_bits:
            tinyrun.expect_same(out, self.wanted, when)
        else:
            expect(far_from(tinyrun.outcome(out), self.wanted) < CLOSE, f"{when}: other parameters by {far_from(tinyrun.outcome(out), self.wanted)}")
            expect(steps_in(tinyrun.outcome(out)) == steps_in(self.wanted), f"{when}: other steps")
        for folder in (out, self.out("copies") / out.name):
            expect(not folder.exists() or not tinyrun.leftovers(folder), f"{when}: left behind: {folder.exists() and tinyrun.leftovers(folder)}")
        expect(not any(self.disk.iterdir()), f"{when}: left behind: {list(self.disk.iterdir())}")


def arrivals(trace: pathlib.Path) -> collections.Counter:
    """How often a run came by which point."""
    spans = json.loads(trace.read_text())
    return collections.Counter(point_of(span["name"]) for span in spans if span["ph"] == "X")


def parameters_in(outcome: tinyrun.Outcome) -> array.array:
    """All numbers of a safetensors file in fp32."""
    header = int.from_bytes(outcome.parameters[:8], "little")
    return array.array("f", outcome.parameters[8 + header:])


def far_from(one: tinyrun.Outcome, other: tinyrun.Outcome) -> float:
    """The root mean square of the differences of their parameters."""
    ours, theirs = parameters_in(one), parameters_in(other)
    expect(len(ours) == len(theirs), "another number of parameters")
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs)) / len(ours))


def steps_in(outcome: tinyrun.Outcome) -> list[tuple]:
    return [tuple(json.loads(line).get(key) for key in ("step", "samples", "tokens", "weight", "lr")) for line in outcome.metrics]


def verified(options: Options, out: pathlib.Path) -> tinyrun.Ended:
    return estates.run(options, out.parent, ("checkpoint", "verify", out.name))


def kills_at_points(options: Options) -> int:
    with tinyrun.scratch() as scratch:
        return killed_at_points(Campaign("kill -9 at named points"), options, KINDS, pathlib.Path(scratch))


def kills_while_offloaded(options: Options) -> int:
    """Only while parts of the state are underway."""
    # Not the temporary folder, which may lie in memory.
    with tinyrun.scratch(pathlib.Path.cwd()) as scratch:
        return killed_at_points(Campaign("kill -9 while state is offloaded"), options, KINDS_ON_DISK, pathlib.Path(scratch), UNDERWAY)


def killed_at_points(campaign: Campaign, options: Options, kinds: dict[str, Kind], scratch: pathlib.Path, points: tuple[str, ...] = ("",)) -> int:
    """Kills at the points whose names begin with one of `points`."""
    names = list(kinds)[: options.count]
    made = {name: Runs(options, kinds[name], scratch / name.replace(" ", "-")) for name in names}
    for name, runs in made.items():
        runs.points = {at: count for at, count in runs.points.items() if at.startswith(points)}
        expect(runs.points, f"{name} comes by none of {points}")

    def trial(draw: random.Random, number: int) -> None:
        name = names[number % len(names)]
        runs = made[name]
        out = runs.out(f"trial{number}")
        met = []
        for resumes in (False, True)[: draw.randint(1, 2)]:
            if not resumes:
                kill, unmet = runs.killed_anew(out, draw)  # each trial has a kill
                campaign.note("points that did not come", unmet)
            elif not runs.killed(out, kill := runs.draw(draw, (out / "config.toml").exists())):
                campaign.note("points that did not come")
                continue
            met.append(kill)
            campaign.note("kills")
            campaign.note("of them of a run that went on", resumes)
            if tinyrun.checkpoints(out):
                ended = verified(options, out)
                expect(ended.status == 0, f"{name}, {kill}: a checkpoint is not whole: {ended.output.decode()} {ended.errors}")
        when = f"{name}, killed at {', '.join(map(str, met))}"
        try:
            runs.run(out)
        except tinyrun.Broken as broken:
            raise tinyrun.Broken(f"{when}: {broken}") from broken
        runs.expect_whole(out, when)
        shutil.rmtree(out)

    campaign.trials(options.count, options.seed, 1, trial)
    first = made[names[0]]
    first.run(first.out("other"), "--run.seed=7")
    campaign.control(tinyrun.outcome(first.out("other")) != first.wanted, "another seed has the same bits")
    for runs in made.values():
        if not runs.kind.has_same_bits:
            runs.run(runs.out("shorter"), "--run.steps=5")
            campaign.control(far_from(tinyrun.outcome(runs.out("shorter")), runs.wanted) > CLOSE, "a step less is close")
    campaign.control(not first.killed(first.out("unmet"), Kill("no-such-point", 1, None)), "a kill is counted that did not happen")
    return campaign.end()
