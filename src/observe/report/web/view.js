// What the reader has chosen, kept in the address after #, so that a reload and a link show the same.

const SMOOTHING_PERCENT = [0, 0.2, 0.5, 1, 2, 5, 10];

function readAddress() {
  return new URLSearchParams(location.hash.slice(1));
}

function createView(runCount, axes) {
  const address = readAddress();
  const listeners = [];
  const listOf = (name) => new Set((address.get(name) ?? "").split(",").filter(Boolean));
  const smoothing = Number(address.get("smoothing") ?? 3);
  const view = {
    axis: axes.includes(address.get("axis")) ? address.get("axis") : "steps",
    smoothing: SMOOTHING_PERCENT[smoothing] === undefined ? 3 : smoothing,
    extremes: (address.get("extremes") ?? (runCount <= 3 ? "1" : "0")) === "1",
    withoutOutliers: address.get("outliers") === "0",
    follow: address.get("follow") === "1",
    hiddenRuns: new Set([...listOf("hide")].map(Number)),
    logarithmic: listOf("log"),
    stackRun: Number(address.get("run") ?? 0) < runCount ? Number(address.get("run") ?? 0) : 0,
    zoom: null,

    listen(listener) {
      listeners.push(listener);
    },
    /// `changes`: {what: value}. Listeners get the names of what changed.
    set(changes) {
      Object.assign(view, changes);
      keep();
      const names = Object.keys(changes);
      for (const listener of listeners) listener(names);
    },
    /// Share of the x axis within which smoothing averages.
    smoothingShare() {
      return SMOOTHING_PERCENT[view.smoothing] / 100;
    },
  };

  function keep() {
    const kept = new URLSearchParams();
    if (view.axis !== "steps") kept.set("axis", view.axis);
    kept.set("smoothing", view.smoothing);
    kept.set("extremes", view.extremes ? "1" : "0");
    if (view.withoutOutliers) kept.set("outliers", "0");
    if (view.follow) kept.set("follow", "1");
    if (view.hiddenRuns.size) kept.set("hide", [...view.hiddenRuns].join(","));
    if (view.logarithmic.size) kept.set("log", [...view.logarithmic].join(","));
    if (view.stackRun) kept.set("run", view.stackRun);
    history.replaceState(null, "", "#" + kept);
  }
  return view;
}
