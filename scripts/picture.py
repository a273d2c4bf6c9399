#!/usr/bin/env python3
"""Draws README's picture, docs/pictures/one_batch.svg: one batch in K micro-batches, the loss curves and the memory.

    scripts/picture.py [PROGRAM]

Trains a GPT of 0.9 M parameters on this repository's own sources, the same batch of 64 samples in 1, 4, 16 and 64
micro-batches. Only the standard library.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLES, STEPS = 64, 40
SPLITS = (1, 4, 16, 64)
COLOURS = {1: "#b8c4d6", 4: "#7d9cc9", 16: "#3f6fb5", 64: "#12356b"}
CONFIG = f"""
[run]
steps = {STEPS}
[model]
layers = 4
heads = 4
width = 128
context = 128
[data]
train = ["{ROOT}/src/**/*.cpp", "{ROOT}/include/**/*.h"]
[batch]
samples = {SAMPLES}
[memory]
recompute = "none"
[optim]
lr = 1e-3
schedule.warmup = 5
[observe]
progress = "off"
"""


def train(program: str, folder: pathlib.Path, micro_batches: int) -> list[dict]:
    out = folder / f"run{micro_batches}"
    subprocess.run([program, "train", str(folder / "config.toml"), f"--run.out={out}",
                    f"--batch.micro={SAMPLES // micro_batches}"], check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "lr" in line]


class Svg:
    def __init__(self, width: int, height: int):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="sans-serif" font-size="13" fill="#222">',
                      f'<rect width="{width}" height="{height}" fill="white"/>']

    def text(self, x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ccc"/>')

    def curve(self, points: list[tuple[float, float]], colour: str, width: float) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def end(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def draw_losses(svg: Svg, runs: dict[int, list[dict]]) -> None:
    left, top, width, height = 55, 50, 330, 200
    losses = [step["loss"] for steps in runs.values() for step in steps]
    low, high = int(min(losses)), int(max(losses)) + 1
    svg.text(left, 25, "The same loss, step by step", weight="bold")
    for value in range(low, high + 1):
        y = top + height * (high - value) / (high - low)
        svg.line(left, y, left + width, y)
        svg.text(left - 8, y + 4, str(value), "end")
    svg.text(left + width, top + height + 20, f"optimizer step {STEPS}", "end")
    svg.text(left, top + height + 20, "1")
    # The widest first, so that all of them are seen where they coincide.
    for i, (micro_batches, steps) in enumerate(runs.items()):
        points = [(left + width * (step["step"] - 1) / (STEPS - 1), top + height * (high - step["loss"]) / (high - low))
                  for step in steps]
        svg.curve(points, COLOURS[micro_batches], 11 - 3 * i)


def draw_memory(svg: Svg, peaks: dict[int, float]) -> None:
    left, top, width, height = 470, 50, 300, 200
    most = max(peaks.values())
    svg.text(left, 25, "Peak memory of tensors, MiB", weight="bold")
    svg.line(left, top + height, left + width, top + height)
    for i, (micro_batches, peak) in enumerate(peaks.items()):
        x, bar = left + 15 + i * 75, height * peak / most
        svg.bar(x, top + height - bar, 45, bar, COLOURS[micro_batches])
        svg.text(x + 22, top + height - bar - 6, f"{peak:.0f}", "middle")
        svg.text(x + 22, top + height + 20, f"{micro_batches} x {SAMPLES // micro_batches}", "middle")


def main() -> None:
    program = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/accrue").resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.toml").write_text(CONFIG)
        runs = {micro_batches: train(program, folder, micro_batches) for micro_batches in SPLITS}
    farthest = max(abs(step["loss"] - first["loss"]) / first["loss"]
                   for steps in runs.values() for step, first in zip(steps, runs[1]))
    peaks = {micro_batches: max(step["peak_bytes"] for step in steps) / 2**20 for micro_batches, steps in runs.items()}
    svg = Svg(790, 300)
    draw_losses(svg, runs)
    draw_memory(svg, peaks)
    svg.text(395, 290, f"A batch of {SAMPLES} samples as micro-batches x samples each. Losses differ by at most {farthest:.0e} "
             "of themselves.", "middle")
    place = ROOT / "docs/pictures/one_batch.svg"
    place.parent.mkdir(exist_ok=True)
    place.write_text(svg.end())
    print(f"{place.relative_to(ROOT)}: farthest {farthest:.2e}, peaks {peaks}")


if __name__ == "__main__":
    main()
