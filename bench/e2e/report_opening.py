#!/usr/bin/env python3
"""How long a report takes to be written and to be opened: from the file's URL to all charts in sight drawn, and to all of them.

    bench/e2e/report_opening.py [--runs 10] [--steps 100000] [--rounds 5] [--quick] [--out bench/results/report.json]

Headless Chromium at 1,440 x 900 pixels, a new profile each round. Needs .venv-test (scripts/setup.sh test).
"""
import argparse
import pathlib
import sys
import tempfile
import time

from runs import ACCRUE, ROOT, run, save, spread

sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "observe" / "report")]
from browser import chromium  # noqa: E402
from synthetic_runs import Shape, write_run  # noqa: E402

IN_SIGHT = """() => [...document.querySelectorAll("article.card")].filter((card) => card.getBoundingClientRect().top < innerHeight)
  .every((card) => card.querySelector("canvas")) && document.querySelector("article.card") !== null"""


def opened(browser, page_file: pathlib.Path) -> tuple[float, float]:
    """Seconds until the charts in sight are drawn, and until all are."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        begin = time.monotonic()
        page.goto(page_file.as_uri(), wait_until="commit")
        while not page.evaluate(IN_SIGHT):  # waiting inside the page needs eval, which it forbids
            time.sleep(0.01)
        in_sight = time.monotonic() - begin
        page.wait_for_selector("html[data-drawn]")
        return in_sight, time.monotonic() - begin


def measured(runs: int, steps: int, rounds: int) -> dict:
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = pathlib.Path(name)
        folders = [write_run(folder, Shape(index, steps, 2)) for index in range(runs)]
        out = folder / "report.html"
        begin = time.monotonic()
        run([str(ACCRUE), "report", *map(str, folders), "--out", str(out)])
        writing = time.monotonic() - begin
        times = [opened(browser, out) for _ in range(rounds)]
        return {"runs": runs, "steps": steps, "bytes": out.stat().st_size, "writing_seconds": writing,
                "in_sight_seconds": spread([sight for sight, _ in times]), "all_drawn_seconds": spread([drawn for _, drawn in times])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a thousand steps, one round")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    steps, rounds = (1000, 1) if options.quick else (options.steps, options.rounds)
    rows = {f"{count} x {steps}": measured(count, steps, rounds) for count in sorted({1, options.runs})}
    for name, row in rows.items():
        print(f"{name} steps: {row['bytes'] / 1e6:.2f} MB, written in {row['writing_seconds']:.1f} s, charts in sight after "
              f"{row['in_sight_seconds']['median']:.2f} s, all after {row['all_drawn_seconds']['median']:.2f} s", flush=True)
    save("report.json", rows, options.out, options.quick)


if __name__ == "__main__":
    main()
