"""Links out of the folder at every path that accrue writes: what they lead to stays byte for byte as it was."""
import dataclasses
import pathlib
import random
import shutil
import stat
from collections.abc import Callable

import hostile
import tinyrun
from hostile import World, write
from tinyrun import Campaign, Options, expect

OUTSIDE = "outside"
PID = "{pid}"  # in a path: of the process that will write it
Link = Callable[[pathlib.Path, pathlib.Path], None]


def lead_out(path: pathlib.Path, outside: pathlib.Path) -> pathlib.Path:
    """Moves what is at the path, or makes a file, to lie outside."""
    target = outside / "target"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(target)
    else:
        write(target, "somebody else's\n")
    return target


def to_what_was_there(path: pathlib.Path, outside: pathlib.Path) -> None:
    path.symlink_to(lead_out(path, outside))


def to_a_file(path: pathlib.Path, outside: pathlib.Path) -> None:
    remove(path)
    path.symlink_to(lead_out(path, outside))


def to_nothing(path: pathlib.Path, outside: pathlib.Path) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside / "nothing")


def to_a_folder(path: pathlib.Path, outside: pathlib.Path) -> None:
    remove(path)
    write(outside / "folder" / "file", "somebody else's\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside / "folder")


def by_a_second_name(path: pathlib.Path, outside: pathlib.Path) -> None:
    """A hard link, which folders cannot be."""
    target = lead_out(path, outside)
    if target.is_dir():
        path.symlink_to(target)
    else:
        path.hardlink_to(target)


def remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


LINKS: dict[str, Link] = {"to what was there": to_what_was_there, "by a second name": by_a_second_name, "to nothing": to_nothing, "to a folder": to_a_folder,
                          "to a file": to_a_file}
RUN, STEPS = "runs/first", "runs/first/checkpoints"
RESUME = "train run.toml --resume --run.steps=6 --run.keep=1 --run.keep_best=false"
TRAIN = "train run.toml --run.out=new"
FOLDERS = (STEPS, f"{RUN}/tb", f"{RUN}/tokenizer", RUN)  # that users have on another disk


@dataclasses.dataclass(frozen=True)
class Place:
    call: str
    paths: tuple[str, ...]  # of which a `*` is what is there, or a first call of `before` made
    before: str = ""
    on_purpose: tuple[str, ...] = ()  # folders that are taken as meant
    estate: str = "text"


PLACES = (
    Place(RESUME, (*(f"{RUN}/{name}" for name in ("run.json", "config.toml", "metrics.jsonl", ".accrue-lock", "tb/*", f"run.json.partial-{PID}-0",
                                                  f"metrics.jsonl.partial-{PID}-0", f"config.toml.partial-{PID}-0")),
                   *(f"{STEPS}/{name}" for name in ("step-00000006", "step-00000004", "step-00000004/model.safetensors", "step-00000004/manifest.json",
                                                    f".step-00000006-{PID}.partial", ".step-00000006-1.partial", ".step-00000004.removed")), *FOLDERS),
          on_purpose=FOLDERS),
    Place("train tune.toml --run.out=new --resume --run.steps=6", ("new/tokenizer", "new/tokenizer/tokenizer.json", ".accrue-text", ".accrue-text/*"),
          "train tune.toml --run.out=new", ("new/tokenizer", ".accrue-text")),
    Place(TRAIN, ("new", "new/config.toml", "new/run.json", "new/checkpoints", "new/.accrue-lock", "new.log"), on_purpose=("new",)),
    Place(f"{TRAIN} --trace trace.json", ("trace.json", f"trace.json.partial-{PID}-0")),
    Place(f"{TRAIN} --memory.budget_file=budget", ("budget",)),
    Place(TRAIN, (".accrue-text",), on_purpose=(".accrue-text",)),
    Place(f"{TRAIN} --data.train=-", (".accrue-input", ".accrue-input/new", ".accrue-input/new/standard-input.txt"), on_purpose=(".accrue-input",)),
    Place(f"{TRAIN} --run.replica=replica", ("replica", "replica/checkpoints", "replica/step-00000002", "replica/new"), on_purpose=("replica",)),
    Place(f"{TRAIN} --data.train=table.parquet", (".accrue-text", ".accrue-text/*"), f"{TRAIN}2 --data.train=table.parquet", (".accrue-text",), "table"),
    Place(f"checkpoint prune {RUN} --keep 1", (STEPS, *(f"{STEPS}/{name}" for name in ("step-00000004", "step-00000002", "step-00000002/state.json",
                                                                                       ".step-00000002.removed"))), on_purpose=(STEPS,)),
    Place(f"report {RUN}", (f"{RUN}/report.html", f"{RUN}/report.html.partial-{PID}-0")),
    Place(f"report {RUN} --out both.html", ("both.html",)),
    Place("tokenize tune.toml --out tokens", ("tokens", "tokens/train.bin", "tokens/val.bin"), on_purpose=("tokens",)),
    Place(f"export {RUN} --out made", ("made", "made/config.json", "made/model.safetensors", "made/tokenizer.json", "made/README.md"), on_purpose=("made",)),
    Place("export runs/base --out made --format gguf", ("made", "made/model.gguf", "made/README.md"), on_purpose=("made",), estate="adapters"),
    Place("init text.txt --out made.toml", ("made.toml", f"made.toml.partial-{PID}-0")),
    Place(f"train --repeat {RUN} --run.out=new", ("new", "new/config.toml"), on_purpose=("new",)),
)
TRIALS = [(place, path, link) for place in PLACES for path in place.paths for link in LINKS]
STRIDE = 37


def content_of(folder: pathlib.Path) -> dict[str, tuple[int, bytes]]:
    """Kind, rights and bytes of all that is in a folder."""
    return {str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b"") for path in sorted(folder.rglob("*"))}


def planted(world: World, folder: pathlib.Path, place: Place, path: str, link: str) -> None:
    if place.before:
        ended = world.call(folder, place.before.split(" "))
        expect(ended.status == 0, f"what is to be there before is not made: {ended.told()}")
    (folder / OUTSIDE).mkdir()
    found = next(folder.glob(path), None) if "*" in path else folder / path  # some names hold the time or a digest
    expect(found is not None, f"nothing made {path}")
    LINKS[link](found, folder / OUTSIDE)


def with_its_process(program: str, folder: pathlib.Path, words: list[str], path: str, link: str) -> hostile.Ended:
    """Plants a link whose name holds the number of the process, which then becomes the program."""
    target = {"to a folder": "folder", "to nothing": "nothing"}.get(link, "target")
    make = "ln" if link == "by a second name" else "ln -s"
    name = path.replace(PID, "$$")
    return hostile.call(["/bin/sh", "-c", f'{make} "$PWD/{OUTSIDE}/{target}" "{name}" && exec "$0" "$@"', program, *words], folder)


def trial_of(world: World, folder: pathlib.Path, place: Place, path: str, link: str) -> bool:
    """Returns whether the call went on."""
    words = place.call.split(" ")
    has_process = PID in path
    if has_process:
        for name in ("folder/file", "target"):
            write(folder / OUTSIDE / name, "somebody else's\n")
    else:
        planted(world, folder, place, path, link)
    before = content_of(folder / OUTSIDE)
    ended = with_its_process(world.program, folder, words, path, link) if has_process else hostile.call([world.program, *words], folder, input=TEXT)
    expect(not ended.hung and ended.status in hostile.STATUSES, ended.told())
    out = (ended.out + ended.errors).decode(errors="replace")
    if path in place.on_purpose and ended.status == 0:
        is_asked_for = path in words or any(word.endswith("=" + path) for word in words) or path == RUN
        expect(is_asked_for or content_of(folder / OUTSIDE) == before or f"{path} is a link" in out, f"what it leads to changed without a word: {ended.told()}")
        return True
    expect(content_of(folder / OUTSIDE) == before, f"what it leads to changed: {changes(before, content_of(folder / OUTSIDE))}; {ended.told()}")
    if ended.status != 0:
        expect(ended.status in (1, 2), ended.told())
        expect(any(part in out for part in pathlib.PurePath(path).parts), f"it is refused without its name: {ended.told()}")
    return ended.status == 0


def changes(before: dict, after: dict) -> str:
    return ", ".join(f"{name}: {'made' if name not in before else 'removed' if name not in after else 'changed'}" for name in sorted(before | after) if before.get(name) != after.get(name))


TEXT = b"".join(b"line %d of what is typed\n" % line for line in range(200))


def links(options: Options, world: World) -> Campaign:
    campaign = Campaign("links out of the folder")

    def trial(draw: random.Random, number: int) -> None:
        place, path, link = TRIALS[(number + options.seed - 1) * STRIDE % len(TRIALS)]
        folder = world.fresh(f"link{number}", place.estate)
        try:
            campaign.note("calls that went on" if trial_of(world, folder, place, path, link) else "links that were refused by name")
        except tinyrun.Broken as broken:
            raise tinyrun.Broken(f"{path} is a link {link}, accrue {place.call}: {broken}") from None
        shutil.rmtree(folder)

    campaign.trials(options.count, options.seed, options.jobs, trial)
    for link in LINKS:
        campaign.control(not writes_inside(world.fresh(link, "text"), link), f"what is written through a link {link} is not seen")
    return campaign


def writes_inside(folder: pathlib.Path, link: str) -> bool:
    """Whether a program that opens and writes as if nothing was there seems to have kept what is outside."""
    (folder / OUTSIDE).mkdir()
    LINKS[link](folder / "made", folder / OUTSIDE)
    before = content_of(folder / OUTSIDE)
    hostile.call(["/bin/sh", "-c", "cat text.txt > made/text.txt || cat text.txt > made"], folder)
    return content_of(folder / OUTSIDE) == before
