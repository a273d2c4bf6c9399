// Puts the page together, and draws its charts: those in sight at once, the others when there is time.

const RELOAD_SECONDS = 10;

function start() {
  const data = JSON.parse(byId("report-data").textContent);
  const axes = commonAxes(data.runs), view = createView(data.runs.length, axes);
  const page = createPage(data, view);
  const parts = [
    data.differences.length ? section("differences", "What differs", element("div", {class: "card"}, differenceTable(page, data.differences))) : null,
    ...chartSections(data.charts, page), planSection(page), eventSection(page), environmentSection(page), configSection(page),
  ].filter(Boolean);
  const intro = data.runs.length === 1 ? headerOfOne(data.runs[0]) : headerOfSeveral(page, data);
  byId("main").append(intro, data.charts.length ? controls(page, axes) : "", ...parts);
  byId("footer").append(footerText(data));
  fillNavigation(parts);
  chooseTheme(page);
  followRunning(data, view);
  drawCards(page);
}

function createPage(data, view) {
  const page = {
    runs: data.runs, view, cards: [], palette: readPalette(),
    range: () => fullRange(data.runs.filter((_, r) => !view.hiddenRuns.has(r)), view.axis),
    heightOf: (wide) => wide && innerWidth > 700 ? 320 : 220,
    toggleRun(run) {
      const hidden = new Set(view.hiddenRuns);
      if (hidden.has(run)) hidden.delete(run);
      else hidden.add(run);
      view.set({hiddenRuns: hidden});
    },
  };
  return page;
}

/// Draws a card when it comes into sight, all others one by one while the browser has nothing to do, and again what a
/// change of the view makes old.
function drawCards(page) {
  const undrawn = new Set(page.cards), inSight = new Set(), cardOf = new Map(page.cards.map((card) => [card.root, card]));
  const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(work, 1));
  let waiting = false;

  const draw = (card) => {
    undrawn.delete(card);
    card.draw();
  };
  const drawNext = () => {
    waiting = false;
    const next = [...undrawn].find((card) => inSight.has(card)) ?? [...undrawn][0];
    if (next) draw(next);
    if (undrawn.size) drawSoon();
    else document.documentElement.dataset.drawn = String(page.cards.length);
  };
  const drawSoon = () => {
    if (!waiting) whenIdle(drawNext);
    waiting = true;
  };
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = cardOf.get(entry.target);
      if (entry.isIntersecting) inSight.add(card);
      else inSight.delete(card);
      if (entry.isIntersecting && undrawn.has(card)) draw(card);
    }
    drawSoon();
  }, {rootMargin: "200px"});
  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) if (!undrawn.has(cardOf.get(entry.target))) cardOf.get(entry.target).resize();
  });
  for (const card of page.cards) {
    sight.observe(card.root);
    sizes.observe(card.root);
  }
  page.view.listen((names) => {
    for (const card of page.cards) {
      if (names.some((name) => card.redrawsOn.includes(name))) undrawn.add(card);
      else if (names.includes("zoom") && !undrawn.has(card)) card.showRange();
    }
    for (const card of [...undrawn]) if (inSight.has(card)) draw(card);
    drawSoon();
  });
  drawSoon();
}

function footerText(data) {
  const widest = Math.max(1, ...data.runs.map((run) => run.training.width));
  const thinned = widest > 1
    ? ` Long runs are drawn in buckets of up to ${widest} steps: the line is their mean, the band their lowest and highest value. metrics.jsonl has every step.` : "";
  return element("p", {class: "note"}, `Made by accrue ${data.version}.${thinned} This page loads nothing and sends nothing.`);
}

/// The choice of colours is kept by the browser where it lets a file keep something.
function chooseTheme(page) {
  const select = byId("theme"), root = document.documentElement;
  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    page.palette = readPalette();
    page.view.set({palette: theme});
  };
  try {
    select.value = localStorage.getItem("accrue-theme") ?? "auto";
  } catch {
    select.value = "auto";
  }
  if (select.value !== "auto") show(select.value);
  select.addEventListener("change", () => {
    show(select.value);
    try {
      localStorage.setItem("accrue-theme", select.value);
    } catch {
      return;
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(select.value));
}

/// While a run goes on, the page can reload itself, as `accrue report --watch` writes it again.
function followRunning(data, view) {
  if (!data.runs.some((run) => run.state === "running")) return;
  byId("follow-control").hidden = false;
  const box = byId("follow");
  box.checked = view.follow;
  box.addEventListener("change", () => view.set({follow: box.checked}));
  setInterval(() => {
    if (view.follow && document.visibilityState === "visible") location.reload();
  }, 1000 * RELOAD_SECONDS);
}
