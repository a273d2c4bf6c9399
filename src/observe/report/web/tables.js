// The data as report_json.cpp wrote them, and where they lie on the axis that the reader chose.

/// A column of a table: {mean, lowest, highest, last}, the second and third null if nothing but the mean was kept. `last` is its
/// last value, of one step, as the tiles and the terminal show it.
function columnOf(run, name) {
  for (const part of [run.training, run.evaluations]) {
    const stored = part.columns[name];
    if (stored === undefined) continue;
    const whole = {table: part, lowest: null, highest: null, last: part.last[name]};
    if (typeof stored === "number") return {...whole, mean: part.steps.map(() => stored)};
    if (Array.isArray(stored)) return {...whole, mean: stored};
    return {...whole, ...stored};
  }
  return null;
}

const AXES = {
  steps: {title: "Steps", values: (part) => part.steps, format: grouped, tick: count},
  tokens: {title: "Tokens", values: (part) => part.tokens, format: count, tick: count},
  samples: {title: "Samples", values: (part) => part.samples, format: count, tick: count},
  seconds: {title: "Time", values: (part) => part.seconds, format: duration, tick: duration},
};

/// The axes that all runs can be drawn on.
function commonAxes(runs) {
  const tables = runs.flatMap((run) => [run.training, run.evaluations]).filter((part) => part.steps.length > 0);
  const counted = (axis) => tables.every((part) => AXES[axis].values(part));
  return Object.keys(AXES).filter((axis) => counted(axis) && !(axis === "samples" && counted("tokens")));
}

/// The place of a step that need not be one of the table's, between those that are.
function placeOfStep(run, step, axis) {
  if (axis === "steps") return step;
  const steps = run.training.steps, values = AXES[axis].values(run.training);
  if (!values || steps.length === 0) return null;
  let after = steps.findIndex((other) => other >= step);
  if (after < 0) return values[values.length - 1];
  if (steps[after] === step) return values[after];
  const [s0, v0] = after === 0 ? [0, 0] : [steps[after - 1], values[after - 1]];
  return v0 + (values[after] - v0) * (step - s0) / (steps[after] - s0);
}

/// A run that is there from its beginning is drawn from 0.
const ALMOST_THE_START = 0.05;

/// The range of the axis that holds all of the shown runs.
function fullRange(runs, axis) {
  let low = Infinity, high = -Infinity;
  for (const run of runs)
    for (const part of [run.training, run.evaluations]) {
      const values = AXES[axis].values(part);
      if (!values || values.length === 0) continue;
      low = Math.min(low, values[0]);
      high = Math.max(high, values[values.length - 1]);
    }
  if (low > high) return [0, 1];
  if (low < high * ALMOST_THE_START) low = 0;
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}
