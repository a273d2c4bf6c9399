// The top of the page: what runs these are, what they came to, and what differs.

function stateChip(state) {
  return element("span", {class: `state state-${state}`}, state);
}

function figureTile(figure) {
  return element("div", {class: "tile"},
    element("dt", {}, figure.label),
    element("dd", {}, element("span", {class: "figure"}, figure.text),
      figure.part === undefined ? null : bar(figure),
      figure.detail ? element("span", {class: "detail"}, figure.detail) : null));
}

/// Memory that nears its budget is warned of.
function bar({id, label, part}) {
  const filled = element("span", {class: id === "peak_bytes" && part > 0.95 ? "filled full" : "filled"});
  filled.style.width = `${Math.min(100, 100 * part)}%`;
  return element("span", {class: "bar", role: "img", "aria-label": `${label}: ${FORMATS.share(part)}`}, filled);
}

function remarks(texts) {
  return texts.length === 0 ? null : element("ul", {class: "remarks", "aria-label": "Remarks"}, ...texts.map((text) => element("li", {class: "remark"}, text)));
}

function headerOfOne(run) {
  return element("section", {class: "intro", id: "summary", "aria-labelledby": "heading"},
    element("div", {class: "heading"}, element("h1", {id: "heading"}, run.name), stateChip(run.state)),
    run.model ? element("p", {class: "model"}, run.model) : null,
    run.batch ? element("p", {class: "batch"}, element("span", {class: "key"}, "Batch "), run.batch) : null,
    remarks(run.remarks),
    run.figures.length ? element("dl", {class: "tiles"}, ...run.figures.map(figureTile)) : element("p", {class: "note"}, "No step of this run has been written yet."));
}

function headerOfSeveral(page, data) {
  const all = [...data.remarks, ...page.runs.flatMap((run) => run.remarks.map((text) => `${run.name}: ${text}`))];
  return element("section", {class: "intro", id: "summary", "aria-labelledby": "heading"},
    element("div", {class: "heading"}, element("h1", {id: "heading"}, `${page.runs.length} runs`)),
    remarks(all), resultTable(page));
}

/// One row a run; its first cell puts the run's lines on and off.
function resultTable(page) {
  const ids = new Map();
  for (const run of page.runs) for (const figure of run.figures) if (!ids.has(figure.id)) ids.set(figure.id, figure.label);
  const models = new Set(page.runs.map((run) => run.model));
  const head = ["Run", "State", ...ids.values(), ...(models.size > 1 ? ["Model"] : [])];
  const rows = page.runs.map((run, r) => {
    const button = toggle([swatch(r), element("span", {class: "label"}, run.name)], !page.view.hiddenRuns.has(r), () => page.toggleRun(r), {class: "entry", title: run.folder});
    page.view.listen((names) => {
      if (names.includes("hiddenRuns")) button.setAttribute("aria-pressed", String(!page.view.hiddenRuns.has(r)));
    });
    const figures = [...ids.keys()].map((id) => {
      const figure = run.figures.find((one) => one.id === id);
      return figure ? element("span", {title: figure.detail}, figure.text) : "";
    });
    return [button, stateChip(run.state), ...figures, ...(models.size > 1 ? [run.model] : [])];
  });
  return table({caption: "Results", head, rows, rowHeaders: true, className: "results"});
}

function differenceTable(page, differences) {
  const rows = differences.map((one) => [one.key, ...one.values.map((value) => value ?? element("span", {class: "absent"}, "not set"))]);
  return table({caption: "What differs", head: ["", ...page.runs.map((run) => run.name)], rows, rowHeaders: true, className: "differences"});
}

/// Axis, smoothing, extremes and zoom, for all charts together.
function controls(page, axes) {
  const {view} = page;
  const axisButtons = axes.map((axis) => {
    const input = element("input", {type: "radio", name: "axis", value: axis, checked: view.axis === axis});
    input.addEventListener("change", () => view.set({axis, zoom: null}));
    return element("label", {class: "choice"}, input, element("span", {}, AXES[axis].title));
  });
  const shown = element("output", {}), slider = element("input", {type: "range", min: 0, max: SMOOTHING_PERCENT.length - 1, step: 1, value: view.smoothing, id: "smoothing"});
  const tell = () => {
    const percent = SMOOTHING_PERCENT[view.smoothing];
    shown.textContent = percent === 0 ? "off" : `${percent}% of the axis`;
    slider.setAttribute("aria-valuetext", shown.textContent);
  };
  slider.addEventListener("input", () => {
    view.set({smoothing: Number(slider.value)});
    tell();
  });
  tell();
  const whole = element("button", {type: "button", disabled: true, on: {click: () => view.set({zoom: null})}}, "Show all");
  view.listen((names) => {
    if (names.includes("zoom")) whole.disabled = view.zoom === null;
  });
  return element("form", {class: "controls", "aria-label": "Charts", on: {submit: (event) => event.preventDefault()}},
    element("fieldset", {class: "choices"}, element("legend", {class: "unseen"}, "Horizontal axis"), ...axisButtons),
    element("label", {class: "smoothing", for: "smoothing"}, "Smoothing ", slider, shown),
    toggle("Raw and extremes", view.extremes, (on) => view.set({extremes: on}), {title: "What smoothing and the buckets of long runs leave out"}),
    toggle("Ignore outliers", view.withoutOutliers, (on) => view.set({withoutOutliers: on}), {title: "Of the values in sight, the outermost hundredths do not stretch the axis"}),
    whole, element("span", {class: "hint"}, "Drag over a chart to zoom"));
}
