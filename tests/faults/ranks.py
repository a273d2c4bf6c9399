"""A rank that is frozen or killed, and a link that is cut: whoever is left ends in time and says who is missing."""
import pathlib
import random
import subprocess
import sys
import threading
import time

import launchers
import tinyrun
from tinyrun import Campaign, Options, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "e2e"))

import netns  # noqa: E402

TIMEOUT = 3  # dist.timeout, in seconds
# To notice, to listen for heartbeats, to say goodbye, and to end the process on a busy machine.
MARGIN = 10
# Of torchrun's agent, which gives frozen ranks 30 s after it told them to stop.
AGENT = 40
# With compression each rank keeps something of its own, so that no run goes on without one of them.
ALL_NEEDED = ("--dist.compress=bf16", "--precision.accumulate=fp32")


def wait_all(processes: list[subprocess.Popen], seconds: float) -> list[tinyrun.Ended]:
    ended: list[tinyrun.Ended | None] = [None] * len(processes)

    def one(place: int) -> None:
        ended[place] = tinyrun.wait(processes[place], seconds)
    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(processes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [end for end in ended if end is not None]


def lost_ranks(options: Options) -> int:
    """SIGSTOP and SIGKILL of each rank with each kind of launcher; `count` is how often all of that."""
    campaign = Campaign("lost ranks")
    cases = [(kind, victim, number) for kind in launchers.KINDS for victim in range(launchers.RANKS)
             for number in (launchers.STOP, launchers.KILL)]
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=1000000, every=1000, timeout=TIMEOUT)

        def trial(draw: random.Random, number: int) -> None:
            kind, victim, what = cases[number % len(cases)]
            out = tiny.out(f"trial{number}")
            ranks = launchers.Ranks(tiny, out, kind, ALL_NEEDED)
            launchers.wait_for_steps(out, 5)
            time.sleep(draw.uniform(0, 0.2))
            pid = ranks.pid(victim)
            launchers.kill(pid, what)
            limit = TIMEOUT + MARGIN + (AGENT if kind == "torchrun" else 0)
            survivors = wait_all(ranks.survivors(victim), limit)
            launchers.kill(pid, launchers.KILL)
            ranks.end_all()
            case = f"{kind}, {what.name} of rank {victim}"
            expect(not any(end.hung for end in survivors), f"{case}: a rank hangs longer than {limit} s")
            expect(all(end.status == 1 for end in survivors),
                   f"{case}: statuses {[(end.status, end.errors[-400:]) for end in survivors]}")
            named = f"rank {victim}" if victim > 0 or kind == "torchrun" else "rank"
            expect(any(named in end.errors for end in survivors), f"{case}: nobody names it: {survivors[0].errors}")
            campaign.note(f"seconds at most ({what.name}, {kind})", 0)
            key = f"seconds at most ({what.name}, {kind})"
            campaign.counts[key] = max(campaign.counts[key], round(max(end.seconds for end in survivors)))

        campaign.trials(options.count * len(cases), options.seed, 1, trial)
    return campaign.end()


def cut_links(options: Options) -> int:
    """Ranks in network namespaces; the interface of one goes down in the middle of a run."""
    campaign = Campaign("cut links")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=1000000, every=1000, timeout=TIMEOUT)

        def trial(draw: random.Random, number: int) -> None:
            victim = number % launchers.RANKS
            out = tiny.out(f"trial{number}")
            with netns.cable(netns.Shape(rate_mbit=1000), launchers.RANKS) as cable:
                processes = [tiny.start(out, *ALL_NEEDED, environment=cable.environment(rank), prefix=end.enter())
                             for rank, end in enumerate(cable.ends)]
                try:
                    launchers.wait_for_steps(out, 5)
                    time.sleep(draw.uniform(0, 0.2))
                    subprocess.run(cable.ends[victim].enter("ip", "link", "set", netns.INTERFACE, "down"), check=True,
                                   env=netns.WITH_TOOLS)
                    ended = wait_all(processes, TIMEOUT + MARGIN)
                finally:
                    for process in processes:
                        process.kill()
            expect(not any(end.hung for end in ended), f"link of rank {victim}: a rank hangs")
            expect(all(end.status == 1 for end in ended),
                   f"link of rank {victim}: {[(end.status, end.errors[-400:]) for end in ended]}")
            expect(any("rank" in end.errors for end in ended), f"nobody is named: {ended[0].errors}")
            key = "seconds at most"
            campaign.counts[key] = max(campaign.counts.get(key, 0), round(max(end.seconds for end in ended)))

        try:
            campaign.trials(options.count, options.seed, 1, trial)
        except netns.Unavailable as reason:
            raise tinyrun.LeftOut(str(reason), isinstance(reason, netns.MissingTool)) from reason
    return campaign.end()
