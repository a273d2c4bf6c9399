"""The figures that documents show, as they are made from the files of results.

A document asks for them by expressions:

    speed: overhead/peak_bytes/ratio: 4     a value of bench/results/speed.json by its path, in a format
    measured speed: overhead                when, where and with what a part of a file was measured; or all of a file
    table peers                             one of the tables below
    largest error of a peak                 one of the sentences' figures below

Formats: a number of decimals ("2"; ",0" sets off thousands), "%1" (a percentage), "MB", "GB", "MiB" and "GiB" (of bytes, with
decimals as in "GiB 2"); "spread 2" shows median, least and most in such a format, where others show the median.
"""
import functools
from collections.abc import Callable

import batch_curves_report
import peers_memory_report
import peers_report
from results import RESULTS, ResultFile, describe
from runs import gib, table

UNITS = {"MB": 1e6, "GB": 1e9, "MiB": 2**20, "GiB": 2**30}


@functools.cache
def file(name: str) -> ResultFile:
    return ResultFile(RESULTS / f"{name}.json")


def value(name: str, path: str):
    """Raises KeyError where there is none. A name in the path may contain slashes."""
    found = file(name).parts
    rest = path
    while rest:
        key = next((key for key in sorted(map(str, found), key=len, reverse=True)
                    if rest == key or rest.startswith(key + "/")), None)
        if key is None:
            raise KeyError(f"{name}.json has no {path}")
        found, rest = found[key], rest[len(key) + 1:]
    return found


def has(name: str, path: str | None = None) -> bool:
    try:
        return bool(file(name).parts) if path is None else value(name, path) is not None
    except KeyError:
        return False


def formatted(found, how: str) -> str:
    if how.startswith("spread "):
        middle, least, most = (formatted(found[which], how.removeprefix("spread ")) for which in ("median", "min", "max"))
        return f"{middle} ({least} to {most})"
    if isinstance(found, dict):
        found = found["median"]
    unit, _, decimals = how.rpartition(" ")
    if how in UNITS:
        unit, decimals = how, "0"
    if unit in UNITS:
        return f"{found / UNITS[unit]:,.{decimals}f}"
    if how.startswith("%"):
        return f"{100 * found:.{how[1:]}f}%"
    return f"{found:,.{how[1:]}f}" if how.startswith(",") else f"{found:.{how}f}"


def measured(name: str, part: str | None = None) -> str:
    """Of a part, or of all parts: one description, or one for each group of parts that were measured together."""
    records = [record for record in file(name).measured if part is None or part in record["parts"]]
    parts: dict[str, list[str]] = {}
    for record in records:
        parts.setdefault(describe(record), []).extend(record["parts"])
    if len(parts) == 1:
        return next(iter(parts))
    return "; ".join(f"{', '.join(alike)}: {description}" for description, alike in parts.items())


# --- Tables ----------------------------------------------------------------------------------------------------------

MODELS = {  # jobs of speed.py
    "10.8M fp32": "10.8 M, context 256, 16 micro-batches of 4, fp32", "124M fp32": "124 M, context 64, 8 micro-batches of 4, fp32",
    "10.8M bf16": "10.8 M, context 256, 16 micro-batches of 4, bf16", "124M bf16": "124 M, context 64, 8 micro-batches of 4, bf16"}
JOBS = {  # of peers.py
    **MODELS, "124M fp32 long": "124 M, context 1,024, 2 micro-batches of 1, fp32",
    "124M fp32 K = 1": "124 M, context 64, one micro-batch of 4 a step, fp32"}
PEERS = {system: name for system, name in peers_report.NAMES.items() if system != "accrue"}


def speed_table() -> str:
    rows = []
    for key, name in MODELS.items():
        row = file("speed").parts.get(key)
        if row:
            share = f"{100 * row['share_of_ceiling']:.0f}%" if "share_of_ceiling" in row else "not measured yet"
            rows.append([name, formatted(row["accrue_tokens_per_second"], ",0"),
                         formatted(row["plain_libtorch_fp32_tokens_per_second"], ",0"),
                         formatted(row["ratio"], "spread 2"), share, str(row["rounds"])])
    return table(["model", "accrue, tokens/s", "plain libtorch fp32", "ratio", "share of the GEMM ceiling", "rounds"], rows)


def peers_table() -> str:
    """How many times as fast accrue is as each system's best tuning."""
    def cell(row: dict | None) -> str:
        if row is None or "accrue_ratio" not in row:
            return ""
        tuning = peers_report.tuning_of(row)
        return formatted(row["accrue_ratio"], "spread 2") + (f", {tuning}" if tuning else "")

    ran = {True: "installed and tuned", False: "installed"}
    return over_jobs(cell, PEERS, lambda result: [str(result["rounds"]), ran["tcmalloc" in result.get("allocator", "")]],
                     ["rounds", "peers as"])


def peers_memory_table() -> str:
    """The most resident memory of accrue and of each system's best tuning."""
    return over_jobs(lambda row: gib(row["peak_resident_bytes"]) if row else "", peers_report.NAMES)


def over_jobs(cell: Callable[[dict | None], str], systems: dict[str, str],
              more: Callable[[dict], list[str]] = lambda result: [], headers: list[str] = []) -> str:
    results = file("peers").parts
    best = {job: peers_report.best_of(results[job]) for job in JOBS if job in results}
    shown = [system for system in systems if any(system in rows for rows in best.values())]
    return table(["model", *(systems[system] for system in shown), *headers],
                 [[JOBS[job], *(cell(rows.get(system)) for system in shown), *more(results[job])]
                  for job, rows in best.items()])


def limit_tables() -> str:
    found = file("peers_memory")
    return "\n".join(peers_memory_report.section(name, result, found.record_of(name)).replace("## ", "**", 1)
                     .replace("\n", "**\n", 1) for name, result in found.parts.items())


def tuned_peers(job: str) -> set[str]:
    """Systems beside accrue that ran tuned, with tcmalloc, and agree."""
    result = file("peers").parts.get(job, {})
    if "tcmalloc" not in result.get("allocator", ""):
        return set()
    return {row["system"] for row in result["systems"].values()
            if row["tuning"] != "as installed" and "accrue_ratio" in row} - {"accrue"}


def fastest_peer(job: str) -> dict | None:
    """The row of the fastest system that ran tuned, too, with its best tuning; none where no peer did."""
    tuned = tuned_peers(job)
    rows = [row for system, row in peers_report.best_of(file("peers").parts.get(job, {"systems": {}})).items() if system in tuned]
    return min(rows, key=lambda row: row["accrue_ratio"]["median"], default=None)


def peers_compared(jobs: list[str]) -> str:
    """Those that ran tuned wherever any did: "PyTorch, torch.compile and DeepSpeed"."""
    everywhere = set(PEERS).intersection(*jobs_tuned) if (jobs_tuned := [peers for job in jobs if (peers := tuned_peers(job))]) else set()
    names = [PEERS[system] for system in PEERS if system in everywhere]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "other systems"


README_JOBS = ("10.8M bf16", "124M bf16", "10.8M fp32", "124M fp32")


def readme_table() -> str:
    """Each row is of one run of one machine."""
    rows = []
    for job in README_JOBS:
        peer = fastest_peer(job)
        beside = [formatted(peer["accrue_ratio"], "spread 2"), f"{PEERS[peer['system']]}, {peer['tuning']}"] if peer else ["tuned peers not measured yet", ""]
        rows.append([JOBS[job], *beside])
    return table(["GPT-2", f"times the fastest of {peers_compared(list(README_JOBS))}", "which is"], rows)


def cgroup_table() -> str:
    budgets = file("memory").parts["cgroup"]["budgets"]
    return table(["`memory.budget`", "most resident", "most charged, page cache included", "ended"],
                 [[size, formatted(row["peak_resident_bytes"], "MiB"), formatted(row["charged_bytes"], "MiB"),
                   "whole" if not any(row["statuses"]) else f"with {row['statuses']}"] for size, row in budgets.items()])


def head_table() -> str:
    cases = file("micro").parts["head"]["cases"]
    rows = [[precision, *(formatted(cases[f"head_by_chunks/{precision}/rows:{chunk}"]["ratio"], "spread 2")
                          for chunk in (0, 4096))] for precision in ("fp32", "bf16")]
    return table(["", "chunks within 32 MB, times ATen", "whole logits in one chunk, times ATen"], rows)


def recompute_table() -> str:
    cases = file("micro").parts["recompute"]["cases"]
    rows = []
    for precision in ("fp32", "bf16"):
        for mode in ("none", "selective", "full"):
            row = cases[f"gpt2_10.8M/{precision}/{mode}"]
            rows.append([f"{mode}, {precision}", formatted(row["peak_MB"], "0"), formatted(row["ratio"], "spread 2")])
    return table(["recomputation", "MB kept", "time relative to none"], rows)


def divided_table() -> str:
    rows = {name: row for name, row in file("divided").parts.items() if name != "model"}
    return table(["", "peak of a rank, MB", "MB sent a step"],
                 [[name, formatted(row["peak_bytes"]["max"], "MB"), formatted(row["wire_bytes"], "MB 1")]
                  for name, row in rows.items()])


def decoding_table() -> str:
    found = file("decoding").parts
    fastest = value("decoding", "memory/read_bytes_per_second")
    rows = []
    for name, by_precision in found.items():
        for precision, row in by_precision.items() if name != "memory" else ():
            rows.append([f"{name}, {precision}", formatted(row["accrue"], "spread 0"), formatted(row["transformers"], "spread 0"),
                         formatted(row["ratio"], "spread 2"), formatted(row["weight_bytes_per_second"] / fastest, "%0"),
                         "yes" if row["same_text"] else "no"])
    return table(["model", "accrue, tokens/s", "transformers, tokens/s", "times as fast", "weights read, of torch.sum's rate",
                  "same text"], rows)


def splits_table() -> str:
    """Of a split that did not fit there is nothing to say."""
    sizes = [size for size in value("splits", "GPT-2 10.8 M/sizes") if size["fits"]]
    return table(["micro-batches of samples", "a step, s", "time", "most in tensors", "memory"],
                 [[f"{size['micro_batches']} of {size['micro_batch']}", formatted(size["seconds"], "spread 2"),
                   f"{100 * (size['relative_seconds'] - 1):+.1f}%", gib(size["peak_bytes"]),
                   f"{100 * (size['relative_peak_bytes'] - 1):+.0f}%"] for size in sizes])


def generic_table() -> str:
    return table(["", "accrue's kernels, tokens/s", "ATen's operators, tokens/s", "ATen's of accrue's"],
                 [[name, formatted(row["native_tokens_per_second"], "spread 0"), formatted(row["generic_tokens_per_second"], "spread 0"),
                   formatted(row["ratio"], "spread 2")] for name, row in file("generic").parts.items()])


def finetune_table() -> str:
    rows = []
    for name, result in file("finetune").parts.items():
        for system, row in result["systems"].items():
            ratios = result if system == "accrue" else (
                result.get("budgets", {}) | result.get("blocks", {})).get(system, {})
            rows.append([name, "transformers and PEFT" if system == "transformers" else system, str(row["micro"]),
                         formatted(row["tokens_per_second"], "spread 0"),
                         formatted(ratios["speed_ratio"], "spread 2") if ratios else "", gib(row["peak_resident_bytes"]),
                         formatted(ratios["memory_ratio"], "2") if ratios else "", str(result["rounds"])])
    return table(["", "", "micro-batch", "tokens/s", "times as fast", "resident", "of the memory", "rounds"], rows)


FOREIGN_JOBS = {  # of foreign_layers.py
    "gpt2": "GPT-2, 10.8 M, context 256, 8 micro-batches of 4", "resnet50": "ResNet-50, 224 x 224, 2 micro-batches of 8",
    "lstm": "LSTM classifier, 2 x 512, context 128, 8 micro-batches of 16"}
NOT_MEASURED = "not measured yet (`make bench-foreign`)"


def foreign_table() -> str:
    rows = []
    for job, result in file("foreign_layers").parts.items():
        for loop, row in result["loops"].items():
            rows.append([FOREIGN_JOBS[job] if loop == "plain" else "", loop,
                         f"{formatted(row['per_second'], ',1' if result['unit'] == 'images' else ',0')} {result['unit']}",
                         formatted(row["of_plain"], "spread 2"), formatted(row["of_own"], "2") if "of_own" in row else "",
                         gib(row["peak_resident_bytes"])])
    return table(["model", "loop", "a second", "times the plain loop", "of accrue's own", "most resident"],
                 rows) if rows else NOT_MEASURED


def foreign_overhead_table() -> str:
    rows = []
    for job, result in file("foreign_layers").parts.items():
        found = result["accumulator_overhead"]
        low, high = (f"{100 * quartile:+.2f}%" for quartile in found["quartiles"])
        rows.append([FOREIGN_JOBS[job], f"{100 * found['median']:+.2f}%", f"{low} to {high}", str(found["pairs"])])
    return table(["model", "a step takes longer by", "quartiles", "pairs of steps"], rows) if rows else NOT_MEASURED


def foreign_conditions() -> str:
    return measured("foreign_layers") if has("foreign_layers") else "no machine yet"


def python_table() -> str:
    rows = []
    for job, result in file("python_models").parts.items():
        for loop, row in result["loops"].items():
            rows.append([job if loop == "plain" else "", loop, f"{formatted(row['per_second'], ',1' if result['unit'] == 'images' else ',0')} {result['unit']}",
                         formatted(row["of_plain"], "spread 2"), formatted(row["of_fastest"], "spread 2"), gib(row["peak_resident_bytes"])])
    return table(["model", "loop", "a second", "times the plain loop", "times the fastest without accrue", "most resident"],
                 rows) if rows else "not measured yet (`make bench-python`)"


def python_conditions() -> str:
    return measured("python_models") if has("python_models") else "no machine yet"


TABLES = {"foreign layers": foreign_table, "Python models": python_table, "foreign overhead": foreign_overhead_table, "decoding": decoding_table, "generic": generic_table, "splits": splits_table, "finetune": finetune_table, "speed": speed_table, "peers": peers_table, "memory of peers": peers_memory_table, "limits": limit_tables,
          "readme": readme_table, "cgroup": cgroup_table, "head": head_table, "recompute": recompute_table,
          "divided": divided_table}


def of_batch_curves(made: Callable[[dict], str]) -> Callable[[], str]:
    return lambda: made(file("batch_curves").parts)


TABLES |= {name: of_batch_curves(made) for name, made in batch_curves_report.TABLES.items()}


# --- Figures of sentences ---------------------------------------------------------------------------------------------

def errors(what: str) -> list[float]:
    return [row[what]["error"] for row in value("planner", "predictions")]


def untried() -> int:
    return sum(not row["tried"] for row in value("planner", "predictions"))


def beyond_a_tenth() -> str:
    """The errors of seconds above 10%, in percent."""
    beyond = [f"{100 * error:+.0f}%" for error in sorted(errors("seconds_per_micro_batch")) if abs(error) > 0.1]
    return f"but for {len(beyond)} ({', '.join(beyond)})" if beyond else "without exception"


def choices() -> str:
    ratios = sorted(row["ratio"] for row in value("planner", "choices"))
    return ", ".join(f"{100 * ratio:.0f}%" for ratio in ratios)


def least_budget() -> dict:
    """The row of the least one that was not refused."""
    return next(row for row in value("memory", "budgets/accrue") if "refused" not in row)


def adama(what: str) -> str:
    return f"{100 * (value('memory', 'adama/adama')[what] - 1):+.1f}%"


def share_of_observers() -> str:
    """Of the demo's step, at an instruction a nanosecond."""
    seconds = 1e-9 * value("observing", "instructions/of_observers_per_step")
    return formatted(seconds / value("observing", "demo/seconds_per_step/unwatched")["median"], "%4")


SENTENCES = {
    "share of observers": share_of_observers,
    "conditions of foreign layers": foreign_conditions,
    "conditions of Python models": python_conditions,
    "conditions of batches": lambda: batch_curves_report.conditions(file("batch_curves")),
    **{name: of_batch_curves(made) for name, made in batch_curves_report.SENTENCES.items()},
    "largest error of a peak": lambda: f"{100 * max(map(abs, errors('peak_bytes'))):.1f}%",
    "errors of seconds beyond a tenth": beyond_a_tenth,
    "predictions": lambda: str(len(errors("peak_bytes"))), "untried predictions": lambda: str(untried()),
    "choices": choices,
    "resident with the least budget": lambda: formatted(least_budget()["peak_resident_bytes"], "GiB 2"),
    "splits of the budgets": lambda: "{micro_batches} micro-batches of {micro_batch}".format(**least_budget()),
    "peak of adama": lambda: adama("peak_ratio"), "speed of adama": lambda: adama("throughput_ratio"),
    "least tokens/s of data": lambda: rate_of_data(min), "most tokens/s of data": lambda: rate_of_data(max),
}


def rate_of_data(which: Callable) -> str:
    cases = value("micro", "data/cases").values()
    return formatted(which(row["tokens_per_second"]["median"] for row in cases) / 1e6, "0")


def figure(expression: str) -> str:
    """Raises KeyError where no result has it."""
    word, _, rest = expression.strip().partition(" ")
    if word == "table":
        return TABLES[rest]()
    if word == "measured":
        name, _, part = rest.partition(": ")
        return measured(name, part or None)
    if expression.strip() in SENTENCES:
        return SENTENCES[expression.strip()]()
    name, path, how = (piece.strip() for piece in expression.split(": "))
    return formatted(value(name, path), how)


def holds(condition: str) -> bool:
    """Of an `if`: whether there are such results ("speed", "speed: overhead/peak_bytes")."""
    name, _, path = condition.strip().partition(": ")
    return has(name, path or None)
