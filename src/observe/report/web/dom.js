// Elements. Text becomes text nodes: nothing here, and nothing else in this page, makes markup from a string.

/// element("p", {class: "note"}, "text", child): attributes by name, listeners as on: {click: f}.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (value === true) {
      made.setAttribute(name, "");
    } else if (value !== false && value != null) {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

/// A table that scrolls by itself if it is wider than the page. `rows` are arrays of texts and
/// elements; the first of each row is its header if `rowHeaders`.
function table({caption, head, rows, rowHeaders = false, className = ""}) {
  const cell = (content, i) => rowHeaders && i === 0 ? element("th", {scope: "row"}, content) : element("td", {}, content);
  const made = element("table", {class: className},
    element("caption", {class: "unseen"}, caption),
    head && element("thead", {}, element("tr", {}, ...head.map((text) => element("th", {scope: "col"}, text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((content, i) => cell(content ?? "", i))))));
  return element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, made);
}

/// Every row, numbers in full. Texts that a spreadsheet would take for formulas are marked as texts.
function saveCsv(title, head, rows) {
  const quoted = (text) => `"${(/^[=+@-]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
  const cell = (value) => value == null ? "" : typeof value === "number" ? String(value) : quoted(value);
  const lines = [head.map(quoted), ...rows.map((row) => row.map(cell))].map((row) => row.join(","));
  const address = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "text/csv"}));
  element("a", {href: address, download: `${title}.csv`}).click();
  URL.revokeObjectURL(address);
}

/// A button that stays pressed. `change` gets whether it is.
function toggle(label, pressed, change, attributes = {}) {
  const button = element("button", {type: "button", ...attributes, "aria-pressed": String(pressed)}, ...[label].flat());
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    change(now);
  });
  return button;
}

/// What a screen reader says next.
function speak(text) {
  byId("spoken").textContent = text;
}
