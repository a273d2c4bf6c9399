// From columns to lines: smoothing, stacking, and points that are not there.

/// At each point the mean of all, with weights that fall to 1/e within `reach` on the x axis, to both sides. A point counts by
/// the stretch of the axis that it stands for, so that wider buckets come to the same line.
function smoothed(xs, ys, reach) {
  if (!(reach > 0) || xs.length < 2) return ys;
  const stretches = xs.map((x, i) => i === 0 ? xs[1] - xs[0] : x - xs[i - 1]);
  const sums = new Float64Array(xs.length), weights = new Float64Array(xs.length);
  const sweep = (first, direction, countsItself) => {
    let sum = 0, weight = 0;
    for (let n = 0, i = first; n < xs.length; ++n, i += direction) {
      const decay = n === 0 ? 1 : Math.exp(-Math.abs(xs[i] - xs[i - direction]) / reach);
      sum *= decay;
      weight *= decay;
      sums[i] += sum + (countsItself ? ys[i] * stretches[i] : 0);
      weights[i] += weight + (countsItself ? stretches[i] : 0);
      sum += ys[i] * stretches[i];
      weight += stretches[i];
    }
  };
  sweep(0, 1, true);
  sweep(xs.length - 1, -1, false);
  return ys.map((y, i) => weights[i] > 0 ? sums[i] / weights[i] : y);
}

/// Leaves out the places where the first column has nothing: its line goes on to the next that has.
function withoutGaps(xs, columns) {
  const present = columns[0].map((value) => value != null);
  if (present.every(Boolean)) return [xs, ...columns];
  const keep = (_, i) => present[i];
  return [xs.filter(keep), ...columns.map((column) => column.filter(keep))];
}

/// Sums from the last column up: the first line of a stack shows the whole.
function stacked(columns) {
  const sums = columns.map((column) => column.map((value) => value ?? 0));
  for (let k = sums.length - 2; k >= 0; --k) sums[k] = sums[k].map((value, i) => value + sums[k + 1][i]);
  return sums;
}

/// Index of the last of ascending `xs` that is not beyond `x`, or the first.
function indexAt(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

/// Index of the nearest.
function nearestIndex(xs, x) {
  const i = indexAt(xs, x);
  return i + 1 < xs.length && Math.abs(xs[i + 1] - x) < Math.abs(xs[i] - x) ? i + 1 : i;
}
