// Colours are the style sheet's; canvases need them as values.

const COLOURS = 10;

function colourOf(name) {
  const probe = element("span", {hidden: true});
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/// "rgb(1, 2, 3)" with an opacity.
function faded(colour, opacity) {
  const [red, green, blue] = colour.match(/[\d.]+/g);
  return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
}

function readPalette() {
  const lines = [];
  for (let i = 0; i < COLOURS; ++i) lines.push(colourOf(`--line-${i}`));
  return {
    line: (i) => lines[i % COLOURS],
    // Beyond the number of colours, and between the series of a run, lines differ by their dashes.
    dash: (i) => [[], [7, 4], [2, 3], [10, 3, 2, 3]][i % 4],
    text: colourOf("--muted"), grid: colourOf("--grid"), surface: colourOf("--surface"), strong: colourOf("--text"),
    warning: colourOf("--warning"),
  };
}

/// `colour`: the number of a line, or "text".
function swatch(colour, kind = "line") {
  return element("span", {class: `swatch swatch-${kind} colour-${colour === "text" ? colour : colour % COLOURS}`, "aria-hidden": "true"});
}
