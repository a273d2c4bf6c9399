#!/usr/bin/env python3
"""Makes README's picture of a report, docs/pictures/report.png, from a run that it trains:

    scripts/report_picture.py [PROGRAM]

A GPT of 0.9 M parameters on this repository's own sources, for half a minute. Headless Chromium takes the picture; needs .venv-test
(scripts/setup.sh test).
"""
import io
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "support"))
from browser import chromium  # noqa: E402

WIDTH, HEIGHT, COLOURS = 1280, 940, 160
CONFIG = f"""
[run]
steps = 200
eval_every = 20
checkpoint_every = "50 steps"
[model]
layers = 4
heads = 4
width = 128
context = 128
[data]
train = ["{ROOT}/src/**/*.cpp", "{ROOT}/include/**/*.h"]
val_fraction = 0.05
[batch]
samples = 16
[memory]
budget = "1GiB"
[optim]
lr = 1e-3
schedule.warmup = 20
[observe]
progress = "off"
"""


def picture_of(report: pathlib.Path) -> bytes:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-drawn]")
        return page.screenshot()


def main() -> None:
    program = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/accrue").resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.toml").write_text(CONFIG)
        run = folder / "gpt-on-its-own-sources"
        subprocess.run([program, "train", str(folder / "config.toml"), f"--run.out={run}"], check=True)
        subprocess.run([program, "report", str(run)], check=True)
        taken = Image.open(io.BytesIO(picture_of(run / "report.html"))).convert("RGB")
    place = ROOT / "docs/pictures/report.png"
    taken.quantize(COLOURS).save(place, optimize=True)
    print(f"{place.relative_to(ROOT)}: {place.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
