// Axes of plots, in the page's colours.

const FONT = "12px system-ui, sans-serif";

function byteSteps() {
  const steps = [];
  for (let unit = 1; unit <= 2 ** 50; unit *= 1024)
    for (const n of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) steps.push(n * unit);
  return steps;
}

function timeSteps() {
  const steps = [];
  for (let unit = 1e-6; unit < 1; unit *= 10) steps.push(unit, 2 * unit, 5 * unit);
  return [...steps, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    ...[1, 2, 5, 10, 20, 50, 100].map((days) => days * 86400)];
}

const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8,
  1e9, 2e9, 5e9, 1e10, 2e10, 5e10, 1e11, 2e11, 5e11, 1e12, 2e12, 5e12];

const INCREMENTS = {bytes: byteSteps(), seconds: timeSteps(), tokens: WHOLE_STEPS, samples: WHOLE_STEPS, steps: WHOLE_STEPS};

function baseAxis(palette, unit, format) {
  return {
    stroke: palette.text, font: FONT, grid: {stroke: palette.grid, width: 1}, ticks: {show: false},
    ...(INCREMENTS[unit] ? {incrs: INCREMENTS[unit]} : {}),
    values: (plot, places) => places.map((place) => place == null ? "" : format(place)),
  };
}

function xAxis(palette, axis) {
  return {...baseAxis(palette, axis, AXES[axis].tick), size: 28, space: 64, gap: 6};
}

/// An axis that is as wide as its longest label.
function yAxis(palette, unit) {
  const widest = (plot, labels) => 18 + 7 * Math.max(3, ...(labels ?? []).map((label) => label.length));
  return {...baseAxis(palette, unit, AXIS_FORMATS[unit]), size: widest, space: 36, gap: 6};
}

/// Linear: a little room above and below, from 0 where the chart says so. `withoutOutliers`: of the values in sight all
/// but the outermost 2% at each end.
function yRange({fromZero, logarithmic = false, withoutOutliers = false}) {
  return (plot, low, high) => {
    if (low == null || high == null) return logarithmic ? [1, 10] : [0, 1];
    if (withoutOutliers) [low, high] = innerRange(plot) ?? [low, high];
    if (logarithmic) return uPlot.rangeLog(low, high, 10, false);
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    if (fromZero && low >= 0) return [0, high * 1.06 || 1];
    return [low - room, high + room];
  };
}

function innerRange(plot) {
  const outermost = 0.02, {min, max} = plot.scales.x, values = [];
  plot.series.forEach((series, s) => {
    if (s === 0 || !series.isMain) return;
    plot.data[s].forEach((value, i) => {
      if (value != null && plot.data[0][i] >= min && plot.data[0][i] <= max) values.push(value);
    });
  });
  if (values.length < 10) return null;
  values.sort((a, b) => a - b);
  return [values[Math.floor(outermost * (values.length - 1))], values[Math.ceil((1 - outermost) * (values.length - 1))]];
}
