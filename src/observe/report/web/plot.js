// One uPlot, with the crosshair and the zoom that all plots of the page share, by mouse, touch and keyboard.

const SHARED_CURSOR = "x";
const ZOOM_STEP = 0.5;

/// spec: {data, series, bands, axes: [x, y], yScale, height, draw, describe(x) -> text, moved(x or null)}.
function createPlot(host, spec, view, fullRangeNow) {
  const range = () => view.zoom ?? fullRangeNow();
  const plot = new uPlot({
    width: Math.max(host.clientWidth, 120), height: spec.height, pxAlign: 0, padding: [8, 22, 0, 0],
    legend: {show: false},
    scales: {x: {time: false, range: () => range()}, y: spec.yScale},
    axes: spec.axes, series: [{}, ...spec.series], bands: spec.bands,
    cursor: {
      y: false, sync: {key: SHARED_CURSOR, scales: ["x", null], setSeries: false},
      drag: {x: true, y: false, setScale: false, dist: 4}, points: {size: 7},
      bind: {dblclick: () => () => view.set({zoom: null})},
    },
    hooks: {
      setCursor: [(u) => spec.moved(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null)],
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        const chosen = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
        u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        view.set({zoom: chosen});
      }],
      draw: spec.draw ? [spec.draw] : [],
    },
  }, spec.data, host);
  return {
    plot,
    resize: () => plot.setSize({width: Math.max(host.clientWidth, 120), height: spec.height}),
    showRange: () => {
      const [min, max] = range();
      plot.setScale("x", {min, max});
    },
    destroy: () => plot.destroy(),
  };
}

/// `current` gives the plot of the moment, its places on the x axis and what is said of one.
function listenToKeys(host, view, current) {
  let at = null;
  host.addEventListener("keydown", (event) => {
    const now = current();
    if (!now || event.ctrlKey || event.metaKey || event.altKey) return;
    const {plot, places, describe} = now, last = places.length - 1;
    if (at !== null) at = last < 0 ? null : Math.min(at, last);  // another run may be shorter
    const [low, high] = [plot.scales.x.min, plot.scales.x.max];
    const step = event.shiftKey ? 10 : 1;
    const moves = {
      ArrowRight: () => at === null ? 0 : Math.min(last, at + step), ArrowLeft: () => at === null ? last : Math.max(0, at - step),
      Home: () => 0, End: () => last,
    };
    if (moves[event.key] && last >= 0) {
      at = moves[event.key]();
      plot.setCursor({left: plot.valToPos(places[at], "x"), top: plot.over.clientHeight / 2});
      speak(describe(places[at]));
    } else if (event.key === "+" || event.key === "-" || event.key === "=") {
      const centre = at === null ? (low + high) / 2 : places[at];
      const half = (high - low) / 2 * (event.key === "-" ? 1 / ZOOM_STEP : ZOOM_STEP);
      view.set({zoom: [centre - half, centre + half]});
    } else if (event.key === "0" || event.key === "Escape") {
      view.set({zoom: null});
    } else {
      return;
    }
    event.preventDefault();
  });
}
