"""Run folders under attack: two processes at once, full disks, foreign files, a folder that goes away."""
import pathlib
import random
import shutil
import subprocess
import time

import launchers
import tinyrun
from tinyrun import Campaign, Options, expect


def double_starts(options: Options) -> int:
    campaign = Campaign("two processes at once")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=120, every=4)
        reference, half = tiny.out("reference"), tiny.out("half")
        wanted, _ = tiny.undisturbed(reference)
        stopped = tiny.start(half)
        launchers.wait_for_steps(half, 10)
        stopped.kill()
        stopped.communicate()

        def trial(draw: random.Random, number: int) -> None:
            out = tiny.out(f"trial{number}")
            resumes = number % 2 == 1
            if resumes:
                tinyrun.copy(half, out)
            words = ["--resume"] if resumes else []
            first = tiny.start(out, *words)
            time.sleep(draw.choice([0, 0, draw.uniform(0, 0.4)]))
            second = tiny.start(out, *words)
            ended = [tinyrun.wait(first), tinyrun.wait(second)]
            statuses = sorted(end.status for end in ended)
            if statuses == [0, 0] and resumes and went_on_from_the_end(out, last_step=120):
                campaign.note("resumptions one after the other")  # no run met another one
                return
            expect(statuses == [0, 2], f"statuses {statuses}: {[end.errors for end in ended]}")
            refusal = next(end.errors for end in ended if end.status == 2)
            expect("held by process" in refusal or "holds a run already" in refusal, refusal)
            campaign.note("refusals")
            campaign.note("of them that name the first", "held by process" in refusal)
            tinyrun.expect_same(out, wanted, "the winner")
            expect(not tinyrun.leftovers(out), f"left behind: {tinyrun.leftovers(out)}")
            shutil.rmtree(out)

        campaign.trials(options.count, options.seed, 1, trial)
        campaign.control(campaign.counts.get("refusals", 0) > 0, "no process met another one")
    return campaign.end()


def went_on_from_the_end(out: pathlib.Path, last_step: int) -> bool:
    return any(line.get("event") == "resume" and f"step-{last_step:08}" in line["reason"] for line in tinyrun.metrics(out))


def mounted(place: pathlib.Path, kibibytes: int) -> None:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)], check=True)


def fill(file: pathlib.Path) -> None:
    """Takes all the room there is."""
    try:
        with open(file, "wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
    except OSError:
        pass


def can_mount() -> bool:
    with tinyrun.scratch() as folder:
        place = pathlib.Path(folder) / "disk"
        try:
            mounted(place, 64)
        except (subprocess.CalledProcessError, OSError):
            return False
        subprocess.run(["umount", str(place)], check=True)
        return True


def full_disks(options: Options) -> int:
    """Even trials begin on a small disk; odd ones on a large one that fills up during the run."""
    campaign = Campaign("full disks")
    if not can_mount():
        raise tinyrun.LeftOut("no file system can be mounted here")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=60, every=4)
        reference = tiny.out("reference")
        wanted, _ = tiny.undisturbed(reference)
        needed = sum(f.stat().st_size for f in reference.rglob("*") if f.is_file()) // 1024

        def on_disk(place: pathlib.Path, filled_at: str) -> None:
            """`filled_at`: the point at which the disk fills up; empty: it begins too small."""
            out = place / "run"
            pause = tinyrun.Pause(tiny.folder, place.name) if filled_at else None
            process = tiny.start(out, environment=pause.variables(options.programs.fault_points, filled_at) if pause else {})
            if pause:
                pause.wait(process)
                fill(place / "filler")
                pause.release()
            ended = tinyrun.wait(process)
            expect(ended.status in (1, 2), f"status {ended.status}: {ended.errors}")
            expect("error: " in ended.errors, f"no message: {ended.errors}")
            campaign.note("runs that a full disk ended")
            if out.exists() and tinyrun.checkpoints(out):
                expect(tiny.verify(out).status == 0, "a checkpoint is not whole")
            (place / "filler").unlink(missing_ok=True)
            subprocess.run(["mount", "-o", f"remount,size={needed * 10}k", str(place)], check=True)
            again = tiny.finish(out)
            expect(again.status == 0, f"with room again: status {again.status}: {again.errors}")
            tinyrun.expect_same(out, wanted)

        def trial(draw: random.Random, number: int) -> None:
            place = tiny.out(f"disk{number}")
            fills = number % 2 == 1
            # Less than what a whole run leaves, or enough until it is filled.
            mounted(place, needed * 4 + number if fills else max(16, needed * (number + 1) // (options.count + 1)))
            point = f"at=micro-batch step={draw.randrange(2, 30)}"
            try:
                on_disk(place, point if fills else "")
            finally:
                subprocess.run(["umount", "-l", str(place)], check=True)

        campaign.trials(options.count, options.seed, 1, trial)
    return campaign.end()


def foreign_files(options: Options) -> int:
    """What stands at run.out and is not accrue's is there afterwards as it was before."""
    campaign = Campaign("a user's files at run.out")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=10)

        def snapshot(path: pathlib.Path) -> object:
            if path.is_symlink():
                return ("link", str(path.readlink()))
            if path.is_dir():
                return {child.name: snapshot(child) for child in path.iterdir()}
            return path.read_bytes() if path.exists() else None

        def refused(name: str, make, *words: str) -> None:
            out = tiny.out(name)
            make(out)
            before = snapshot(out)
            ended = tiny.run(out, *words)
            expect(ended.status == 2, f"{name}: status {ended.status}: {ended.errors}")
            expect(snapshot(out) == before, f"{name}: it is not as it was")

        def with_file(path: pathlib.Path, name: str) -> None:
            path.mkdir()
            (path / name).write_text("a user's")

        cases = [
            ("file", lambda out: out.write_text("a user's"), ()),
            ("link", lambda out: out.symlink_to(tiny.config), ()),
            ("dangling", lambda out: out.symlink_to(tiny.out("nowhere")), ()),
            ("config", lambda out: with_file(out, "config.toml"), ()),
            ("checkpoints", lambda out: with_file(out, "checkpoints"), ()),
            ("notes", lambda out: with_file(out, "notes.txt"), ("--optim.schedule.warmup=\"3 epochs\"", "--optim.lr=-1")),
            ("empty", lambda out: out.mkdir(), ("--model.heads=3",)),
        ]
        campaign.trials(len(cases), options.seed, 1, lambda draw, number: refused(cases[number][0], cases[number][1],
                                                                                   *cases[number][2]))
    return campaign.end()


def vanishing_folders(options: Options) -> int:
    campaign = Campaign("a run folder that goes away")
    with tinyrun.scratch() as folder:
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=100000, every=3)

        def trial(draw: random.Random, number: int) -> None:
            out, away = tiny.out(f"trial{number}"), tiny.out(f"away{number}")
            process = tiny.start(out)
            launchers.wait_for_steps(out, 5)
            time.sleep(draw.uniform(0, 0.3))
            out.rename(away)
            if number % 2 == 0:
                shutil.rmtree(away)
            ended = tinyrun.wait(process)
            expect(ended.status == 1 and "error: " in ended.errors, f"status {ended.status}: {ended.errors}")
            expect(not out.exists(), "it came back")
            if number % 2 == 1:
                expect(tiny.verify(away).status == 0, "a checkpoint is not whole")

        campaign.trials(options.count, options.seed, options.jobs, trial)
    return campaign.end()
