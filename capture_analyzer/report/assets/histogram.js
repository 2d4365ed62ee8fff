// The figure of the gaps between events: how many of each length, and what filled them.

import { BARE, barOf } from "./charts.js";
import { count, duration, whole } from "./numbers.js";
import { colour } from "./theme.js";

const LEAST_BARS = 18; // room for so many, so that two are not as wide as the page
const LEAST = 0.03; // of the highest bar, so that a single gap is seen beside thousands

/** {data, layout} of the histogram of a stream's gaps. */
export function histogramFigure(store, stream, width) {
  const traces = new Map();
  const totals = new Map();
  const unknown = store.causes.findIndex(({ name }) => name === "unknown");
  for (const { bar, cause, lost, number } of stream.bars) {
    const code = cause ?? unknown;
    const key = 2 * code + (lost ? 1 : 0);
    if (!traces.has(key)) {
      traces.set(key, { type: "bar", x: [], y: [], text: [], width: 0.88, textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: barOf(store.causes[code], lost) });
    }
    const trace = traces.get(key);
    const { title, lostTitle } = store.causes[code];
    trace.x.push(bar);
    trace.y.push(number);
    trace.text.push(`${range(stream.bounds, bar)}<br>${count(number, "gap")}, mostly: ${lost ? lostTitle : title}`);
    totals.set(bar, (totals.get(bar) ?? 0) + number);
  }
  const highest = Math.max(...totals.values());
  for (const trace of traces.values()) trace.y = trace.y.map((number) => Math.max(number, LEAST * highest));
  const pad = Math.max(0, (LEAST_BARS - stream.bounds.length) / 2);
  const ticks = ticksOf(stream, width / (stream.bounds.length + 1.2 + 2 * pad));
  return {
    data: [...traces].sort(([a], [b]) => a - b).map(([, trace]) => trace),
    layout: {
      margin: { l: 4, r: 8, t: 18, b: 24 }, barmode: "stack", dragmode: false,
      xaxis: { ...BARE, range: [-0.6 - pad, stream.bounds.length + 0.6 + pad], showticklabels: true, tickangle: 0, tickvals: ticks.map(({ at }) => at), ticktext: ticks.map(({ text }) => text), showline: true, linecolor: colour("line"), tickfont: { size: 11, color: colour("third") } },
      yaxis: { ...BARE, rangemode: "tozero" },
      annotations: [...totals].map(([bar, number]) => ({ x: bar, y: Math.max(number, LEAST * highest), yanchor: "bottom", showarrow: false, text: whole(number), font: { size: 11, color: colour("second") } })),
    },
  };
}

function range(bounds, bar) {
  if (bar === 0) return `under ${duration(bounds[0])}`;
  if (bar === bounds.length) return `${duration(bounds[bar - 1])} or more`;
  return `${duration(bounds[bar - 1])} to ${duration(bounds[bar])}`;
}

/** The median under its bar, and round lengths under others, as many as have room. */
function ticksOf({ bounds, median }, barWidth) {
  const apart = 40 / barWidth;
  const barOfLength = (ns) => bounds.findIndex((bound) => bound > ns);
  const ticks = [{ at: Math.max(barOfLength(median), 0), text: duration(median) }];
  for (const digit of [1, 2, 5]) {
    for (let power = 1e6; power < 1e13; power *= 10) {
      const at = barOfLength(digit * power);
      if (at < 1 || ticks.some((tick) => Math.abs(tick.at - at) < apart)) continue;
      ticks.push({ at, text: duration(digit * power).replace(/\.0+(?=\u00a0)/, "") });
    }
  }
  return ticks;
}
