"""Pipes, sockets and devices in the place of files that accrue reads: it never waits for them, never reads on without an end, and names
what it refuses. A cache is made again, and what is not read is not looked at.
"""
import contextlib
import os
import pathlib
import random
import re
import stat
import sys
from collections.abc import Callable

import estates
import flipped_files
import hostile
import tinyrun
from hostile import World, write
from tinyrun import Campaign, Options, expect

GIB = 1 << 30
UNMET = 3
Put = Callable[[pathlib.Path, contextlib.ExitStack], None]


def held_open(path: pathlib.Path, until: contextlib.ExitStack) -> None:
    """Somebody may still write, so that there is no end."""
    os.mkfifo(path)
    until.callback(os.close, os.open(path, os.O_RDWR | os.O_NONBLOCK))


def link_to(target: str) -> Put:
    return lambda path, until: path.symlink_to(target)


KINDS: dict[str, Put] = {
    "a pipe": lambda path, until: os.mkfifo(path),
    "a pipe that is held open": held_open,
    "a socket": lambda path, until: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to /dev/zero": link_to("/dev/zero"),
    "a link to /dev/full": link_to("/dev/full"),
    "a link to a pipe": lambda path, until: (os.mkfifo(path.with_name("led-to")), path.symlink_to("led-to")) and None,
    "a link to itself": lambda path, until: path.symlink_to(path.name),
}
# What is read because the command names it, at {path}.
NEW = "train run.toml --run.out=runs/new"
NAMED = (f"{NEW} --memory.budget_file={{path}}", f"{NEW} --data.train={{path}}", f"{NEW} --data.val={{path}}", f"{NEW} --data.tokenizer={{path}}",
         f"{NEW} --model.from={{path}}", "train tune.toml --run.out=runs/new --lora.from={path} --lora.rank=2", "train {path}", "plan {path}", "doctor {path}",
         "data {path}", "init {path}", "eval runs/first --data {path}", "eval {path} --data held.txt", "sample {path} --prompt x", "predict runs/first {path}",
         "export {path} --out new", "report {path}", "compare {path} runs/first", "checkpoint verify {path}", "checkpoint list {path}", "tokenize {path} --out tokens",
         "train --repeat {path} --run.out=runs/new", "verify {path}", "bench {path}", "train run.toml --run.steps=6 --resume {path}", "limits.toml", "masks.toml")
MADE = {"limits.toml": lambda: estates.config().replace("runs/first", "runs/new").replace("threads = 1", 'threads = 1\nlimits = [{file = "at", above = 3, do = "slow"}]'),
        "masks.toml": lambda: estates.config('kind = "torchscript"\nfrom = "at"', estates.IMAGES["data"] + '\nmasks = ["at"]', estates.IMAGES["batch"])}


def bounded(options: Options, folder: pathlib.Path, words: tuple[str, ...], given: str = "") -> tinyrun.Ended:
    input = (folder / given).read_bytes() if given and (folder / given).is_file() else b""
    ended = hostile.call([str(pathlib.Path(options.program).resolve()), *words], folder, input=input)
    expect(not ended.hung, f"it waits for {hostile.SECONDS} s: {ended.told()}")
    expect(ended.bytes < GIB, f"it takes {ended.bytes} bytes: {ended.told()}")
    expect(ended.status in hostile.STATUSES, ended.told())
    return tinyrun.Ended(ended.status, ended.errors.decode(errors="replace"), ended.seconds, output=ended.out)


def expect_named(told: str, path: str) -> None:
    expect(len(re.findall("^error: ", told, re.MULTILINE)) <= 1 and "filesystem error" not in told, f"it is no clear error: {told}")
    expect(any(part in told for part in pathlib.PurePath(path).parts if part != "runs"), f"it is refused without its name: {told}")


def by_name(options: Options, world: World, number: int, call: str, put: Put) -> str:
    folder = world.fresh(f"named{number}", "images" if call.startswith("predict") else "text")
    words = call.replace("{path}", "at").split(" ")
    if call in MADE:
        write(folder / call, MADE[call]())
        words = ["train", call]
    with contextlib.ExitStack() as until:
        put(folder / "at", until)
        ended = bounded(options, folder, tuple(words))
    tinyrun.shutil.rmtree(folder)
    # A budget and a limit are read again and again while the run goes on, which does without one that is not there.
    goes_on = ended.status == 0 and ("budget_file" in call or call == "limits.toml")
    expect(goes_on or ended.status in (1, 2) and "error: " in ended.errors, f"status {ended.status}: {ended.errors} {ended.output!r}")
    expect_named(ended.errors, "at")
    return "went without" if goes_on else "refused"


def in_place(made: flipped_files.Made, number: int, name: str, file: str, reader: str, put: Put) -> str:
    wanted = made.wanted(name, reader)
    with contextlib.ExitStack() as until:
        def instead(copy: pathlib.Path) -> None:
            (copy / file).unlink()
            put(copy / file, until)
        seen = made.read(name, reader, f"pipe{number}", instead)
    if seen.status == UNMET:  # of a comparison, which has nothing to compare and says why
        expect_named(str(seen.result), file)
        return "noticed"
    came_to = flipped_files.verdict(seen, wanted, flipped_files.READERS[reader].shows)
    if came_to == "refused":
        expect_named(seen.errors + str(seen.result), file)
    return came_to


def pipes(options: Options, world: World) -> Campaign:
    campaign = Campaign("pipes and devices")
    names = list(estates.KINDS)[: options.count]
    made = flipped_files.Made(options, world.folder, {name: world.estate(name) for name in names}, bounded)

    def trial(draw: random.Random, number: int) -> None:
        kind = draw.choice(sorted(KINDS))
        name = names[number % len(names)]
        file = flipped_files.drawn([file for file in made.files(name) if file != estates.KINDS[name].given], draw)
        reader = draw.choice(flipped_files.readers_of(name, file))
        call = NAMED[number // 3 % len(NAMED)]
        is_named = number % 3 == 0
        try:
            came_to = by_name(options, world, number, call, KINDS[kind]) if is_named else in_place(made, number, name, file, reader, KINDS[kind])
        except tinyrun.Broken as broken:
            raise tinyrun.Broken(f"{kind} at {call if is_named else f'{file} of {name}, {reader}'}: {broken}") from None
        campaign.note(came_to)

    campaign.trials(options.count, options.seed, options.jobs, trial)
    os.mkfifo(world.folder / "pipe")
    campaign.control(hostile.call(["/bin/cat", "pipe"], world.folder, seconds=0.5).hung, "a program that waits for a pipe is not seen")
    taken = hostile.call([sys.executable, "-c", "b'x' * (1 << 30)"], world.folder)
    campaign.control(taken.bytes >= GIB, f"what takes a GiB is not seen: {taken.bytes} bytes")
    return campaign
