"""What batch_curves.py measured, as tables and a plot.

Runs that are missing are left out. A run without a finite loss at its end is counted, and no mean has it.
"""
import itertools
import math
import pathlib
import statistics

import svg
from curves_report import GAP, HEIGHT, LEFT, PANEL, TOP, panel
from results import ROOT, ResultFile, describe
from runs import table

NOT_MEASURED = "not measured yet (`make bench-batch`)"
PLOT = ROOT / "docs" / "notes" / "batch_curves.svg"
BEGIN = 4096  # what batches that are decided on the way begin with
MIDDLE = 32768  # the batch whose last loss the others are asked for, too
BORNE = 0.2  # nats above the best loss of a batch, up to which it bears a rate
NAMED = 6  # so many batches of a run are named


def grouped(parts: dict, part: str) -> dict[str, dict[str, dict]]:
    """The part's runs by what stands before the first comma of their names ("4096", "seesaw"), and then by the rest ("seed 1")."""
    found: dict[str, dict[str, dict]] = {}
    for name in sorted(parts):
        if name.startswith(f"{part}: "):
            what, _, rest = name.removeprefix(f"{part}: ").partition(", ")
            found.setdefault(what, {})[rest] = parts[name]
    return found


def by_batch(parts: dict, part: str) -> dict[int, dict[str, dict]]:
    """The smallest batch first."""
    return dict(sorted((int(batch), runs) for batch, runs in grouped(parts, part).items()))


def is_finite(run: dict) -> bool:
    return run.get("loss") is not None and math.isfinite(run["loss"])


def finite(runs: dict[str, dict]) -> dict[str, dict]:
    return {name: run for name, run in runs.items() if is_finite(run)}


def rows_of(header: list[str], rows: list[list[str]]) -> str:
    return table(header, rows) if rows else NOT_MEASURED


def of_mean(values: list[float], how: str) -> str:
    """The mean, least and most; a value that is the same for all stands alone, and of none there is nothing to say."""
    if not values:
        return ""
    mean, least, most = (format(value, how) for value in (statistics.mean(values), min(values), max(values)))
    return mean if least == most else f"{mean} ({least} to {most})"


def last_losses(runs: dict[str, dict]) -> str:
    ended = finite(runs)
    missed = f"{len(runs) - len(ended)} of {len(runs)} not finite" if len(ended) < len(runs) else ""
    return ", ".join(filter(None, [of_mean([run["loss"] for run in ended.values()], ".3f"), missed]))


def steps(runs: dict[str, dict]) -> str:
    return of_mean([run["steps"] for run in finite(runs).values()], ",.0f")


# --- Fixed batches ---------------------------------------------------------------------------------------------------

def fixed_table(parts: dict) -> str:
    batches = by_batch(parts, "fixed")
    middle = mean_loss(batches.get(MIDDLE, {}))
    end = f" ({middle:.3f})" if middle else ""
    return rows_of(["batch, tokens", "seeds", "steps", "held-out loss at the end, mean (least to most)",
                    "M tokens until its loss is the next larger batch's at the end", f"M tokens until it is that of {MIDDLE:,}{end}"],
                   [[f"{batch:,}", str(len(batches[batch])), steps(batches[batch]), last_losses(batches[batch]),
                     millions_to(mean_loss(batches.get(larger, {})), batches[batch]), millions_to(middle, batches[batch])]
                    for batch, larger in itertools.zip_longest(batches, list(batches)[1:])])


def mean_loss(runs: dict[str, dict]) -> float | None:
    losses = [run["loss"] for run in finite(runs).values()]
    return statistics.mean(losses) if losses else None


def mean_curve(runs: dict[str, dict]) -> list[tuple[float, float]]:
    """Tokens and loss at each evaluation, means over runs that are evaluated at the same places."""
    curves = [run["curve"] for run in finite(runs).values()]
    return [(statistics.mean(tokens for tokens, _, _ in points), statistics.mean(loss for _, _, loss in points)) for points in zip(*curves)]


def millions_to(target: float | None, runs: dict[str, dict]) -> str:
    """When the mean curve first is at the target, on a straight line between two evaluations."""
    curve = mean_curve(runs)
    if target is None or not curve:
        return ""
    if curve[0][1] <= target:
        return f"at most {curve[0][0] / 1e6:.2f}"
    for (tokens, loss), (later, lower) in itertools.pairwise(curve):
        if lower <= target:
            return f"{(tokens + (later - tokens) * (loss - target) / (loss - lower)) / 1e6:.2f}"
    return "not reached"


# --- Batches that change ---------------------------------------------------------------------------------------------

def changing_table(parts: dict) -> str:
    changing = grouped(parts, "changing")
    fixed = by_batch(parts, "fixed").get(BEGIN, {})
    beside = {f"{BEGIN:,}, fixed": fixed} if changing and fixed else {}
    return rows_of(["batch", "seeds", "serial steps", "steps saved", "held-out loss at the end, mean (least to most)",
                    f"less that of {BEGIN:,} from the same seed", "batches of the first seed (from step)"],
                   [changing_row(name, runs, fixed) for name, runs in (beside | changing).items()])


def changing_row(name: str, runs: dict[str, dict], fixed: dict[str, dict]) -> list[str]:
    """Each seed beside its own among the fixed runs; these have nothing beside them."""
    pairs = [(fixed[seed], run) for seed, run in finite(runs).items() if seed in finite(fixed) and runs is not fixed]
    saved = of_mean([1 - run["steps"] / beside["steps"] for beside, run in pairs], ".1%")
    difference = of_mean([run["loss"] - beside["loss"] for beside, run in pairs], "+.3f")
    return [name, str(len(runs)), steps(runs), saved, last_losses(runs), difference, walked(runs)]


def walked(runs: dict[str, dict]) -> str:
    """The batches that the first seed went through; of many those at both ends."""
    first = next(iter(finite(runs).values()), {"batches": []})
    words = [f"{batch:,} ({step:,})" for step, batch in first["batches"]]
    if len(words) > NAMED:
        half = NAMED // 2
        words[half:-half] = [f"{len(words) - 2 * half} more"]
    return ", ".join(words)


def apart_before_changes(parts: dict) -> str:
    """The largest difference in loss from the fixed batch of the same seed, where runs have had that batch alone so far. Seesaw is left out: its
    learning rate is another between the halvings."""
    fixed = finite(by_batch(parts, "fixed").get(BEGIN, {}))
    pairs = [(losses_at(fixed[seed]), run) for name, runs in grouped(parts, "changing").items() if name != "seesaw"
             for seed, run in finite(runs).items() if seed in fixed]
    found = [abs(loss - beside[step]) for beside, run in pairs for step, loss in losses_at(run).items()
             if step < first_change(run) and step in beside]
    return f"{max(found):.3f} nats" if found else NOT_MEASURED


def losses_at(run: dict) -> dict[int, float]:
    """By step."""
    return {step: loss for _, step, loss in run["curve"]}


def first_change(run: dict) -> float:
    """The step; of a run that kept its batch, none."""
    return run["batches"][1][0] if len(run["batches"]) > 1 else math.inf


# --- One batch in several micro-batches ------------------------------------------------------------------------------

def passes(parts: dict) -> dict[int, dict]:
    """Runs by K; their names are "4 of 8192 tokens"."""
    found = {int(name.split()[0]): runs[""] for name, runs in grouped(parts, "passes").items()}
    return {count: run for count, run in sorted(found.items()) if is_finite(run)}


def passes_table(parts: dict) -> str:
    runs = passes(parts)
    first = next(iter(runs.values()), None)
    return rows_of(["K", "held-out loss at the end", f"largest difference from K = {next(iter(runs), 1)} anywhere on the curve"],
                   [[str(count), f"{run['loss']:.6f}", "" if run is first else f"{apart([first, run]):.1e}"] for count, run in runs.items()])


def apart(runs: list[dict]) -> float:
    """The largest difference between any two of their curves at one place."""
    places = zip(*([loss for _, _, loss in run["curve"]] for run in runs))
    return max(max(losses) - min(losses) for losses in places)


def largest_difference(parts: dict) -> str:
    runs = list(passes(parts).values())
    return f"{apart(runs):.1e} nats" if len(runs) > 1 else NOT_MEASURED


# --- Rates that are too high -----------------------------------------------------------------------------------------

def stable_table(parts: dict) -> str:
    batches = {batch: tried(runs) for batch, runs in by_batch(parts, "stable").items()}
    warmups = sorted({warmup for runs in batches.values() for warmup, _ in runs}, key=lambda warmup: float(warmup.rstrip("%")))
    return rows_of(["batch, tokens", *(f"highest rate {with_warmup(warmup)} (loss)" for warmup in warmups), "best loss (at)"],
                   [[f"{batch:,}", *(highest(runs, warmup) for warmup in warmups), best(runs)] for batch, runs in batches.items()])


def tried(runs: dict[str, dict]) -> dict[tuple[str, float], dict]:
    """Of one batch, by warm-up and rate; the names are "0.004, warm-up 10%"."""
    found = {}
    for name, run in runs.items():
        rate, _, warmup = name.partition(", warm-up ")
        found[warmup, float(rate)] = run
    return found


def with_warmup(warmup: str) -> str:
    return "without warm-up" if warmup == "0%" else f"with {warmup} of warm-up"


def best_loss(runs: dict[tuple[str, float], dict]) -> float:
    return min((run["loss"] for run in runs.values() if is_finite(run)), default=math.nan)


def highest(runs: dict[tuple[str, float], dict], warmup: str) -> str:
    """The highest rate that the batch bears: its run ends finite and within BORNE of the batch's best loss, with whichever warm-up."""
    rates = {rate: run for (found, rate), run in runs.items() if found == warmup}
    borne = [rate for rate, run in rates.items() if is_finite(run) and run["loss"] <= best_loss(runs) + BORNE]
    if not borne:
        return "none of those tried" if rates else ""
    beyond = " or more" if max(borne) == max(rates) else ""
    return f"{max(borne):g}{beyond} ({rates[max(borne)]['loss']:.3f})"


def best(runs: dict[tuple[str, float], dict]) -> str:
    return next((f"{run['loss']:.3f} ({rate:g}, {with_warmup(warmup)})" for (warmup, rate), run in runs.items()
                 if run.get("loss") == best_loss(runs)), "none is finite")


def rates_tried(parts: dict) -> str:
    rates = sorted({rate for runs in by_batch(parts, "stable").values() for _, rate in tried(runs)})
    return ", ".join(f"{rate:g}" for rate in rates) or NOT_MEASURED


# --- The plot: loss by tokens for fixed batches, and by steps for those that change beside them ----------------------

FIXED_COLOURS = ("#081d58", "#225ea8", "#1d91c0", "#41b6c4", "#7fcdbb", "#a8d08d")  # from the smallest batch to the largest
CHANGING_COLOURS = (svg.COLOURS[1], svg.COLOURS[6], svg.COLOURS[3], svg.COLOURS[4])
THIN, WIDE = {"width": 1.6, "opacity": 1}, {"width": 5, "opacity": 0.4}
AXES = {"tokens": "M tokens", "steps": "optimizer steps"}
TITLES = {"tokens": "fixed batches", "steps": "batches that change (thin) beside fixed ones (wide)"}
MARGIN = 0.04  # of the losses' range, below and above them
ROW, KEY = 24, 104  # of the legend


def plots(file: ResultFile) -> dict[pathlib.Path, str]:
    """None where there is nothing to draw."""
    return {PLOT: plot(file.parts)} if is_drawn(file.parts) else {}


def is_drawn(parts: dict) -> bool:
    return any(finite(runs) for runs in by_batch(parts, "fixed").values())


def picture(parts: dict) -> str:
    return f"![held-out loss by tokens and by optimizer steps]({PLOT.name})" if is_drawn(parts) else NOT_MEASURED


def plot(parts: dict) -> str:
    fixed, changing = by_batch(parts, "fixed"), grouped(parts, "changing")
    panels = {"tokens": lines_of(fixed, FIXED_COLOURS, THIN),
              "steps": lines_of(fixed, FIXED_COLOURS, WIDE) + lines_of(changing, CHANGING_COLOURS, THIN)}
    low, high = range_of(panels["steps"])
    drawn = [svg.text(LEFT, 18, "held-out loss (nats per byte), all runs of as many tokens; a line for each seed")]
    for i, (axis, lines) in enumerate(panels.items()):
        left = LEFT + i * (PANEL + GAP)
        drawn += [svg.text(left, TOP - 6, TITLES[axis]), *panel(left, axis, AXES[axis], lines, low, high)]
    bottom = TOP + HEIGHT + 58
    drawn += key(bottom, "fixed batches, tokens", [f"{batch:,}" for batch in fixed], FIXED_COLOURS)
    drawn += key(bottom + ROW, f"changing, from {BEGIN:,}", list(changing), CHANGING_COLOURS)
    return svg.document(LEFT + 2 * (PANEL + GAP), bottom + 2 * ROW, drawn)


def lines_of(groups: dict, colours: tuple[str, ...], style: dict) -> list[tuple[dict, dict]]:
    """How each run's line is drawn, and its points."""
    return [({"colour": colour, **style}, points_of(run["curve"]))
            for runs, colour in zip(groups.values(), colours) for run in finite(runs).values()]


def range_of(lines: list[tuple[dict, dict]]) -> tuple[float, float]:
    losses = [loss for _, points in lines for loss in points["eval_losses"]]
    margin = MARGIN * (max(losses) - min(losses))
    return min(losses) - margin, max(losses) + margin


def points_of(curve: list[list[float]]) -> dict[str, list[float]]:
    tokens, ends, losses = zip(*curve)
    return {"tokens": [count / 1e6 for count in tokens], "steps": list(ends), "eval_losses": list(losses)}


def key(y: float, title: str, names: list[str], colours: tuple[str, ...]) -> list[str]:
    """A row of the legend; nothing where there are no names."""
    parts = [svg.text(LEFT, y + 10, title)] if names else []
    for i, (name, colour) in enumerate(zip(names, colours)):
        x = LEFT + 150 + KEY * i
        parts += [svg.rect(x, y, 12, 12, colour), svg.text(x + 18, y + 10, name)]
    return parts


# --- What documents ask for, by its name in them ---------------------------------------------------------------------

def conditions(file: ResultFile) -> str:
    """Where, when and with what the runs were made, each such description once."""
    return "; ".join(sorted({describe(file.record_of(part)) for part in file.parts})) or "no machine yet"


TABLES = {"fixed batches": fixed_table, "changing batches": changing_table, "passes of a batch": passes_table, "stable rates": stable_table}
SENTENCES = {"plot of batches": picture, "difference before changes": apart_before_changes, "largest difference of passes": largest_difference,
             "rates tried": rates_tried}
