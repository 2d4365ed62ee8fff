// One direction of a connection: which packets belong to it, the stretches that are shaded, and the
// ranges and ticks of its figure.

import { duration, size } from "./numbers.js";

const FAR = 0.25; // of the data's height: a window further above it is left out of the picture
const AHEAD = 4; // times what was in flight: a larger window is left out of that picture

/** What is drawn of a trace: the packets of a direction's data, and those that answer them. */
export class Direction {
  constructor(trace, fromClient) {
    this.trace = trace;
    this.fromClient = fromClient;
    this.segments = trace.packets.filter((packet) => packet.fromClient === fromClient && (packet.bytes > 0 || packet.mechanism || /SYN|FIN|RST/.test(packet.flags ?? "")));
    this.answers = trace.packets.filter((packet) => packet.fromClient !== fromClient && /ACK/.test(packet.flags ?? ""));
    this.held = trace.held.filter((row) => row.fromClient === fromClient);
    this.limited = trace.limited.filter((row) => row.fromClient === fromClient);
    this.silences = trace.silences;
    this.holes = trace.holes.filter((row) => row.fromClient === fromClient);
    this.queues = trace.queues.filter((row) => row.fromClient === fromClient);
    this.trips = trace.trips[fromClient];
    this.sums = trace.sums[fromClient];
  }

  /** Bytes in flight behind each packet of either side: [{time, bytes, no}]. */
  get flight() {
    return this.trace.packets.map((packet) => ({ time: packet.time, no: packet.no, bytes: packet.fromClient === this.fromClient ? packet.flight : packet.left }));
  }

  /** Between two instants: offsets from least to most, and the window's edge, its highest and lowest. */
  reach(from, to) {
    const inside = (packet) => packet.time >= from && packet.time <= to;
    let [least, most, edge, lowest] = [Infinity, -Infinity, -Infinity, Infinity];
    const offered = (packet) => {
      if (packet.window === null) return;
      edge = Math.max(edge, packet.acked + packet.window);
      lowest = Math.min(lowest, packet.acked + packet.window);
    };
    for (const packet of this.segments) {
      if (!inside(packet)) continue;
      least = Math.min(least, packet.offset);
      most = Math.max(most, packet.end);
    }
    let known = null; // the acknowledgement before the range still stands in it
    for (const packet of this.answers) {
      if (packet.time > to) break;
      if (packet.time < from) { known = packet; continue; }
      least = Math.min(least, packet.acked);
      most = Math.max(most, packet.acked);
      offered(packet);
    }
    if (least > most && known) [least, most] = [known.acked, known.acked];
    if (known) offered(known);
    return least > most ? { least: 0, most: 1, edge, lowest } : { least, most, edge, lowest };
  }
}

// Stretches

/** Holes as shades: from when they opened until they were filled; overlapping ones are one. */
export function holeSpans(direction, view) {
  const spans = [];
  for (const hole of [...direction.holes].sort((a, b) => a.from - b.from)) {
    const to = hole.to ?? view.whole[1];
    const last = spans[spans.length - 1];
    if (last && hole.from <= last.to && last.kind === hole.kind) last.to = Math.max(last.to, to);
    else spans.push({ kind: hole.kind, from: hole.from, to, filled: hole.to !== null });
  }
  return spans.filter(({ from, to }) => to >= view.from && from <= view.to);
}

/** Stretches in which something held the sender, neighbours alike joined. */
export function heldSpans(direction, view) {
  const least = (view.to - view.from) / 500;
  const spans = [];
  for (const row of direction.held) {
    if (row.to < view.from || row.from > view.to) continue;
    const last = spans[spans.length - 1];
    if (last && last.limit === row.limit && row.from - last.to < least) last.to = Math.max(last.to, row.to);
    else spans.push({ limit: row.limit, from: row.from, to: row.to });
  }
  return spans;
}

// Ranges and ticks

export function sequenceRange(direction, view) {
  const { least, most, edge } = direction.reach(view.from, view.to);
  const span = Math.max(most - least, 1);
  const top = edge > most ? Math.min(edge, most + FAR * span) : most;
  const margin = 0.04 * Math.max(top - least, 1);
  return [least - margin, top + margin];
}

/** How much of the window's edge is above what the sequence graph shows: "none", "part", "all". */
export function windowAbove(direction, view) {
  const { least, most, edge, lowest } = direction.reach(view.from, view.to);
  const top = most + FAR * Math.max(most - least, 1);
  return edge <= top ? "none" : lowest <= top ? "part" : "all";
}

export function flightRange(direction, view) {
  let most = 1;
  let last = 0;
  for (const { time, bytes } of direction.flight) {
    if (time > view.to) break;
    if (time >= view.from) most = Math.max(most, bytes);
    else last = bytes;
  }
  most = Math.max(most, last);
  const windows = direction.answers.filter(({ time, window }) => window !== null && time >= view.from && time <= view.to).map(({ window }) => window);
  const shown = windows.filter((window) => window <= AHEAD * most);
  return [0, 1.1 * Math.max(most, ...shown)];
}

export function tripRange(direction, view) {
  const inside = direction.trips.filter(({ time }) => time >= view.from && time <= view.to);
  return [0, 1.15 * Math.max(1e5, ...(inside.length ? inside : direction.trips).map(({ trip }) => trip))];
}

export function byteTicks([from, to], number) {
  const step = niceStep((to - from) / number);
  const result = [];
  for (let at = Math.max(Math.ceil(from / step) * step, 0); at <= to; at += step) result.push({ at, text: size(Math.round(at)) });
  return result;
}

export function tripTicks([, to]) {
  const step = niceStep(to / 3);
  return [0, 1, 2, 3].map((count) => count * step).filter((at) => at <= to).map((at) => ({ at, text: at ? duration(at).replace(/\.0+(?=\u00a0)/, "") : "0" }));
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}
