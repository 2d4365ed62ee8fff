// Events of streamed answers, read back from the compact form that streams.py writes.
// Instants are ns since the capture's first packet, lengths are ns.

/**
 * By exchange number: what a stream says as a whole, and in `drawn` its events or null.
 * `inferred` is the confidence with which events were inferred from TLS records; null: they were read.
 */
export function readStreams(columns, text, unit, request) {
  const streams = new Map();
  for (const [no, total, ended, markerKnown, finish, error, inputTokens, outputTokens, undecoded, inferred] of columns.facts) {
    streams.set(no, {
      total, ended: ended === 1, markerKnown: markerKnown === 1, finish: text(finish), error: text(error),
      inputTokens, outputTokens, undecoded: undecoded === 1, inferred, drawn: null,
    });
  }
  const size = columns.time.length;
  const time = new Float64Array(size);
  const seen = new Float64Array(size);
  const ordered = new Float64Array(size);
  const packet = new Int32Array(size);
  let place = 0;
  for (const row of columns.drawn) {
    const stream = readDrawn(row, unit);
    const first = place;
    let at = request[stream.no];
    let number = 0;
    for (; place < first + stream.kept; place += 1) {
      at += columns.time[place] * unit;
      number += columns.packet[place];
      time[place] = at;
      seen[place] = at;
      ordered[place] = at;
      packet[place] = number;
    }
    const part = (column) => column.slice(first, place);
    Object.assign(stream, {
      time: time.subarray(first, place), seen: seen.subarray(first, place), ordered: ordered.subarray(first, place),
      packet: packet.subarray(first, place), kind: part(columns.kind).map((code) => columns.kinds[code]), bytes: part(columns.bytes),
    });
    if (streams.has(stream.no)) streams.get(stream.no).drawn = stream;
  }
  for (const [late, since, waited] of columns.late) {
    seen[late] -= since * unit;
    ordered[late] -= waited * unit;
  }
  return streams;
}

function readDrawn([no, kept, content, gaps, median, most, longest, pauses, bounds, bars], unit) {
  const spans = [];
  for (let at = 0; at < pauses.length; at += 2) spans.push({ from: pauses[at] * unit, to: (pauses[at] + pauses[at + 1]) * unit });
  return {
    no, kept, content, gaps, median: median * unit, most: most * unit, longest: longest * unit, pauses: spans,
    bounds: bounds.map((bound) => bound * unit),
    bars: bars.map(([bar, code, number]) => ({ bar, cause: code < 0 ? null : code & 31, lost: code >= 32, number })),
  };
}
