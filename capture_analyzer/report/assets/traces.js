// The traces of connections, read back from the compact form that traces.py writes: packets as
// stream offsets, what held the senders, round trips. Each is decoded when it is first shown.

import { duration } from "./numbers.js";

/** Read them: {limits, has(no), get(no), holding(packet)}. */
export function readTraces(data, text, unit) {
  const kinds = data.kinds.map(([fromClient, flags, label, mechanism, spurious]) => ({
    fromClient: fromClient === 1, flags: text(flags), label: text(label), mechanism: text(mechanism), needless: spurious !== 0 && text(spurious) === "true",
  }));
  const limits = data.limits.map(([title, short, subject, cause, meaning]) => ({ title, short, subject, cause, meaning }));
  const senderLimits = data.senderLimits.map(([title, sentence, cause, meaning]) => ({ title, sentence, cause, meaning }));
  const names = { limits, senderLimits, stalls: data.stalls, holes: data.holes.map(text), mechanisms: data.mechanisms.map(text) };
  const rows = new Map(data.list.map((row) => [row.no, row]));
  const decoded = new Map();
  const get = (no) => {
    if (!decoded.has(no) && rows.has(no)) decoded.set(no, readTrace(rows.get(no), kinds, names, unit));
    return decoded.get(no) ?? null;
  };
  return {
    limits, has: (no) => rows.has(no), get,
    /** The trace that has a packet; `from` is the connection to look at first, if known. */
    holding(packet, connection) {
      if (connection !== undefined) return rows.has(connection) ? get(connection) : null;
      for (const no of rows.keys()) if (get(no).find(packet)) return get(no);
      return null;
    },
  };
}

function readTrace(row, kinds, names, unit) {
  const packets = readPackets(row, kinds, unit);
  const byNumber = new Map(packets.map((packet) => [packet.no, packet]));
  const way = (pair, read) => ({ true: read(pair[0]), false: read(pair[1]) });
  return {
    no: row.no, of: row.of, noted: row.noted, packets,
    find: (no) => byNumber.get(no) ?? null,
    held: row.held.map(([fromClient, kind, from, length, flight, first, next, freed]) => ({
      fromClient: fromClient === 1, limit: names.limits[kind], kind, from: from * unit, to: (from + length) * unit, flight, first, next, freed,
    })),
    holes: row.holes.map(([fromClient, kind, offset, bytes, opened, length, first, filled]) => ({
      fromClient: fromClient === 1, kind: names.holes[kind], offset, bytes, from: opened * unit, to: length === null ? null : (opened + length) * unit, first, filled,
    })),
    queues: row.queues.map(([fromClient, from, length, samples, smallest, typical, largest, packet]) => ({
      fromClient: fromClient === 1, from: from * unit, to: (from + length) * unit, samples, smallest, typical, largest, packet,
    })),
    limited: row.limited.map(([fromClient, kind, from, length, bytes, first]) => ({
      fromClient: fromClient === 1, limit: names.senderLimits[kind], kind, from: from * unit, to: (from + length) * unit, bytes, first,
    })),
    silences: row.silences.map(([fromClient, cause, from, length, first, next]) => ({
      fromClient: fromClient === 1, meaning: names.stalls[cause], from: from * unit, to: (from + length) * unit, first, next,
    })),
    carried: byPacket(row.carried.map(([packet, exchange, behind, delay]) => ({ packet, exchange, behind: behind === 1, delay: delay === null ? null : delay * unit }))),
    sums: way(row.sums, (sums) => readSums(sums, names, unit)),
    trips: way(row.trips, (columns) => readTrips(columns, unit)),
  };
}

function byPacket(rows) {
  const result = new Map();
  for (const row of rows) result.set(row.packet, [...(result.get(row.packet) ?? []), row]);
  return result;
}

function readPackets(row, kinds, unit) {
  const sacks = new Map(row.sacks.map(([place, ...blocks]) => [place, blocks]));
  const sides = { true: { end: 0, acked: 0, window: 0 }, false: { end: 0, acked: 0, window: 0 } };
  let no = 0;
  let time = 0;
  return row.packet.map((step, place) => {
    no += step;
    time += row.time[place];
    const kind = kinds[row.kind[place]];
    const side = sides[kind.fromClient];
    const offset = side.end + row.offset[place];
    side.end = offset + row.bytes[place];
    side.acked += row.acked[place];
    side.window += row.window[place];
    const blocks = sacks.get(place) ?? [];
    const { acked } = side;
    return {
      no, time: time * unit, ...kind, bytes: row.bytes[place], offset, end: side.end, acked, window: side.window < 0 ? null : side.window,
      flight: row.flight[place], left: row.left[place],
      sacks: Array.from({ length: blocks.length / 2 }, (_, at) => ({ from: acked + blocks[2 * at], to: acked + blocks[2 * at] + blocks[2 * at + 1] })),
    };
  });
}

function readSums(row, names, unit) {
  return {
    ...row,
    again: row.again.map(([code, segments, needless]) => ({ mechanism: names.mechanisms[code], segments, needless })),
    held: row.held.map(([code, count, ns, longest]) => ({ limit: names.limits[code], kind: code, count, ns: ns * unit, longest: longest * unit })),
    limited: row.limited.map(([code, ns, longest]) => ({ limit: names.senderLimits[code], kind: code, ns: ns * unit, longest: longest * unit })),
    missing: new Map(row.missing.map((count, code) => [names.holes[code], count])),
    trips: row.trips === null ? null : { count: row.trips[0], least: row.trips[1] * unit, median: row.trips[2] * unit, most: row.trips[3] * unit },
  };
}

function readTrips(columns, unit) {
  if (columns === null) return [];
  const [times, trips, smoothed, packets] = columns;
  let [time, packet] = [0, 0];
  return times.map((step, place) => {
    time += step;
    packet += packets[place];
    return { time: time * unit, trip: trips[place] * unit, smoothed: smoothed[place] * unit, packet };
  });
}

const LABELS = {
  original: "data", "dup ack": "duplicate ACK", "keep alive": "keep-alive", "keep alive ack": "keep-alive ACK", "zero window": "window of 0",
  "zero window probe": "zero-window probe", "network duplicate": "duplicated on the way", reordered: "reordered on the way",
};
const FLAGS_SAY_IT = new Set(["syn", "fin", "rst", "ack", "other"]);
const MECHANISMS_IN_FULL = {
  fast: "fast, on the receiver’s reports", tlp: "by a tail loss probe", rto: "after a timeout", "after rto": "going on after a timeout", unknown: "by a mechanism that is not known",
};
const MECHANISMS = { fast: "fast", tlp: "tail loss probe", rto: "after a timeout", "after rto": "going on after a timeout", syn: "sent again", unknown: "mechanism not known" };

/** What a packet is, in words: its label, how it came to be sent again, and whether needlessly. */
export function packetWords({ label, flags, mechanism, needless }) {
  const name = FLAGS_SAY_IT.has(label) ? flags || label : LABELS[label] ?? label;
  return [name, MECHANISMS[mechanism] ?? mechanism, needless ? "needless" : null].filter(Boolean).join(", ");
}

/** Whom a repeat delayed, and by how much, as words; empty where that is not known. */
export function delays(trace, { no }) {
  return (trace.carried.get(no) ?? []).filter(({ delay }) => delay).map(({ exchange, behind, delay }) => `${behind ? "held up" : "delayed"} exchange ${exchange} by ${duration(delay)}`);
}

/** How a sender came to send again, in words: behind a comma or a number, or to end a sentence. */
export function mechanismWords(mechanism, inFull = false) {
  return (inFull ? MECHANISMS_IN_FULL[mechanism] : MECHANISMS[mechanism]) ?? MECHANISMS.unknown;
}
