// One exchange: what it took, its phases and causes, request and answer, packets, connection.

import { button, captured, copy, el, fill, fillOf } from "./dom.js";
import { count, duration, exactMs, instant, share, size, whole } from "./numbers.js";
import { nameOf, protocolInFull, statusOf } from "./store.js";
import { colour } from "./theme.js";
import { drawBar, prepared } from "./bars.js";
import { TimeScale } from "./timescale.js";
import { connectionFacts, traceLink } from "./connections.js";
import { handshakeFigure } from "./handshake.js";
import { recordsFigure } from "./records.js";
import { StreamView, requestFacts, streamFacts } from "./stream.js";
import { packetWords } from "./traces.js";

const MOST_PACKETS = 200; // rows at first; more on request
const MOST_ENTRIES = 400; // ledger entries listed one by one

/** The place of the exchange under the waterfall. `actions`: onMove(step), onClose(), onFinding(no), onTrace(connection, from, to), onPacket(no, connection). */
export class Detail {
  constructor(store, paints, actions) {
    this.store = store;
    this.paints = paints;
    this.actions = actions;
    this.no = null;
    this.stream = null;
    this.section = el("section", { id: "exchange", class: "detail", hidden: true, "aria-labelledby": "exchange-title" });
    // In a frame of its own: what is drawn may change the section's size.
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.section);
  }

  show(no) {
    this.no = no;
    this.stream?.drop();
    this.stream = this.store.streams.has(no) ? new StreamView(this.store, this.paints, no) : null;
    const connection = this.store.connections[this.store.connection[no]];
    this.section.hidden = false;
    fill(this.section, this.#title(no), this.#lead(no), this.#bars(no), this.#sum(no), this.stream?.element,
      el("div", { class: "parts" }, this.#ledger(no), this.#messages(no), this.#packets(no), this.#connection(no), handshakeFigure(this.store, connection), recordsFigure(this.store, connection)));
    this.draw();
  }

  hide() {
    this.no = null;
    this.stream?.drop();
    this.stream = null;
    this.section.hidden = true;
    fill(this.section);
  }

  #title(no) {
    const { store, actions } = this;
    const copier = button("Copy filter", { title: filterOf(store, no) }, () => copy(filterOf(store, no), copier));
    return el("div", { class: "title" },
      el("h2", { id: "exchange-title" }, el("span", { class: "aside" }, `Exchange ${no}`), captured(nameOf(store, no))),
      el("span", { class: "joined" },
        button("↑", { "aria-label": "Previous exchange" }, () => actions.onMove(-1)),
        button("↓", { "aria-label": "Next exchange" }, () => actions.onMove(1))),
      copier, button("Close", { "aria-keyshortcuts": "Escape" }, () => actions.onClose()));
  }

  #lead(no) {
    const { store } = this;
    const look = store.look(no);
    const total = store.total(no);
    const strong = (ns) => el("b", { class: "strong" }, duration(ns));
    const parts = [look.cut ? "The capture ends after " : "Took ", strong(total)];
    if (store.firstContent.has(no)) parts.push(", first content after ", strong(store.firstContent.get(no)));
    else if (store.answer[no] !== null) parts.push(", first byte of the answer after ", strong(store.answer[no] - store.request[no]), " from the request");
    parts.push(". ");
    const sums = sumsByCause(store.ledger, no);
    const lost = sums.filter((sum) => sum.lost).sort((a, b) => b.ns - a.ns);
    const top = lost[0] ?? [...sums].sort((a, b) => b.ns - a.ns)[0];
    if (top && total > 0) {
      const cause = store.causes[top.cause];
      parts.push(lost.length ? "Lost: " : "Most of it: ", strong(top.ns), ` (${share(top.ns, total)}) ${cause.spent}${lost.length && cause.group === "server" ? this.#soundWay(no, sums) : ""}. `);
    }
    if (look.inferred) parts.push("Inferred from packets: what is inside is encrypted. ");
    if (look.reset) parts.push("A reset ended it. ");
    if (store.missing.has(no)) parts.push(`${size(store.missing.get(no))} of it are missing from the capture. `);
    const links = (store.findingsOf.get(no) ?? []).slice(0, 12).map((finding, place) => [place ? ", " : "",
      el("a", { href: `#finding-${finding + 1}`, on: { click: () => this.actions.onFinding(finding) } }, `Finding ${finding + 1}`)]);
    return el("p", { class: "lead" }, parts, links);
  }

  /** What speaks for the server being the one: that nothing was wrong on the way. */
  #soundWay(no, sums) {
    const connection = this.store.connections[this.store.connection[no]];
    const disturbed = sums.some(({ cause }) => ["path", "limit"].includes(this.store.causes[cause].group) || this.store.causes[cause].name === "capture_gap");
    return disturbed || connection.sentAgain || connection.missing ? "" : "; nothing was sent again and no window was full";
  }

  #bars(no) {
    this.phaseCanvas = el("canvas", { role: "img", "aria-label": `Phases: ${this.store.phases(no).map(({ name, ns }) => `${name} ${duration(ns)}`).join(", ")}` });
    this.causeCanvas = el("canvas", { role: "img", "aria-label": "Causes in order of time; the ledger below has the same in figures" });
    this.barSpace = el("div", { class: "canvas-space" }, this.phaseCanvas);
    return el("div", { class: "bars" }, el("span", {}, "Phases"), this.barSpace, el("span", {}, "Causes"), el("div", { class: "canvas-space" }, this.causeCanvas));
  }

  /** Draw the bars anew: after a change of width or theme. */
  draw() {
    if (this.no === null) return;
    const { store, no } = this;
    const width = this.barSpace.clientWidth;
    if (width < 10) return;
    const total = store.total(no) || 1;
    const start = store.start[no];
    const place = (ns) => ((ns - start) / total) * width;
    this.stream?.draw();
    this.#drawPhases(place, width);
    const context = prepared(this.causeCanvas, width, 46);
    drawBar(context, this.paints, store.ledger, store.ledger.first[no], store.ledger.first[no + 1], place, 0, width, 2, 20);
    const scale = new TimeScale(0, total, () => {});
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    for (const { ns, text } of scale.ticks(width, 120)) {
      const x = Math.round((ns / total) * width);
      context.fillStyle = colour("line");
      context.fillRect(Math.min(x, width - 1), 26, 1, 16);
      context.fillStyle = colour("third");
      if (x + 4 + context.measureText(text).width < width) context.fillText(text, x + 4, 39);
    }
  }

  #drawPhases(place, width) {
    const { store, no } = this;
    const context = prepared(this.phaseCanvas, width, 20);
    context.fillStyle = colour("surface");
    context.fillRect(0, 0, width, 20);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    let at = store.start[no];
    for (const { name, ns } of store.phases(no)) {
      const from = place(at);
      at += ns;
      context.fillStyle = colour("third");
      context.fillRect(Math.round(from), 0, 1, 20);
      const label = `${name} ${duration(ns)}`;
      context.fillStyle = colour("text");
      for (const text of [label, name]) {
        if (context.measureText(text).width + 8 < place(at) - from) {
          context.fillText(text, from + 5, 14);
          break;
        }
      }
    }
  }

  /** Phases and total to the last digit. */
  #sum(no) {
    const { store } = this;
    const phases = store.phases(no);
    const sum = phases.reduce((ns, phase) => ns + phase.ns, 0);
    const terms = phases.map(({ name, ns }) => `${name} ${exactMs(ns, store.unit)}`).join(" + ");
    return el("p", { class: "sum mono" }, `${terms} = ${exactMs(sum, store.unit)} ms`);
  }

  #ledger(no) {
    const { store } = this;
    const total = store.total(no);
    const sums = sumsByCause(store.ledger, no);
    const all = sums.reduce((ns, row) => ns + row.ns, 0);
    const rows = sums.map(({ cause, lost, ns }) => el("tr", {},
      el("td", {}, fillOf(store.causes[cause], lost, "swatch"), lost ? store.causes[cause].lostTitle : store.causes[cause].title, lost ? el("span", { class: "lost-tag" }, " lost") : null),
      el("td", { class: "number mono" }, exactMs(ns, store.unit)), el("td", { class: "number" }, share(ns, total))));
    return el("div", {}, el("h3", {}, "Ledger", el("span", { class: "aside" }, "every nanosecond once")),
      el("table", { class: "table" }, head(["Cause", ""], ["Time, ms", "number"], ["Share", "number"]), el("tbody", {}, rows),
        el("tfoot", {}, el("tr", {}, el("td", {}, "Total"), el("td", { class: "number mono" }, exactMs(all, store.unit)), el("td", { class: "number" }, "100\u00a0%")))),
      this.#inOrder(no));
  }

  /** The entries themselves, in order of time, made when asked for. */
  #inOrder(no) {
    const { store } = this;
    const { ledger } = store;
    const first = ledger.first[no];
    const last = ledger.first[no + 1];
    const details = el("details", {}, el("summary", {}, `${count(last - first, "entry").replace("entrys", "entries")} in order of time`));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const rows = [];
      for (let entry = first; entry < Math.min(last, first + MOST_ENTRIES); entry += 1) {
        const packets = [ledger.packetA[entry], ledger.packetB[entry], ledger.packetC.get(entry)].filter((packet) => packet > 0);
        rows.push(el("tr", {},
          el("td", { class: "number mono" }, exactMs(ledger.from[entry] - store.start[no], store.unit)),
          el("td", { class: "number mono" }, exactMs(ledger.to[entry] - ledger.from[entry], store.unit)),
          el("td", {}, store.causes[ledger.cause[entry]].title, ledger.inferred[entry] ? el("span", { class: "lost-tag" }, " inferred") : null),
          el("td", { class: "mono" }, [...new Set(packets)].join(", "))));
      }
      details.append(el("div", { class: "scroll" }, el("table", { class: "table" },
        head(["From, ms", "number"], ["Time, ms", "number"], ["Cause", ""], ["Packets", ""]), el("tbody", {}, rows))));
      if (last - first > MOST_ENTRIES) details.append(el("p", { class: "third" }, `${whole(last - first - MOST_ENTRIES)} more are in the JSON.`));
    });
    return details;
  }

  #messages(no) {
    const { store } = this;
    const look = store.look(no);
    const bounds = store.bounds(no);
    const records = store.records.get(no);
    const range = (from, to) => (from ? `, ${from === to ? `packet ${from}` : `packets ${from}–${to}`}` : "");
    const after = (ns) => `${duration(ns - store.request[no])} after the request`;
    const pairs = [
      ["Status", statusOf(store, no).text + (look.grpcStatus === null ? "" : `, gRPC ${look.grpcStatus}`)],
      store.interim.has(no) ? ["Before it", store.interim.get(no).join(", ")] : null,
      ["Protocol", protocolInFull(store, no)],
      ["Begin", `${instant(store.start[no])}${store.request[no] === store.start[no] ? "" : `, request ${instant(store.request[no])}`}`],
      ["Request", size(store.sent[no]) + (records?.[0] ? `, ${count(records[0], "record")}` : "") + range(bounds.requestFirst, bounds.requestLast)],
      ["Answer", size(store.received[no]) + (records?.[1] ? `, ${count(records[1], "record")}` : "") + range(bounds.responseFirst, bounds.responseLast)],
      store.answer[no] === null ? null : ["First byte", after(store.answer[no])],
      store.firstContent.has(no) ? ["First content", `${duration(store.firstContent.get(no))} after the request`] : null,
      ...requestFacts(store, no), ...streamFacts(store, no),
      store.lookupOf.has(no) ? ["Name", this.#lookup(store.lookupOf.get(no))] : null,
      store.attempts.has(no) ? ["Tried before", `connections ${store.attempts.get(no).join(", ")}`] : null,
      look.shared ? ["Beside it", "other exchanges were open on the connection"] : null,
      look.complete || look.cut || look.inferred ? null : ["End", "not by its own framing"],
    ];
    return el("div", {}, el("h3", {}, "Request and answer"), definition(pairs),
      fieldList("Request fields", store.fields("requestFields", no)), fieldList("Answer fields", store.fields("answerFields", no)));
  }

  #lookup(no) {
    const lookup = this.store.lookups[no];
    return lookup ? lookupText(lookup) : `lookup ${no}`;
  }

  #packets(no) {
    const { store } = this;
    const { rows, complete } = packetsOf(store, no);
    const body = el("tbody");
    const zero = store.request[no];
    const add = (from, to) => {
      for (const packet of rows.slice(from, to)) body.append(packetRow(store, packet, zero, this.actions));
    };
    add(0, MOST_PACKETS);
    const rest = rows.length - MOST_PACKETS;
    const more = rest > 0 ? button(`Show ${whole(rest)} more`, { class: "plain more" }, () => { add(MOST_PACKETS, rows.length); more.remove(); }) : null;
    return el("div", {}, el("h3", {}, "Packets", el("span", { class: "aside" }, "ms from the request")),
      rows.length ? el("div", { class: "list", tabindex: "0", role: "region", "aria-label": "Packets of the exchange" },
        el("table", { class: "table" }, head(["No.", ""], ["Time", "number"], ["", ""], ["Data", "number"], ["What", ""]), body), more) : null,
      complete ? null : el("p", { class: "third more" }, "This report lists only the packets that prove something. The filter above shows all."));
  }

  #connection(no) {
    const { store } = this;
    const connection = store.connections[store.connection[no]];
    const trace = traceLink(store, connection.no, () => this.actions.onTrace(connection.no, store.start[no], store.end[no]));
    return el("div", {}, el("h3", {}, `Connection ${connection.no}`), trace, definition(connectionFacts(store, connection)));
  }
}

/** Ledger time by cause, lost and ordinary apart, in order of first appearance. */
function sumsByCause(ledger, no) {
  const sums = new Map();
  for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
    const key = 2 * ledger.cause[entry] + ledger.lost[entry];
    sums.set(key, (sums.get(key) ?? 0) + ledger.to[entry] - ledger.from[entry]);
  }
  return [...sums].map(([key, ns]) => ({ cause: key >> 1, lost: key % 2 === 1, ns }));
}

/** Packets of an exchange: all of its connection in its time, else those that its ledger names. */
function packetsOf(store, no) {
  const connection = store.connection[no];
  if (store.packets.all) {
    const numbers = new Set([connection, ...(store.attempts.get(no) ?? [])]);
    const inTime = (packet) => packet.time === null || (packet.time >= store.start[no] && packet.time <= store.end[no]);
    const rows = [...numbers].flatMap((number) => store.packets.of(number)).filter(inTime);
    const lookup = store.lookupOf.has(no) ? store.lookups[store.lookupOf.get(no)] : undefined;
    for (const number of lookup?.packets ?? []) {
      const packet = store.packets.find(number);
      if (packet) rows.push(packet);
    }
    return { rows: rows.sort((a, b) => a.no - b.no), complete: true };
  }
  const { ledger } = store;
  const numbers = new Set();
  for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
    for (const number of [ledger.packetA[entry], ledger.packetB[entry], ledger.packetC.get(entry)]) if (number > 0) numbers.add(number);
  }
  for (const number of Object.values(store.bounds(no))) if (number > 0) numbers.add(number);
  const rows = [...numbers].sort((a, b) => a - b).map((number) => store.packets.find(number) ?? { no: number, time: null });
  return { rows, complete: false };
}

function packetRow(store, packet, zero, actions) {
  const direction = packet.fromClient === 1 ? "→" : packet.fromClient === 0 ? "←" : "";
  const said = { "→": "from the client", "←": "from the server" }[direction];
  const words = packet.label ? packetWords({ ...packet, needless: packet.spurious === "true" }) : "–";
  const inGraph = packet.connection >= 0 && store.traces.has(packet.connection);
  const number = inGraph ? button(packet.no, { class: "plain", "aria-label": `Packet ${packet.no}: show it over time` }, () => actions.onPacket(packet.no, packet.connection)) : packet.no;
  return el("tr", {}, el("td", { class: "mono" }, number),
    el("td", { class: "number mono" }, packet.time === null ? "–" : exactMs(packet.time - zero, store.unit)),
    el("td", { "aria-label": said, title: said }, direction), el("td", { class: "number" }, packet.bytes ? size(packet.bytes) : ""),
    el("td", {}, words));
}

/** A Wireshark filter for all packets of an exchange. */
function filterOf(store, no) {
  const connection = store.connections[store.connection[no]];
  const { requestFirst, responseLast, requestLast } = store.bounds(no);
  const first = store.look(no).setup ? connection.firstPacket : requestFirst || connection.firstPacket;
  const last = Math.max(responseLast, requestLast) || connection.lastPacket;
  const stream = connection.tcpStream === null ? "" : `tcp.stream == ${connection.tcpStream} && `;
  return `${stream}frame.number >= ${first} && frame.number <= ${last}`;
}

export function lookupText(lookup) {
  const answer = lookup.to === null ? "no answer" : `${lookup.rcode ?? "answered"} after ${duration(lookup.to - lookup.from)}`;
  const again = lookup.questions > 1 ? `, asked ${lookup.questions} times` : "";
  return `${lookup.name} ${lookup.type}: ${answer}${again}, by ${lookup.server}`;
}

export function head(...columns) {
  return el("thead", {}, el("tr", {}, columns.map(([text, kind]) => el("th", { scope: "col", class: kind }, text))));
}

/** Pairs of term and text; absent ones are left out. */
export function definition(pairs) {
  return el("dl", { class: "pairs" }, pairs.filter(Boolean).map(([term, text]) => [el("dt", {}, term), el("dd", {}, typeof text === "string" ? captured(text) : text)]));
}

function fieldList(title, fields) {
  if (!fields.length) return null;
  return el("details", {}, el("summary", {}, `${title}, ${fields.length}`),
    el("ul", { class: "fields" }, fields.map(({ name, value, trailer, doubtful }) => el("li", { class: "captured" },
      el("span", { class: "name" }, `${name}: `), value, trailer ? el("span", { class: "third" }, " trailer") : null, doubtful ? el("span", { class: "third" }, " not certain") : null))));
}
