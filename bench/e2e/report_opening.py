#!/usr/bin/env python3
"""How long a report takes to be written and to be opened: from the file's URL to the loss drawn, and to all charts.

    bench/e2e/report_opening.py [--runs 10] [--steps 100000] [--rounds 5] [--quick] [--out bench/results/report.json]

Headless Chromium at 1,440 x 900 pixels, a new profile each round. Needs .venv-test (scripts/setup.sh test).
"""
import argparse
import pathlib
import sys
import tempfile
import time

from results import ACCRUE, ROOT
from runs import run, save, spread

sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "observe" / "report")]
from browser import chromium  # noqa: E402
from synthetic_runs import Shape, write_run  # noqa: E402

# The loss by name, wherever it lies: of many runs a long table pushes every chart out of sight.
LOSS_LINES = """() => document.querySelector("#chart-loss canvas") ? document.querySelectorAll("#chart-loss .value:not(:empty)").length : 0"""
LINES_OF_A_RUN = 2  # training and evaluation


def opened(browser, page_file: pathlib.Path, runs: int) -> tuple[float, float]:
    """Seconds until the loss of all runs is drawn, and until all charts are."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        begin = time.monotonic()
        page.goto(page_file.as_uri(), wait_until="commit")
        while page.evaluate(LOSS_LINES) < LINES_OF_A_RUN * runs:  # waiting inside the page needs eval, which it forbids
            if time.monotonic() - begin > 60:
                sys.exit(f"error: {page_file.name}: expected the loss of {runs} runs, received {page.evaluate(LOSS_LINES)} lines")
            time.sleep(0.01)
        loss = time.monotonic() - begin
        page.wait_for_selector("html[data-drawn]")
        drawn = time.monotonic() - begin
        cards, canvases = (len(page.query_selector_all(what)) for what in ("article.card", "article.card canvas"))
        if not cards or cards != canvases:
            sys.exit(f"error: {page_file.name}: expected every chart drawn, received {canvases} of {cards}")
        return loss, drawn


def measured(runs: int, steps: int, rounds: int) -> dict:
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = pathlib.Path(name)
        folders = [write_run(folder, Shape(index, steps, 2)) for index in range(runs)]
        out = folder / "report.html"
        begin = time.monotonic()
        run([str(ACCRUE), "report", *map(str, folders), "--out", str(out)])
        writing = time.monotonic() - begin
        times = [opened(browser, out, runs) for _ in range(rounds)]
        return {"runs": runs, "steps": steps, "bytes": out.stat().st_size, "writing_seconds": writing,
                "loss_seconds": spread([loss for loss, _ in times]), "all_drawn_seconds": spread([drawn for _, drawn in times])}


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
        print(f"{name} steps: {row['bytes'] / 1e6:.2f} MB, written in {row['writing_seconds']:.1f} s, loss drawn after "
              f"{row['loss_seconds']['median']:.2f} s, all after {row['all_drawn_seconds']['median']:.2f} s", flush=True)
    save("report.json", rows, options.out, options.quick)


if __name__ == "__main__":
    main()
