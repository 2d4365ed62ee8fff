// The TLS records of a connection: how each side cuts its data into them, and their sizes over time.

import { el } from "./dom.js";
import { count, duration, share, size, whole } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 108;
const MARGIN = 6;
const LARGEST = 14.3; // log2 of the longest record, and a little
const LEAST = 4; // log2 of 16 bytes
const LINES = [[64, "64 B"], [1400, "1.4 KB"], [16384, "16 KB"]];

/** The records of a connection; null if none of them holds application data. */
export function recordsFigure(store, connection) {
  const row = store.records.get(connection.no);
  if (!row) return null;
  return el("div", { class: "records" },
    el("h4", {}, "TLS records", el("span", { class: "aside" }, "of application data")),
    row.telling ? el("p", { class: "second" }, "Each event of the stream has a record of its own, and none is padded: their lengths tell everyone on the path how long each token is. TLS 1.3 can pad records (RFC 8446, section 5.4).") : null,
    row.points ? picture(row) : null,
    el("dl", { class: "pairs" }, [["Client", row.client], ["Server", row.server]].filter(([, side]) => side).map(([who, side]) => [el("dt", {}, who), el("dd", {}, words(side))])));
}

function words(side) {
  const total = side.content + side.overhead;
  return [
    `${count(side.records, "record")}, ${side.inferred ? "at most " : ""}${size(side.content)} of content`,
    `${size(side.overhead)} of framing${total ? ` (${share(side.overhead, total)})` : ""}`,
    `first ${size(side.first)}, median ${size(side.median)}, largest ${size(side.largest)}`,
    `${whole(side.inOne)} in one segment, ${whole(side.aligned)} end with one`,
    side.tiny ? `${whole(side.tiny)} of 16 bytes or less` : null,
    { grows: `sizes grow from small ones${side.restarts ? `, ${count(side.restarts, "time")} anew after a pause` : ""} (dynamic record size)`, constant: "full records of one size from the beginning" }[side.sizing],
  ].filter(Boolean).join("; ");
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Lengths on a logarithmic scale over time, a dot a record. */
function picture(row) {
  const times = row.points.flatMap((side) => side.time);
  const from = Math.min(...times);
  const long = Math.max(Math.max(...times) - from, 1);
  const y = (bytes) => MARGIN + (HEIGHT - 2 * MARGIN) * (1 - (Math.log2(Math.max(bytes, 16)) - LEAST) / (LARGEST - LEAST));
  const lines = LINES.map(([bytes]) => draw("line", { x1: "0", x2: "100%", y1: y(bytes), y2: y(bytes), class: "grid" }));
  const dots = row.points.flatMap((side, place) => side.time.map((time, index) => draw("circle", {
    cx: `${1 + 98 * (time - from) / long}%`, cy: y(side.length[index]), r: 1.8, class: place ? "from-server" : "from-client",
  })));
  const label = `Sizes of ${count(dots.length, "record")} over ${duration(long)}`;
  return el("div", { class: "record-picture" },
    el("div", { class: "scale third", "aria-hidden": "true" }, LINES.map(([bytes, text]) => {
      const mark = el("span", {}, text);
      mark.style.top = `${y(bytes)}px`;
      return mark;
    })),
    el("div", {}, draw("svg", { width: "100%", height: HEIGHT, role: "img", "aria-label": label }, ...lines, ...dots),
      el("p", { class: "legend" }, row.points.map((side, place) => (side.time.length ? el("span", {}, el("span", { class: `dot ${place ? "from-server" : "from-client"}` }), place ? "server" : "client") : null)),
        el("span", { class: "third" }, `${duration(long)} from the first record to the last`))));
}
