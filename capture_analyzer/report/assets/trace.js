// A connection over time, under the table of connections: what its packets say in words, the graph
// of one direction, the packet that is chosen in it, and the same as tables.

import { announce, button, captured, el, fill, filterLine } from "./dom.js";
import { count, duration, exactMs, instant, share, size, whole } from "./numbers.js";
import { nameOf } from "./store.js";
import { Chart, hasCharts } from "./charts.js";
import { TimeScale } from "./timescale.js";
import { Direction, windowAbove } from "./direction.js";
import { SIGNS, placeOf, sequenceFigure } from "./sequence.js";
import { delays, mechanismWords, packetWords } from "./traces.js";

const AT_FIRST = 100; // packets listed; more on request
const MARGIN = 0.04; // of an exchange's time, left and right of it
const EDGE = 0.01; // of a connection's time, so that its first and last packet stand clear
const FEW = 40; // packets about one that a link leads to

/** The section. `actions`: onExchange(no), onConnection(no) when another connection is shown. */
export class TraceView {
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.no = null;
    this.chart = null;
    this.section = el("section", { id: "connection", class: "detail trace", hidden: true, "aria-labelledby": "connection-title" });
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.section);
  }

  /** Whether the report holds the packets of a connection. */
  has(no) {
    return this.store.traces.has(no);
  }

  /** Show a connection, whole or from one instant to another, and choose a packet of it. */
  show(no, { from = null, to = null, packet = null } = {}) {
    const trace = this.store.traces.get(no);
    if (!trace) return false;
    const fresh = this.no !== no;
    this.trace = trace;
    if (fresh) {
      this.no = no;
      const connection = this.store.connections[no];
      this.chosen = null;
      this.absent = null;
      this.fromClient = trace.sums.true.bytes > trace.sums.false.bytes;
      const [begin, end] = [connection.from, Math.max(connection.to, connection.from + 1e5)];
      this.scale = new TimeScale(begin - (end - begin) * EDGE, end + (end - begin) * EDGE, () => this.#zoomed());
    }
    if (packet !== null) this.#aim(packet);
    else if (from !== null) this.#range(from - (to - from) * MARGIN, to + (to - from) * MARGIN);
    this.section.hidden = false;
    this.#build();
    if (fresh) this.actions.onConnection(no);
    return true;
  }

  hide() {
    this.#drop();
    this.no = null;
    this.section.hidden = true;
    fill(this.section);
  }

  focus() {
    this.section.querySelector("h2").focus({ preventScroll: true });
  }

  draw() {
    this.chart?.draw();
    this.#mark();
  }

  /** Put the cursor where the chosen packet is; no chart is drawn anew for it. */
  #mark() {
    if (!this.chart) return;
    const { clientWidth, clientHeight } = this.chart.element;
    const place = this.chosen ? placeOf(this.direction, this.#view(), this.chosen, clientWidth, clientHeight) : null;
    this.cursor.hidden = place === null;
    this.ring.hidden = place === null;
    if (!place) return;
    this.cursor.style.transform = `translateX(${place.x}px)`;
    this.ring.style.transform = `translate(${place.x}px, ${place.y}px)`;
  }

  #view() {
    return { from: this.scale.from, to: this.scale.to, whole: [this.scale.least, this.scale.most], exchanges: this.exchanges };
  }

  #drop() {
    this.chart?.drop();
    this.chart = null;
  }

  #range(from, to) {
    const { onChange } = this.scale;
    this.scale.onChange = () => {};
    this.scale.show(from, to);
    this.scale.onChange = onChange;
  }

  /** Choose a packet, in its direction, with some packets about it; it may not be among those drawn. */
  #aim(number) {
    const { packets } = this.trace;
    const packet = this.trace.find(number);
    const listed = packet ?? this.store.packets.find(number);
    this.chosen = packet;
    this.absent = packet ? null : { no: number, ...listed };
    if (!listed || listed.time === null) return;
    // A packet without data answers the other direction's.
    const fromClient = listed.fromClient === true || listed.fromClient === 1;
    this.fromClient = listed.bytes || listed.mechanism || listed.flags?.includes("SYN") ? fromClient : !fromClient;
    if (packets.length > 3 * FEW) {
      const behind = packets.findIndex(({ time }) => time >= listed.time);
      const place = behind < 0 ? packets.length - 1 : behind;
      const [first, last] = [packets[Math.max(place - FEW, 0)], packets[Math.min(place + FEW, packets.length - 1)]];
      const reach = Math.max(listed.time - first.time, last.time - listed.time, 1e6);
      this.#range(listed.time - reach, listed.time + reach);
    } else {
      this.#range(this.scale.least, this.scale.most);
    }
  }

  #build() {
    this.#drop();
    const { store, trace } = this;
    const connection = store.connections[this.no];
    this.direction = new Direction(trace, this.fromClient);
    this.exchanges = store.exchangesOf.get(this.no) ?? [];
    const ways = [false, true].map((way) => button(
      `${way ? "From the client" : "From the server"}, ${size(trace.sums[way].bytes)}`, { "aria-pressed": String(way === this.fromClient) },
      () => { this.fromClient = way; this.#build(); this.section.querySelector(`.ways button[aria-pressed="true"]`).focus(); }));
    this.info = el("div", { class: "packet-info" });
    this.legend = el("p", { class: "legend" });
    fill(this.section,
      el("div", { class: "title" },
        el("h2", { id: "connection-title", tabindex: "-1" }, el("span", { class: "aside" }, `Connection ${this.no}`), captured(connection.server), " over time"),
        button("Close", { "aria-keyshortcuts": "Escape" }, () => this.hide())),
      el("p", { class: "lead" }, this.#lead()),
      el("div", { class: "trace-tools" }, el("span", { class: "joined ways", role: "group", "aria-label": "Direction of the data" }, ways), hasCharts() && this.#hasData() ? this.#zoom() : null),
      this.#graph(),
      this.info,
      el("div", { class: "trace-parts" }, this.#figures(), this.#packets()));
    this.#legendOf();
    this.#inform(false);
    this.draw();
  }

  // In words

  #lead() {
    const { sums, holes, queues } = this.direction;
    const { store, fromClient } = this;
    const connection = store.connections[this.no];
    const sender = fromClient ? "client" : "server";
    if (!this.#hasData()) return `No data was sent: ${connection.refused ? "the connection was refused" : "no connection came about, or nothing was said on it"}. The packets are below.`;
    if (!sums.segments) return `The ${sender} sent no data.`;
    const parts = [`The ${sender} sent ${size(sums.bytes)} in ${count(sums.segments, "segment")}, in ${duration(connection.to - connection.from)}. `];
    const asked = this.trace.packets.find(({ flags }) => flags === "SYN");
    const opened = this.trace.packets.find(({ flags }) => flags === "SYN, ACK");
    if (connection.synAgain && asked && opened) parts.push(`A SYN had to be sent again: the connection was answered after ${duration(opened.time - asked.time)}. `);
    const again = sums.again.filter(({ mechanism }) => mechanism !== "syn");
    const total = again.reduce((sum, row) => sum + row.segments, 0);
    const needless = again.reduce((sum, row) => sum + row.needless, 0);
    if (total) {
      const lost = holes.filter(({ kind }) => kind === "loss");
      const how = again.length === 1 ? ` ${mechanismWords(again[0].mechanism, true)}` : `: ${again.map((row) => `${whole(row.segments)} ${mechanismWords(row.mechanism)}`).join(", ")}`;
      const vain = !needless ? "" : total === 1 ? "; that was needless" : needless === total ? "; all needlessly" : `; ${needless} of them needlessly`;
      parts.push(`${count(total, "segment")} ${total === 1 ? "was" : "were"} sent again${how}${vain}. `,
        lost.length ? `The longest loss kept the receiver waiting for ${lost.some(({ to }) => to === null) ? "the rest of the capture" : duration(Math.max(...lost.map(({ from, to }) => to - from)))}. ` : "");
    } else {
      parts.push("Nothing was sent again. ");
    }
    const all = sums.limited.reduce((sum, { ns }) => sum + ns, 0);
    const most = [...sums.limited].filter(({ limit }) => limit.sentence).sort((a, b) => b.ns - a.ns)[0];
    if (most && most.ns >= all / 10) parts.push(`${most.limit.sentence} for ${share(most.ns, all)} of its time. `);
    const held = [...sums.held].sort((a, b) => b.ns - a.ns)[0];
    if (held) {
      const [often, inAll] = held.count === 1 ? ["once", ""] : [held.count === 2 ? "twice" : count(held.count, "time"), " in all"];
      parts.push(`${held.limit.subject} held it back ${often}, for ${duration(held.ns)}${inAll}. `);
    }
    const queue = [...queues].sort((a, b) => b.largest - a.largest)[0];
    if (queue) parts.push(`Round trips grew from ${duration(queue.smallest)} to ${duration(queue.largest)} while data flowed: a queue on the way. `);
    return parts;
  }

  #hasData() {
    return this.trace.sums.true.segments + this.trace.sums.false.segments > 0;
  }

  /** Why no window is known, in words. */
  #noWindow() {
    if (!this.direction.answers.length) return "none was offered";
    if (this.trace.packets.some(({ flags }) => flags?.includes("SYN"))) return "not known: its scale could not be read";
    return "not known: its scale is in the handshake, which is not in the capture";
  }

  // The graph

  #graph() {
    if (!this.#hasData()) return null;
    if (!hasCharts()) return el("p", { class: "second more" }, "This report was written without charts. The tables below say what the graph would show.");
    const label = `Bytes over time of connection ${this.no}, from the ${this.fromClient ? "client" : "server"}. The text above and the tables below say what it shows; arrow keys step through its packets.`;
    this.chart = new Chart("graph", label, (width, height) => sequenceFigure(this.store, this.direction, this.#view(), width, height), {
      plotly_click: ({ points }) => this.#clicked(points[0]?.customdata),
      plotly_relayout: (change) => this.#relayout(change),
      plotly_doubleclick: () => this.scale.reset(),
    });
    this.cursor = el("div", { class: "cursor", hidden: true });
    this.ring = el("div", { class: "ring", hidden: true });
    this.chart.element.append(this.cursor, this.ring);
    const frame = el("div", { class: "graph-frame", tabindex: "0", role: "group", "aria-label": label, on: { keydown: (event) => this.#key(event) } }, this.chart.element);
    return [frame, this.legend];
  }

  #zoom() {
    const shift = (part) => () => this.scale.move(part);
    this.wholeButton = button("Whole connection", { "aria-keyshortcuts": "0" }, () => this.scale.reset());
    return [
      el("span", { class: "joined", role: "group", "aria-label": "Zoom" },
        button("−", { "aria-label": "Zoom out", "aria-keyshortcuts": "-" }, () => this.scale.zoom(2)), this.wholeButton,
        button("+", { "aria-label": "Zoom in", "aria-keyshortcuts": "+" }, () => this.scale.zoom(0.5))),
      el("span", { class: "joined", role: "group", "aria-label": "Move in time" },
        button("←", { "aria-label": "Earlier" }, shift(-0.5)), button("→", { "aria-label": "Later" }, shift(0.5))),
      el("span", { class: "joined", role: "group", "aria-label": "Marked packets" },
        button("Previous mark", {}, () => this.#step(-1, true)), button("Next mark", {}, () => this.#step(1, true))),
    ];
  }

  #zoomed() {
    this.chart?.redraw();
    this.#mark();
    this.#legendOf();
  }

  #relayout(change) {
    const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (from === undefined) return;
    const unit = this.scale.to >= 1e9 ? 1e9 : 1e6;
    this.scale.show(from * unit, to * unit);
  }

  #clicked(data) {
    if (typeof data === "number") this.choose(data);
    else if (typeof data === "string") this.#informOf(Number(data.replace("exchange ", "")));
  }

  /** Choose a packet that is drawn: mark it, and say what it is. */
  choose(number) {
    const packet = this.trace.find(number);
    if (!packet) return;
    this.chosen = packet;
    this.absent = null;
    if (packet.time < this.scale.from || packet.time > this.scale.to) {
      const half = (this.scale.to - this.scale.from) / 2;
      this.#range(packet.time - half, packet.time + half);
      this.#zoomed();
    }
    this.#mark();
    this.#inform(true);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const does = {
      ArrowLeft: () => this.#step(-1, event.shiftKey), ArrowRight: () => this.#step(1, event.shiftKey), "+": () => this.scale.zoom(0.5, this.#about()), "=": () => this.scale.zoom(0.5, this.#about()),
      "-": () => this.scale.zoom(2, this.#about()), 0: () => this.scale.reset(), Enter: () => this.#open(), Home: () => this.choose(this.trace.packets[0].no), End: () => this.choose(this.trace.packets.at(-1).no),
    }[event.key];
    if (!does) return;
    does();
    event.preventDefault();
    event.stopPropagation();
  }

  #about() {
    return this.chosen?.time ?? (this.scale.from + this.scale.to) / 2;
  }

  /** To the next packet, or the next one with a mark. */
  #step(by, marked) {
    const rows = marked ? marks(this.trace) : this.trace.packets;
    if (!rows.length) return;
    let place = rows.indexOf(this.chosen);
    if (place < 0) {
      const at = this.chosen?.no ?? nearestInTime(this.trace.packets, this.scale.from).no - 1;
      const behind = rows.findIndex((packet) => packet.no > at);
      place = by > 0 ? (behind < 0 ? rows.length : behind) - 1 : behind < 0 ? rows.length : behind;
    }
    const next = rows[Math.min(Math.max(place + by, 0), rows.length - 1)];
    this.choose(next.no);
  }

  #open() {
    const no = this.chosen ? exchangeOf(this.store, this.exchanges, this.chosen) : null;
    if (no !== null) this.actions.onExchange(no);
  }

  // The chosen packet

  #inform(aloud) {
    if (this.absent) {
      const { no, label, time } = this.absent;
      fill(this.info, el("p", { class: "packet-words" }, el("span", { class: "strong" }, `Packet ${no}${label ? `: ${packetWords(this.absent)}` : ""}${time === undefined || time === null ? "" : `, ${instant(time)}`}`),
        hasCharts() ? " is not among those drawn; these are about it." : " is not among those listed here."), filterLine(`frame.number == ${no}`));
      return;
    }
    if (!this.chosen) {
      fill(this.info, hasCharts() && this.#hasData() ? el("p", { class: "hint" }, "Click on a packet, or step to one (← →), to see its exchange. Drag to zoom, double-click for the whole connection.") : null);
      return;
    }
    const packet = this.chosen;
    const no = exchangeOf(this.store, this.exchanges, packet);
    const words = `Packet ${packet.no}: ${packetWords(packet)}, from the ${packet.fromClient ? "client" : "server"}${packet.bytes ? `, ${size(packet.bytes)}` : ""}, ${instant(packet.time)}`;
    fill(this.info, el("p", { class: "packet-words" }, el("span", { class: "strong" }, words), " · ",
      no === null ? el("span", { class: "third" }, "outside any exchange") : this.#exchangeLink(no)), filterLine(`frame.number == ${packet.no}`));
    const late = delays(this.trace, packet);
    if (late.length) this.info.querySelector(".packet-words").append(`. It ${late.join(" and ")}.`);
    if (aloud) announce(`${words}${no === null ? "" : `, exchange ${no}`}`);
  }

  #informOf(no) {
    fill(this.info, el("p", { class: "packet-words" }, this.#exchangeLink(no)));
    announce(`Exchange ${no}`);
  }

  #exchangeLink(no) {
    return el("a", { href: `#exchange-${no}`, on: { click: () => this.actions.onExchange(no) } }, `Exchange ${no}: `, captured(nameOf(this.store, no)));
  }

  // Figures and lists

  #legendOf() {
    const { direction } = this;
    const line = (name, words) => el("span", {}, el("span", { class: `line-sign ${name}` }), words);
    const again = direction.sums.again.map(({ mechanism, segments, needless }) => {
      const [, full, hollow] = SIGNS[mechanism] ?? SIGNS.unknown;
      const words = mechanism === "syn" ? "SYN sent again" : `sent again, ${mechanismWords(mechanism)}`;
      return [segments > needless ? el("span", {}, el("span", { class: "sign" }, full), words) : null, needless ? el("span", {}, el("span", { class: "sign" }, hollow), `${words}, needlessly`) : null];
    });
    const above = { none: "", part: ", partly above the picture", all: ", above the picture" }[windowAbove(direction, this.scale)];
    fill(this.legend, line("segment", "sent"), line("ack-line", "acknowledged"),
      direction.sums.window === null ? el("span", {}, `window ${this.#noWindow()}`) : line("window-line", `edge of the window${above}`),
      direction.answers.some(({ sacks }) => sacks.length) ? line("sack", "reported beyond a gap (SACK)") : null, again,
      direction.answers.some(({ window }) => window === 0) ? el("span", {}, el("span", { class: "sign closed" }, "×"), "window of 0") : null,
      direction.held.some(({ limit }) => limit.cause === "congestion_window") ? line("congestion", "congestion window, estimated") : null,
      direction.queues.length ? el("span", {}, "shaded round trips: a queue on the way") : null,
      direction.sums.limited.length ? el("span", {}, "Limit:") : null,
      direction.sums.limited.map(({ limit }) => el("span", {}, el("span", { class: `swatch fill cause-${limit.cause.replaceAll("_", "-")}` }), limit.title)));
    if (this.wholeButton) this.wholeButton.setAttribute("aria-pressed", String(this.scale.whole));
  }

  #figures() {
    const { direction, fromClient, store } = this;
    const { sums } = direction;
    const connection = store.connections[this.no];
    const receiver = fromClient ? "server" : "client";
    const pairs = [
      ["Sent", `${size(sums.bytes)}, ${count(sums.segments, "segment")}`],
      ["Most in flight", `${size(sums.flight)}${connection.side === receiver ? `, as seen at the ${receiver}: what was on its way to it can’t be seen` : ""}`],
      ["Offered window", sums.window === null ? this.#noWindow() : between(...sums.window, size)],
      ["Round trips", sums.trips === null ? "not measured" : `${sums.trips.count > 1 ? `${duration(sums.trips.median)} typically, ` : ""}${between(sums.trips.least, sums.trips.most, duration)}, ${count(sums.trips.count, "sample")}, from the capture point to the ${receiver}`],
      direction.queues.length ? ["Queue", direction.queues.slice(0, 5).map((row) => `${duration(row.typical)} instead of ${duration(row.smallest)} for ${duration(row.to - row.from)}`).join("; ")] : null,
      sums.missing.get("capture") ? ["Not captured", count(sums.missing.get("capture"), "gap")] : null,
    ];
    const rows = sums.held.map(({ limit, count: times, ns, longest }) => el("tr", {},
      el("td", { title: limit.meaning }, el("span", { class: `swatch fill cause-${limit.cause.replaceAll("_", "-")}` }), limit.title),
      el("td", { class: "number" }, whole(times)), el("td", { class: "number" }, duration(longest)), el("td", { class: "number" }, duration(ns))));
    const total = sums.limited.reduce((sum, { ns }) => sum + ns, 0);
    const limits = [...sums.limited].sort((a, b) => b.ns - a.ns).map(({ limit, ns, longest }) => el("tr", {},
      el("td", { title: limit.meaning }, el("span", { class: `swatch fill cause-${limit.cause.replaceAll("_", "-")}` }), limit.title),
      el("td", { class: "number" }, duration(longest)), el("td", { class: "number" }, duration(ns)), el("td", { class: "number" }, share(ns, total))));
    const silences = direction.silences.map(({ from, to, meaning, first, next }) => el("tr", {},
      el("td", { class: "number" }, instant(from)), el("td", { class: "number" }, duration(to - from)), el("td", {}, meaning), el("td", { class: "number nowrap" }, this.#packetLink(first), "–", this.#packetLink(next))));
    return el("div", {}, el("h3", {}, "Figures"),
      el("dl", { class: "pairs" }, pairs.filter(Boolean).map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])),
      limits.length ? [el("h3", { class: "further" }, "What limited the sender", el("span", { class: "aside" }, "from its first segment to its last")),
        el("div", { class: "scroll" }, el("table", { class: "table" }, headOf(["Limit", ""], ["Longest", "number"], ["In all", "number"], ["Share", "number"]), el("tbody", {}, limits)))] : null,
      rows.length ? [el("h3", { class: "further" }, "Single waits of the sender"),
        el("div", { class: "scroll" }, el("table", { class: "table" }, headOf(["For", ""], ["Times", "number"], ["Longest", "number"], ["In all", "number"]), el("tbody", {}, rows)))] : null,
      silences.length ? [el("h3", { class: "further" }, "Silences", el("span", { class: "aside" }, "longer than two round trips, and why")),
        el("div", { class: "scroll" }, el("table", { class: "table" }, headOf(["From", "number"], ["Length", "number"], ["Why", ""], ["Packets", "number"]), el("tbody", {}, silences)))] : null);
  }

  #packets() {
    const { store, trace } = this;
    const rows = marks(trace);
    const body = el("tbody");
    const add = (from, to) => { for (const packet of rows.slice(from, to)) body.append(this.#row(packet)); };
    add(0, AT_FIRST);
    const rest = rows.length - AT_FIRST;
    const more = rest > 0 ? button(`Show ${whole(rest)} more`, { class: "plain more" }, () => { add(AT_FIRST, rows.length); more.remove(); }) : null;
    const left = trace.noted - rows.length;
    return el("div", {}, el("h3", {}, "Packets to note", el("span", { class: "aside" }, "ms from the capture’s start")),
      rows.length ? el("div", { class: "list", tabindex: "0", role: "region", "aria-label": "Packets to note" },
        el("table", { class: "table" }, headOf(["No.", ""], ["Time", "number"], ["", ""], ["Data", "number"], ["What", ""], ["Exch.", "number"]), body), more)
        : el("p", { class: "second" }, "None: every segment was sent once, in order, and the window stayed open."),
      left > 0 ? el("p", { class: "hint always" }, `${whole(left)} more are in the packet table (--packets).`) : null,
      hasCharts() && trace.of > trace.packets.length ? el("p", { class: "hint always" },
        `${whole(trace.packets.length)} of ${count(trace.of, "packet")} are drawn: those to note, those with SACK blocks, and of the rest every few, with the most in flight and the smallest window. The figures are those of all.`) : null);
  }

  /** A packet's number; with a graph, one that shows it there. */
  #packetLink(no) {
    if (!this.chart || !this.trace.find(no)) return String(no);
    return button(no, { class: "plain", "aria-label": `Packet ${no}: show it in the graph` }, () => this.choose(no));
  }

  #row(packet) {
    const { store } = this;
    const no = exchangeOf(store, this.exchanges, packet);
    const said = packet.fromClient ? "from the client" : "from the server";
    return el("tr", {}, el("td", { class: "mono" }, this.#packetLink(packet.no)), el("td", { class: "number mono" }, exactMs(packet.time, store.unit)),
      el("td", { "aria-label": said, title: said }, packet.fromClient ? "→" : "←"), el("td", { class: "number" }, packet.bytes ? size(packet.bytes) : ""), el("td", {}, packetWords(packet)),
      el("td", { class: "number" }, no === null ? "–" : el("a", { href: `#exchange-${no}`, on: { click: () => this.actions.onExchange(no) } }, no)));
  }
}

/** "64 KB to 95 KB", or one of them where both read the same. */
function between(least, most, words) {
  return words(least) === words(most) ? words(most) : `${words(least)} to ${words(most)}`;
}

function headOf(...columns) {
  return el("thead", {}, el("tr", {}, columns.map(([text, kind]) => el("th", { scope: "col", class: kind }, text))));
}

/** Packets worth a line: sent again, late, duplicated, probes, windows of 0, SYN, FIN, RST. */
function marks(trace) {
  return trace.packets.filter(({ label, mechanism, window, flags }) => mechanism || window === 0 || /SYN|FIN|RST/.test(flags ?? "") || !["original", "ack", "dup ack", "other", "window update"].includes(label));
}

/** The exchange that a packet belongs to: of those open at its time the one that began last; or null. */
export function exchangeOf(store, exchanges, packet) {
  let found = null;
  for (const no of exchanges) {
    const { requestFirst, responseLast } = store.bounds(no);
    const inside = requestFirst > 0 && packet.no >= requestFirst && packet.no <= Math.max(responseLast, requestFirst);
    if (!inside && (packet.time < store.start[no] || packet.time > store.end[no])) continue;
    if (found === null || store.start[no] >= store.start[found]) found = no;
  }
  return found;
}

function nearestInTime(packets, time) {
  return packets.find((packet) => packet.time >= time) ?? packets.at(-1);
}
