// What happened besides steps: a timeline, small marks below the loss, and a table with the reasons.

const LANE = 26;
const MOST_EVENT_ROWS = 50;

/// All events of shown runs: {run, step, time, name, reason}.
function eventsOf(page) {
  return page.runs.flatMap((run, r) => run.events.map(([step, time, name, reason]) => ({run: r, step, time, name, reason})));
}

function shownEvents(page) {
  return eventsOf(page).filter((event) => !page.view.hiddenRuns.has(event.run));
}

/// Triangles on the x axis of the loss.
function drawEventTicks(plot, page) {
  const {ctx, bbox} = plot, ratio = uPlot.pxRatio, bottom = bbox.top + bbox.height;
  ctx.save();
  for (const event of shownEvents(page)) {
    const place = placeOfStep(page.runs[event.run], event.step, page.view.axis);
    if (place === null || place < plot.scales.x.min || place > plot.scales.x.max) continue;
    const x = plot.valToPos(place, "x", true);
    ctx.fillStyle = page.runs.length > 1 ? page.palette.line(event.run) : page.palette.warning;
    ctx.beginPath();
    ctx.moveTo(x, bottom - 8 * ratio);
    ctx.lineTo(x - 4 * ratio, bottom);
    ctx.lineTo(x + 4 * ratio, bottom);
    ctx.fill();
  }
  ctx.restore();
}

function timelineCard(page) {
  const names = [...new Set(eventsOf(page).map((event) => event.name))];
  const card = createCard({id: "events", title: "Timeline", unit: "", wide: true});
  const said = element("p", {class: "note reason"});
  card.legend.replaceWith(said);
  let drawn = null, places = [];

  function nearest(x) {
    const near = shownEvents(page).map((event) => ({event, place: placeOfStep(page.runs[event.run], event.step, page.view.axis)}))
      .filter(({place}) => place !== null);
    if (near.length === 0) return [];
    const distance = Math.min(...near.map(({place}) => Math.abs(place - x)));
    return near.filter(({place}) => Math.abs(place - x) === distance).map(({event}) => event);
  }

  /// Runs lie a little apart within a lane, so that none hides another.
  const shift = (r) => page.runs.length > 1 ? (r / (page.runs.length - 1) - 0.5) * 0.6 : 0;
  const sentence = (event) => `${page.runs.length > 1 ? page.runs[event.run].name + ", " : ""}step ${grouped(event.step)}, ${event.name}: ${event.reason}`;

  function moved(x) {
    const events = x === null ? [] : nearest(x);
    said.textContent = events.length === 0 ? "Point at the timeline to read a reason; all of them are in the table below."
      : sentence(events[0]) + (events.length > 1 ? ` (and ${events.length - 1} more)` : "");
  }

  function draw() {
    const {palette} = page;
    const lines = [];
    page.runs.forEach((run, r) => {
      if (page.view.hiddenRuns.has(r)) return;
      names.forEach((name, lane) => {
        const at = run.events.filter((event) => event[2] === name).map((event) => placeOfStep(run, event[0], page.view.axis)).filter((place) => place !== null);
        const sorted = [...new Set(at)].sort((a, b) => a - b);
        if (sorted.length) lines.push({xs: sorted, lane: lane + shift(r), colour: page.runs.length > 1 ? r : lane});
      });
    });
    places = [...new Set(lines.flatMap((line) => line.xs))].sort((a, b) => a - b);
    const tables = lines.map((line) => [line.xs, line.xs.map(() => names.length - 1 - line.lane)]);
    const data = tables.length === 0 ? [[], []] : tables.length === 1 ? tables[0] : uPlot.join(tables);
    const series = (lines.length ? lines : [{colour: 0}]).map((line) => ({stroke: palette.line(line.colour), width: 0, paths: () => null,
      points: {show: true, size: 10, fill: palette.line(line.colour), stroke: palette.surface, width: 1}}));
    const lanes = {...baseAxis(palette, "plain", String), gap: 14, size: 26 + 7 * Math.min(22, Math.max(...names.map((name) => name.length))),
      splits: () => names.map((_, lane) => lane), values: (u, at) => at.map((lane) => shortName(names[names.length - 1 - lane] ?? ""))};
    drawn?.destroy();
    drawn = createPlot(card.host, {data, series, bands: [], moved, height: (LANE + Math.min(3 * page.runs.length, 30)) * names.length + 44,
      axes: [xAxis(palette, page.view.axis), lanes], yScale: {range: [-0.6, names.length - 0.4]}}, page.view, page.range);
    card.host.setAttribute("aria-label", `Timeline: ${grouped(shownEvents(page).length)} events of ${names.length} kinds`);
    moved(null);
  }

  const shortName = (name) => name.length > 22 ? name.slice(0, 21) + "…" : name;
  listenToKeys(card.host, page.view, () => drawn && {plot: drawn.plot, places, describe: (x) => nearest(x).map(sentence).join(". ")});
  card.data.replaceWith(eventTable(page));
  return {root: card.root, draw, resize: () => drawn?.resize(), showRange: () => drawn?.showRange(), redrawsOn: ["axis", "palette", "hiddenRuns"]};
}

/// Every event, in a table that begins with the latest and shows the rest on request.
function eventTable(page) {
  const several = page.runs.length > 1;
  const all = eventsOf(page).sort((a, b) => b.step - a.step);
  const leftOut = page.runs.reduce((sum, run) => sum + run.events_left_out, 0);
  const box = element("div", {class: "events"});
  const head = ["Step", ...(several ? ["Run"] : []), "Event", "Reason", "Time (UTC)"];
  const row = (event) => [grouped(event.step), ...(several ? [page.runs[event.run].name] : []), element("span", {class: "tag"}, event.name), event.reason, event.time === null ? "" : instant(event.time)];
  const show = (most) => {
    const rest = all.length - most;
    box.replaceChildren(table({caption: "Events", head, rows: all.slice(0, most).map(row), className: "events-table"}));
    if (rest > 0) box.append(element("button", {type: "button", class: "more", on: {click: () => show(all.length)}}, `Show ${grouped(rest)} earlier ones`));
    if (leftOut > 0) box.append(element("p", {class: "note"}, `${grouped(leftOut)} more events are in metrics.jsonl: of those that come often, the first and the last are here.`));
  };
  show(MOST_EVENT_ROWS);
  return box;
}
