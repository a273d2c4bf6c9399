#!/usr/bin/env python3
"""A U-Net (examples/by_feature/unet.cpp) on images of 3840 x 2160 with masks under a memory budget: what it takes.

    bench/e2e/unet.py [--quick] [--width 8] [--out bench/results/unet.json]

Real steps on batches of three images as micro-batches of one, first by full recomputation under 4 GiB, then as it would
be without: the resident memory of the operating system (ru_maxrss, which is VmHWM) beside what accrue's meter says of
its tensors and of what lies outside of them. What is measured is memory, which other programs do not change; no times.
--quick takes 960 x 544 and 480 MiB, and keeps nothing. Only the standard library.
"""
import argparse
import json
import pathlib
import random
import re
import struct
import tempfile
import zlib

from runs import BUILD, Refused, gib, run, save, steps_of, table

CLASSES, IMAGES, BATCH = 3, 6, 3
UNET = BUILD / "examples" / "by_feature" / "unet"
SIZES = {"quick": (544, 960, "480MiB"), "whole": (2160, 3840, "4GiB")}


def png(height: int, rows: list[bytes], channels: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", len(rows[0]) // channels, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows), 1)) + chunk(b"IEND", b""))


def write_images(folder: pathlib.Path, height: int, width: int) -> None:
    """Boxes of two classes on noise, with a margin that is ignored."""
    generator = random.Random(1337)
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    for number in range(IMAGES):
        mask = [bytearray(width) for _ in range(height)]
        for _ in range(12):
            top, left = generator.randrange(height // 2), generator.randrange(width // 2)
            rows, columns = generator.randint(height // 16, height // 3), generator.randint(width // 16, width // 3)
            for row in mask[top:top + rows]:
                row[left:left + columns] = bytes([1 + number % (CLASSES - 1)]) * columns
        for row in mask[:height // 20 + number]:
            row[:] = b"\xff" * width
        noise = [generator.randbytes(3 * width) for _ in range(31)]
        bright = bytes.maketrans(bytes([0, 1, 2, 255]), bytes([40, 200, 120, 0]))
        pixels = []
        for y, row in enumerate(mask):
            level, grain = bytes(b for b in row.translate(bright) for _ in range(3)), noise[y % 31]
            pixels.append(bytes((a + (b >> 2)) & 255 for a, b in zip(level, grain)))
        (folder / "images" / f"{number}.png").write_bytes(png(height, pixels, 3))
        (folder / "masks" / f"{number}.png").write_bytes(png(height, [bytes(row) for row in mask], 1))


def config_of(folder: pathlib.Path, levels: int, width: int) -> pathlib.Path:
    config = folder / "unet.toml"
    config.write_text(f"""
        [run]
        steps = 2
        checkpoint_every = "1000 steps"
        [model]
        layers = {levels}
        width = {width}
        [data]
        train = ["{folder}/images/*.png"]
        masks = ["{folder}/masks/*.png"]
        [batch]
        samples = {BATCH}
        micro = 1
        [optim]
        lr = 1e-3
        [observe]
        tensorboard = false
        progress = "off"
        """)
    return config


def reserved_in(said: str) -> int:
    """What the end of a run says of its memory."""
    number, unit = re.search(r"([\d.]+) ([MG]iB) reserved", said).groups()
    return int(float(number) * {"MiB": 2**20, "GiB": 2**30}[unit])


def trained(unet: pathlib.Path, config: pathlib.Path, name: str, *overrides: str) -> dict:
    """What a run took; where its budget refused it, why."""
    out = config.parent / name
    try:
        said, resident = run([str(unet), "train", str(config), f"--run.out={out}", *overrides])
    except Refused as refused:
        return {"refused": str(refused)}
    steps = steps_of(out)
    return {"peak_resident_bytes": resident, "peak_tensor_bytes": max(step["peak_bytes"] for step in steps),
            "peak_reserved_bytes": reserved_in(said),
            "losses": [step["loss"] for step in steps], "micro_batches": steps[0]["micro_batches"],
            "retries": sum(step.get("retries", 0) for step in steps)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--levels", type=int, default=4, help="below the first")
    parser.add_argument("--width", type=int, default=8, help="channels of the first level")
    parser.add_argument("--budget", help="4GiB, with --quick 480MiB")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    height, width, budget = SIZES["quick" if options.quick else "whole"]
    budget = options.budget or budget
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder, height, width)
        config = config_of(folder, options.levels, options.width)
        rows = {"full recomputation": trained(UNET, config, "full", "--memory.recompute=full", f"--memory.budget={budget}"),
                "no recomputation": trained(UNET, config, "none", "--memory.recompute=none", "--run.steps=1")}
    print(table(["", "most resident", "reserved for tensors", "in tensors", "losses"],
                [[kind, "refused", "", "", ""] if "refused" in row else
                 [kind, *(gib(row[f"peak_{what}_bytes"]) for what in ("resident", "reserved", "tensor")),
                  ", ".join(f"{loss:.7g}" for loss in row["losses"])] for kind, row in rows.items()]), flush=True)
    save("unet.json", {"unet": {"image": [height, width], "levels": options.levels, "width": options.width,
                                "batch": BATCH, "budget": budget, **rows}}, options.out, options.quick)


if __name__ == "__main__":
    main()
