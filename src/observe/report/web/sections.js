// The sections of the page, and the small navigation at its top.

const SECTION_TITLES = {learning: "Learning", batch: "Batch", speed: "Speed", memory: "Memory", other: "Other figures"};

function section(id, title, ...content) {
  return element("section", {id, class: "section", "aria-labelledby": `${id}-title`}, element("h2", {id: `${id}-title`}, title), ...content);
}

/// Sections of charts, in the order in which the charts come; each chart goes to `page.cards`.
function chartSections(charts, page) {
  return Object.entries(SECTION_TITLES).map(([id, title]) => {
    const own = charts.filter((chart) => chart.section === id);
    if (own.length === 0) return null;
    const cards = own.map((chart) => chart.drawing === "stack" ? stackChart(chart, page) : lineChart(chart, page));
    page.cards.push(...cards);
    return section(id, title, element("div", {class: "grid"}, ...cards.map((card) => card.root)));
  });
}

function planSection(page) {
  const planned = page.runs.map((_, r) => r).filter((r) => page.runs[r].plan);
  if (planned.length === 0) return null;
  const card = planCard(page, planned);
  page.cards.push(card);
  return section("plan", "Plan", element("div", {class: "grid"}, card.wordsCard, card.root));
}

function eventSection(page) {
  if (page.runs.every((run) => run.events.length === 0)) return null;
  const card = timelineCard(page);
  page.cards.push(card);
  return section("events", "Events", element("div", {class: "grid"}, card.root));
}

/// One column a run; keys that a run does not have stay empty.
function pairsOfRuns(page, caption, pairsOf) {
  const names = [...new Set(page.runs.flatMap((run) => pairsOf(run).map(([name]) => name)))];
  const values = page.runs.map((run) => new Map(pairsOf(run)));
  const several = page.runs.length > 1;
  const rows = names.map((name) => [name, ...values.map((value) => value.get(name) ?? "")]);
  return rows.length === 0 ? null : table({caption, head: several ? ["", ...page.runs.map((run) => run.name)] : null, rows, rowHeaders: true, className: several ? "matrix" : "pairs"});
}

function environmentSection(page) {
  const content = pairsOfRuns(page, "Environment", (run) => [["Folder", run.folder], ...run.environment]);
  return section("environment", "Environment", element("div", {class: "card"}, content));
}

function configSection(page) {
  if (page.runs.every((run) => Object.keys(run.config).length === 0)) return null;
  const content = pairsOfRuns(page, "Config", (run) => Object.entries(run.config));
  const rows = [...content.querySelectorAll("tbody tr")];
  const found = element("span", {class: "note", role: "status"});
  const filter = element("input", {type: "search", placeholder: "Find a key or a value", "aria-label": "Find in the config"});
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    found.textContent = wanted === "" ? "" : `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  });
  return section("config", "Config", element("div", {class: "card"}, element("div", {class: "filter"}, filter, found), content));
}

/// Has a link within the page go to its target without touching the address, which keeps what the reader chose.
function goWithin(link, target) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    target.setAttribute("tabindex", "-1");
    target.focus({preventScroll: true});
    target.scrollIntoView({block: "start"});
  });
}

/// Links to the sections; the one that is read is marked.
function fillNavigation(sections) {
  const links = new Map(sections.map((one) => [one.id, element("a", {href: `#${one.id}`}, one.querySelector("h2").textContent)]));
  byId("sections").append(...links.values());
  for (const [id, link] of links) goWithin(link, byId(id));
  goWithin(document.querySelector(".skip"), byId("main"));
  const visible = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) visible.add(entry.target.id);
      else visible.delete(entry.target.id);
    }
    const current = sections.find((one) => visible.has(one.id))?.id;
    for (const [id, link] of links) {
      if (id === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, {rootMargin: "-20% 0px -60% 0px"});
  for (const one of sections) observer.observe(one);
}
