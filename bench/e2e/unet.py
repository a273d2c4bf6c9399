#!/usr/bin/env python3
"""A U-Net (examples/by_feature/unet.cpp) on images of 3840 x 2160 with masks under a memory budget: what it takes.

    bench/e2e/unet.py [--quick] [--width 8] [--out bench/results/unet.json]

Real steps on batches of three images as micro-batches of one, first by full recomputation under 4 GiB, then as it would
be without: the resident memory of the operating system (ru_maxrss, which is VmHWM) beside what accrue's meter says of
its tensors and of what lies outside of them. What is measured is memory, which other programs do not change; no times.
--quick takes 480 x 270 under a budget in proportion, and keeps nothing. Only the standard library.
"""
import argparse
import json
import pathlib
import random
import struct
import tempfile
import zlib

from runs import BUILD, Refused, gib, run, save, steps_of, table

CLASSES, IMAGES, BATCH, STEPS = 3, 6, 3, 2
MIB = 1 << 20


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


def config_of(folder: pathlib.Path, options: argparse.Namespace) -> pathlib.Path:
    config = folder / "unet.toml"
    config.write_text(f"""
        [run]
        steps = {STEPS}
        checkpoint_every = "1000 steps"
        [model]
        layers = {options.levels}
        width = {options.width}
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


def trained(folder: pathlib.Path, name: str, options: argparse.Namespace, *overrides: str) -> dict:
    """What a run took; where its budget refused it, why."""
    command = [str(BUILD / "examples" / "by_feature" / "unet"), "train", str(config_of(folder, options)),
               f"--run.out={folder / name}", *overrides]
    try:
        _, resident = run(command)
    except Refused as refused:
        return {"refused": str(refused)}
    steps = steps_of(folder / name)
    return {"peak_resident_bytes": resident, "peak_tensor_bytes": max(step["peak_bytes"] for step in steps),
            "steps": len(steps), "losses": [step["loss"] for step in steps],
            "micro_batches": steps[0]["micro_batches"], "retries": sum(step.get("retries", 0) for step in steps)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--levels", type=int, default=4, help="below the first")
    parser.add_argument("--width", type=int, default=8, help="channels of the first level")
    parser.add_argument("--budget", help='4GiB, with --quick "512MiB"')
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    height, width = (270, 480) if options.quick else (2160, 3840)
    budget = options.budget or ("512MiB" if options.quick else "4GiB")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder, height, width)
        rows = {"full recomputation": trained(folder, "full", options, "--memory.recompute=full", f"--memory.budget={budget}"),
                "no recomputation": trained(folder, "none", options, "--memory.recompute=none")}
    print(table(["", "most resident", "in tensors", "losses"],
                [[kind, "refused", "", ""] if "refused" in row else
                 [kind, gib(row["peak_resident_bytes"]), gib(row["peak_tensor_bytes"]),
                  ", ".join(f"{loss:.7g}" for loss in row["losses"])] for kind, row in rows.items()]), flush=True)
    save("unet.json", {"unet": {"image": [height, width], "levels": options.levels, "width": options.width,
                                "batch": BATCH, "budget": budget, **rows}}, options.out, options.quick)


if __name__ == "__main__":
    main()
