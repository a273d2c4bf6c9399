"""Faults inside a process: calls of libc that fail or do less, ordered while it runs (failing_calls.cpp), and a campaign
of them. Every one says whether it happened, and a trial in which its fault did not happen is a broken one.
"""
import mmap
import pathlib
import random
import shutil
import struct

import tinyrun
from tinyrun import Campaign, Options, expect

KINDS = ("short write", "full disk", "slow disk", "flipped bit", "no memory", "clock jump", "no thread")  # as failing_calls.cpp has them
ORDER = struct.Struct("=qqq")  # calls that are left to it, its amount, calls that it met


class FailingCalls:
    """What is ordered of one process, from before its start on."""

    def __init__(self, library: pathlib.Path, page: pathlib.Path):
        page.write_bytes(b"\0" * ORDER.size * len(KINDS))
        with open(page, "r+b") as file:
            self._orders = mmap.mmap(file.fileno(), 0)
        self.environment = {"LD_PRELOAD": str(library), "ACCRUE_FAILING_CALLS": str(page)}

    def order(self, kind: str, times: int = 1, amount: int = 0) -> None:
        """The next `times` calls meet it. `amount`: milliseconds of a slow disk, the bytes from which on memory is refused, the
        seconds of a jump, the threads that a process may have."""
        place = KINDS.index(kind) * ORDER.size
        # The calls come last: the process may look at any moment.
        struct.pack_into("=q", self._orders, place + 8, amount)
        struct.pack_into("=q", self._orders, place, times)

    def happened(self, kind: str) -> int:
        return ORDER.unpack_from(self._orders, KINDS.index(kind) * ORDER.size)[2]

    def take_back(self, kind: str) -> None:
        struct.pack_into("=q", self._orders, KINDS.index(kind) * ORDER.size, 0)


STEPS = 40
# What each trial orders in a step of the first half of a run, after which it still writes checkpoints and evaluates: how many calls, and the amount.
ORDERS = {
    "short write": lambda draw: (draw.randrange(1, 20), 0),
    "full disk": lambda draw: (draw.randrange(1, 20), 0),
    "slow disk": lambda draw: (draw.randrange(1, 20), draw.randrange(1, 60)),
    "flipped bit": lambda draw: (1, 0),
    "no memory": lambda draw: (draw.randrange(1, 4), 0),
    "clock jump": lambda draw: (draw.randrange(1, 4), draw.choice([-1, 1]) * draw.randrange(60, 400_000)),
    "no thread": lambda draw: (draw.randrange(1, 20), 0),
}


def failing_calls(options: Options) -> int:
    """One process, which goes on with the same bits, or ends with a message and does so when it is resumed."""
    campaign = Campaign("failing calls")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=STEPS)
        wanted, _ = tiny.undisturbed(tiny.out("reference"))

        def trial(draw: random.Random, number: int) -> None:
            kind = KINDS[number % len(KINDS)]
            out = tiny.out(f"trial{number}")
            calls = FailingCalls(options.programs.failing_calls, tiny.out(f"page{number}"))
            times, amount = ORDERS[kind](draw)
            # A tiny run asks for memory as it begins alone: some of its blocks, or the first.
            if kind == "no memory":
                calls.order(kind, times, draw.choice([1, 1 << 12, 1 << 16]))
                process = tiny.start(out, environment=calls.environment)
            else:
                step = draw.randrange(2, STEPS // 2)
                pause = tinyrun.Pause(tiny.folder, f"pause{number}")
                waits = pause.variables(options.programs.fault_points, f"at=micro-batch step={step}")
                both = {"LD_PRELOAD": f"{waits['LD_PRELOAD']}:{calls.environment['LD_PRELOAD']}"}
                process = tiny.start(out, environment=calls.environment | waits | both)
                pause.wait(process)
                calls.order(kind, times, amount)
                pause.release()
            ended = tinyrun.wait(process)
            expect(not ended.hung, f"{kind}: it hangs")
            expect(calls.happened(kind) > 0, f"{kind} did not happen")
            campaign.note(f"times {kind}", calls.happened(kind))
            if ended.status != 0:
                expect(ended.status in (1, 2, 3), f"{kind}: status {ended.status}: {ended.errors}")
                expect("error: " in ended.errors, f"{kind}: no message: {ended.errors}")
                expect(kind in ("full disk", "no memory"), f"{kind} ends a run: {ended.errors}")
                campaign.note(f"runs that a {kind} ended")
            if kind == "flipped bit":
                return see_flipped(out, wanted)
            if out.exists() and tinyrun.checkpoints(out):
                expect(tiny.verify(out).status == 0, f"{kind}: a checkpoint is not whole")
            if ended.status != 0:
                again = tiny.finish(out)
                expect(again.status == 0, f"after {kind}: status {again.status}: {again.errors}")
            # A line that does not fit on a full disk ends the run, and metrics.jsonl lacks it.
            without = kind == "full disk" and ended.status != 0 and "metrics.jsonl" in ended.errors
            tinyrun.expect_same(out, wanted, kind, with_metrics=not without)
            shutil.rmtree(out)

        def see_flipped(out: pathlib.Path, wanted: tinyrun.Outcome) -> None:
            """The run goes on as nothing in it changed; what lies on the disk is refused, where it is still there."""
            if tiny.verify(out).status == 0:
                tinyrun.expect_same(out, wanted, "flipped bit")  # of a file that was removed since, or of no tensor
            else:
                campaign.note("checkpoints refused for a flipped bit")
            shutil.rmtree(out)

        campaign.trials(options.count, options.seed, options.jobs, trial)
        unharmed = FailingCalls(options.programs.failing_calls, tiny.out("page"))
        tinyrun.wait(tiny.start(tiny.out("control"), environment=unharmed.environment))
        campaign.control(not any(unharmed.happened(kind) for kind in KINDS), "faults happen that nobody ordered")
    return campaign.end()
