#!/usr/bin/env python3
"""Writes what documents say of measurements from bench/results: `make bench-docs`.

    bench/e2e/write_benchmarks.py           writes
    bench/e2e/write_benchmarks.py --check   says which files differ from what would be written; the exit status is 1 then

docs/benchmarks.md comes from docs/benchmarks.in.md, in which {{EXPRESSION}} stands for a figure (figures.py), and lines
{{if CONDITION}}, {{else}} and {{end}} around others choose between them. In README.md, the guide of batches and the notes of acceleration, batches, kernels, observation,
reports and the U-Net, <!-- figure: EXPRESSION -->...<!-- end --> has a figure between its marks. The tables and plots of results follow, too.
Only the standard library.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench" / "micro"))
import batch_curves_report  # noqa: E402
import figures  # noqa: E402
import kernels  # noqa: E402
import links_report  # noqa: E402
import peers_memory_report  # noqa: E402
import peers_report  # noqa: E402

TEMPLATE, WRITTEN = ROOT / "docs" / "benchmarks.in.md", ROOT / "docs" / "benchmarks.md"
NOTES = ("accelerate", "batch", "kernels", "observation", "report", "unet")
MARKED = (ROOT / "README.md", ROOT / "docs" / "guide" / "choosing-the-batch.md", *(ROOT / "docs" / "notes" / f"{note}.md" for note in NOTES))
figures.TABLES["kernels"] = lambda: kernels.overview(kernels.sections_of(figures.file("kernels")))
MARK = re.compile(r"(<!-- figure: (.*?) -->)(.*?)(<!-- end -->)", re.S)
PLACE = re.compile(r"{{(.*?)}}")
IF = re.compile(r"{{if (.*)}}")
REPORTS = {  # the files that stand beside a file of results, or beside a note
    "peers": peers_report.tables, "peers_memory": peers_memory_report.tables, "links": links_report.tables,
    "kernels": kernels.tables, "batch_curves": batch_curves_report.plots}


def fail(where: pathlib.Path, expected: str, received: str) -> None:
    sys.exit(f"error: {where.relative_to(ROOT)}: expected {expected}, received {received}")


def figure(where: pathlib.Path, expression: str) -> str:
    try:
        return figures.figure(expression)
    except (KeyError, ValueError, TypeError) as reason:
        fail(where, "an expression that bench/results has a figure for", f"{expression!r} ({reason})")


def chosen(text: str, where: pathlib.Path) -> list[str]:
    """The lines that the conditions leave."""
    kept, states = [], []
    for line in text.splitlines():
        if condition := IF.fullmatch(line):
            states.append(figures.holds(condition[1]))
        elif line in ("{{else}}", "{{end}}"):
            if not states:
                fail(where, f"an if before {line}", "none")
            before = states.pop()
            states += [not before] if line == "{{else}}" else []
        elif all(states):
            kept.append(line)
    if states:
        fail(where, "an end for each if", "one too few")
    return kept


def from_template(where: pathlib.Path) -> str:
    text = "\n".join(chosen(where.read_text(), where)) + "\n"
    return PLACE.sub(lambda place: figure(where, place[1]), text)


def with_marks(where: pathlib.Path) -> str:
    """A table is set off by lines of its own."""
    def put(mark: re.Match) -> str:
        found = figure(where, mark[2])
        return mark[1] + (f"\n\n{found}\n\n" if found.startswith("|") else found) + mark[4]

    return MARK.sub(put, where.read_text())


def documents() -> dict[pathlib.Path, str]:
    written = {WRITTEN: from_template(TEMPLATE), **{path: with_marks(path) for path in MARKED}}
    for name, tables in REPORTS.items():
        if figures.has(name):
            written |= tables(figures.file(name))
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    written = documents()
    different = {path: text for path, text in written.items() if not path.exists() or path.read_text() != text}
    for path, text in different.items():
        print(f"{path.relative_to(ROOT)} {'differs from bench/results' if options.check else 'written'}")
        if not options.check:
            path.write_text(text)
    if options.check and not different:
        print(f"{len(written)} documents have what bench/results has")
    if options.check and different:
        sys.exit("error: documents: expected what bench/e2e/write_benchmarks.py writes, received others; try make bench-docs")


if __name__ == "__main__":
    main()
