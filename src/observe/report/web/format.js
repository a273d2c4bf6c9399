// Numbers as people read them. Units are those of charts.h.

const SMALLEST_PLAIN = 1e-3, LARGEST_PLAIN = 1e5;

function digits(value, significant) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < SMALLEST_PLAIN || size >= LARGEST_PLAIN) {
    const [mantissa, exponent] = value.toExponential(significant - 1).split("e");
    return Number(mantissa) + "e" + Number(exponent);
  }
  return String(Number(value.toPrecision(significant)));
}

/// 12345678 -> "12.3 M".
function count(value) {
  const size = Math.abs(value);
  for (const [unit, factor] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (size >= factor) return Number((value / factor).toPrecision(3)) + " " + unit;
  return String(Number(value.toPrecision(3)));
}

function grouped(value) {
  return Math.round(value).toLocaleString("en-US");
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return Number(value.toPrecision(3)) + " " + units[unit];
}

/// 3725 -> "1h02m", 65 -> "1m05s", 4.2 -> "4.2s", 0.004 -> "4ms".
function duration(seconds) {
  if (seconds === 0) return "0s";
  if (Math.abs(seconds) < 1) return Number((seconds * 1000).toPrecision(3)) + "ms";
  if (seconds < 60) return Number(seconds.toPrecision(3)) + "s";
  const two = (n) => String(n).padStart(2, "0");
  const whole = Math.round(seconds);
  if (whole < 3600) return Math.floor(whole / 60) + "m" + two(whole % 60) + "s";
  const minutes = Math.round(whole / 60);
  if (minutes < 48 * 60) return Math.floor(minutes / 60) + "h" + two(minutes % 60) + "m";
  return Math.floor(minutes / 1440) + "d" + two(Math.floor(minutes / 60) % 24) + "h";
}

const FORMATS = {
  plain: (value) => digits(value, 5),
  tokens: grouped,
  samples: grouped,
  tokens_per_second: (value) => count(value) + "/s",
  samples_per_second: (value) => count(value) + "/s",
  seconds: duration,
  bytes,
  share: (value) => Number((100 * value).toPrecision(3)) + "%",
  joules: (value) => count(value) + " J",
};

/// On an axis the unit stands in the title of the chart.
const AXIS_FORMATS = {...FORMATS, plain: axisNumber, tokens: count, samples: count, tokens_per_second: count, samples_per_second: count, joules: count};

function axisNumber(value) {
  return Math.abs(value) >= 1e4 ? count(value) : digits(value, 4);
}

const UNIT_NAMES = {
  plain: "", tokens: "tokens", samples: "samples", tokens_per_second: "tokens/s", samples_per_second: "samples/s",
  seconds: "", bytes: "", share: "", joules: "joules",
};

/// A Unix time in UTC, to the second; "" where no calendar has it.
function instant(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 19).replace("T", " ");
}
