#!/usr/bin/env python3
"""Measures accrue's CPU kernels beside ATen's and beside the machine's roofline, in one run.

    bench/micro/kernels.py [--rounds 7] [--only REGEX] [--out FOLDER]

A round takes each kernel once: blocks of calls of accrue, of ATen and of the two operations that make the roof, one
after the other; all kernels' rounds come in random order. Ratios and shares are taken within a round. Writes
kernels.json and kernels.md; kernels that are not measured now stay in them. See docs/notes/kernels.md.
"""
import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "e2e"))
from results import ResultFile, describe, write_all  # noqa: E402
from runs import BUILD, RESULTS, median, run, spread, table  # noqa: E402

PREFIX = "against_aten/"
HEADER = ["kernel", "accrue: median", "min", "max", "ATen: median", "accrue is faster by", "min", "max", "GFLOP/s",
          "GB/s", "roof", "share of it", "min", "max"]


def measure(only: str, rounds: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "kernels.json"
        run([str(BUILD / "bench" / "micro" / "kernels_bench"), f"--benchmark_filter=^{PREFIX}.*{only}",
             f"--benchmark_repetitions={rounds}", "--benchmark_enable_random_interleaving=true",
             f"--benchmark_out={out}", "--benchmark_out_format=json"])
        return json.loads(out.read_text())


def rounds_by_kernel(report: dict) -> dict[str, list[dict]]:
    """By "<kernel>/<workload>/<precision>"; the sides of each agree."""
    rounds = {}
    for line in report["benchmarks"]:
        if line["run_type"] != "iteration":
            continue
        name = "/".join(line["run_name"].removeprefix(PREFIX).split("/")[:3])
        if line.get("error_occurred"):
            sys.exit(f"error: {name}: {line['error_message']}")
        rounds.setdefault(name, []).append(line)
    return rounds


def summary(lines: list[dict]) -> dict:
    row = {"accrue_seconds": spread([line["real_time"] * 1e-6 for line in lines])}
    for key in ("aten_seconds", "faster_by", "share_of_roof"):
        row[key] = spread([line[key] for line in lines])
    for key in ("gflops", "gbps", "gemm_gflops", "bandwidth_gbps"):
        row[key] = median([line[key] for line in lines])
    arithmetic = row["gflops"] / row["gemm_gflops"] > row["gbps"] / row["bandwidth_gbps"]
    return row | {"roof": "arithmetic" if arithmetic else "memory"}


def duration(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"


def table_row(kernel: str, row: dict) -> list[str]:
    ours, ratio, share = row["accrue_seconds"], row["faster_by"], row["share_of_roof"]
    ratios = [f"{ratio[which]:.2f}" for which in ("median", "min", "max")]
    if ratio["median"] < 1:
        ratios[0] += " (ATen is faster)"
    return [kernel.replace("_", " "), *(duration(ours[which]) for which in ("median", "min", "max")),
            duration(row["aten_seconds"]["median"]), *ratios, f"{row['gflops']:.0f}", f"{row['gbps']:.0f}",
            row["roof"], *(f"{100 * share[which]:.0f}%" for which in ("median", "min", "max"))]


def section(title: str, rows: dict[str, dict], measured: list[str]) -> str:
    products = max(row["gemm_gflops"] for row in rows.values())
    bandwidths = [row["bandwidth_gbps"] for row in rows.values()]
    return "\n".join([
        f"## {title}", "",
        f"{'; '.join(measured)}. The roof: products at up to {products:.0f} GFLOP/s, "
        f"{min(bandwidths):.0f} (largest operands) to {max(bandwidths):.0f} GB/s (in the caches).", "",
        table(HEADER, [table_row(kernel, row) for kernel, row in sorted(rows.items())]), ""])


def sections_of(file: ResultFile) -> dict[str, dict[str, dict]]:
    """By workload and precision, the rows by kernel."""
    sections = {}
    for name, row in file.parts.items():
        kernel, workload, precision = name.split("/")
        sections.setdefault(f"{workload}, {precision}", {})[kernel] = row
    return sections


def measured_in(file: ResultFile, title: str) -> list[str]:
    """The different ways in which the kernels of a section were measured."""
    workload, precision = title.split(", ")
    found = set()
    for name, row in file.parts.items():
        if name.endswith(f"/{workload}/{precision}"):
            record = file.record_of(name)
            versions = ", ".join(f"{what} {record['versions'][what]}" for what in ("gemm", "torch"))
            found.add(f"{row['rounds']} rounds on {describe(record)}; {versions}")
    return sorted(found)


def overview(sections: dict[str, dict[str, dict]]) -> str:
    """How many times as fast as ATen, and the share of the roof, of each kernel."""
    titles = sorted(sections)
    kernels = sorted({kernel for rows in sections.values() for kernel in rows})
    return table(["kernel", *titles], [
        [kernel.replace("_", " "), *(overview_cell(sections[title].get(kernel)) for title in titles)]
        for kernel in kernels])


def overview_cell(row: dict | None) -> str:
    return f"{row['faster_by']['median']:.2f}, {100 * row['share_of_roof']['median']:.0f}%" if row else ""


def document(file: ResultFile) -> str:
    sections = sections_of(file)
    return "\n".join(["How many times as fast as ATen, and the share of the roof (medians):", "",
                      overview(sections), "",
                      *(section(title, rows, measured_in(file, title)) for title, rows in sorted(sections.items()))])


def tables(file: ResultFile) -> dict[pathlib.Path, str]:
    """What stands beside the file."""
    return {file.path.with_suffix(".md"): document(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help='such as "gelu", "124M/bf16" or "attention.*/10.8M"')
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of kernels.json and kernels.md")
    options = parser.parse_args()
    report = measure(options.only, options.rounds)
    about = report["context"]
    file = ResultFile(options.out / "kernels.json")
    file.add({name: {"rounds": options.rounds, "threads": int(about["threads"]), **summary(lines)}
              for name, lines in rounds_by_kernel(report).items()}, {"gemm": about["gemm"], "torch": about["torch"]})
    file.write()
    write_all(tables(file))
    print(document(file))


if __name__ == "__main__":
    main()
