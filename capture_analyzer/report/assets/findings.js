// The findings: a line each, and behind it what happened, its proof, and when it is wrong.
// People count findings from 1, in sight and in links; `no` and the JSON count from 0.

import { button, captured, el, filterLine, severity } from "./dom.js";
import { count, duration, size, whole } from "./numbers.js";
import { sentence } from "./verdict.js";

const AT_FIRST = 60; // lines; more on request

/** Build the section. `actions` has onExchanges(finding), onExchange(no) and onPacket(no, connection). */
export function findingsSection(store, actions) {
  const section = el("section", { id: "findings", "aria-labelledby": "findings-title" },
    el("h2", { id: "findings-title" }, "Findings", el("span", { class: "aside" }, whole(store.findings.length))));
  if (!store.findings.length) {
    section.append(el("p", { class: "second more" }, "No detector found anything that cost time or failed."));
    return { section, open: () => {}, openForPrint: () => () => {} };
  }
  const list = el("div", { class: "findings" });
  const lines = new Map();
  const add = (upTo) => {
    for (const finding of store.findings.slice(lines.size, upTo)) {
      const line = findingLine(store, finding, actions);
      lines.set(finding.no, line);
      list.append(line.element);
    }
    rest.hidden = lines.size === store.findings.length;
  };
  const rest = button(`Show all ${whole(store.findings.length)}`, { class: "more" }, () => add(store.findings.length));
  section.append(list, rest);
  add(AT_FIRST);
  return {
    section,
    /** Open one and bring it into view. */
    open(no) {
      if (!store.findings[no]) return;
      if (!lines.has(no)) add(store.findings.length);
      const { element } = lines.get(no);
      element.open = true;
      element.scrollIntoView({ block: "nearest" });
      element.querySelector("summary").focus({ preventScroll: true });
    },
    /** On paper the critical ones are open, the others one line; gives what undoes it. */
    openForPrint() {
      const before = [...lines.values()].map(({ element }) => [element, element.open]);
      for (const [no, { element }] of lines) {
        element.open = store.findings[no].severity === "critical";
        if (element.open) lines.get(no).build();
      }
      return () => { for (const [element, open] of before) element.open = open; };
    },
  };
}

function findingLine(store, finding, actions) {
  const cost = costOf(finding);
  const element = el(
    "details", { class: "finding", id: `finding-${finding.no + 1}` },
    el("summary", {},
      el("span", { class: "ordinal third number" }, finding.no + 1),
      severity(finding.severity),
      el("span", { class: "what captured" }, finding.summary),
      el("span", { class: "where" }, finding.where),
      el("span", { class: `cost number${cost.strong ? " strong" : " third"}`, title: cost.title }, cost.text)),
  );
  let built = false;
  const build = () => {
    if (!built) element.append(findingBody(store, finding, actions));
    built = true;
  };
  element.addEventListener("toggle", () => { if (element.open) build(); });
  return { element, build };
}

/** What stands in the cost column: ledger time, where it is counted instead, or an estimate. */
function costOf(finding) {
  if (finding.countedIn !== null) {
    return { text: `in finding ${finding.countedIn + 1}`, title: "This time is counted there, once." };
  }
  if (finding.cost) {
    const counts = finding.severity !== "info";
    return { text: duration(finding.cost), strong: counts, title: counts ? null : "Below the threshold: not counted as lost." };
  }
  if (finding.saving) return { text: `≈ ${duration(finding.saving)}`, title: "An estimate, not taken from the ledger." };
  return { text: "no cost", title: null };
}

function findingBody(store, finding, actions) {
  const left = el("div", {}, part("What happened", [finding.summary]), measures(finding),
    part("Why it matters", finding.doc.matters),
    part("What to do", finding.advice ? [finding.advice] : finding.severity === "info" ? [] : ["Nothing that would be honest: it may have been chance."]),
    part("When this is wrong", finding.doc.wrong));
  return el("div", { class: "body" }, left, el("div", {}, proof(store, finding, actions), examples(store, finding, actions), links(finding, actions),
    el("p", { class: "third more mono" }, `${finding.detector} · confidence ${finding.confidence}`)));
}

function part(title, paragraphs) {
  if (!paragraphs?.length) return null;
  return [el("h4", {}, title), paragraphs.map((text) => el("p", { class: "captured" }, sentence(text)))];
}

/** Names of measures are code; abbreviations in them, as a reader knows them. */
const IN_FULL = { ttft: "time to first token", rtt: "round trip", srtt: "smoothed round trip", syn: "SYN", syns: "SYNs", http: "HTTP", tls: "TLS", tcp: "TCP", dns: "DNS", ocsp: "OCSP", ack: "ACK", acks: "ACKs", rto: "retransmission timeout", tlp: "tail loss probe", mtu: "MTU", mss: "MSS", ttl: "TTL" };

const OF_TIME = { max: "longest", min: "shortest", median: "median" };
const OF_NUMBER = { max: "largest", min: "smallest", median: "median" };

function readable(label, isTime) {
  const words = label.split("_");
  const which = (isTime ? OF_TIME : OF_NUMBER)[words.at(-1)];
  const rest = (which ? words.slice(0, -1) : words).map((word) => IN_FULL[word] ?? word).join(" ");
  return which && rest ? `${which} ${rest}` : rest || label;
}

/** A measure's unit stands in its name. */
function measure(name, value) {
  if (typeof value === "boolean") return [name, value ? "yes" : "no"];
  if (value === null) return [name.replace(/_(ns|bytes)$/, ""), "not known"];
  if (typeof value === "number" && name.endsWith("_ns")) return [name.slice(0, -3), duration(value)];
  if (typeof value === "number" && name.endsWith("_bytes")) return [name.slice(0, -6), size(value)];
  return [name, typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value];
}

function measures(finding) {
  if (!finding.measures.length) return null;
  return el("dl", { class: "measures" }, finding.measures.map(([name, value]) => {
    const [label, text] = measure(name, value);
    return [el("dt", {}, captured(readable(label, name.endsWith("_ns")))), el("dd", {}, captured(text))];
  }));
}

/** A packet's number; a link where the report holds its connection over time. */
function packetLink(store, finding, no, actions) {
  const connection = store.packets.find(no)?.connection ?? finding.connection;
  if (connection === null || connection < 0 || !store.traces.has(connection)) return el("span", {}, no);
  return el("a", { href: `#packet-${no}`, title: `Packet ${no} in the graph of connection ${connection}`, on: { click: (event) => { event.preventDefault(); actions.onPacket(no, connection); } } }, no);
}

function proof(store, finding, actions) {
  if (!finding.packets.length) return null;
  const more = finding.packetTotal - finding.packets.length;
  return [
    el("h4", {}, "Packets"),
    el("div", { class: "numbers mono" }, finding.packets.map((no) => packetLink(store, finding, no, actions)),
      more > 0 ? el("span", {}, `and ${whole(more)} more`) : null),
    finding.filter ? [el("h4", {}, "Wireshark display filter"), filterLine(finding.filter)] : null,
  ];
}

function examples(store, finding, actions) {
  if (finding.count < 2 || !finding.examples.length) return null;
  return [
    el("h4", {}, `The worst of ${count(finding.count, "occurrence")}`),
    el("ul", {}, finding.examples.map(([packets, cost, exchange]) => el(
      "li", {},
      exchange === null ? null : [exchangeLink(exchange, actions), " · "],
      cost === null ? null : [el("b", { class: "strong" }, duration(cost)), " · "],
      el("span", { class: "mono" }, "packets ", packets.slice(0, 6).map((no, place) => [place ? ", " : "", packetLink(store, finding, no, actions)]), packets.length > 6 ? " …" : ""),
    ))),
  ];
}

function exchangeLink(no, actions) {
  return el("a", { href: `#exchange-${no}`, on: { click: () => actions.onExchange(no) } }, `Exchange ${no}`);
}

function links(finding, actions) {
  const number = finding.exchanges.length;
  if (!number) return null;
  return el("div", { class: "links" },
    button(number === 1 ? "Show it in the waterfall" : `Show the ${whole(number)} exchanges`, { class: "plain" }, () => actions.onExchanges(finding.no)),
    button(`Open exchange ${finding.exchanges[0]}`, { class: "plain" }, () => actions.onExchange(finding.exchanges[0])));
}
