"""What outer_curves.py measured, as a table and a plot."""
import curves_report
import svg
from links_report import of_spread
from results import ResultFile, describe
from runs import spread, table

REFERENCE = "one reduction a step"


def outcomes_of(file: ResultFile) -> dict[str, dict[int, dict]]:
    """By the setting's name and the seed."""
    found: dict[str, dict[int, dict]] = {}
    for part, outcome in file.parts.items():
        found.setdefault(part.rpartition("; seed ")[0], {})[outcome["seed"]] = outcome
    return found


def last_loss(outcome: dict) -> float:
    return outcome["curve"]["eval_losses"][-1]


def table_of(file: ResultFile) -> str:
    outcomes = outcomes_of(file)
    where = describe(file.measured[-1]) if file.measured else ""
    order = sorted(outcomes, key=lambda name: (length_of(outcomes[name]), mean_loss(outcomes[name])))
    return "\n".join([f"Last measured on {where}.", "", table(
        ["setting", "seeds", "validation loss, median (min to max)",
         f"less that of {REFERENCE} from the same seed, median (min to max)", "MB that a rank sends a step"],
        [row(name, outcomes) for name in order]), ""])


def length_of(runs: dict[int, dict]) -> int:
    return next(iter(runs.values()))["local_steps"]


def mean_loss(runs: dict[int, dict]) -> float:
    return sum(map(last_loss, runs.values())) / len(runs)


def row(name: str, outcomes: dict[str, dict[int, dict]]) -> list[str]:
    runs, reference = outcomes[name], outcomes.get(REFERENCE, {})
    differences = [last_loss(run) - last_loss(reference[seed]) for seed, run in runs.items() if seed in reference]
    compared = name != REFERENCE and differences
    return [name, str(len(runs)), of_spread(spread([last_loss(run) for run in runs.values()]), 4),
            curves_report.signed(spread(differences)) if compared else "",
            f"{sum(run['wire_bytes'] for run in runs.values()) / len(runs) / 1e6:.3f}"]


# --- The plot: for each length of a round, validation loss by steps of some settings ---------------------------------

PANEL, HEIGHT, LEFT, TOP, BOTTOM, GAP = 300, 300, 60, 44, 130, 50
LEFT_OUT = 1 / 8  # of the steps, where all losses fall alike and steeply
USUAL = {8: "lr 0.5, momentum 0.7", 32: "lr 0.7, momentum 0.7", 64: "lr 0.7, momentum 0.7"}  # usual_outer_rates()
DRAWN = {"the mean (lr 1, momentum 0)": lambda length: "lr 1, momentum 0",
         "DiLoCo's rates (lr 0.7, momentum 0.9)": lambda length: "lr 0.7, momentum 0.9",
         "the usual rates": USUAL.get}


def plot(file: ResultFile) -> str:
    outcomes = outcomes_of(file)
    lengths = sorted({length_of(runs) for runs in outcomes.values()} - {1})
    panels = [(length, lines_of(outcomes, length)) for length in lengths]
    losses = [loss for _, lines in panels for _, curve in lines for loss in curve["eval_losses"]]
    if not losses:
        return svg.document(PANEL, HEIGHT, [])
    parts = [svg.text(LEFT, 18, "validation loss (nats per byte), two ranks; a line for each seed")]
    for i, (length, lines) in enumerate(panels):
        parts += curves_report.panel(LEFT + i * (PANEL + GAP), "steps", f"optimizer steps; rounds of {length}", lines,
                                     min(losses), max(losses), width=PANEL, height=HEIGHT, top=TOP)
    for i, (words, colour) in enumerate({REFERENCE: svg.COLOURS[0], **colours()}.items()):
        y = TOP + HEIGHT + 56 + 18 * i
        parts += [svg.rect(LEFT, y, 12, 12, colour), svg.text(LEFT + 18, y + 10, words)]
    return svg.document(LEFT + len(panels) * (PANEL + GAP), TOP + HEIGHT + BOTTOM, parts)


def colours() -> dict[str, str]:
    return dict(zip(DRAWN, svg.COLOURS[1:]))


def lines_of(outcomes: dict[str, dict[int, dict]], length: int) -> list[tuple[dict, dict]]:
    """How each line of a panel is drawn, and its points."""
    drawn = {REFERENCE: {"colour": svg.COLOURS[0], "width": 6, "opacity": 0.35}}
    for words, colour in colours().items():
        drawn[f"{length} local steps: {DRAWN[words](length)}"] = {"colour": colour, "width": 1.5, "opacity": 0.9}
    lines = []
    for name, style in drawn.items():
        for run in outcomes.get(name, {}).values():
            curve = run["curve"]
            kept = [i for i, step in enumerate(curve["steps"]) if step > LEFT_OUT * run["steps"]]
            lines.append((style, {what: [curve[what][i] for i in kept] for what in ("steps", "eval_losses")}))
    return lines
