// A streamed answer in the detail of its exchange: what the time to its first content was made of,
// its events, and the gaps between them.

import { button, captured, el, fillOf } from "./dom.js";
import { count, duration, exactMs, size, whole } from "./numbers.js";
import { drawBar, prepared } from "./bars.js";
import { Chart, hasCharts } from "./charts.js";
import { histogramFigure } from "./histogram.js";
import { runs, sums } from "./spans.js";
import { shaded, spanWords, timelineFigure } from "./timeline.js";

const MOST_EVENTS = 400; // listed at first; more on request
const BAR = 20;

/** The part of the detail about a stream; `element` stands in the page. */
export class StreamView {
  constructor(store, paints, no) {
    this.store = store;
    this.paints = paints;
    this.no = no;
    this.stream = store.streams.get(no);
    this.charts = [];
    this.element = el("div", { class: "stream-view" }, this.#split(), this.#events());
  }

  draw() {
    this.#drawSplit();
    for (const chart of this.charts) chart.draw();
  }

  drop() {
    for (const chart of this.charts) chart.drop();
  }

  // The time to the first content

  #split() {
    const { store, no } = this;
    if (!store.firstContent.has(no)) return null;
    const ns = store.firstContent.get(no);
    const parts = sums(runs(store, no, store.request[no], store.request[no] + ns));
    const title = ({ cause, lost }) => (lost ? store.causes[cause].lostTitle : store.causes[cause].title);
    const words = parts.map((part) => `${title(part)} ${exactMs(part.ns, store.unit)}`).join(" + ");
    const sum = parts.reduce((all, part) => all + part.ns, 0);
    this.splitCanvas = el("canvas", { role: "img", "aria-label": `Causes of the time to the first content: ${words} ms` });
    this.splitSpace = el("div", { class: "canvas-space" }, this.splitCanvas);
    return el("div", { class: "split" },
      el("h3", {}, "Time to first content", el("span", { class: "aside" }, `${duration(ns)} from the request’s first byte`)),
      this.splitSpace,
      el("p", { class: "legend" }, parts.map((part) => el("span", {}, fillOf(store.causes[part.cause], part.lost, "swatch"), `${title(part)} ${duration(part.ns)}`))),
      el("p", { class: "sum mono" }, `${words} = ${exactMs(sum, store.unit)} ms`));
  }

  #drawSplit() {
    if (!this.splitCanvas) return;
    const { store, no } = this;
    const width = this.splitSpace.clientWidth;
    if (width < 10) return;
    const from = store.request[no];
    const factor = width / Math.max(store.firstContent.get(no), 1);
    const context = prepared(this.splitCanvas, width, BAR);
    drawBar(context, this.paints, store.ledger, store.ledger.first[no], store.ledger.first[no + 1], (ns) => (ns - from) * factor, 0, width, 0, BAR);
  }

  // Events and gaps

  #events() {
    const { drawn, total } = this.stream;
    if (drawn === null) {
      if (!total) return el("p", { class: "second more" }, "No event of the stream could be read.");
      return el("p", { class: "second more" }, `Its ${count(total, "event")} are not in this report, which holds those of the slowest streams. The JSON has all.`);
    }
    const parts = drawn.kept < total
      ? `${whole(drawn.kept)} of ${count(total, "event")} are drawn: all about the longest gaps, those that waited longest, and of the rest every few. The figures are those of all.` : null;
    return [el("div", { class: "stream" }, this.#timeline(parts), this.#gaps()), this.#list()];
  }

  #timeline(remark) {
    const { store, no } = this;
    const { drawn, total } = this.stream;
    const spans = shaded(store, no);
    const looks = sums(spans);
    const kinds = [...new Set(drawn.kind)].filter((kind) => kind !== "content");
    const label = `${count(total, "event")}. ${spans.slice(0, 5).map((span) => spanWords(store, no, span)).join(", ")}`;
    const heading = el("h3", {}, "Events of the stream",
      el("span", { class: "aside" }, `each line is one ${this.stream.inferred === null ? "event" : "encrypted record, which looks like an event"}: seen on the wire, then in order, then usable. A slanted line waited.`));
    return el("div", { class: "events" }, heading, this.#chart("tall", label, (width) => timelineFigure(store, no, width)),
      el("p", { class: "legend" },
        looks.map(({ cause, lost }) => el("span", {}, fillOf(store.causes[cause], lost, "swatch"), `shaded: ${store.causes[cause].pause}`)),
        this.store.firstContent.has(no) ? el("span", {}, "◆ first content") : null,
        kinds.length ? el("span", {}, `Short marks: ${kinds.join(", ")}.`) : null,
        hasCharts() ? el("span", { class: "third by-mouse" }, "Drag to zoom, double-click for the whole stream.") : null),
      remark ? el("p", { class: "hint" }, remark) : null);
  }

  #gaps() {
    const { store } = this;
    const { drawn, total } = this.stream;
    const figures = [
      ["Events", whole(total)], ["Content events", whole(drawn.content)],
      ...(drawn.gaps ? [["Median gap", duration(drawn.median)], ["95th percentile", duration(drawn.most)], ["Longest gap", duration(drawn.longest)]] : []),
    ];
    return el("div", { class: "gaps" },
      el("h3", {}, drawn.content > 1 ? "Gaps between content events" : "Gaps between events"),
      drawn.gaps ? this.#chart("low", `${count(drawn.gaps, "gap")}: median ${duration(drawn.median)}, longest ${duration(drawn.longest)}`, (width) => histogramFigure(store, drawn, width)) : null,
      el("dl", { class: "figures" }, figures.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])));
  }

  #chart(height, label, figure) {
    if (!hasCharts()) return el("p", { class: "second more" }, "This report was written without charts. The table below has every figure.");
    const chart = new Chart(height, label, figure);
    this.charts.push(chart);
    return chart.element;
  }

  /** The events as a table, made when asked for. */
  #list() {
    const { drawn } = this.stream;
    const details = el("details", { class: "event-list" }, el("summary", {}, `${count(drawn.kept, "event")} in order of time`));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const body = el("tbody");
      const add = (from, to) => { for (let at = from; at < Math.min(to, drawn.kept); at += 1) body.append(this.#row(at)); };
      add(0, MOST_EVENTS);
      const names = [["Event", ""], ["Seen, ms", "number"], ["In order", "number"], ["Usable", "number"], ["Gap", "number"], ["Data", "number"], ["Packet", "number"]];
      const rest = drawn.kept - MOST_EVENTS;
      const more = rest > 0 ? button(`Show ${whole(rest)} more`, { class: "plain more" }, () => { add(MOST_EVENTS, drawn.kept); more.remove(); }) : null;
      details.append(el("div", { class: "list", tabindex: "0", role: "region", "aria-label": "Events of the stream" },
        el("table", { class: "table" }, el("thead", {}, el("tr", {}, names.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), body), more));
    });
    return details;
  }

  #row(at) {
    const { store, no } = this;
    const { drawn } = this.stream;
    const zero = store.request[no];
    const cell = (text) => el("td", { class: "number mono" }, text);
    const instant = (ns) => cell(exactMs(ns - zero, store.unit));
    return el("tr", {}, el("td", {}, drawn.kind[at]), instant(drawn.seen[at]), instant(drawn.ordered[at]), instant(drawn.time[at]),
      cell(at ? exactMs(drawn.time[at] - drawn.time[at - 1], store.unit) : "–"), el("td", { class: "number" }, size(drawn.bytes[at])), cell(drawn.packet[at]));
  }
}

/** What is known of a stream as a whole, as pairs of term and text. */
export function streamFacts(store, no) {
  const stream = store.streams.get(no);
  if (!stream) return [];
  const tokens = [stream.inputTokens === null ? null : `${whole(stream.inputTokens)} in`, stream.outputTokens === null ? null : `${whole(stream.outputTokens)} out`].filter(Boolean);
  const content = stream.drawn === null ? "" : `, ${whole(stream.drawn.content)} with content`;
  if (stream.inferred !== null) {
    return [["Stream", `${count(stream.total, "record")} that look like events of a stream, confidence ${stream.inferred}; what is in them is encrypted`]];
  }
  const ended = stream.ended ? "its end marker came" : stream.markerKnown ? "without its end marker" : null;
  return [
    ["Stream", [`${count(stream.total, "event")}${content}`, ended, stream.undecoded ? "not decoded to the end" : null].filter(Boolean).join("; ")],
    stream.finish === null ? null : ["Finished by", captured(stream.finish)],
    tokens.length ? ["Tokens", `${tokens.join(", ")}, as the server counts them`] : null,
    stream.error === null ? null : ["Error event", captured(stream.error)],
  ];
}

/** What the request asks of a model. */
export function requestFacts(store, no) {
  const asked = store.asked.get(no);
  if (!asked) return [];
  return [
    asked.model === null ? null : ["Model", captured(asked.model)],
    asked.maxTokens === null ? null : ["Asked for", `at most ${count(asked.maxTokens, "token")}`],
  ];
}
