"""What peers_memory.py measured, as peers_memory.json and tables (printed, and all of them in peers_memory.md)."""
import pathlib

from peers_report import NAMES, tuning_of, versions_of
from results import ResultFile, describe, write_all
from runs import gib, table

PLANNED = "accrue, its own plan"
COLUMNS = ["system", "tuning", "best micro-batch", "peak memory", "tokens/s: median", "min", "max",
           "accrue is faster by", "min", "max"]


def add(folder: pathlib.Path, name: str, result: dict) -> None:
    file = ResultFile(folder / "peers_memory.json")
    file.add({name: result}, versions_of(result))
    file.write()
    print(section(name, result, file.record_of(name)), flush=True)
    write_all(tables(file))


def tables(file: ResultFile) -> dict[pathlib.Path, str]:
    """What stands beside the file."""
    sections = [section(name, result, file.record_of(name)) for name, result in file.parts.items()]
    return {file.path.with_suffix(".md"): "\n".join(sections)}


def section(name: str, result: dict, record: dict) -> str:
    job = result["job"]
    return "\n".join([
        f"## {name}, {gib(result['limit_bytes'])}", "",
        f"GPT-2 {job['layers']}/{job['heads']}/{job['width']}, context {job['context']}, vocabulary {job['vocab']}; "
        f"{job['count'] * job['micro']} samples a step, {job['precision']}; rounds of {job['steps']} steps: "
        f"{result['rounds']}; {describe(record)}.", "", rows_table(result), ""])


def rows_table(result: dict) -> str:
    limit = result["limit_bytes"]
    rows = [row_cells(name, row, limit) for name, row in result["systems"].items()]
    found = {row.get("system") for row in result["systems"].values()}
    none = {name.split(",")[0] for name in result["points"]} - found
    return table(COLUMNS, rows + [[NAMES[system], f"none stays within {gib(limit)}"] + [""] * (len(COLUMNS) - 2)
                                  for system in sorted(none)])


def row_cells(name: str, row: dict, limit: int) -> list[str]:
    head = [name if name == PLANNED else NAMES[row["system"]], tuning_of(row)]
    if "tokens_per_second" not in row:
        why = f"not available: {' '.join(row['unavailable'].split())[:120]}" if "unavailable" in row else "disagrees"
        return [*head, why] + [""] * (len(COLUMNS) - 3)
    peak = gib(row["peak_resident_bytes"]) + ("" if row["peak_resident_bytes"] <= limit else " (beyond the limit)")
    speed, ratio = row["tokens_per_second"], row.get("accrue_ratio")
    ratios = [f"{ratio[which]:.2f}" for which in ("median", "min", "max")] if ratio else ["", "", ""]
    if ratio and ratio["median"] < 1 and row["system"] != "accrue":
        ratios[0] += " (it is faster)"
    return [*head, str(row["micro"]), peak, *(f"{speed[which]:,.0f}" for which in ("median", "min", "max")), *ratios]
