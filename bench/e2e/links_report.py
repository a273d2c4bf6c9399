"""What links.py measured, as links.json, tables (printed, and all of them in links.md) and a plot (links.svg)."""
import math
import pathlib

import svg
from results import ResultFile, describe, write_all
from runs import table

HIDING = {"reduction_seconds": "R: the whole reduction", "backward_seconds": "B: backward after the first bucket",
          "exposed_seconds": "E: left after the backward", "waits_seconds": "waiting for the other rank",
          "share": "hidden of what can be: (R - E) / min(R, B)"}


def add(folder: pathlib.Path, link: str, result: dict) -> None:
    """Prints the link's tables and writes them into the folder's files, beside the links that are there. What "systems"
    and "hiding" measured are parts of their own."""
    file = ResultFile(folder / "links.json")
    hiding = {hiding_of(link): result.pop("hiding")} if "hiding" in result else {}
    file.add(({link: result} if "cells" in result else {}) | hiding, result.get("versions"))
    file.write()
    print(section(link, file), flush=True)
    write_all(tables(file))


def tables(file: ResultFile) -> dict[pathlib.Path, str]:
    """What stands beside the file."""
    compared = {link: file.parts[link] for link in links_in(file) if link in file.parts}
    return {file.path.with_suffix(".md"): "\n".join(section(link, file) for link in links_in(file)),
            file.path.with_suffix(".svg"): plot(compared)}


def hiding_of(link: str) -> str:
    return f"{link}, hiding"


def links_in(file: ResultFile) -> list[str]:
    return list(dict.fromkeys(part.split(",")[0] for part in file.parts))


def section(link: str, file: ResultFile) -> str:
    parts = [f"## {link}", ""]
    if result := file.parts.get(link):
        model, probe = result["model"], result["probe"]
        delay = f"{result['delay_ms']} ms each way" if result["delay_ms"] else "none, which this kernel cannot add"
        parts += [f"Rate {result['rate_mbit']} Mbit/s each way, delay {delay}; plain sockets get {probe['mbit']:.0f} Mbit/s "
                  f"both ways at once and a round trip of {probe['round_trip_ms']:.2f} ms. GPT-2 {model['layers']}/"
                  f"{model['heads']}/{model['width']}, context {model['context']}, vocabulary {model['vocab']}, fp32; two "
                  f"ranks, a core and a thread each; {describe(file.record_of(link))}.", "", *compared(result)]
    if hiding := file.parts.get(hiding_of(link)):
        parts += hidden(hiding, file.record_of(hiding_of(link)))
    return "\n".join(parts)


def compared(result: dict) -> list[str]:
    cells = result["cells"]
    return [f"K micro-batches of one sample a rank and step unless said otherwise; rounds of {result['steps']} timed "
            f"steps: {result['rounds']}; "
            + ", ".join(f"{what} {version}" for what, version in result["versions"].items()) + ".", "",
            "Seconds a step, median (min to max):", "", step_times(cells), "",
            "MB that rank 0's interface sent in a step (and, for accrue, `wire_bytes`), medians:", "", sent(cells), ""]


def systems_of(cells: dict) -> list[str]:
    return list(next(iter(cells.values()))["systems"])


def step_times(cells: dict) -> str:
    def shown(row: dict | None) -> str:
        if row is None:
            return ""
        return of_spread(row["seconds"], 3) if row["agrees"] else "disagrees"

    worst = {system: max(error for cell in cells.values() if system in cell["systems"]
                         for error in cell["systems"][system]["relative_errors"].values())
             for system in systems_of(cells)}
    return table(["system", *cells, "differs from DDP no_sync by at most"],
                 [[system, *(shown(cell["systems"].get(system)) for cell in cells.values()), f"{worst[system]:.1e}"]
                  for system in systems_of(cells)])


def sent(cells: dict) -> str:
    def shown(row: dict | None) -> str:
        if row is None or not row["agrees"]:
            return ""
        counted = f"{row['sent_bytes'][0]['median'] / 1e6:.2f}"
        return counted + (f" ({row['wire_bytes']['median'] / 1e6:.2f})" if "wire_bytes" in row else "")

    return table(["system", *cells],
                 [[system, *(shown(cell["systems"].get(system)) for cell in cells.values())]
                  for system in systems_of(cells)])


def hidden(result: dict, record: dict) -> list[str]:
    rows = [[name, str(cell["steps"]), f"{cell['bytes_over_rate_seconds']:.3f}",
             *(shares(cell[what]) if what == "share" else of_spread(cell[what], 3) for what in HIDING)]
            for name, cell in result["cells"].items()]
    return [f"What `dist.reduce = \"overlap\"` hides ({describe(record)}; plain sockets got "
            f"{result['probe']['mbit']:.0f} Mbit/s), seconds of a step, median (min to max):", "",
            table(["", "steps", "bytes / rate", *HIDING.values()], rows), ""]


def of_spread(found: dict, digits: int) -> str:
    return f"{found['median']:.{digits}f} ({found['min']:.{digits}f} to {found['max']:.{digits}f})"


def shares(found: dict) -> str:
    return f"{100 * found['median']:.0f}% ({100 * found['min']:.0f} to {100 * found['max']:.0f})"


# --- The plot: a panel for each link, step time against K ------------------------------------------------------------

PANEL, HEIGHT, LEFT, TOP, BOTTOM, GAP = 300, 260, 50, 44, 60, 60


def plot(results: dict) -> str:
    results = {link: result for link, result in results.items() if "cells" in result}
    if not results:
        return svg.document(PANEL, 40, [svg.text(8, 24, "no systems were compared")])
    parts = []
    for i, (link, result) in enumerate(results.items()):
        parts += panel(LEFT + i * (PANEL + GAP), link, result)
    for i, system in enumerate(systems_of(next(iter(results.values()))["cells"])):
        x = LEFT + 150 * i
        parts += [svg.rect(x, TOP + HEIGHT + BOTTOM - 16, 12, 12, svg.COLOURS[i]),
                  svg.text(x + 18, TOP + HEIGHT + BOTTOM - 6, system)]
    return svg.document(LEFT + len(results) * (PANEL + GAP), TOP + HEIGHT + BOTTOM + 8, parts)


def panel(left: float, link: str, result: dict) -> list[str]:
    cells = list(result["cells"].values())
    swept = [cell for cell in cells if cell["micro"] == cells[0]["micro"]]
    highest = max(row["seconds"]["max"] for cell in swept for row in cell["systems"].values() if row["agrees"])
    last = math.log2(max(cell["count"] for cell in swept)) or 1

    def place(cell: dict, seconds: float) -> tuple[float, float]:
        return left + PANEL * math.log2(cell["count"]) / last, TOP + HEIGHT * (1 - seconds / highest)

    parts = [svg.text(left, 18, f"{link}: seconds a step"), svg.line(left, TOP, left, TOP + HEIGHT, "#999"),
             svg.line(left, TOP + HEIGHT, left + PANEL, TOP + HEIGHT, "#999"),
             svg.text(left - 6, TOP + 4, f"{highest:.1f}", "end"), svg.text(left - 6, TOP + HEIGHT + 4, "0", "end")]
    parts += [svg.text(place(cell, 0)[0], TOP + HEIGHT + 18, f"K = {cell['count']}", "middle") for cell in swept]
    for system, colour in zip(systems_of(result["cells"]), svg.COLOURS):
        shown = [(cell, cell["systems"][system]["seconds"]) for cell in swept if cell["systems"][system]["agrees"]]
        medians = [place(cell, seconds["median"]) for cell, seconds in shown]
        parts += [svg.line(*a, *b, colour) for a, b in zip(medians, medians[1:])]
        parts += [svg.line(*place(cell, seconds["min"]), *place(cell, seconds["max"]), colour)
                  for cell, seconds in shown]
    return parts
