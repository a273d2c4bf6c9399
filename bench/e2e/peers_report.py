"""What peers.py measured, as peers.json, a table (printed, and all of them in peers.md) and a plot (peers.svg)."""
import json
import pathlib

import svg
from agreement import BOUNDS
from runs import gib, table

NAMES = {"accrue": "accrue", "eager": "PyTorch eager", "compile": "torch.compile", "accelerate": "Accelerate",
         "lightning": "Lightning", "deepspeed": "DeepSpeed", "llm.c": "llm.c"}
COLUMNS = ["system", "tokens/s: median", "min", "max", "accrue is faster by", "min", "max", "peak memory",
           "differs from PyTorch eager by at most"]


def add(folder: pathlib.Path, name: str, result: dict) -> None:
    """Prints the job's table and writes it into the folder's files, beside the jobs that are there."""
    print(section(name, result), flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "peers.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = result
    path.write_text(json.dumps(results, indent=2) + "\n")
    (folder / "peers.md").write_text("\n".join(section(*item) for item in results.items()))
    (folder / "peers.svg").write_text(plot(results))


def section(name: str, result: dict) -> str:
    job, machine = result["job"], result["machine"]
    versions = {}
    for row in result["systems"].values():
        versions |= row.get("versions", {})
    return "\n".join([
        f"## {name}", "",
        f"GPT-2 {job['layers']}/{job['heads']}/{job['width']}, context {job['context']}, vocabulary {job['vocab']}; "
        f"{job['count']} micro-batches of {job['micro']}, {job['precision']}; {machine['threads']} threads of "
        f"{machine['processor']} ({machine['isa']}); rounds of {job['steps']} steps: {result['rounds']}, "
        f"{result['date']}; " + ", ".join(f"{what} {version}" for what, version in versions.items()) + ".", "",
        table(COLUMNS, [table_row(NAMES[system], row, job) for system, row in result["systems"].items()]), ""])


def table_row(name: str, row: dict, job: dict) -> list[str]:
    if "unavailable" in row:
        return [name, "not available: " + " ".join(row["unavailable"].split())[:120]] + [""] * (len(COLUMNS) - 2)
    what, error = max(row["relative_errors"].items(), key=lambda item: item[1])
    difference = f"{error:.1e} ({what.replace('_', ' ')})" if error else "0"
    if not row["agrees"]:
        return [name, f"disagrees: more than {BOUNDS[job['precision']]:.0e}"] + [""] * (len(COLUMNS) - 3) + [difference]
    ratio = row.get("accrue_ratio")
    ratios = [f"{ratio[which]:.2f}" for which in ("median", "min", "max")] if ratio else ["", "", ""]
    if ratio and ratio["median"] < 1:
        ratios[0] += " (it is faster)"
    speed = row["tokens_per_second"]
    return [name, *(f"{speed[which]:,.0f}" for which in ("median", "min", "max")), *ratios,
            gib(row["peak_resident_bytes"]), difference]


# --- The plot: a group of bars for each job, relative to accrue's median ------------------------------------------

BAR, GAP, LEFT, RIGHT, WIDTH = 18, 26, 130, 110, 760


def plot(results: dict) -> str:
    groups = {name: group for name, result in results.items() if (group := bars_of(result))}
    if not groups:
        return svg.document(WIDTH, 40, [svg.text(LEFT, 24, "accrue disagrees in every job: nothing to compare")])
    longest = max(share["max"] for bars in groups.values() for _, share, _ in bars)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = [svg.text(LEFT, 18, "speed relative to accrue (bar: median, line: min to max), tokens/s beside it")]
    y = 34
    for name, bars in groups.items():
        parts.append(svg.text(8, y + 12, name))
        y += BAR
        for system, share, speed in bars:
            colour = svg.COLOURS[list(NAMES).index(system)]
            middle = y + BAR / 2
            parts += [svg.text(LEFT - 8, middle + 4, NAMES[system], "end"),
                      svg.rect(LEFT, y + 2, scale * share["median"], BAR - 4, colour),
                      svg.line(LEFT + scale * share["min"], middle, LEFT + scale * share["max"], middle, "black"),
                      svg.text(LEFT + scale * share["max"] + 6, middle + 4, f"{speed:,.0f}")]
            y += BAR
        y += GAP - BAR
    parts.insert(1, svg.line(LEFT + scale, 28, LEFT + scale, y, "#999"))
    return svg.document(WIDTH, y + 8, parts)


def bars_of(result: dict) -> list[tuple[str, dict, float]]:
    """System, its speed relative to accrue's median, and its median in tokens/s."""
    speeds = {system: row["tokens_per_second"] for system, row in result["systems"].items()
              if "tokens_per_second" in row}
    if "accrue" not in speeds:
        return []
    unit = speeds["accrue"]["median"]
    return [(system, {which: value / unit for which, value in speed.items()}, speed["median"])
            for system, speed in speeds.items()]
