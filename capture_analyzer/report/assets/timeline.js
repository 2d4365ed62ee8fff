// The figure of a stream: each event as a line from seen through in order to usable, pauses shaded
// by what filled them, and the causes in a strip below.

import { BARE, barOf } from "./charts.js";
import { duration, exactMs, size } from "./numbers.js";
import { colour } from "./theme.js";
import { largest, runs } from "./spans.js";

const LEVELS = { seen: 3, ordered: 2, usable: 1 };
const WAITED = 1e6; // ns from seen to usable that make a line worth a colour
const ALL_MARKS = 600; // events up to which each level has its marks
const MOST_RUNS = 1500; // in the strip
const LEFT = 62;
const RIGHT = 12;
const STANDOFF = { ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)" };

/** {data, layout} of the timeline of an exchange's stream on `width` px. */
export function timelineFigure(store, no, width) {
  const stream = store.streams.get(no).drawn;
  const zero = store.request[no];
  const last = stream.time[stream.kept - 1];
  const unit = last - zero >= 1e9 ? 1e9 : 1e6;
  const place = (ns) => (ns - zero) / unit;
  const end = Math.max(place(last), 1e-3);
  const shades = shaded(store, no);
  const common = { family: getComputedStyle(document.body).fontFamily };
  return {
    data: [...lines(store, no, place), ...marks(store, no, place), ...firstContent(store, no, place), ...strip(store, no, place)],
    layout: {
      margin: { l: LEFT, r: RIGHT, t: 26, b: 26 },
      uirevision: String(no),
      xaxis: {
        range: [0, end * 1.012], anchor: "y2", ticksuffix: unit === 1e9 ? "\u00a0s" : "\u00a0ms", tickfont: { size: 11, color: colour("third") }, separatethousands: true,
        showgrid: true, gridcolor: colour("line"), gridwidth: 1, zeroline: false, showline: false, nticks: Math.max(4, Math.floor(width / 110)), tickangle: 0, exponentformat: "none",
      },
      yaxis: {
        domain: [0.15, 1], range: [0.35, 3.3], fixedrange: true, showgrid: true, gridcolor: colour("line"), zeroline: false,
        tickvals: Object.values(LEVELS), ticktext: ["seen", "in order", "usable"], tickfont: { size: 12, color: colour("second") }, ...STANDOFF,
      },
      yaxis2: { ...BARE, domain: [0, 0.07], range: [-0.5, 0.5], showticklabels: true, tickvals: [0], ticktext: ["cause"], ...STANDOFF, tickfont: { size: 12, color: colour("second") } },
      barmode: "overlay",
      shapes: shades.map(({ cause, from, to }) => ({
        type: "rect", layer: "below", xref: "x", x0: place(from), x1: place(to), yref: "paper", y0: 0, y1: 1,
        fillcolor: colour(store.causes[cause].name.replaceAll("_", "-")), opacity: 0.14, line: { width: 0 },
      })),
      annotations: labels(store, no, shades, place, end, width).map(({ x, text }) => ({
        xref: "x", x, yref: "paper", y: 1, yanchor: "bottom", xanchor: "center", showarrow: false, text,
        font: { ...common, size: 11, color: colour("text"), weight: 600 },
      })),
    },
  };
}

/** Spans that are shaded: what filled the pauses, and lost time wherever it is. */
export function shaded(store, no) {
  const stream = store.streams.get(no).drawn;
  const zero = store.request[no];
  const last = stream.time[stream.kept - 1];
  const pauses = stream.pauses.map(({ from, to }) => ({ from: zero + from, to: zero + to }));
  const inside = pauses.flatMap(({ from, to }) => runs(store, no, from, to).filter((run) => run.lost || run.to - run.from >= (to - from) / 10));
  const known = new Set(inside.filter((run) => run.lost).map((run) => run.from));
  const outside = runs(store, no, zero, last).filter((run) => run.lost && !known.has(run.from) && !pauses.some(({ from, to }) => run.from >= from && run.to <= to));
  return [...inside, ...outside].sort((a, b) => a.from - b.from);
}

/** The words for a shaded span. */
export function spanWords(store, no, { cause, from, to }) {
  const first = store.firstContent.get(no);
  const before = first !== undefined && to <= store.request[no] + first;
  const { name, pause } = store.causes[cause];
  return `${duration(to - from)} ${before && name === "generation" ? "until the first content" : pause}`;
}

/** Labels of spans, the longest first, as far as they don't cover each other. */
function labels(store, no, shades, place, end, width) {
  const room = Math.max(width - LEFT - RIGHT, 1);
  const factor = room / (end * 1.012);
  const taken = [];
  for (const span of [...shades].sort((a, b) => b.to - b.from - (a.to - a.from))) {
    const text = spanWords(store, no, span);
    const half = (text.length * 6.2) / 2;
    const middle = Math.min(Math.max(((place(span.from) + place(span.to)) / 2) * factor, half), room - half);
    if (half * 2 > room || taken.some(({ at, reach }) => Math.abs(at - middle) < reach + half + 8)) continue;
    taken.push({ at: middle, reach: half, x: middle / factor, text });
  }
  return taken;
}

/** Lines of events: ordinary ones with content in one trace, those that waited in one a cause. */
function lines(store, no, place) {
  const stream = store.streams.get(no).drawn;
  const traces = new Map();
  const faint = Math.max(0.65 * Math.min(1, ALL_MARKS / stream.kept), 0.15);
  for (let at = 0; at < stream.kept; at += 1) {
    const cause = waitedFor(store, no, at);
    if (cause === null && stream.kind[at] !== "content") continue;
    if (!traces.has(cause)) {
      traces.set(cause, {
        x: [], y: [], mode: "lines", hoverinfo: "skip", opacity: cause === null ? faint : 1,
        line: { width: cause === null ? 1 : 1.5, color: colour(cause === null ? "second" : store.causes[cause].name.replaceAll("_", "-")) },
      });
    }
    const { x, y } = traces.get(cause);
    x.push(place(stream.seen[at]), place(stream.ordered[at]), place(stream.time[at]), null);
    y.push(LEVELS.seen, LEVELS.ordered, LEVELS.usable, null);
  }
  return [...traces.values()];
}

/** The cause for which an event waited between seen and usable; null where it did not. */
function waitedFor(store, no, at) {
  const { seen, time } = store.streams.get(no).drawn;
  if (time[at] - seen[at] < WAITED) return null;
  return largest(runs(store, no, seen[at], time[at]))?.cause ?? null;
}

function marks(store, no, place) {
  const stream = store.streams.get(no).drawn;
  const many = stream.kept > ALL_MARKS;
  const levels = many ? ["usable"] : ["seen", "ordered", "usable"];
  const make = (content) => ({
    x: [], y: [], text: [], mode: "markers", hovertemplate: "%{text}<extra></extra>",
    marker: { symbol: "line-ns-open", size: content && !many ? 9 : 5, opacity: many ? 0.4 : 1, line: { width: 1.5 }, color: colour(content ? "text" : "third") },
  });
  const traces = { content: make(true), other: make(false) };
  for (let at = 0; at < stream.kept; at += 1) {
    const trace = stream.kind[at] === "content" ? traces.content : traces.other;
    const text = eventWords(store, no, at);
    for (const level of levels) {
      trace.x.push(place(level === "usable" ? stream.time[at] : stream[level][at]));
      trace.y.push(LEVELS[level]);
      trace.text.push(text);
    }
  }
  return [traces.other, traces.content].filter(({ x }) => x.length);
}

function eventWords(store, no, at) {
  const stream = store.streams.get(no).drawn;
  const zero = store.request[no];
  const lines = [`${stream.kind[at]}, ${size(stream.bytes[at])}, packet ${stream.packet[at]}`, `usable ${exactMs(stream.time[at] - zero, store.unit)}\u00a0ms after the request`];
  if (at > 0) lines.push(`${duration(stream.time[at] - stream.time[at - 1])} after the event before`);
  const [order, record] = [stream.ordered[at] - stream.seen[at], stream.time[at] - stream.ordered[at]];
  if (order > 0) lines.push(`waited ${duration(order)} for what came before it`);
  if (record > 0) lines.push(`waited ${duration(record)} for the rest of its record`);
  return lines.join("<br>");
}

function firstContent(store, no, place) {
  if (!store.firstContent.has(no)) return [];
  const ns = store.firstContent.get(no);
  const late = ns > 0.75 * (store.streams.get(no).drawn.time.at(-1) - store.request[no]);
  return [{
    x: [place(store.request[no] + ns)], y: [0.6], mode: "markers+text", text: [late ? `first content ${duration(ns)}\u2002` : `\u2002first content ${duration(ns)}`],
    textposition: late ? "middle left" : "middle right", textfont: { size: 11, color: colour("second") }, hoverinfo: "skip", cliponaxis: false,
    marker: { symbol: "diamond", size: 8, color: colour("text") },
  }];
}

/** The causes below, one trace a look. */
function strip(store, no, place) {
  const stream = store.streams.get(no).drawn;
  const last = stream.time[stream.kept - 1];
  const zero = store.request[no];
  const traces = new Map();
  for (const { cause, lost, from, to } of coarse(runs(store, no, zero, last), (last - zero) / MOST_RUNS)) {
    const entry = store.causes[cause];
    const key = 2 * cause + (lost ? 1 : 0);
    if (!traces.has(key)) {
      traces.set(key, {
        type: "bar", orientation: "h", yaxis: "y2", x: [], y: [], base: [], text: [], width: 1, textposition: "none",
        hovertemplate: "%{text}<extra></extra>", marker: barOf(entry, lost),
      });
    }
    const trace = traces.get(key);
    trace.x.push(place(zero + to - from));
    trace.base.push(place(from));
    trace.y.push(0);
    trace.text.push(`${lost ? entry.lostTitle : entry.title}: ${duration(to - from)}${lost ? ", lost" : ""}`);
  }
  return [...traces.values()];
}

/** Where there are too many runs to draw, those shorter than `least` become part of the one before. */
function coarse(spans, least) {
  if (spans.length <= MOST_RUNS) return spans;
  const result = [];
  for (const span of spans) {
    const before = result[result.length - 1];
    if (before && span.to - span.from < least) before.to = span.to;
    else if (before && before.cause === span.cause && before.lost === span.lost) before.to = span.to;
    else result.push({ ...span });
  }
  return result;
}
