// The plan of a run: what the planner chose, beside what it could have chosen.

const PLAN_HEIGHT = 260;

/// Whether there is a picture in it: two choices with memory and time.
function canDrawPlan(plan) {
  return plan.choices.filter((choice) => choice.bytes && choice.seconds).length > 1;
}

function recomputeText(choice) {
  return choice.recompute === "none" ? "nothing recomputed" : `${choice.recompute} recomputation`;
}

/// The section's content for the run that is chosen, as for the stacks: words, and the picture if there is one.
function planParts(run) {
  const chosen = run.plan.choices.find((choice) => choice.chosen);
  return {words: planWords(run, chosen), chosen, choices: run.plan.choices.filter((choice) => choice.bytes && choice.seconds)};
}

function planCard(page, planned) {
  const card = createCard({id: "plan", title: "Memory against time", unit: "", note:
    "Each point is a size of micro-batch, predicted from measured trials: the memory that it takes, and the time of a step. The ring is what the run does."});
  const words = element("div", {});
  const picker = runPicker("Run of the plan", page, planned);
  const wordsCard = element("div", {class: "card"}, element("div", {class: "card-head"}, element("h3", {}, "Chosen"), element("span", {class: "place"}), picker), words);
  card.host.removeAttribute("aria-describedby");
  let drawn = null;

  const shownRun = () => page.runs[planned.includes(page.view.stackRun) ? page.view.stackRun : planned[0]];

  function draw() {
    const {palette} = page, run = shownRun(), {plan} = run, parts = planParts(run);
    const kinds = [...new Set(plan.choices.map((choice) => choice.recompute))].sort((a, b) => (b === "none") - (a === "none"));
    words.replaceChildren(parts.words);
    card.root.hidden = !canDrawPlan(plan);
    drawn?.destroy();
    drawn = null;
    if (card.root.hidden) return;
    card.legend.replaceChildren(...kinds.map((kind, k) => element("li", {class: "entry"}, swatch(k, "dots"), element("span", {class: "label"}, recomputeText({recompute: kind})))));
    card.host.setAttribute("aria-label", `Memory against time: ${parts.choices.length} choices; chosen are micro-batches of ${parts.chosen.micro_batch}, ${recomputeText(parts.chosen)}`);
    drawn = new uPlot({
      width: Math.max(card.host.clientWidth, 120), height: PLAN_HEIGHT, padding: [12, 24, 0, 0], legend: {show: false}, cursor: {show: false},
      scales: {
        x: {time: false, range: (u, low, high) => [0, Math.max(high, plan.budget ?? 0) * 1.08]},
        y: {range: (u, low, high) => [0, high * 1.2]},
      },
      axes: [{...baseAxis(palette, "bytes", bytes), size: 30, space: 72}, yAxis(palette, "seconds")],
      series: [{}, ...kinds.map((kind, k) => ({stroke: palette.line(k), width: 1, dash: [2, 4], points: {show: true, size: 8, fill: palette.line(k), stroke: palette.line(k)}}))],
      hooks: {draw: [(u) => drawPlanMarks(u, parts.choices, plan, palette)]},
    }, planData(kinds, parts.choices), card.host);
    fillAgain();
  }

  const fillAgain = fillWhenOpened(card.data, () => ({
    title: page.runs.length > 1 ? `Memory against time, ${shownRun().name}` : "Memory against time",
    head: ["Micro-batch", "Recomputation", "Memory", "Time of a step", ""], formats: [String, String, bytes, duration, String],
    rows: shownRun().plan.choices.map((choice) => [choice.micro_batch, choice.recompute, choice.bytes, choice.seconds,
      choice.chosen ? "chosen" : choice.beyond ? "beyond the budget" : ""]),
  }));
  return {root: card.root, wordsCard, draw, resize: () => drawn?.setSize({width: Math.max(card.host.clientWidth, 120), height: PLAN_HEIGHT}), showRange() {},
    redrawsOn: ["palette", "stackRun"]};
}

function planData(kinds, choices) {
  const tables = kinds.map((kind) => {
    const own = choices.filter((choice) => choice.recompute === kind).sort((a, b) => a.bytes - b.bytes);
    return [own.map((choice) => choice.bytes), own.map((choice) => choice.seconds)];
  });
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}

/// Sizes beside the points, a ring around the chosen one, and the budget as a line.
function drawPlanMarks(u, choices, plan, palette) {
  const {ctx} = u, ratio = uPlot.pxRatio;
  const xOf = (value) => u.valToPos(value, "x", true), yOf = (value) => u.valToPos(value, "y", true);
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.fillStyle = palette.text;
  ctx.textAlign = "center";
  for (const choice of choices) {
    ctx.fillText(String(choice.micro_batch), xOf(choice.bytes), yOf(choice.seconds) - (choice.chosen ? 14 : 9) * ratio);
    if (!choice.chosen) continue;
    ctx.beginPath();
    ctx.lineWidth = 2.5 * ratio;
    ctx.strokeStyle = palette.strong;
    ctx.arc(xOf(choice.bytes), yOf(choice.seconds), 9 * ratio, 0, 2 * Math.PI);
    ctx.stroke();
  }
  if (plan.budget) {
    ctx.beginPath();
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.lineWidth = 1.5 * ratio;
    ctx.strokeStyle = palette.warning;
    ctx.moveTo(xOf(plan.budget), u.bbox.top);
    ctx.lineTo(xOf(plan.budget), u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.textAlign = "right";
    ctx.fillText("budget", xOf(plan.budget) - 6 * ratio, u.bbox.top + 12 * ratio);
  }
  ctx.restore();
}

function planWords(run, chosen) {
  const {plan} = run;
  const rows = [["Plan", `micro-batches of ${chosen.micro_batch}, ${recomputeText(chosen)}`], ["Batch", run.batch], ["Reason", plan.reason],
    ["Peak, predicted", plan.predicted && bytes(plan.predicted)], ["Peak, measured in a trial", plan.measured && bytes(plan.measured)],
    ["Budget", plan.budget && bytes(plan.budget)]].filter(([, text]) => text);
  return table({caption: `Plan of ${run.name}`, rows, rowHeaders: true, className: "pairs"});
}
