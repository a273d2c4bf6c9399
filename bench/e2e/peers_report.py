"""What peers.py measured, as peers.json, a table (printed, and all of them in peers.md) and a plot (peers.svg)."""
import pathlib

import svg
from agreement import BOUNDS
from results import ResultFile, describe, write_all
from runs import gib, table

NAMES = {"accrue": "accrue", "eager": "PyTorch eager", "compile": "torch.compile", "accelerate": "Accelerate",
         "lightning": "Lightning", "deepspeed": "DeepSpeed", "llm.c": "llm.c"}
COLUMNS = ["system", "tuning", "tokens/s: median", "min", "max", "accrue is faster by", "min", "max", "peak memory",
           "differs from PyTorch eager by at most"]


def add(folder: pathlib.Path, name: str, result: dict) -> None:
    """Prints the job's table and writes it into the folder's files, beside the jobs that are there."""
    file = ResultFile(folder / "peers.json")
    file.add({name: result}, versions_of(result))
    file.write()
    print(section(name, result, file.record_of(name)), flush=True)
    write_all(tables(file))


def tables(file: ResultFile) -> dict[pathlib.Path, str]:
    """What stands beside the file."""
    sections = [section(name, result, file.record_of(name)) for name, result in file.parts.items()]
    return {file.path.with_suffix(".md"): "\n".join(sections), file.path.with_suffix(".svg"): plot(file.parts)}


def versions_of(result: dict) -> dict[str, str]:
    versions = {}
    for row in result["systems"].values():
        versions |= row.get("versions", {})
    return versions


def tuning_of(row: dict) -> str:
    return "" if row["system"] in ("accrue", "llm.c") else row["tuning"]


def best_of(result: dict) -> dict[str, dict]:
    """By system the row of its fastest tuning, of those that agree."""
    best = {}
    for row in result["systems"].values():
        system = row["system"]
        if "tokens_per_second" in row and (
                system not in best
                or row["tokens_per_second"]["median"] > best[system]["tokens_per_second"]["median"]):
            best[system] = row
    return best


def section(name: str, result: dict, record: dict) -> str:
    job, machine = result["job"], result["machine"]
    allocator = f", tuned with {result['allocator']}" if "allocator" in result else ""
    best = [f"{NAMES[system]}{', ' + tuning_of(row) if tuning_of(row) else ''}: "
            f"{row['accrue_ratio']['median']:.2f}" for system, row in best_of(result).items()
            if system != "accrue" and "accrue_ratio" in row]
    return "\n".join([
        f"## {name}", "",
        f"GPT-2 {job['layers']}/{job['heads']}/{job['width']}, context {job['context']}, vocabulary {job['vocab']}; "
        f"{job['count']} micro-batches of {job['micro']}, {job['precision']}; {machine['threads']} threads{allocator}; "
        f"rounds of {job['steps']} steps: {result['rounds']}; {describe(record)}; "
        + ", ".join(f"{what} {version}" for what, version in versions_of(result).items()) + ".", "",
        table(COLUMNS, [[NAMES[row["system"]], tuning_of(row), *table_row(row, job)]
                        for row in result["systems"].values()]), "",
        "How many times as fast accrue is as the best tuning of each: " + "; ".join(best) + ".", ""])


def table_row(row: dict, job: dict) -> list[str]:
    """Behind the system and its tuning."""
    columns = len(COLUMNS) - 2
    if "unavailable" in row:
        return ["not available: " + " ".join(row["unavailable"].split())[:120]] + [""] * (columns - 1)
    what, error = max(row["relative_errors"].items(), key=lambda item: item[1])
    difference = f"{error:.1e} ({what.replace('_', ' ')})" if error else "0"
    if not row["agrees"]:
        return [f"disagrees: more than {BOUNDS[job['precision']]:.0e}"] + [""] * (columns - 2) + [difference]
    ratio = row.get("accrue_ratio")
    ratios = [f"{ratio[which]:.2f}" for which in ("median", "min", "max")] if ratio else ["", "", ""]
    if ratio and ratio["median"] < 1:
        ratios[0] += " (it is faster)"
    speed = row["tokens_per_second"]
    return [*(f"{speed[which]:,.0f}" for which in ("median", "min", "max")), *ratios,
            gib(row["peak_resident_bytes"]), difference]


# --- The plot: a group of bars for each job, the best tuning of each system relative to accrue's median ------------------------------------------

BAR, GAP, LEFT, RIGHT, WIDTH = 18, 26, 130, 110, 760


def plot(results: dict) -> str:
    groups = {name: group for name, result in results.items() if (group := bars_of(result))}
    if not groups:
        return svg.document(WIDTH, 40, [svg.text(LEFT, 24, "accrue disagrees in every job: nothing to compare")])
    longest = max(share["max"] for bars in groups.values() for _, share, _ in bars)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = [svg.text(LEFT, 18, "speed of each system's best tuning relative to accrue (bar: median, line: min to max), tokens/s beside it")]
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
    speeds = {system: row["tokens_per_second"] for system, row in best_of(result).items()}
    if "accrue" not in speeds:
        return []
    unit = speeds["accrue"]["median"]
    return [(system, {which: value / unit for which, value in speed.items()}, speed["median"])
            for system, speed in speeds.items()]
