// A TLS handshake as a waterfall of its own: its steps, and whom each was waited for.

import { captured, el, fillOf } from "./dom.js";
import { count, duration, size } from "./numbers.js";

const MOST_STEPS = 24;
const SLOW = 50e6; // ns that a side took beyond the round trip: worth a sentence
const BEHIND = 1.6; // the picture ends here, in lengths of the handshake, however late the first data

/** What each part of the time is drawn as: a cause of the legend, and its words. */
const PARTS = {
  network: ["network_rtt", "round trips"],
  server: ["server_think", "server"],
  client: ["client_idle", "client"],
  unknown: ["unknown", "not to be split"],
};

/** The handshake of a connection; null if less than two steps of it were seen. */
export function handshakeFigure(store, connection) {
  const shake = store.handshakes.get(connection.no);
  if (!shake) {
    const left = connection.tls && connection.tls.ns !== null && store.handshakes.size;
    return left ? el("p", { class: "third more" }, `The steps of its TLS handshake are not in this report, which has those of the ${count(store.handshakes.size, "longest handshake")}.`) : null;
  }
  const { steps } = shake;
  const from = steps[0].time;
  const end = steps.findLast((step) => !step.data).time;
  const last = steps.at(-1).time;
  const to = Math.min(last, from + Math.max((end - from) * BEHIND, 1));
  const trips = shake.roundTrips ? count(shake.roundTrips, "round trip") : "";
  return el("div", { class: "handshake" },
    el("h4", {}, "TLS handshake", el("span", { class: "aside" }, [trips, duration(end - from)].filter(Boolean).join(", "))),
    el("p", { class: "second" }, remarks(connection, shake)),
    whole(store, shake),
    el("ol", { class: "shake-steps", "aria-label": "Steps of the TLS handshake" },
      steps.slice(0, MOST_STEPS).map((step, place) => row(store, step, place ? steps[place - 1].time : from, from, to))),
    steps.length > MOST_STEPS ? el("p", { class: "third" }, `and ${count(steps.length - MOST_STEPS, "more step")}`) : null,
    certificateFacts(store, connection));
}

/** The server's certificates and what was stapled, as facts; null if none could be read. */
function certificateFacts(store, connection) {
  const chain = store.chainOf.get(connection.no);
  if (!chain?.length) return null;
  const own = chain[0];
  const bytes = chain.reduce((sum, one) => sum + one.length, 0);
  const left = own.daysLeft === null ? "" : own.daysLeft < 0 ? `, expired ${count(-own.daysLeft, "day")} before` : `, ${count(own.daysLeft, "day")} left`;
  const staple = own.stapleBytes === null ? "none" : [
    own.status ?? "unreadable", size(own.stapleBytes), own.stapleTo ? `until ${own.stapleTo}${own.stapleFresh ? "" : ", expired"}` : null,
    own.stapleForThis === false ? "for another certificate" : null,
  ].filter(Boolean).join(", ");
  const facts = [
    ["Certificate", [own.name ?? "no host name", own.names > 1 ? `and ${count(own.names - 1, "more name")}` : null, own.keyType].filter(Boolean).join(", ")],
    ["Valid", own.from && own.to ? `${own.from} to ${own.to}${own.begun ? "" : ", not yet"}${left}` : "not readable"],
    ["Chain", `${count(chain.length, "certificate")}, ${size(bytes)}${own.selfSigned ? ", self-signed" : ""}: ${chain.map((one) => [size(one.length), one.keyType].filter(Boolean).join(" ")).join("; ")}`],
    ["OCSP staple", staple + (own.mustStaple ? "; it asks for one (Must-Staple)" : "")],
    own.responder ? ["Responder", own.responder] : null,
  ];
  return el("dl", { class: "pairs" }, facts.filter(Boolean).map(([term, text]) => [el("dt", {}, term), el("dd", {}, captured(text))]));
}

/** What kind of handshake it was, and what stands out, as sentences. */
function remarks(connection, shake) {
  const { tls } = connection;
  const said = [];
  said.push(tls.resumed === true ? "Resumed: no certificate was sent." : tls.resumed === false ? "Full handshake." : null);
  if (tls.retried) said.push("HelloRetryRequest: the server wanted another key share, one round trip more.");
  if (tls.earlyData) {
    said.push(`Early data (0-RTT) ${{ true: "accepted", false: "rejected" }[tls.earlyAccepted] ?? "offered"}.`);
  }
  if (shake.flight) {
    const fits = shake.secondPart ? "does not fit: one round trip more" : shake.flight > shake.window ? "does not fit, but came at once" : "fits";
    said.push(`The server’s flight has ${size(shake.flight)} and ${fits} (ten segments: ${size(shake.window)}).`);
  }
  for (const side of ["server", "client"]) {
    if (shake[side] > SLOW) said.push(`The ${side} was slow: ${duration(shake[side])} beyond the round trip.`);
  }
  if (shake.steps.some((step) => !step.certain)) said.push("Steps marked ≈ are inferred from the order and length of encrypted records.");
  if (tls.renegotiations) {
    said.push(`Later in the connection: ${count(tls.renegotiations, "more handshake")} (renegotiation${tls.secureRenegotiation === false ? ", without the protection of RFC 5746" : ""}).`);
  }
  return said.filter(Boolean).join(" ");
}

/** The time of the handshake by whom it was waited for: a bar and its legend. */
function whole(store, shake) {
  const parts = Object.keys(PARTS).filter((name) => shake[name] > 0);
  const sum = parts.reduce((all, name) => all + shake[name], 0);
  if (!sum) return null;
  return el("div", {},
    el("div", { class: "track sums", "aria-hidden": "true" }, placed(parts.map((name) => [fillOf(cause(store, name), false), shake[name] / sum]), 0)),
    el("p", { class: "legend" }, parts.map((name) => el("span", {}, fillOf(cause(store, name), false, "swatch"), `${PARTS[name][1]} ${duration(shake[name])}`))));
}

function cause(store, name) {
  return store.causes.find((entry) => entry.name === PARTS[name][0]);
}

/** Segments one behind the other from a place on; all in parts of the whole width. */
function placed(segments, at) {
  return segments.map(([segment, part]) => {
    const width = Math.min(part, 1 - at);
    segment.style.left = `${100 * at}%`;
    segment.style.width = `${100 * Math.max(width, 0)}%`;
    at += part;
    return segment;
  });
}

function row(store, step, before, from, to) {
  const all = Math.max(to - from, 1);
  const side = step.fromClient ? "client" : "server";
  const segments = [["network", step.network], [side, step.own], ["unknown", step.unknown]]
    .filter(([, ns]) => ns > 0)
    .map(([name, ns]) => [fillOf(cause(store, name), false), ns / all]);
  const mark = el("span", { class: "mark" });
  mark.style.left = `${Math.min(100 * (step.time - from) / all, 100)}%`;
  const waits = [
    step.network ? `round trip ${duration(step.network)}` : null, step.own ? `${side} ${duration(step.own)}` : null,
    step.unknown ? `${duration(step.unknown)} not to be split` : null,
  ].filter(Boolean);
  const late = step.time > to;
  return el("li", { class: step.data ? "data" : null },
    el("div", { class: "words" },
      el("span", { class: "what" }, el("span", { class: "arrow", "aria-label": `from the ${side}` }, step.fromClient ? "→" : "←"), step.certain ? null : "≈ ", captured(step.name)),
      el("span", { class: "third" }, size(step.size)),
      el("span", { class: "number" }, step.time === from ? "0" : duration(step.time - from)),
      el("span", { class: "number mono third" }, `#${step.first}${step.last === step.first ? "" : `–${step.last}`}`)),
    el("div", { class: `track${late ? " cut" : ""}`, title: waits.join(", ") || null, "aria-label": waits.join(", ") || null, role: waits.length ? "img" : null },
      placed(segments, (before - from) / all), mark));
}
