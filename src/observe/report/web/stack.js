// A card with parts of a whole, of one run at a time.

/// Which run the charts of one run show: none if there is only one. They all show the same.
function runPicker(label, page, runs) {
  if (runs.length < 2) return null;
  const picker = element("select", {"aria-label": label}, ...runs.map((r) => element("option", {value: r}, page.runs[r].name)));
  picker.value = String(page.view.stackRun);
  picker.addEventListener("change", () => page.view.set({stackRun: Number(picker.value)}));
  page.view.listen((names) => {
    if (names.includes("stackRun")) picker.value = String(page.view.stackRun);
  });
  return picker;
}

function stackChart(chart, page) {
  const partsOf = () => chart.series.map((series, s) => ({...series, s, column: columnOf(page.runs[page.view.stackRun], series.column)}))
    .filter((series) => series.column && series.column.table.steps.length > 0);
  const picker = runPicker(`Run of ${chart.title}`, page, page.runs.map((_, r) => r));
  const card = createCard({id: chart.id, title: chart.title, unit: UNIT_NAMES[chart.unit], note: chart.note, wide: chart.wide, tools: [picker].filter(Boolean)});
  const format = FORMATS[chart.unit], off = new Set();
  let drawn = null, shown = [], xs = [], entries = [];

  function moved(x) {
    const i = x === null ? xs.length - 1 : nearestIndex(xs, x);
    card.place.textContent = x === null || xs.length === 0 ? "" : `${AXES[page.view.axis].title.toLowerCase()} ${AXES[page.view.axis].format(xs[i])}`;
    for (const {part, value} of entries) {
      const number = part.column.mean[i];
      value.textContent = off.has(part.s) || number == null ? "" : format(number);
    }
  }

  function describe(x) {
    const i = nearestIndex(xs, x);
    return `${card.place.textContent}: ${shown.map((part) => `${part.label} ${part.column.mean[i] == null ? "not measured" : format(part.column.mean[i])}`).join("; ")}`;
  }

  function fillLegend(parts) {
    entries = parts.map((part) => {
      const value = element("span", {class: "value"});
      const button = toggle([part.mark === "dashed" ? swatch("text", "dashed") : swatch(part.s, part.mark), element("span", {class: "label"}, part.label), value],
        !off.has(part.s), (on) => {
          if (on) off.delete(part.s);
          else off.add(part.s);
          draw();
        }, {class: "entry"});
      return {part, value, button};
    });
    const focused = [...card.legend.children].findIndex((item) => item.contains(document.activeElement));
    card.legend.replaceChildren(...entries.map(({button}) => element("li", {}, button)));
    if (focused >= 0) entries[focused]?.button.focus();
  }

  function draw() {
    const parts = partsOf();
    shown = parts.filter((part) => !off.has(part.s));
    xs = AXES[page.view.axis].values(page.runs[page.view.stackRun].training) ?? [];
    fillLegend(parts);
    drawn?.destroy();
    drawn = createPlot(card.host, {
      ...plotOfStack(shown, xs, page.palette), moved, height: page.heightOf(chart.wide),
      axes: [xAxis(page.palette, page.view.axis), yAxis(page.palette, chart.unit)], yScale: {range: yRange({fromZero: true})},
    }, page.view, page.range);
    const last = xs.length - 1;
    card.host.setAttribute("aria-label", `${chart.title} of ${page.runs[page.view.stackRun].name} at the end: ` +
      (shown.map((part) => `${part.label} ${part.column.mean[last] == null ? "not measured" : format(part.column.mean[last])}`).join("; ") || "nothing shown"));
    moved(null);
    fillAgain();
  }

  listenToKeys(card.host, page.view, () => drawn && {plot: drawn.plot, places: xs, describe});
  const fillAgain = fillWhenOpened(card.data, () => ({
    title: page.runs.length > 1 ? `${chart.title}, ${page.runs[page.view.stackRun].name}` : chart.title,
    head: ["To step", ...shown.map((part) => part.label)], formats: [grouped, ...shown.map(() => format)],
    rows: (shown[0]?.column.table.steps ?? []).map((step, i) => [step, ...shown.map((part) => part.column.mean[i])]),
    note: shown[0]?.column.table.width > 1 ? `A row is ${shown[0].column.table.width} steps: ${chart.kept === "highest" ? "the most of them" : "their mean"}.` : "",
  }));
  return {root: card.root, draw, resize: () => drawn?.resize(), showRange: () => drawn?.showRange(), redrawsOn: ["axis", "palette", "stackRun"]};
}

/// The parts as filled bands, the first on top; lines that are no parts over them.
function plotOfStack(shown, xs, palette) {
  const parts = shown.filter((part) => part.mark === "part").reverse(), lines = shown.filter((part) => part.mark !== "part");
  const sums = parts.length ? stacked(parts.map((part) => part.column.mean)) : [];
  const series = parts.map((part) => ({stroke: palette.line(part.s), width: 1, fill: faded(palette.line(part.s), 0.75), points: {show: xs.length === 1}}));
  const bands = parts.slice(1).map((part, k) => ({series: [k + 1, k + 2], fill: faded(palette.line(parts[k].s), 0.75)}));
  for (const line of lines)
    series.push({stroke: line.mark === "dashed" ? palette.strong : palette.line(line.s), width: 1.5, dash: line.mark === "dashed" ? [6, 4] : [], points: {show: false}, spanGaps: true});
  const data = [xs, ...sums, ...lines.map((line) => line.column.mean)];
  if (series.length === 0) return {data: [[], []], series: [{}], bands: []};
  return {data, series, bands};
}
