// The data of the report, read back from the compact form that payload.py writes.
// Durations and instants in here are ns since the capture's first packet.

import { readStreams } from "./events.js";
import { readTraces } from "./traces.js";

const LOST = 32;
const INFERRED = 64;
const PHASE_NAMES = ["DNS", "Connect", "TLS", "Idle", "Send", "Wait", "Receive"];
export const SEVERITIES = ["critical", "warning", "info"];
export const NONE = 3; // index behind the severities

/**
 * Read the columns. Arrays have one element an exchange unless said otherwise, by its number; of
 * a capture with very many only those of `store.listed` are filled.
 */
export function readStore(data) {
  const text = (number) => data.strings[number];
  const unit = data.unit;
  const causes = data.causes.map(([name, title, lostTitle, group, meaning, spent, pause]) => ({ name, title, lostTitle, group, meaning, spent, pause }));
  const rows = data.exchanges;
  const count = rows.count;
  const listed = rows.listed === null ? Array.from({ length: count }, (_, no) => no) : numbersOf(rows.listed);
  const spread = (values) => spreadOver(listed, values, count);
  const start = spread(running(rows.start, unit));
  const ledger = readLedger(data.ledger, listed, start, unit);
  const shapes = rows.shapes.map(([method, protocol, kind, status, grpcStatus, flags]) => ({
    method: text(method), protocol: text(protocol), kind: text(kind), status, grpcStatus, ...bits(flags),
  }));
  const fieldSets = { requestFields: spread(rows.requestFields), answerFields: spread(rows.answerFields) };
  const store = {
    unit, text, causes, count, listed, start, ledger, shapes, shape: spread(rows.shape),
    version: data.version, epoch: data.epoch, verdict: data.verdict, about: data.about, files: data.files,
    docs: data.docs,
    end: new Float64Array(count),
    request: new Float64Array(count),
    answer: spread(rows.answer.map((offset, place) => (offset < 0 ? null : start[listed[place]] + offset * unit))),
    connection: spread(rows.connection),
    sent: spread(rows.sent),
    received: spread(rows.received),
    host: spread(rows.host.map(text)),
    path: spread(rows.path.map(text)),
    phases: readPhases(rows, listed, unit),
    bounds: readBounds(rows.packets, listed),
    severity: new Uint8Array(count).fill(NONE),
    findingsOf: new Map(),
    stream: new Map(rows.streams),
    firstContent: new Map(rows.firstContent.map(([no, value]) => [no, value * unit])),
    missing: new Map(rows.missing),
    interim: new Map(rows.interim),
    records: new Map(rows.records),
    lookupOf: new Map(rows.lookups),
    attempts: new Map(rows.attempts),
    fields: (column, no) => rows.fieldSets[fieldSets[column][no]].map((pair) => {
      const [name, value, trailer, doubtful] = rows.pairs[pair];
      return { name: text(name), value: text(value), trailer, doubtful };
    }),
  };
  listed.forEach((no, place) => {
    store.request[no] = start[no] + rows.request[place] * unit;
    const last = ledger.first[no + 1] - 1;
    store.end[no] = last >= ledger.first[no] ? ledger.to[last] : start[no];
  });
  store.streams = readStreams(data.events, text, unit, store.request);
  store.asked = new Map(data.events.requests.map(([no, model, maxTokens]) => [no, { model: text(model), maxTokens }]));
  store.total = (no) => store.end[no] - start[no];
  store.look = (no) => shapes[store.shape[no]];
  store.listedConnections = readConnections(data.connections, text); // in order of their numbers
  store.connectionCount = data.connections.count;
  store.connections = []; // by number
  for (const connection of store.listedConnections) store.connections[connection.no] = connection;
  store.lookups = []; // by number
  for (const [no, ...row] of data.lookups) store.lookups[no] = readLookup(row, text, unit);
  store.records = readRecords(data.records, unit);
  store.chainOf = readChains(data.chains, text);
  store.handshakes = readHandshakes(data.handshakes, text, unit);
  store.packets = readPackets(data.packets, text, unit);
  store.traces = readTraces(data.traces, text, unit);
  store.findings = readFindings(data.findings, text, store);
  store.exchangesOf = new Map();
  for (const no of listed) {
    const connection = store.connection[no];
    if (!store.exchangesOf.has(connection)) store.exchangesOf.set(connection, []);
    store.exchangesOf.get(connection).push(no);
  }
  store.to = listed.reduce((most, no) => Math.max(most, store.end[no]), 1);
  store.from = listed.reduce((least, no) => Math.min(least, start[no]), store.to);
  // The lanes begin with the capture where its first exchange does, nearly.
  if (store.from > 0 && store.from < store.to / 20) store.from = 0;
  return store;
}

/** Numbers from [gap, run, gap, run ...]: skip so many, take so many. */
function numbersOf(ranges) {
  const numbers = [];
  let next = 0;
  for (let place = 0; place < ranges.length; place += 2) {
    next += ranges[place];
    for (let run = 0; run < ranges[place + 1]; run += 1, next += 1) numbers.push(next);
  }
  return numbers;
}

/** Values of the listed exchanges at their numbers. */
function spreadOver(listed, values, count) {
  if (listed.length === count) return values;
  const result = new Array(count);
  listed.forEach((no, place) => { result[no] = values[place]; });
  return result;
}

function byConnection(rows) {
  const result = new Map();
  for (const row of rows) {
    if (!result.has(row.connection)) result.set(row.connection, []);
    result.get(row.connection).push(row);
  }
  return result;
}

function running(differences, unit) {
  const values = new Float64Array(differences.length);
  let value = 0;
  differences.forEach((difference, place) => {
    value += difference;
    values[place] = value * unit;
  });
  return values;
}

function bits(flags) {
  return {
    inferred: (flags & 1) > 0, reset: (flags & 2) > 0, complete: (flags & 4) > 0, shared: (flags & 8) > 0,
    setup: (flags & 16) > 0, cut: (flags & 32) > 0,
  };
}

/** Entries of all listed exchanges; those of exchange n are first[n] up to first[n + 1]. */
function readLedger(columns, listed, start, unit) {
  const size = columns.time.length;
  const ledger = {
    first: new Uint32Array(start.length + 1),
    from: new Float64Array(size),
    to: new Float64Array(size),
    cause: new Uint8Array(size),
    lost: new Uint8Array(size),
    inferred: new Uint8Array(size),
    packetA: new Int32Array(size),
    packetB: new Int32Array(size),
    packetC: new Map(columns.third),
  };
  let entry = 0;
  let packet = 0;
  let next = 0; // the exchange whose first entry is to be noted
  columns.count.forEach((entries, place) => {
    const no = listed[place];
    for (; next <= no; next += 1) ledger.first[next] = entry;
    let at = start[no];
    for (const last = entry + entries; entry < last; entry += 1) {
      ledger.from[entry] = at;
      at += columns.time[entry] * unit;
      ledger.to[entry] = at;
      const code = columns.cause[entry];
      ledger.cause[entry] = code & 31;
      ledger.lost[entry] = code & LOST ? 1 : 0;
      ledger.inferred[entry] = code & INFERRED ? 1 : 0;
      ledger.packetA[entry] = packet + columns.first[entry];
      packet = ledger.packetA[entry] + columns.second[entry];
      ledger.packetB[entry] = packet;
    }
  });
  for (; next <= start.length; next += 1) ledger.first[next] = entry;
  return ledger;
}

/** Per exchange a function's worth of data: names and durations of its phases, in order. */
function readPhases(rows, listed, unit) {
  const places = new Uint32Array(rows.count);
  let place = 0;
  for (const no of listed) {
    places[no] = place;
    const mask = rows.masks[rows.phases[place]];
    place += 1;
    for (let bit = 0; bit < PHASE_NAMES.length; bit += 1) if (mask & (1 << bit)) place += 1;
  }
  return (no) => {
    let at = places[no];
    const mask = rows.masks[rows.phases[at]];
    const result = [];
    PHASE_NAMES.forEach((name, bit) => {
      if (mask & (1 << bit)) {
        at += 1;
        result.push({ name, ns: rows.phases[at] * unit });
      }
    });
    return result;
  };
}

function readBounds(column, listed) {
  const values = new Int32Array(column.length);
  const placeOf = new Map(listed.map((no, place) => [no, place]));
  let last = 0;
  column.forEach((difference, place) => {
    if (difference === null) return; // stays 0
    last += difference;
    values[place] = last;
  });
  return (no) => {
    const [requestFirst, requestLast, responseFirst, responseLast] = values.subarray(4 * placeOf.get(no), 4 * placeOf.get(no) + 4);
    return { requestFirst, requestLast, responseFirst, responseLast };
  };
}

function readConnections({ listed, rows }, text) {
  return rows.map(([
    tcpStream, server, client, serverEnd, protocol, alpn, from, to, firstPacket, lastPacket, packetCount, clientBytes,
    serverBytes, side, sideConfidence, rtt, clientRtt, serverRtt, synAgain, sentAgain, needless, missing, resetBy,
    refused, preconnected, rolesCertain, lookup, tls,
  ], place) => ({
    no: listed === null ? place : listed[place], tcpStream, server: text(server), client: text(client), serverEnd: text(serverEnd), protocol: text(protocol),
    alpn: text(alpn), from, to, firstPacket, lastPacket, packetCount, clientBytes, serverBytes, side: text(side),
    sideConfidence, rtt, clientRtt, serverRtt, synAgain, sentAgain, needless, missing, resetBy: text(resetBy),
    refused: refused === 1, preconnected: preconnected === 1, rolesCertain: rolesCertain === 1, lookup,
    tls: tls === null ? null : readTls(tls, text),
  }));
}

function readTls([version, suite, resumed, retried, earlyData, stapled, alert, decrypted, whyNot, ns, certain, group, earlyAccepted, renegotiations, secureRenegotiation, ech, outerName, tunnelled], text) {
  return {
    version: text(version), suite: text(suite), resumed, retried: retried === 1, earlyData, stapled, alert: text(alert),
    decrypted: text(decrypted), whyNot: text(whyNot), ns, certain: certain === 1, group: text(group),
    earlyAccepted, renegotiations, secureRenegotiation, ech: text(ech), outerName: text(outerName), tunnelled: Boolean(tunnelled),
  };
}

function readLookup([name, type, server, from, to, rcode, questions, packets], text, unit) {
  return {
    name: text(name), type: text(type), server: text(server), from: from * unit, to: to === null ? null : to * unit,
    rcode: text(rcode), questions, packets,
  };
}

/** The records of each connection with TLS; see `records.js`. */
function readRecords(rows, unit) {
  const side = (facts) => {
    if (!facts) return null;
    const [records, content, inferred, overhead, tiny, inOne, aligned, first, median, largest, sizing, restarts] = facts;
    return { records, content, inferred: inferred === 1, overhead, tiny, inOne, aligned, first, median, largest, sizing: ["unknown", "constant", "grows"][sizing], restarts };
  };
  const drawn = (steps, length) => {
    let at = 0;
    return { time: steps.map((step) => (at += step) * unit), length };
  };
  return new Map(rows.map(([no, client, server, points, telling]) => [no, {
    client: side(client), server: side(server), telling: telling === 1,
    points: points && [drawn(points[0], points[1]), drawn(points[2], points[3])],
  }]));
}

/** The certificates of each connection that showed some. */
function readChains(rows, text) {
  const chainOf = new Map();
  for (const [connections, certificates] of rows) {
    const chain = certificates.map(([
      name, names, length, keyType, from, to, daysLeft, begun, selfSigned, mustStaple, responder, stapleBytes, status,
      stapleTo, stapleFresh, stapleForThis,
    ]) => ({
      name: text(name), names, length, keyType: text(keyType), from: text(from), to: text(to), daysLeft, begun, selfSigned,
      mustStaple, responder: text(responder), stapleBytes, status: text(status), stapleTo: text(stapleTo), stapleFresh, stapleForThis,
    }));
    for (const connection of connections) chainOf.set(connection, chain);
  }
  return chainOf;
}

/** The handshakes by connection; see `handshake.js`. */
function readHandshakes(rows, text, unit) {
  return new Map(rows.map(([connection, roundTrips, flight, window, secondPart, network, server, client, unknown, steps]) => [connection, {
    roundTrips, flight, window, secondPart: secondPart === 1, network: network * unit, server: server * unit,
    client: client * unit, unknown: unknown * unit, steps: steps.map((step) => readStep(step, text, unit)),
  }]));
}

function readStep([name, flags, time, bytes, first, more, network, own, unknown], text, unit) {
  return {
    name: text(name), fromClient: (flags & 1) === 1, certain: (flags & 2) !== 0, data: (flags & 4) !== 0,
    time: time * unit, size: bytes, first, last: first + more, network: network * unit, own: own * unit, unknown: unknown * unit,
  };
}

/** The listed packets, ascending; find(packet_no) gives one or null. */
function readPackets(columns, text, unit) {
  const kinds = columns.kinds.map(([fromClient, flags, label, mechanism, spurious]) => ({
    fromClient, flags: text(flags), label: text(label), mechanism: text(mechanism), spurious: text(spurious),
  }));
  let no = 0;
  let time = 0;
  const list = columns.no.map((difference, place) => {
    no += difference;
    const step = columns.time[place];
    if (step !== null) time += step;
    return {
      no, time: step === null ? null : time * unit, connection: columns.connection[place], bytes: columns.bytes[place],
      ...kinds[columns.kind[place]],
    };
  });
  const byNumber = new Map(list.map((packet) => [packet.no, packet]));
  const ofConnection = byConnection(list);
  return {
    all: columns.all, total: columns.total, listed: list.length,
    find: (number) => byNumber.get(number) ?? null,
    of: (connection) => ofConnection.get(connection) ?? [],
  };
}

function readFindings(rows, text, store) {
  return rows.map((row, no) => {
    const exchanges = numbersOf(row.exchanges).filter((exchange) => store.connection[exchange] !== undefined);
    const level = SEVERITIES.indexOf(row.severity);
    for (const exchange of exchanges) {
      if (level < store.severity[exchange]) store.severity[exchange] = level;
      if (!store.findingsOf.has(exchange)) store.findingsOf.set(exchange, []);
      store.findingsOf.get(exchange).push(no);
    }
    return {
      no, ...row, exchanges, summary: text(row.summary), advice: text(row.advice), filter: text(row.filter),
      doc: store.docs[row.detector] ?? {},
      measures: row.measures.map(([name, value]) => [text(name), Array.isArray(value) ? text(value[0]) : value]),
    };
  });
}

/** An exchange's name in a sentence. */
export function nameOf(store, no) {
  const look = store.look(no);
  const place = `${store.host[no] ?? ""}${store.path[no] ?? ""}`;
  return look.protocol === "opaque" ? `${place}, ${hiddenBy(store, no)}` : `${look.method ?? ""} ${place}`.trim();
}

/** Why an opaque exchange has no path. */
export function hiddenBy(store, no) {
  return store.connections[store.connection[no]].tls ? "encrypted" : "not readable";
}

/** What stands in the protocol column. */
export function protocolOf(store, no) {
  const look = store.look(no);
  if (look.protocol === "opaque") return (store.connections[store.connection[no]].tls ? "TLS" : "opaque") + (store.streams.has(no) ? ", stream" : "");
  return look.kind === "http" ? look.protocol : look.kind;
}

/** The protocol in full. */
export function protocolInFull(store, no) {
  const look = store.look(no);
  if (look.protocol === "opaque") return protocolOf(store, no);
  const kind = { sse: ", event stream", grpc: ", gRPC", websocket: ", WebSocket" }[look.kind] ?? "";
  const name = { h2: "HTTP/2", h3: "HTTP/3" }[look.protocol] ?? look.protocol.toUpperCase();
  const number = store.stream.has(no) ? `, stream ${store.stream.get(no)}` : "";
  return name + number + kind;
}

/** What stands in the status column: {text, bad}. */
export function statusOf(store, no) {
  const look = store.look(no);
  if (look.status !== null) return { text: String(look.status), bad: look.status >= 400 };
  if (look.reset) return { text: "reset", bad: true };
  if (look.cut) return { text: "cut", bad: false };
  return { text: "–", bad: false };
}
