// The figure of the gaps between events: how many of each length, and what filled them.

import { BARE, barOf } from "./charts.js";
import { count, duration } from "./numbers.js";
import { colour } from "./theme.js";

/** {data, layout} of the histogram of a stream's gaps. */
export function histogramFigure(store, stream, width) {
  const traces = new Map();
  const totals = new Map();
  const unknown = store.causes.findIndex(({ name }) => name === "unknown");
  for (const { bar, cause, lost, number } of stream.bars) {
    const code = cause ?? unknown;
    const key = 2 * code + (lost ? 1 : 0);
    if (!traces.has(key)) {
      traces.set(key, { type: "bar", x: [], y: [], text: [], textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: barOf(store.causes[code], lost) });
    }
    const trace = traces.get(key);
    const { title, lostTitle } = store.causes[code];
    trace.x.push(bar);
    trace.y.push(number);
    trace.text.push(`${range(stream.bounds, bar)}<br>${count(number, "gap")}, mostly: ${lost ? lostTitle : title}`);
    totals.set(bar, (totals.get(bar) ?? 0) + number);
  }
  const ticks = ticksOf(stream.bounds, width);
  return {
    data: [...traces].sort(([a], [b]) => a - b).map(([, trace]) => trace),
    layout: {
      margin: { l: 4, r: 8, t: 18, b: 24 }, barmode: "stack", bargap: 0.12, dragmode: false,
      xaxis: { ...BARE, range: [-0.6, stream.bounds.length + 0.6], showticklabels: true, tickangle: 0, tickvals: ticks.map(({ at }) => at), ticktext: ticks.map(({ text }) => text), showline: true, linecolor: colour("line"), tickfont: { size: 11, color: colour("third") } },
      yaxis: { ...BARE, rangemode: "tozero" },
      annotations: [...totals].map(([bar, number]) => ({ x: bar, y: number, yanchor: "bottom", showarrow: false, text: String(number), font: { size: 11, color: colour("second") } })),
    },
  };
}

function range(bounds, bar) {
  if (bar === 0) return `under ${duration(bounds[0])}`;
  if (bar === bounds.length) return `${duration(bounds[bar - 1])} or more`;
  return `${duration(bounds[bar - 1])} to ${duration(bounds[bar])}`;
}

/** Round lengths under the bars that hold them, as many as have room. */
function ticksOf(bounds, width) {
  const room = Math.max(2, Math.floor(width / 42));
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const result = [];
    for (let power = 1e6; power < 1e13; power *= 10) {
      for (const digit of digits) {
        const bar = bounds.findIndex((bound) => bound > digit * power);
        if (bar > 0) result.push({ at: bar, text: duration(digit * power).replace(/\.0+(?=\u00a0)/, "") });
      }
    }
    if (result.length <= room || digits.length === 1) return result;
  }
  return [];
}
