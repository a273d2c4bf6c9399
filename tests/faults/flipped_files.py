"""One flipped bit in any file in or beside a run folder: what reads the file refuses it, says that it is damaged and does
without it, or has the same result to the bit. Nothing is used in silence.
"""
import dataclasses
import fnmatch
import json
import pathlib
import random
import re
import shutil
import threading
from collections.abc import Callable

import damage
import estates
import tinyrun
from tinyrun import Campaign, Options, expect

RUN = pathlib.Path("runs/first")
# Events that come by the clock, in one run and not in another.
BY_TIME = {"slow_disk", "slow_input", "memory_near_budget", "ceiling", "threads"}
NONCE = re.compile(rb"nonce[-=]\"?[0-9a-f]{32}")  # of a report's scripts, another one each time


Run = Callable[..., tinyrun.Ended]  # as estates.run


@dataclasses.dataclass(frozen=True)
class Reader:
    """A command that reads files of an estate, and where its result is: a run folder, files, or what it prints."""
    words: tuple[str, ...]
    trains: pathlib.Path | None = None
    writes: str = ""
    shows: bool = False  # what is there, so that it is enough to say what is damaged


def trains(config: str, out: str, *words: str) -> Reader:
    return Reader(("train", config, f"--run.out={out}", *words), pathlib.Path(out))


READERS = {
    "resume": trains("run.toml", str(RUN), "--resume", "--run.steps=6"),
    "fresh": trains("run.toml", "runs/new"),
    "repeat": Reader(("train", "--repeat", str(RUN), "--run.out=runs/again"), pathlib.Path("runs/again")),
    "tune": trains("tune.toml", "runs/tuned"),
    "tune-packed": trains("packed.toml", "runs/packed"),
    "verify": Reader(("checkpoint", "verify", str(RUN)), shows=True),
    "verify-copy": Reader(("checkpoint", "verify", "copies/first"), shows=True),
    "list": Reader(("checkpoint", "list", str(RUN), "--json"), shows=True),
    "runs": Reader(("runs", "runs", "--json"), shows=True),
    "report": Reader(("report", str(RUN), "--out", "seen.html"), writes="seen.html", shows=True),
    "compare": Reader(("compare", str(RUN), str(RUN), "--speed=off", "--memory=off", "--json"), shows=True),
    "eval": Reader(("eval", str(RUN), "--data", "held.txt", "--json")),
    "sample": Reader(("sample", str(RUN), "--prompt", "line", "--tokens", "8")),
    "chat": Reader(("sample", str(RUN), "--chat", "--prompt", "line", "--tokens", "8")),
    "predict": Reader(("predict", str(RUN), "images", "--json")),
    "export": Reader(("export", str(RUN), "--out", "seen"), writes="seen"),
    "export-packed": Reader(("export", str(RUN), "--out", "seen", "--format", "gguf"), writes="seen"),
    "export-adapter": Reader(("export", str(RUN), "--out", "seen", "--format", "adapter"), writes="seen"),
    "eval-exported": Reader(("eval", "hf", "--data", "held.txt", "--json")),
    "sample-exported": Reader(("sample", "hf", "--prompt", "line", "--tokens", "8")),
    "eval-packed": Reader(("eval", "gguf/model.gguf", "--data", "held.txt", "--json")),
}
TEXT = ("eval", "sample", "chat", "export")
# Which of them an estate has, besides what reads any run.
OF_ESTATES = {
    "text": (*TEXT, "fresh", "repeat", "tune", "eval-exported", "sample-exported"),
    "lines": (*TEXT, "fresh", "repeat"),
    "adapters": (*TEXT, "fresh", "export-packed", "export-adapter", "tune", "tune-packed", "eval-exported", "sample-exported", "eval-packed"),
    "middle": (*TEXT,),
    "images": ("fresh", "predict", "export", "tune"),
    "pairs": (*TEXT, "fresh"),
    "replica": ("verify-copy",),
    "input": TEXT,
    "table": (*TEXT, "fresh"),
    "module": ("fresh", "repeat", "predict", "export"),
}
OF_ANY = ("resume",)
OF_RUNS = ("verify", "list", "runs", "report", "compare")


@dataclasses.dataclass(frozen=True)
class Files:
    """Files of one kind, and what reads them. The first pattern that a file matches is its kind."""
    pattern: str
    readers: tuple[str, ...]


MODELS = ("eval", "sample", "export", "predict")
FILES = (
    Files("runs/first/checkpoints/*", ("resume", "verify", "list", *MODELS, "export-packed", "export-adapter")),
    Files("runs/first/metrics.jsonl", ("resume", "report", "runs", "compare")),
    Files("runs/first/run.json", ("resume", "repeat", "runs", "report", "compare", "export", "predict")),
    Files("runs/first/config.toml", ("resume", "report", *MODELS)),
    Files("runs/first/tokenizer/*", ("resume", "chat", *MODELS)),
    Files("runs/first/tb/*", ("resume", "report", "runs")),
    Files("runs/base/*", ("resume", "fresh")),
    Files("runs/.accrue-text/*", ("fresh", "resume")),
    Files("runs/.accrue-input/*", ("resume",)),
    Files("copies/first/*", ("resume", "verify-copy")),
    Files("hf/*", ("eval-exported", "sample-exported", "tune", "fresh", "resume")),
    Files("adapter/*", ("tune",)),
    Files("gguf/*", ("eval-packed", "tune-packed")),
    Files("tune.toml", ("tune",)),
    Files("packed.toml", ("tune-packed",)),
    Files("module.pt", ("fresh", "resume", "repeat", "predict")),
    Files("*", ("fresh", "resume", "repeat", "eval")),
)


# What has no checksum on purpose: a file, what reads it, and why. A flip that these use is counted, and not broken.
@dataclasses.dataclass(frozen=True)
class ByDesign:
    pattern: str
    readers: tuple[str, ...]
    why: str


OWN = "a user's own file: only a run that was trained on it knows what it was, and refuses it as it goes on"
OTHERS = "of a layout that other libraries read, which has no place for a checksum (docs/guide/security.md)"
EDITED = "a config is the user's to edit: a resume refuses keys that may not change, and names those that did (docs/guide/config.md)"
EXPORTED = ("eval-exported", "sample-exported", "tune", "fresh")
BY_DESIGN = (
    ByDesign("text.txt", ("fresh",), OWN),
    ByDesign("held.txt", ("eval",), OWN),
    ByDesign("lines.jsonl", ("fresh",), OWN),
    ByDesign("pairs.jsonl", ("fresh",), OWN),
    ByDesign("table.parquet", ("fresh",), OWN),
    ByDesign("images/*", ("fresh", "predict"), OWN),
    ByDesign("words/*", ("fresh",), OWN),
    ByDesign("module.pt", ("fresh",), OWN),
    ByDesign("run.toml", ("fresh", "resume"), EDITED),
    ByDesign("tune.toml", ("tune",), EDITED),
    ByDesign("packed.toml", ("tune-packed",), EDITED),
    # Of a model card and a page that show it; what a model is made by is in its checkpoints.
    ByDesign("runs/first/config.toml", ("export", "report"), EDITED),
    ByDesign("hf/*", EXPORTED, OTHERS),
    ByDesign("adapter/*", ("tune",), OTHERS),
    ByDesign("gguf/*", ("eval-packed", "tune-packed"), OTHERS),
)


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a command came to."""
    status: int
    errors: str
    said: frozenset[str]       # warnings and events of its own
    result: dict[str, object]  # by name


def kind_of(file: str) -> Files:
    return next(kind for kind in FILES if fnmatch.fnmatch(file, kind.pattern))


def readers_of(estate: str, file: str) -> tuple[str, ...]:
    there = {*OF_ESTATES[estate], *OF_ANY, *(() if str(RUN) in estates.KINDS[estate].lost else OF_RUNS)}
    return tuple(name for name in kind_of(file).readers if name in there)


def lines_of(file: pathlib.Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.is_file() else []


def events_in(lines: list[str]) -> set[str]:
    events = (json.loads(line) for line in lines if '"event"' in line)
    return {f"{event['event']}: {event['reason']}" for event in events if event["event"] not in BY_TIME}


def trained(out: pathlib.Path) -> dict[str, object]:
    found = tinyrun.outcome(out)
    return {"parameters": found.parameters, "optimizer's state": found.optimizer, "metrics": found.metrics}


def written(path: pathlib.Path) -> dict[str, object]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path.parent)): NONCE.sub(b"", file.read_bytes()) for file in files}


def remarks_in(output: bytes) -> set[str]:
    """What a list says of what it shows."""
    try:
        shown = json.loads(output)
    except ValueError:
        return set()
    lists = [shown, *shown.get("runs", []), *shown.get("checkpoints", [])] if isinstance(shown, dict) else []
    entries = [entry for entry in lists if isinstance(entry, dict)]
    return {remark for entry in entries for remark in entry.get("remarks", [])} | {f"damaged: {entry}" for entry in entries if not entry.get("whole", True)}


def read(options: Options, folder: pathlib.Path, reader: Reader, given: str, run: Run) -> Seen:
    log = folder / (reader.trains or RUN) / "metrics.jsonl"
    before = lines_of(log)
    ended = run(options, folder, reader.words, given=given)
    expect(not ended.hung, f"{' '.join(reader.words)} hangs")
    if ended.status != 0:
        return Seen(ended.status, ended.errors, frozenset(), {"what it prints": ended.output})
    said = set(ended.errors.splitlines()) | remarks_in(ended.output)
    result: dict[str, object] = {"what it prints": ended.output}
    if reader.trains:
        known = set(before)
        said |= events_in([line for line in lines_of(log) if line not in known])
        expect(log.is_file(), f"it goes on without a log: {ended.errors}")
        result = trained(folder / reader.trains)
    elif reader.writes:
        result = written(folder / reader.writes)
    return Seen(0, ended.errors, frozenset(said), result)


def verdict(seen: Seen, wanted: Seen, shows: bool) -> str:
    """Raises Broken if the damage was used in silence, or ended badly."""
    if seen.status not in (0, wanted.status):
        expect(seen.status in (1, 2), f"status {seen.status}: {seen.errors}")
        expect("error: " in seen.errors or "damaged" in seen.errors + str(seen.result), f"no message: {seen.errors} {seen.result}")
        return "refused"
    differ = [name for name in {**wanted.result, **seen.result} if wanted.result.get(name) != seen.result.get(name)]
    if not differ:
        return "with the same bits" if seen.said <= wanted.said else "noticed and mended"
    noticed = seen.said - wanted.said
    if shows and noticed:
        return "noticed"
    is_log = differ == ["metrics"] and any(line.startswith("metrics: ") for line in noticed)
    expect(is_log, f"used {'after ' + str(sorted(noticed)) if noticed else 'in silence'}: other {', '.join(differ)}")
    return "noticed and mended"


class Made:
    """Estates, and what reads them while they are whole."""

    def __init__(self, options: Options, folder: pathlib.Path, estates: dict[str, pathlib.Path], run: Run):
        self._options, self._folder, self._run = options, folder, run
        self._wanted: dict[tuple[str, str], Seen] = {}
        self._lock = threading.Lock()
        self.estates = estates

    def files(self, name: str) -> list[str]:
        estate = self.estates[name]
        return [str(file.relative_to(estate)) for file in sorted(estate.rglob("*")) if file.is_file() and file.stat().st_size > 0]

    def wanted(self, name: str, reader: str) -> Seen:
        with self._lock:
            if (name, reader) not in self._wanted:
                self._wanted[name, reader] = self.read(name, reader, "whole", lambda copy: None)
                expect(self._wanted[name, reader].status == 0, f"{reader} of a whole {name}: {self._wanted[name, reader].errors}")
            return self._wanted[name, reader]

    def read(self, name: str, reader: str, which: str, damage_it: Callable[[pathlib.Path], None]) -> Seen:
        """By a reader in a copy of its own, as many of them change what they read."""
        copy = tinyrun.copy(self.estates[name], self._folder / f"{name}-{which}-{reader}")
        damage_it(copy)
        seen = read(self._options, copy, READERS[reader], given=estates.KINDS[name].given, run=self._run)
        shutil.rmtree(copy)
        return seen


def drawn(files: list[str], draw: random.Random) -> str:
    """Kinds of files are met alike, however many files they have."""
    by_kind = [[file for file in files if kind_of(file) is kind] for kind in FILES]
    return draw.choice(draw.choice([found for found in by_kind if found]))


def reason_for(file: str, reader: str) -> str:
    return next((entry.why for entry in BY_DESIGN if fnmatch.fnmatch(file, entry.pattern) and reader in entry.readers), "")


def flipped_files(options: Options) -> int:
    campaign = Campaign("flipped bits of every file")
    names = list(estates.KINDS)[: options.count]
    with tinyrun.scratch() as scratch:
        folder = pathlib.Path(scratch)
        made = Made(options, folder, {name: estates.make(options, estates.KINDS[name], folder / name) for name in names}, estates.run)

        def trial(draw: random.Random, number: int) -> None:
            name = names[number % len(names)]
            file = drawn(made.files(name), draw)
            bit = draw.randrange((made.estates[name] / file).stat().st_size * 8)
            campaign.note("flips")
            broken = []
            for reader in readers_of(name, file):
                wanted = made.wanted(name, reader)
                seen = made.read(name, reader, str(number), lambda copy: damage.flip(copy / file, bit))
                try:
                    campaign.note(f"readings {verdict(seen, wanted, READERS[reader].shows)}")
                except tinyrun.Broken as wrong:
                    if reason_for(file, reader):
                        campaign.note("readings of what has no checksum on purpose")
                    else:
                        broken.append(f"{name}: bit {bit} of {file}: {reader}: {wrong}")
            expect(not broken, "\n    ".join(broken))

        campaign.trials(options.count, options.seed, options.jobs, trial)
        control_without_noticing(campaign, made, names[0])
    return campaign.end()


def control_without_noticing(campaign: Campaign, made: Made, name: str) -> None:
    """A new run cannot know what its data was, so that nothing notices a flipped bit of it: that it was trained on has to be seen."""
    wanted = made.wanted(name, "fresh")
    seen = made.read(name, "fresh", "control", lambda copy: damage.flip(copy / "text.txt", 8 * 5))
    try:
        verdict(seen, wanted, READERS["fresh"].shows)
        campaign.control(False, "a flipped bit that nobody notices does not show in what a run leaves")
    except tinyrun.Broken:
        campaign.control(seen.status == 0 and seen.said == wanted.said, "a flipped bit of new data is noticed")
