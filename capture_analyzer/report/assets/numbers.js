// How numbers are written: the same rules as in wording.py, which a test compares.

const NBSP = "\u00a0";
const MINUS = "\u2212";

/** Decimals as Python writes them: both round the exact binary value, but Python a tie to even. */
function fixed(value, decimals) {
  const [head, tail] = split(value.toFixed(decimals + 40), decimals);
  if (/^50*$/.test(tail) && /[02468]$/.test(head)) return head.replace(/\.$/, "");
  return value.toFixed(decimals);
}

function split(text, decimals) {
  const at = text.indexOf(".") + 1 + decimals;
  return [text.slice(0, at).replace(/\.$/, ""), text.slice(at)];
}

function grouped(value, decimals) {
  const [whole, part] = fixed(value, decimals).split(".");
  const commas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? commas : `${commas}.${part}`;
}

/** A duration in ns to about three figures. */
export function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 0) return MINUS + duration(-ns);
  if (ns === 0) return `0${NBSP}ms`;
  if (ns < 995_000) {
    if (ns >= 5_000) return `${fixed(ns / 1e6, 2)}${NBSP}ms`;
    return `${Number((ns / 1e3).toPrecision(2))}${NBSP}µs`;
  }
  if (ns < 9_950_000) return `${fixed(ns / 1e6, 1)}${NBSP}ms`;
  if (ns < 999_500_000) return `${fixed(ns / 1e6, 0)}${NBSP}ms`;
  if (ns < 9_995_000_000) return `${fixed(ns / 1e9, 2)}${NBSP}s`;
  if (ns < 59_950_000_000) return `${fixed(ns / 1e9, 1)}${NBSP}s`;
  const seconds = Number(fixed(ns / 1e9, 0));
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${NBSP}min ${seconds % 60}${NBSP}s`;
  return `${Math.floor(seconds / 3600)}${NBSP}h ${Math.floor((seconds % 3600) / 60)}${NBSP}min`;
}

/** A duration or instant in ms, exact: to the microsecond, or finer where the clock is. */
export function exactMs(ns, unit) {
  const text = grouped(Math.abs(ns) / 1e6, unit === 1 ? 6 : 3);
  return (ns < 0 ? MINUS : "") + text;
}

/** Bytes, decimal. */
export function size(count) {
  if (count === null || count === undefined) return "–";
  if (count < 1000) return `${count}${NBSP}B`;
  let value = count;
  for (const unit of ["KB", "MB", "GB", "TB"]) {
    value /= 1000;
    if (value < 9.95) return `${fixed(value, 1)}${NBSP}${unit}`;
    if (value < 999.5 || unit === "TB") return `${grouped(value, 0)}${NBSP}${unit}`;
  }
  return "";
}

/** A share in whole per cent. */
export function share(part, whole) {
  if (whole <= 0) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 1 ? `<${NBSP}1${NBSP}%` : `${fixed(percent, 0)}${NBSP}%`;
}

/** A whole number with commas. */
export function whole(number) {
  return grouped(number, 0);
}

/** "1 packet", "1,263 packets". */
export function count(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** An instant from the capture's start. */
export function instant(ns) {
  return `${ns >= 0 ? "+" : MINUS}${grouped(Math.abs(ns) / 1e9, 3)}${NBSP}s`;
}

const AMOUNT = /((?:\d[\d.,]* to )?\d[\d.,]*\u00a0(?:ms|µs|s|min|h|KB|MB|GB|B|%)(?: \d+\u00a0(?:s|min))?)/;

/** A sentence as parts: the numbers with a unit apart, so that they can be set strong. */
export function amounts(sentence) {
  return sentence.split(AMOUNT).map((text, place) => ({ text, strong: place % 2 === 1 }));
}
