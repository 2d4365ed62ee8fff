// The connections: a table, and the facts of one.

import { button, captured, el, fill } from "./dom.js";
import { handshakeFigure } from "./handshake.js";
import { recordsFigure } from "./records.js";
import { count, duration, instant, share, size, whole } from "./numbers.js";

const AT_FIRST = 100; // rows; more on request

/**
 * Build the section. `actions`: onExchange(no) opens an exchange, onTrace(no) shows packets over
 * time, onChoose(no) when one is chosen.
 */
export function connectionsSection(store, actions) {
  const side = el("div", { class: "connection-facts", "aria-live": "polite" });
  const below = el("div", { class: "shake-parts" });
  const body = el("tbody");
  const placeOf = new Map(store.listedConnections.map((connection, place) => [connection.no, place]));
  let chosen = null;
  const choose = (no) => {
    chosen?.classList.remove("chosen");
    const connection = store.connections[no];
    if (!connection) {
      fill(side, el("h3", {}, `Connection ${no}`), el("p", { class: "hint always" }, "It is not listed in this report."));
      below.hidden = true;
      return;
    }
    chosen = body.children[placeOf.get(no)] ?? null;
    chosen?.classList.add("chosen");
    const numbers = store.exchangesOf.get(no) ?? [];
    fill(side, el("h3", {}, `Connection ${no}`), traceLink(store, no, () => actions.onTrace(no)), facts(connectionFacts(store, connection)),
      numbers.length ? el("p", { class: "links" }, numbers.slice(0, 20).map((exchange) => el("a", { href: `#exchange-${exchange}`, on: { click: () => actions.onExchange(exchange) } }, `Exchange ${exchange}`)),
        numbers.length > 20 ? el("span", { class: "third" }, `and ${whole(numbers.length - 20)} more`) : null) : null);
    fill(below, handshakeFigure(store, connection), recordsFigure(store, connection));
    below.hidden = !below.childElementCount;
    actions.onChoose?.(no);
  };
  const add = (from, to) => {
    for (const connection of store.listedConnections.slice(from, to)) body.append(row(store, connection, () => choose(connection.no)));
  };
  add(0, AT_FIRST);
  const all = store.listedConnections.length;
  const more = all > AT_FIRST ? button(all < store.connectionCount ? `Show ${whole(all)}` : `Show all ${whole(all)}`, { class: "more" }, () => { add(AT_FIRST, all); more.remove(); }) : null;
  const names = [["No.", "number"], ["Server", ""], ["Security", "security"], ["Round trip", "number"], ["Sent again", "number"], ["Data", "number"], ["Exch.", "number"]];
  const table = el("table", { class: "table" }, el("thead", {}, el("tr", {}, names.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), body);
  const section = el("section", { id: "connections", "aria-labelledby": "connections-title" },
    el("h2", { id: "connections-title" }, "Connections", el("span", { class: "aside" }, whole(store.connectionCount))),
    all < store.connectionCount ? el("p", { class: "hint always" }, `Listed are ${whole(all)}: those of the listed exchanges and of findings, then the first.`) : null,
    all ? el("div", { class: "connections-layout" }, el("div", { class: "list", tabindex: "0", role: "region", "aria-label": "Connections" }, table, more), side, below)
      : el("p", { class: "second more" }, "The capture holds no TCP connection."));
  if (all) choose(store.listedConnections[0].no);
  return { section, choose };
}

/** A button that leads to the packets of a connection; words where the report does not hold them. */
export function traceLink(store, no, onTrace) {
  if (!store.traces.has(no)) return (store.connections[no]?.tcpStream ?? null) === null ? null : el("p", { class: "hint always" }, "Its packets are not in this report, which holds those of connections that findings name and of the slowest exchanges.");
  return el("p", { class: "links" }, button("Show its packets over time", { class: "plain" }, onTrace));
}

function row(store, connection, onChoose) {
  const again = connection.sentAgain + connection.synAgain;
  const cell = (text) => el("td", { class: "number" }, text);
  return el("tr", { on: { click: onChoose } },
    el("td", { class: "number" }, button(connection.no, { class: "plain", "aria-label": `Connection ${connection.no}` }, onChoose)),
    el("td", {}, captured(connection.server)), el("td", { class: "security" }, security(connection)),
    cell(duration(connection.rtt)), cell(again ? whole(again) : "–"),
    cell(size(connection.clientBytes + connection.serverBytes)), cell((store.exchangesOf.get(connection.no) ?? []).length || "–"));
}

function security(connection) {
  const { tls } = connection;
  if (!tls) return "none";
  return `${tls.version ?? "TLS"}${tls.resumed ? ", resumed" : ""}`;
}

function facts(pairs) {
  return el("dl", { class: "pairs" }, pairs.filter(Boolean).map(([term, text]) => [el("dt", {}, term), el("dd", {}, captured(text))]));
}

/** What is known of a connection, as pairs of term and text. */
export function connectionFacts(store, connection) {
  const { tls } = connection;
  const ends = connection.refused ? "refused by a reset" : connection.resetBy ? `reset by the ${connection.resetBy}` : null;
  const named = connection.server === connection.serverEnd ? "" : `, ${connection.server}`;
  const sides = connection.clientRtt !== null && connection.serverRtt !== null
    ? ` (client side ${duration(connection.clientRtt)}, server side ${duration(connection.serverRtt)})` : "";
  return [
    ["Client", connection.client + (connection.rolesCertain ? "" : ", by inference")],
    ["Server", connection.serverEnd + named],
    ["Captured", connection.side === "unknown" ? "where, is not known" : `${connection.side === "middle" ? "between the two" : `at the ${connection.side}`}, confidence ${connection.sideConfidence}`],
    ["Time", `${instant(connection.from)} to ${instant(connection.to)}, ${count(connection.packetCount, "packet")}`],
    ["Round trip", connection.rtt === null ? "not measured" : `${duration(connection.rtt)} at set-up${sides}`],
    ["Data", `${size(connection.clientBytes)} sent, ${size(connection.serverBytes)} received`],
    ["Sent again", sentAgain(connection)],
    connection.missing ? ["Missing", `${size(connection.missing)} are not in the capture`] : null,
    connection.preconnected ? ["Opened", "long before its first request"] : null,
    ends ? ["End", ends] : null,
    connection.tcpStream === null ? null : ["Wireshark", `tcp.stream == ${connection.tcpStream}`],
    tls ? ["TLS", [tls.version ?? "version not seen", tls.suite, tls.group].filter(Boolean).join(", ")] : ["Security", "none"],
    tls && tls.ns !== null ? ["Handshake", `${duration(tls.ns)}${tls.certain ? "" : ", by inference"}${tls.retried ? ", with a retry" : ""}${tls.resumed ? ", resumed" : ""}`] : null,
    tls && tls.tunnelled ? ["Proxy", `${connection.serverEnd} passes the TLS on to the server (CONNECT)`] : null,
    tls && tls.outerName ? ["In clear text", `${tls.outerName}: the name of the server is encrypted (ECH)`] : null,
    tls && tls.ech === "rejected" ? ["ECH", "rejected by the server"] : null,
    connection.alpn ? ["ALPN", connection.alpn] : null,
    tls ? ["Decrypted", tls.decrypted + (tls.whyNot ? `: ${tls.whyNot}` : "")] : null,
    tls && tls.alert ? ["Alert", tls.alert] : null,
  ];
}

function sentAgain(connection) {
  const parts = [];
  if (connection.synAgain) parts.push(count(connection.synAgain, "SYN"));
  if (connection.sentAgain) parts.push(count(connection.sentAgain, "segment") + (connection.needless ? `, ${connection.needless} needless` : ""));
  return parts.join(", ") || "nothing";
}
