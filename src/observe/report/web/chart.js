// A card with a chart: title, tools, plot, legend with the values under the crosshair (without one, the last), and the data as a table.

const MOST_TABLE_ROWS = 100;

/// What every card has. `parts`: {id, title, unit, note, wide, tools}.
function createCard(parts) {
  const titleId = `title-${parts.id}`;
  const host = element("div", {class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-describedby": "keys"});
  const legend = element("ul", {class: "legend"});
  const place = element("span", {class: "place"});
  const data = element("details", {class: "data"}, element("summary", {}, "Data", element("span", {class: "unseen"}, ` of ${parts.title}`)));
  const root = element("article", {class: parts.wide ? "card wide" : "card", id: `chart-${parts.id}`, "aria-labelledby": titleId},
    element("div", {class: "card-head"},
      element("h3", {id: titleId}, parts.title, parts.unit ? element("span", {class: "unit"}, " " + parts.unit) : null),
      place, element("div", {class: "tools"}, ...(parts.tools ?? []))),
    parts.note ? element("p", {class: "note"}, parts.note) : null,
    host, legend, data);
  return {root, host, legend, place, data};
}

/// Fills a card's table when it is opened. `content` gives {title, head, rows, formats, note}: rows of numbers and texts,
/// and how each column is written. Returns a function that fills it again if it is open, after a change of what is shown.
function fillWhenOpened(data, content) {
  const fill = () => {
    for (const old of [...data.children].slice(1)) old.remove();
    if (!data.open) return;
    const {title, head, rows, formats, note} = content();
    const every = Math.max(1, Math.ceil(rows.length / MOST_TABLE_ROWS));
    const shown = rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
    const written = shown.map((row) => row.map((cell, i) => cell == null ? "" : (formats[i] ?? String)(cell)));
    const notes = [note, every > 1 ? `Every ${every}th of ${grouped(rows.length)} rows; the file has all.` : ""].filter(Boolean).join(" ");
    data.append(table({caption: `Data of ${title}`, head, rows: written}),
      element("p", {class: "note"}, element("button", {type: "button", on: {click: () => saveCsv(title, head, rows)}}, "Save as CSV"), " ", notes));
  };
  data.addEventListener("toggle", fill);
  return () => data.open && fill();
}

/// One line of a chart: a series of a run.
function linesOf(chart, page) {
  const lines = [], several = page.runs.length > 1;
  page.runs.forEach((run, r) => chart.series.forEach((series, s) => {
    const column = columnOf(run, series.column);
    if (!column || column.table.steps.length === 0) return;
    const label = several ? (chart.series.length > 1 ? `${run.name}, ${series.label}` : run.name) : series.label;
    lines.push({run: r, series: s, mark: series.mark, label, column, colour: several ? r : s,
      dash: several ? Math.max(s, r >= COLOURS ? 1 : 0) : (series.mark === "dashed" ? 1 : 0)});
  }));
  return lines;
}

/// What a line is on the chosen axis, now: {xs, ys, raw, lowest, highest}.
function pointsOf(line, chart, page) {
  const axis = AXES[page.view.axis].values(line.column.table);
  const {mean, lowest, highest} = line.column;
  const [xs, ys, low, high] = withoutGaps(axis, lowest ? [mean, lowest, highest] : [mean]);
  const smooths = chart.smooth && line.mark !== "points" && page.view.smoothing > 0;
  const [first, last] = page.view.zoom ?? page.range();
  const line_ = smooths ? smoothed(xs, ys, page.view.smoothingShare() * (last - first)) : ys;
  return {xs, ys: line_, raw: ys, lowest: low ?? null, highest: high ?? null, smooths};
}

function lineChart(chart, page) {
  const lines = linesOf(chart, page), several = page.runs.length > 1;
  const off = new Set();  // of one run: lines that the reader has put out
  const isShown = (line) => !page.view.hiddenRuns.has(line.run) && !off.has(line.series);
  const canBeLogarithmic = chart.drawing === "lines" && chart.unit === "plain" && lines.every((line) => (line.column.lowest ?? line.column.mean).every((value) => value == null || value > 0));
  const card = createCard({
    id: chart.id, title: chart.title, unit: UNIT_NAMES[chart.unit], note: chart.note, wide: chart.wide,
    tools: canBeLogarithmic ? [toggle("log", page.view.logarithmic.has(chart.id), setLogarithmic, {title: "Logarithmic axis", "aria-label": `Logarithmic axis of ${chart.title}`})] : [],
  });
  const values = new Map();
  let drawn = null, points = [];

  function setLogarithmic(on) {
    const chosen = new Set(page.view.logarithmic);
    if (on) chosen.add(chart.id);
    else chosen.delete(chart.id);
    page.view.set({logarithmic: chosen});
  }

  for (const line of lines) {
    const value = element("span", {class: "value"});
    values.set(line, value);
    const button = element("button", {type: "button", class: "entry", "aria-pressed": String(isShown(line))},
      swatch(line.colour, line.mark === "points" ? "points" : line.dash ? "dashed" : "line"), element("span", {class: "label"}, line.label), value);
    button.addEventListener("click", () => several ? page.toggleRun(line.run) : toggleLine(line));
    line.button = button;
    card.legend.append(element("li", {}, button));
  }

  function toggleLine(line) {
    if (off.has(line.series)) off.delete(line.series);
    else off.add(line.series);
    draw();
  }

  function valueText(line, i, {withSpread}) {
    const format = FORMATS[chart.unit], at = points.get(line);
    const text = format(at.ys[i]);
    if (!withSpread || !at.lowest || at.lowest[i] === at.highest[i]) return text;
    return `${text} (${format(at.lowest[i])} to ${format(at.highest[i])})`;
  }

  /// Neither smoothing nor buckets change what a run has come to.
  function lastText(line) {
    return line.column.last === undefined ? "" : FORMATS[chart.unit](line.column.last);
  }

  function moved(x) {
    card.place.textContent = x === null ? "" : placeText(x);
    for (const line of lines) {
      if (!isShown(line)) {
        values.get(line).textContent = "";
        continue;
      }
      values.get(line).textContent = x === null ? lastText(line) : valueText(line, nearestIndex(points.get(line).xs, x), {withSpread: true});
    }
  }

  function placeText(x) {
    const xs = longest().xs;
    return `${AXES[page.view.axis].title.toLowerCase()} ${AXES[page.view.axis].format(xs.length ? xs[nearestIndex(xs, x)] : x)}`;
  }

  function longest() {
    const shown = lines.filter(isShown).map((line) => points.get(line));
    return shown.reduce((most, one) => one.xs.length > most.xs.length ? one : most, {xs: []});
  }

  function describe(x) {
    const said = lines.filter(isShown).map((line) => `${line.label} ${valueText(line, nearestIndex(points.get(line).xs, x), {withSpread: true})}`);
    return `${placeText(x)}: ${said.join("; ")}`;
  }

  function summary() {
    const said = lines.filter(isShown).map((line) => {
      const ys = points.get(line).raw, format = FORMATS[chart.unit];
      return `${line.label} from ${format(ys[0])} to ${lastText(line)}`;
    });
    return `${chart.title} against ${AXES[page.view.axis].title.toLowerCase()}: ${said.join("; ") || "nothing shown"}`;
  }

  function draw() {
    points = new Map(lines.map((line) => [line, pointsOf(line, chart, page)]));
    const logarithmic = canBeLogarithmic && page.view.logarithmic.has(chart.id);
    const spec = plotOfLines(chart, lines.filter(isShown), points, page);
    drawn?.destroy();
    drawn = createPlot(card.host, {
      ...spec, moved, height: page.heightOf(chart.wide),
      axes: [xAxis(page.palette, page.view.axis), yAxis(page.palette, chart.unit)],
      yScale: {distr: logarithmic ? 3 : 1, range: yRange({fromZero: chart.from_zero, logarithmic, withoutOutliers: chart.smooth && page.view.withoutOutliers})},
      draw: chart.id === "loss" ? (plot) => drawEventTicks(plot, page) : null,
    }, page.view, page.range);
    for (const line of lines) line.button.setAttribute("aria-pressed", String(isShown(line)));
    card.host.setAttribute("aria-label", summary());
    moved(null);
    fillAgain();
  }

  listenToKeys(card.host, page.view, () => drawn && {plot: drawn.plot, places: longest().xs, describe});
  const fillAgain = fillWhenOpened(card.data, () => ({title: chart.title, ...tableOfLines(chart, lines.filter(isShown), page)}));
  return {root: card.root, draw, resize: () => drawn?.resize(), showRange: () => drawn?.showRange(),
    redrawsOn: ["axis", "palette", "hiddenRuns", "extremes", "logarithmic", ...(chart.smooth ? ["smoothing", "withoutOutliers", "zoom"] : [])]};
}

/// uPlot's series and data: behind each line what it smooths, or the band of what its buckets span.
function plotOfLines(chart, lines, points, page) {
  const {palette, view} = page, series = [], bands = [], tables = [];
  const levels = chart.drawing === "levels" ? uPlot.paths.stepped({align: -1}) : undefined;
  const add = (xs, ys, options) => {
    tables.push([xs, ys]);
    series.push({points: {show: false}, paths: levels, ...options});
    return series.length;
  };
  for (const line of lines) {
    const at = points.get(line), colour = palette.line(line.colour);
    if (at.lowest && view.extremes) {
      const high = add(at.xs, at.highest, {width: 0}), low = add(at.xs, at.lowest, {width: 0});
      bands.push({series: [high, low], fill: faded(colour, 0.18)});
    } else if (at.smooths && !at.lowest && view.extremes) {
      add(at.xs, at.raw, {stroke: faded(colour, 0.3), width: 1});
    }
  }
  for (const line of lines) {
    const at = points.get(line), colour = palette.line(line.colour);
    const showsPoints = line.mark === "points" || at.xs.length === 1;
    add(at.xs, at.ys, {isMain: true, stroke: colour, width: 1.75, dash: palette.dash(line.dash),
      points: {show: showsPoints && at.xs.length < 200, size: 6, fill: palette.surface, width: 1.5, stroke: colour}});
  }
  const data = tables.length === 0 ? [[], []] : tables.length === 1 ? tables[0] : uPlot.join(tables);
  if (tables.length === 0) series.push({});
  return {data, series, bands};
}

/// Rows of what is drawn, with what was kept of each bucket.
function tableOfLines(chart, lines, page) {
  const format = FORMATS[chart.unit], rows = [];
  const hasSpread = lines.some((line) => line.column.lowest);
  for (const line of lines)
    line.column.table.steps.forEach((step, i) => {
      const {mean, lowest, highest} = line.column;
      if (mean[i] != null) rows.push([line.label, step, mean[i], ...(hasSpread ? [(lowest ?? mean)[i], (highest ?? mean)[i]] : [])]);
    });
  const widths = [...new Set(lines.map((line) => line.column.table.width))].filter((width) => width > 1);
  const value = widths.length === 0 ? "Value" : chart.kept === "highest" ? "Highest" : "Mean";
  return {
    head: [page.runs.length > 1 ? "Run" : "Line", widths.length ? "To step" : "Step", value, ...(hasSpread ? ["Lowest", "Highest"] : [])],
    formats: [String, grouped, format, format, format], rows,
    note: widths.length ? `A row is ${widths.join(" or ")} steps.` : "",
  };
}
