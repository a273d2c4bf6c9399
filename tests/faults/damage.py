"""Flipped bits, files cut short and files of another step: the damage is named, and nothing is trained on it."""
import json
import pathlib
import random

import tinyrun
from tinyrun import Campaign, Options, expect

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


def flip(file: pathlib.Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def newest(out: pathlib.Path) -> pathlib.Path:
    return tinyrun.checkpoints(out)[-1]


def flip_a_bit(out: pathlib.Path, draw: random.Random, name: str) -> str:
    file = newest(out) / name
    bit = draw.randrange(file.stat().st_size * 8)
    flip(file, bit)
    return f"bit {bit} of {file.name}"


def cut_short(out: pathlib.Path, draw: random.Random, name: str) -> str:
    file = newest(out) / name
    # Without its last byte, the end of a line, a manifest is the same manifest.
    length = draw.randrange(file.stat().st_size - 1)
    with open(file, "r+b") as stream:
        stream.truncate(length)
    return f"{file.name} of {length} bytes"


def swap(out: pathlib.Path, draw: random.Random, name: str) -> str:
    here, other = (checkpoint / name for checkpoint in reversed(tinyrun.checkpoints(out)[-2:]))
    content = here.read_bytes()
    here.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{name} swapped with the step before"


def make_old(out: pathlib.Path) -> None:
    """The newest checkpoint as it was written before there were checksums."""
    folder = newest(out)
    (folder / "manifest.json").unlink()
    state = json.loads((folder / "state.json").read_text())
    state["files"] = {name: (folder / name).stat().st_size for name in FILES[:2]}
    (folder / "state.json").write_text(json.dumps(state))


def campaign_of(name: str, options: Options, damage) -> int:
    campaign = Campaign(name)
    with tinyrun.scratch() as folder:
        # The run can go on for some steps after each of its checkpoints, so that a wrong one shows.
        tiny = tinyrun.TinyRun(options.program, pathlib.Path(folder), steps=40, every=5)
        whole = tiny.out("whole")
        expect(tiny.run(whole, "--run.keep=9").status == 0, "the undisturbed run fails")
        wanted = tinyrun.outcome(whole)
        tinyrun.shutil.rmtree(newest(whole))

        def trial(draw: random.Random, number: int) -> None:
            out = tinyrun.copy(whole, tiny.out(f"trial{number}"))
            # Tensors are most of a checkpoint's bytes; the other files would hardly be met by chance.
            done = damage(out, draw, FILES[number % len(FILES)])
            verified = tiny.verify(out)
            expect(verified.status == 1, f"{done}: checkpoint verify has status {verified.status}")
            asked = tiny.run(out, "--resume", str(int(newest(out).name.removeprefix("step-"))))
            expect(asked.status == 2, f"{done}: asked for by its step, status {asked.status}: {asked.errors}")
            resumed = tiny.run(out, "--resume", "--run.keep=9")
            expect(resumed.status == 0, f"{done}: status {resumed.status}: {resumed.errors}")
            expect(bool(tinyrun.events(out, "checkpoint_skipped")), f"{done}: no event")
            tinyrun.expect_same(out, wanted, done)
            tinyrun.shutil.rmtree(out)

        campaign.trials(options.count, options.seed, options.jobs, trial)
        old = tinyrun.copy(whole, tiny.out("old"))
        make_old(old)
        file = newest(old) / "model.safetensors"
        flip(file, (file.stat().st_size - 2) * 8 + 5)
        resumed = tiny.run(old, "--resume", "--run.keep=9")
        campaign.control(resumed.status == 0 and tinyrun.outcome(old) != wanted,
                         "without checksums a flipped bit does not show in what a run leaves")
    return campaign.end()


def bit_flips(options: Options) -> int:
    return campaign_of("flipped bits", options, flip_a_bit)


def truncations(options: Options) -> int:
    return campaign_of("files cut short", options, cut_short)


def swaps(options: Options) -> int:
    return campaign_of("files of another step", options, swap)
