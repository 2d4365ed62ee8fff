// The figure of one direction of a connection: bytes over time (segments, acknowledgements, the
// window, SACK blocks, what was sent again), bytes in flight against the window, round trips, and
// what held the sender. All four share one axis of time.

import { BARE, barOf } from "./charts.js";
import { byteTicks, flightRange, heldSpans, holeSpans, sequenceRange, tripRange, tripTicks } from "./direction.js";
import { duration, size } from "./numbers.js";
import { colour } from "./theme.js";
import { delays, packetWords } from "./traces.js";

const LEFT = 58;
const RIGHT = 12;
const TOP = 30;
const BOTTOM = 24;
const MOST_WORDS = 6; // labels of holes above the graph
const MOST_BARS = 300; // of exchanges in the strip
const UNDER = 7; // px about a sign in which nothing else can be pointed at

/** Signs of what was sent again, by mechanism: Plotly's symbol, and the same as text, filled and not. */
export const SIGNS = {
  fast: ["triangle-up", "▲", "△"], tlp: ["diamond", "◆", "◇"], rto: ["square", "■", "□"], "after rto": ["triangle-down", "▼", "▽"],
  syn: ["triangle-right", "▶", "▷"], unknown: ["circle", "●", "○"],
};

/** Parts of the figure's height, from the top: sequence, flight, round trips, strips. */
const DOMAINS = { y: [0.5, 1], y2: [0.27, 0.45], y3: [0.11, 0.22], y4: [0, 0.06] };

/** {data, layout} on so many px. `view` has from, to, whole, exchanges. */
export function sequenceFigure(store, direction, view, width, height) {
  const unit = view.to >= 1e9 ? 1e9 : 1e6;
  const place = (ns) => ns / unit;
  const axis = { color: colour("third"), size: 11 };
  const sequence = sequenceRange(direction, view);
  const flight = flightRange(direction, view);
  const trips = tripRange(direction, view);
  const clear = clearOfSigns(direction, view, (width - LEFT - RIGHT) / (view.to - view.from), ((height - TOP - BOTTOM) * (DOMAINS.y[1] - DOMAINS.y[0])) / (sequence[1] - sequence[0]));
  const y = (name, range, ticks) => ({
    domain: DOMAINS[name], range, fixedrange: true, showgrid: true, gridcolor: colour("line"), zeroline: false, tickfont: axis,
    tickvals: ticks.map(({ at }) => at), ticktext: ticks.map(({ text }) => text), ticks: "outside", ticklen: 4, tickcolor: "rgba(0,0,0,0)",
  });
  return {
    data: [
      ...windowLine(direction, place), ...sackLines(direction, place), ...ackLine(direction, place, clear), ...segmentLines(direction, place, clear),
      ...sentAgain(direction, place), ...otherSigns(direction, place),
      ...flightLines(direction, place), ...tripMarks(direction, place, store.unit), ...strips(store, direction, view, place), ...EMPTY,
    ],
    layout: {
      margin: { l: LEFT, r: RIGHT, t: TOP, b: BOTTOM },
      uirevision: false,
      xaxis: {
        range: [place(view.from), place(view.to)], anchor: "y4", ticksuffix: unit === 1e9 ? "\u00a0s" : "\u00a0ms", tickfont: axis, separatethousands: true,
        showgrid: true, gridcolor: colour("line"), zeroline: false, showline: false, nticks: Math.max(4, Math.floor(width / 110)), tickangle: 0, exponentformat: "none",
      },
      yaxis: y("y", sequence, byteTicks(sequence, 5)),
      yaxis2: y("y2", flight, byteTicks(flight, 3)),
      yaxis3: y("y3", trips, tripTicks(trips)),
      yaxis4: { ...BARE, domain: DOMAINS.y4, range: [1.5, -0.5], showticklabels: true, tickvals: [0, 1], ticktext: ["limit", "exchange"], tickfont: { ...axis, color: colour("second") }, ticks: "outside", ticklen: 4, tickcolor: "rgba(0,0,0,0)" },
      barmode: "overlay",
      shapes: [...holeShapes(direction, view, place), ...heldShapes(store, direction, view, place), ...queueShapes(direction, place)],
      annotations: [...titles(width), ...holeWords(direction, view, place, width), ...heldWords(direction, view, place, width)],
    },
  };
}

// Words of a packet under the pointer: our own words and numbers only

function head(packet) {
  const data = packet.bytes ? `, ${size(packet.bytes)}` : "";
  return `packet ${packet.no}: ${packetWords(packet)}${data}`;
}

function segmentText(trace, packet) {
  return [head(packet), ...delays(trace, packet), packet.bytes ? `bytes ${packet.offset.toLocaleString("en")} to ${packet.end.toLocaleString("en")}` : null, `${size(packet.flight)} in flight behind it`, when(packet)].filter(Boolean).join("<br>");
}

function answerText(packet) {
  const blocks = packet.sacks.length ? `reports also ${packet.sacks.map(({ from, to }) => `${from.toLocaleString("en")} to ${to.toLocaleString("en")}`).slice(0, 4).join(", ")} (SACK)` : null;
  return [head(packet), `acknowledges ${packet.acked.toLocaleString("en")}`, blocks, packet.window === null ? null : `offers ${size(packet.window)} more`, when(packet)].filter(Boolean).join("<br>");
}

function when({ time }) {
  return `at +${(time / 1e9).toFixed(6)}\u00a0s`;
}

// The graph of sequence

/** Keep the axes of parts in which there is nothing to draw. */
const EMPTY = ["y2", "y3", "y4"].map((yaxis) => ({ x: [null], y: [null], yaxis, mode: "markers", hoverinfo: "skip" }));

const HOVER = { hovertemplate: "%{text}<extra></extra>" };

function windowLine(direction, place) {
  const known = direction.answers.filter(({ window }) => window !== null);
  if (!known.length) return [];
  return [{
    x: known.map(({ time }) => place(time)), y: runningMost(known.map(({ acked, window }) => acked + window)), mode: "lines", hoverinfo: "skip",
    line: { shape: "hv", width: 1.25, color: colour("window-line") },
  }];
}

/** The edge of a window never moves back (RFC 9293, section 3.8.6). */
function runningMost(values) {
  let most = -Infinity;
  return values.map((value) => (most = Math.max(most, value)));
}

function ackLine({ answers }, place, clear) {
  const apart = answers.filter((packet) => clear(packet.time, packet.acked));
  const ink = colour("ack-line");
  return [
    { x: answers.map(({ time }) => place(time)), y: answers.map(({ acked }) => acked), mode: "lines", hoverinfo: "skip", line: { shape: "hv", width: 1.25, color: ink } },
    {
      x: apart.map(({ time }) => place(time)), y: apart.map(({ acked }) => acked), text: apart.map(answerText), customdata: apart.map(({ no }) => no),
      mode: "markers", ...HOVER, marker: { symbol: "line-ew-open", size: 5, color: ink, opacity: answers.length > 400 ? 0 : 1, line: { width: 1.25 } },
    },
  ];
}

function sackLines({ answers }, place) {
  const trace = { x: [], y: [], mode: "lines", hoverinfo: "skip", line: { width: 1.5, color: colour("sack") } };
  for (const { time, sacks } of answers) {
    for (const { from, to } of sacks) {
      trace.x.push(place(time), place(time), null);
      trace.y.push(from, to, null);
    }
  }
  return trace.x.length ? [trace] : [];
}

function segmentLines({ trace, segments }, place, clear) {
  const plain = segments.filter(({ bytes, mechanism }) => bytes > 0 && !mechanism);
  const lines = { x: [], y: [], mode: "lines", hoverinfo: "skip", line: { width: 2, color: colour("segment") } };
  for (const { time, offset, end } of plain) {
    lines.x.push(place(time), place(time), null);
    lines.y.push(offset, end, null);
  }
  const dots = (packets, hover) => ({
    x: packets.map(({ time }) => place(time)), y: packets.map(({ offset, end }) => (offset + end) / 2),
    mode: "markers", ...hover(packets), marker: { symbol: "square", size: plain.length > 600 ? 2.5 : 4, color: colour("segment") },
  });
  const apart = new Set(plain.filter(({ time, offset, end }) => clear(time, (offset + end) / 2)));
  return [lines, dots(plain.filter((packet) => !apart.has(packet)), () => ({ hoverinfo: "skip" })),
    dots([...apart], (packets) => ({ text: packets.map((packet) => segmentText(trace, packet)), customdata: packets.map(({ no }) => no), ...HOVER }))];
}

/**
 * Whether a place is clear of every sign: what is under one can't be pointed at, so that a
 * sign always answers for itself. `across` and `up` are px a ns and a byte.
 */
function clearOfSigns(direction, view, across, up) {
  const signs = [
    ...direction.segments.filter(isSign).map(({ time, offset, end }) => [time * across, ((offset + end) / 2) * up]),
    ...direction.answers.filter(({ window }) => window === 0).map(({ time, acked }) => [time * across, acked * up]),
  ].sort((a, b) => a[0] - b[0]);
  return (time, offset) => {
    const [x, y] = [time * across, offset * up];
    let [low, high] = [0, signs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (signs[middle][0] < x - UNDER) low = middle + 1;
      else high = middle;
    }
    for (; low < signs.length && signs[low][0] <= x + UNDER; low += 1) if (Math.abs(signs[low][1] - y) <= UNDER) return false;
    return true;
  };
}

function isSign({ mechanism, label, bytes }) {
  return Boolean(mechanism) || !bytes || !["original", "ack"].includes(label);
}

/** One trace a mechanism, and those that were needless apart: hollow. */
function sentAgain({ trace, segments }, place) {
  const traces = [];
  for (const [mechanism, [symbol]] of Object.entries(SIGNS)) {
    for (const needless of [false, true]) {
      const those = segments.filter((packet) => packet.mechanism === mechanism && packet.needless === needless);
      if (!those.length) continue;
      const ink = colour("loss-recovery");
      traces.push({
        x: those.map(({ time }) => place(time)), y: those.map(({ offset, end }) => (offset + end) / 2), text: those.map((packet) => segmentText(trace, packet)), customdata: those.map(({ no }) => no),
        mode: "markers", ...HOVER, marker: { symbol, size: 10, color: needless ? colour("background") : ink, line: { width: 1.75, color: ink } },
      });
    }
  }
  return traces;
}

/** What else is remarkable: windows of 0, late and duplicated segments, probes, SYN, FIN, RST. */
function otherSigns(direction, place) {
  const signs = { closed: [], late: [], probe: [], control: [] };
  for (const packet of direction.answers) if (packet.window === 0) signs.closed.push(packet);
  for (const packet of direction.segments) {
    if (packet.mechanism) continue;
    if (packet.label === "reordered" || packet.label === "network duplicate") signs.late.push(packet);
    else if (packet.label === "zero window probe" || packet.label === "keep alive") signs.probe.push(packet);
    else if (!packet.bytes || ["syn", "fin", "rst"].includes(packet.label)) signs.control.push(packet);
  }
  const probes = direction.trace.packets.filter((packet) => packet.fromClient === direction.fromClient && !packet.bytes && ["zero window probe", "keep alive"].includes(packet.label));
  signs.probe.push(...probes);
  const trace = (packets, words, at, marker, text) => packets.length ? [{
    x: packets.map(({ time }) => place(time)), y: packets.map(at), text: packets.map(words), customdata: packets.map(({ no }) => no), ...HOVER, marker,
    ...(text ? { mode: "markers+text", textposition: "top center", textfont: { size: 10, color: colour("second") }, cliponaxis: false, hovertext: packets.map(words), hovertemplate: "%{hovertext}<extra></extra>", text: packets.map(text) } : { mode: "markers" }),
  }] : [];
  const at = ({ offset }) => offset;
  const segmentWords = (packet) => segmentText(direction.trace, packet);
  const middle = ({ offset, end }) => (offset + end) / 2;
  return [
    ...trace(signs.closed, answerText, ({ acked }) => acked, { symbol: "x-thin-open", size: 8, color: colour("window-line"), line: { width: 2 } }),
    ...trace(signs.late, segmentWords, middle, { symbol: "circle-open", size: 8, color: colour("reordering"), line: { width: 1.75 } }),
    ...trace(signs.probe, segmentWords, at, { symbol: "cross-thin-open", size: 7, color: colour("second"), line: { width: 1.5 } }),
    ...trace(signs.control, segmentWords, at, { symbol: "circle", size: 5, color: colour("second") }, ({ flags }) => ["SYN", "FIN", "RST"].find((flag) => (flags ?? "").includes(flag)) ?? ""),
  ];
}

const HOLE_LOOKS = { loss: ["loss-recovery", "until a loss was repaired"], reordering: ["reordering", "out of order"], capture: ["capture-gap", "not in the capture"] };

function holeShapes(direction, view, place) {
  return holeSpans(direction, view).map(({ kind, from, to }) => ({
    type: "rect", layer: "below", xref: "x", x0: place(from), x1: place(to), yref: "paper", y0: DOMAINS.y[0], y1: DOMAINS.y[1],
    fillcolor: colour(HOLE_LOOKS[kind][0]), opacity: 0.14, line: { width: 0 },
  }));
}

/** Words above the graph, the longest spans first, as far as they don't cover each other. */
function holeWords(direction, view, place, width) {
  const room = Math.max(width - LEFT - RIGHT, 1);
  const factor = room / (view.to - view.from);
  const taken = [];
  for (const span of holeSpans(direction, view).sort((a, b) => b.to - b.from - (a.to - a.from))) {
    if (taken.length === MOST_WORDS) break;
    const text = span.filled ? `${duration(span.to - span.from)} ${HOLE_LOOKS[span.kind][1]}` : HOLE_LOOKS[span.kind][1].replace("until a loss was repaired", "a loss, never repaired");
    const half = (text.length * 6.2) / 2;
    const centre = (Math.max(span.from, view.from) + Math.min(span.to, view.to)) / 2;
    const middle = Math.min(Math.max((centre - view.from) * factor, half), room - half);
    if (half * 2 > room || taken.some(({ at, reach }) => Math.abs(at - middle) < reach + half + 8)) continue;
    taken.push({ at: middle, reach: half, text, x: view.from + middle / factor });
  }
  return taken.map(({ text, x }) => ({
    xref: "x", x: place(x), yref: "paper", y: 1, yanchor: "bottom", xanchor: "center", yshift: 14, showarrow: false, text,
    font: { size: 11, color: colour("text"), weight: 600, family: getComputedStyle(document.body).fontFamily },
  }));
}

/** A title above each part. */
function titles(width) {
  const text = { y: "Bytes sent and acknowledged", y2: width < 500 ? "In flight and window" : "Bytes in flight and offered window", y3: "Round trips" };
  return Object.entries(text).map(([name, words]) => ({
    xref: "paper", x: 0, yref: "paper", y: DOMAINS[name][1], xanchor: "left", yanchor: "bottom", yshift: 1, showarrow: false, text: words, font: { size: 11, color: colour("second") },
  }));
}

// Bytes in flight

function flightLines(direction, place) {
  const points = direction.flight;
  const known = direction.answers.filter(({ window }) => window !== null);
  const fill = colour("segment");
  const traces = [{
    x: points.map(({ time }) => place(time)), y: points.map(({ bytes }) => bytes), text: points.map(({ no, bytes }) => `${size(bytes)} in flight<br>behind packet ${no}`), customdata: points.map(({ no }) => no),
    yaxis: "y2", mode: "lines", ...HOVER, fill: "tozeroy", fillcolor: `${fill}30`, line: { shape: "hv", width: 1.25, color: fill },
  }];
  if (known.length) {
    traces.push({
      x: known.map(({ time }) => place(time)), y: known.map(({ window }) => window), text: known.map(({ no, window }) => `${size(window)} offered<br>by packet ${no}`), customdata: known.map(({ no }) => no),
      yaxis: "y2", mode: "lines", ...HOVER, line: { shape: "hv", width: 1.25, color: colour("window-line") },
    });
  }
  const estimates = direction.held.filter(({ limit }) => limit.cause === "congestion_window");
  if (estimates.length) {
    const trace = { x: [], y: [], text: [], customdata: [], yaxis: "y2", mode: "lines", ...HOVER, line: { width: 3, color: colour("congestion-window") } };
    for (const { from, to, flight, first } of estimates) {
      trace.x.push(place(from), place(to), null);
      trace.y.push(flight, flight, null);
      trace.text.push(...Array(2).fill(`congestion window about ${size(flight)}<br>packet ${first} was the last that fitted`), null);
      trace.customdata.push(first, first, null);
    }
    traces.push(trace);
  }
  return traces;
}

function heldShapes(store, direction, view, place) {
  return heldSpans(direction, view).map(({ limit, from, to }) => ({
    type: "rect", layer: "below", xref: "x", x0: place(from), x1: place(to), yref: "paper", y0: DOMAINS.y2[0], y1: DOMAINS.y2[1],
    fillcolor: colour(limit.cause.replaceAll("_", "-")), opacity: 0.16, line: { width: 0 },
  }));
}

/** What held the sender, in words where the stretch is wide enough for them. */
function heldWords(direction, view, place, width) {
  const factor = Math.max(width - LEFT - RIGHT, 1) / (view.to - view.from);
  return heldSpans(direction, view).flatMap(({ limit, from, to }) => {
    const [begin, end] = [Math.max(from, view.from), Math.min(to, view.to)];
    const text = [`${limit.short}, ${duration(to - from)}`, limit.short].find((words) => words.length * 6 < (end - begin) * factor);
    return text === undefined ? [] : [{
      xref: "x", x: place((begin + end) / 2), yref: "paper", y: DOMAINS.y2[1], yanchor: "top", xanchor: "center", showarrow: false, text, font: { size: 11, color: colour("text") },
    }];
  }).slice(0, 4 * MOST_WORDS);
}

// Round trips

function tripMarks({ trips }, place, unit) {
  if (!trips.length) return [];
  return [
    {
      x: trips.map(({ time }) => place(time)), y: trips.map(({ smoothed }) => smoothed), yaxis: "y3", mode: "lines", hoverinfo: "skip",
      line: { width: 1.25, color: colour("network-rtt") },
    },
    {
      x: trips.map(({ time }) => place(time)), y: trips.map(({ trip }) => trip), yaxis: "y3", mode: "markers", ...HOVER, customdata: trips.map(({ packet }) => packet),
      text: trips.map(({ trip, smoothed, packet }) => `round trip ${duration(trip)}, smoothed ${duration(smoothed)}<br>ended by packet ${packet}`),
      marker: { symbol: "circle", size: trips.length > 200 ? 3 : 4, color: colour("second") },
    },
  ];
}

function queueShapes({ queues }, place) {
  return queues.map(({ from, to }) => ({
    type: "rect", layer: "below", xref: "x", x0: place(from), x1: place(to), yref: "paper", y0: DOMAINS.y3[0], y1: DOMAINS.y3[1],
    fillcolor: colour("network-rtt"), opacity: 0.18, line: { width: 0 },
  }));
}

// Strips: what held the sender, and the exchanges

function strips(store, direction, view, place) {
  const traces = new Map();
  const add = (key, row, marker, from, to, text, data) => {
    if (!traces.has(key)) traces.set(key, { type: "bar", orientation: "h", yaxis: "y4", x: [], y: [], base: [], text: [], customdata: [], width: 0.72, textposition: "none", ...HOVER, marker });
    const trace = traces.get(key);
    trace.x.push(Math.max(place(to) - place(from), place(view.to - view.from) / 800));
    trace.base.push(place(from));
    trace.y.push(row);
    trace.text.push(text);
    trace.customdata.push(data);
  };
  for (const { limit, kind, from, to, bytes, first } of direction.limited) {
    const cause = store.causes.find(({ name }) => name === limit.cause);
    const look = kind === 0 ? "limited 0" : `limited ${limit.cause}`;
    add(look, 0, barOf(cause, false), from, to, `limited by: ${limit.title}<br>${duration(to - from)}, ${size(bytes)} sent<br>from packet ${first} on`, first);
  }
  const overlap = view.exchanges.length > 1;
  for (const no of view.exchanges.slice(0, MOST_BARS)) {
    if (store.end[no] < view.from || store.start[no] > view.to) continue;
    const look = `exchange ${no % 2}`;
    const marker = { color: colour(no % 2 && overlap ? "third" : "second"), opacity: 0.75, line: { width: 0 } };
    add(look, 1, marker, store.start[no], store.end[no], `exchange ${no}: ${duration(store.total(no))}`, `exchange ${no}`);
  }
  return [...traces.values()];
}

/** Where a packet is in the graph, in px from its top left: {x, y}; null outside of what is shown. */
export function placeOf(direction, view, packet, width, height) {
  if (packet.time < view.from || packet.time > view.to) return null;
  const offset = packet.fromClient === direction.fromClient ? (packet.offset + packet.end) / 2 : packet.acked;
  const [low, high] = sequenceRange(direction, view);
  const [bottom, top] = DOMAINS.y;
  const up = bottom + ((offset - low) / (high - low)) * (top - bottom);
  return { x: LEFT + ((packet.time - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT), y: TOP + (1 - up) * (height - TOP - BOTTOM) };
}
