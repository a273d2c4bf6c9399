"""kill -9 at any moment of a run, again and again until it ends: it has the bits of one that nobody disturbed."""
import json
import pathlib
import random
import subprocess
import time

import launchers
import tinyrun
from tinyrun import Campaign, Options, expect


def killed_once(process: subprocess.Popen, moment: float) -> tinyrun.Ended | None:
    """None where it was killed; else it had ended before."""
    try:
        process.wait(timeout=moment)
        return tinyrun.wait(process)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None


def new_run(tiny: tinyrun.TinyRun, number: int) -> pathlib.Path:
    out = tiny.out(f"trial{number}")
    expect(not out.exists(), f"trial {number} was before: a run that is done cannot be killed in its middle")
    return out


def one_process(options: Options, kills: int) -> int:
    campaign = Campaign("kill -9 of one process")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder))
        wanted, duration = tiny.undisturbed(tiny.out("reference"))

        def trial(draw: random.Random, number: int) -> None:
            out = new_run(tiny, number)
            ended, killed = None, 0
            while ended is None:
                words = ["--resume"] if (out / "config.toml").exists() else []
                # Towards the end of the trials every process would end before it is killed.
                ended = killed_once(tiny.start(out, *words), draw.uniform(0.02, duration))
                killed += ended is None
            campaign.note("kills", killed)
            expect(ended.status == 0, f"exit status {ended.status} after {killed} kills: {ended.errors}")
            tinyrun.expect_same(out, wanted, f"after {killed} kills")
            expect(not tinyrun.leftovers(out), f"left behind: {tinyrun.leftovers(out)}")

        campaign.trials_until("kills", kills, options.seed, options.jobs, trial)
        other = tiny.out("other")
        tiny.run(other, "--run.seed=7")
        campaign.control(tinyrun.outcome(other) != wanted, "another seed has the same bits")
    return campaign.end()


def three_ranks(options: Options, kills: int) -> int:
    """One rank or all; the others end by themselves."""
    campaign = Campaign("kill -9 of 3 ranks")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=150, every=8, timeout=20)
        begin = time.monotonic()
        reference = tiny.out("reference")
        statuses = [tinyrun.wait(p).status for p in launchers.Ranks(tiny, reference, "by hand").processes]
        expect(statuses == [0, 0, 0], f"the undisturbed run fails: {statuses}")
        duration = time.monotonic() - begin
        wanted = tinyrun.outcome(reference)

        def trial(draw: random.Random, number: int) -> None:
            out = new_run(tiny, number)
            while True:
                words = ("--resume",) if (out / "config.toml").exists() else ()
                ranks = launchers.Ranks(tiny, out, "by hand", words)
                time.sleep(draw.uniform(0.05, duration))
                if all(process.poll() is not None for process in ranks.processes):
                    ended = ranks.end_all()
                    break
                victims = range(3) if draw.random() < 0.3 else [draw.randrange(3)]
                for rank in victims:
                    ranks.processes[rank].kill()
                ended = [tinyrun.wait(process) for process in ranks.processes]
                campaign.note("kills")
                expect(not any(end.hung for end in ended), "a rank hangs after another was killed")
                if all(end.status == 0 for rank, end in enumerate(ended) if rank not in victims) and len(victims) < 3:
                    continue  # killed after its work was done
            expect(all(end.status == 0 for end in ended), f"{[end.status for end in ended]}: {ended[0].errors}")
            tinyrun.expect_same(out, wanted)
            expect(not tinyrun.leftovers(out), f"left behind: {tinyrun.leftovers(out)}")

        campaign.trials_until("kills", kills, options.seed, 1, trial)
    return campaign.end()


# A window takes four seconds of one process and one of four, and is kept in its middle as often as the clock says.
WINDOWS = """
run = {{steps = {steps}, checkpoint_every = "0.3 s", keep = 3, threads = 1}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"]}}
batch = {{tokens = 6400, micro = 1}}
precision = {{accumulate = "fixed"}}
observe = {{progress = "off", tensorboard = false, noise = "none"}}
"""
MICRO_BATCH_MS = 10
# Of how many ranks a start, or a resumption, may be.
WORLDS = (1, 2, 3, 4)


def kept_in_its_middle(out: pathlib.Path) -> int:
    """How many micro-batches of the window under way the newest checkpoint has."""
    for checkpoint in reversed(tinyrun.checkpoints(out)):
        try:
            return len(json.loads((checkpoint / "state.json").read_text()).get("middle", {"done": []})["done"])
        except OSError:
            continue  # it was replaced, or is half made
    return 0


def last_resumption(out: pathlib.Path) -> str:
    """What the last process that came so far told of where it goes on from; empty where none did."""
    told = tinyrun.events(out, "resume") if (out / "metrics.jsonl").exists() else []
    return told[-1] if told else ""


def in_windows(options: Options) -> int:
    """In the middle of windows, of a run that is resumed each time with as many ranks as are drawn."""
    campaign = Campaign("kill -9 in the middle of windows")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=4, config=WINDOWS)
        wanted, _ = tiny.undisturbed(tiny.out("reference"))

        def start(out: pathlib.Path, world: int, port: int) -> list[subprocess.Popen]:
            config = out.with_suffix(".toml")
            config.write_text(tiny.config.read_text().replace("run = {", f'run = {{out = "{out}", ', 1))
            resumes = ["--resume"] if (out / "config.toml").exists() else []
            command = [tiny.program, "train", str(config), *resumes]
            slow = tinyrun.slow(options.programs.fault_points, MICRO_BATCH_MS)
            return [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=tinyrun.alone() | slow |
                                     (launchers.environment("by hand", rank, port, world) if world > 1 else {}))
                    for rank in range(world)]

        def trial(draw: random.Random, number: int) -> None:
            out = new_run(tiny, number)
            while True:
                kept, told_before = kept_in_its_middle(out), last_resumption(out)
                port = tinyrun.ReservedPort()
                processes = start(out, draw.choice(WORLDS), port.number)
                time.sleep(draw.uniform(0.3, 3))
                if processes[0].poll() is not None:
                    break
                for process in processes:
                    process.kill()
                ended = [tinyrun.wait(process) for process in processes]
                expect(all(end.status in (-9, 0) for end in ended), f"{[(end.status, end.errors) for end in ended]}")
                campaign.note("kills")
                told = last_resumption(out)
                if kept and told != told_before:
                    expect(f": {kept} of " in told, f"{kept} micro-batches were kept, and the resumption says: {told}")
                    campaign.note("of them in resumptions that went on in the middle of a window")
            ended = [tinyrun.wait(process) for process in processes]
            expect(all(end.status == 0 for end in ended), f"{[(end.status, end.errors) for end in ended]}")
            tinyrun.expect_same(out, wanted)
            expect(not tinyrun.leftovers(out), f"left behind: {tinyrun.leftovers(out)}")

        campaign.trials_until("kills", options.count, options.seed, options.jobs, trial)
        campaign.control(campaign.counts.get("of them in resumptions that went on in the middle of a window", 0) > 0,
                         "no kill met a window that was kept")
    return campaign.end()
