"""What curves.py measured, as a table and a plot."""
import math

import svg
from links_report import of_spread
from results import describe
from runs import spread, table

REFERENCE = "none"
CONTROL = "none, rounded otherwise"


def tables(result: dict, record: dict) -> str:
    job, link = result["job"], result["link"]
    model = job["model"]
    how = (f"a link of {link['rate_mbit']} Mbit/s each way (plain sockets get {link['probe']['mbit']:.0f} both ways at "
           f"once)" if link else "the loopback device")
    return "\n".join([
        f"GPT-2 {model['layers']}/{model['heads']}/{model['width']}, context {model['context']}, bytes, fp32; batches "
        f"of {job['samples']} samples over two ranks, a core each, over {how}; seeds: {len(job['seeds'])}; sources of "
        f"Python {result['python']}; accrue {result['versions']['accrue']}; {describe(record)}.", "",
        table(["variant", f"validation loss after {job['steps']} steps, median (min to max)",
               f"less that of {REFERENCE} from the same seed, median (min to max)", "MB that a rank sends a step",
               "seconds a step, median (min to max)"],
              [row(variant, result) for variant in result["variants"]]), ""])


def row(variant: str, result: dict) -> list[str]:
    runs, reference = result["variants"][variant], result["variants"][REFERENCE]
    losses = {seed: run["curve"]["eval_losses"][-1] for seed, run in runs.items()}
    differences = [loss - reference[seed]["curve"]["eval_losses"][-1] for seed, loss in losses.items()]
    sent, seconds = (spread([run["per_step"][what] for run in runs.values()]) for what in ("wire_bytes", "seconds"))
    return [variant, of_spread(spread(list(losses.values())), 4),
            "" if variant == REFERENCE else signed(spread(differences)), f"{sent['median'] / 1e6:.3f}",
            of_spread(seconds, 3) if result["link"] else "not measured"]


def signed(found: dict) -> str:
    return f"{found['median']:+.4f} ({found['min']:+.4f} to {found['max']:+.4f})"


# --- The plot: validation loss by steps and, over a link, by seconds -------------------------------------------------

PANEL, HEIGHT, LEFT, TOP, BOTTOM, GAP, KEY = 380, 320, 60, 44, 90, 40, 130
AXES = {"steps": "optimizer steps", "seconds": "seconds of training (evaluations left out)"}
LEFT_OUT = 1 / 8  # of the steps: where all losses fall alike, and so steeply that nothing else could be seen
WIDE, THIN = 6, 1.5  # of the reference, which the others are drawn over


def plot(result: dict) -> str:
    axes = [axis for axis in AXES if axis == "steps" or result["link"]]
    curves = shown(result)
    losses = [loss for _, curve in curves for loss in curve["eval_losses"]]
    low, high = min(losses), max(losses)
    link = f", {result['link']['rate_mbit']} Mbit/s" if result["link"] else ""
    parts = [svg.text(LEFT, 18, f"validation loss (nats per byte), two ranks{link}; a line for each seed")]
    for i, axis in enumerate(axes):
        parts += panel(LEFT + i * (PANEL + GAP), axis, AXES[axis], curves, low, high)
    for i, (variant, colour) in enumerate(colours(result).items()):
        x, y = LEFT + KEY * i, TOP + HEIGHT + BOTTOM - 30
        parts += [svg.rect(x, y, 12, 12, colour), svg.text(x + 18, y + 10, variant)]
    width = max(len(axes) * (PANEL + GAP), KEY * len(colours(result)))
    return svg.document(LEFT + width, TOP + HEIGHT + BOTTOM, parts)


def colours(result: dict) -> dict[str, str]:
    """Of what is drawn."""
    return dict(zip((variant for variant in result["variants"] if variant != CONTROL), svg.COLOURS))


def shown(result: dict) -> list[tuple[dict, dict]]:
    """How each line is drawn, and its points."""
    begin = LEFT_OUT * result["job"]["steps"]
    lines = []
    for variant, colour in colours(result).items():
        style = {"colour": colour, "width": WIDE if variant == REFERENCE else THIN,
                 "opacity": 0.35 if variant == REFERENCE else 0.9}
        for run in result["variants"][variant].values():
            kept = [i for i, step in enumerate(run["curve"]["steps"]) if step > begin]
            lines.append((style, {what: [values[i] for i in kept] for what, values in run["curve"].items()}))
    return lines


def panel(left: float, axis: str, words: str, curves: list[tuple[dict, dict]], low: float, high: float,
          width: float = PANEL, height: float = HEIGHT, top: float = TOP) -> list[str]:
    """Curves of styles and points ("eval_losses" over what `axis` names), over an axis that says `words`."""
    last = max(curve[axis][-1] for _, curve in curves)

    def x(value: float) -> float:
        return left + width * value / last

    def y(loss: float) -> float:
        return top + height * (high - loss) / (high - low)

    parts = []
    for loss in ticks(low, high):
        parts += [svg.line(left, y(loss), left + width, y(loss)), svg.text(left - 6, y(loss) + 4, f"{loss:.2f}", "end")]
    for value in ticks(0, last):
        parts += [svg.line(x(value), top + height, x(value), top + height + 4, "#999"),
                  svg.text(x(value), top + height + 18, f"{value:g}", "middle")]
    parts += [svg.line(left, top, left, top + height, "#999"),
              svg.line(left, top + height, left + width, top + height, "#999"),
              svg.text(left + width / 2, top + height + 38, words, "middle")]
    for style, curve in curves:
        points = [(x(value), y(loss)) for value, loss in zip(curve[axis], curve["eval_losses"])]
        parts.append(svg.polyline(points, **style))
    return parts


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to ten of them."""
    if high <= low:
        return [low]
    power = 10 ** math.floor(math.log10(high - low))
    step = next(step for step in (2 * power, power, power / 2, power / 5) if (high - low) / step >= 4)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
