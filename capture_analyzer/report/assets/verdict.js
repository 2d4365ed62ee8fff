// The answer: facts, headline, sentences, what to do, where the time went.

import { append, button, captured, copy, el, fillOf } from "./dom.js";
import { amounts, count, duration, share } from "./numbers.js";

const SHOWN = 9; // ordinary causes shown one by one; the small ones behind are one line

/** Build the section. `onCause(cause, lost)` filters the waterfall. */
export function verdictSection(store, { onCause, onFinding }) {
  const told = store.verdict;
  const facts = el("p", { class: "facts" }, el("span", { class: "strong captured" }, told.name));
  append(facts, told.facts.map((text) => el("span", {}, text)));
  const left = el("div", {}, sentences(told), told.command ? command(told.command) : null, actions(store, onFinding));
  const right = told.time > 0 ? spent(store, onCause) : null;
  return el(
    "section", { id: "verdict", "aria-labelledby": "headline" },
    facts,
    told.notes.length ? el("ul", { class: "notes" }, told.notes.map((text) => el("li", { class: "captured" }, text))) : null,
    el("h1", { id: "headline", class: "headline captured" }, told.headline),
    el("div", { class: "columns" }, left, right),
  );
}

/** A sentence with its numbers set strong. */
export function sentence(text) {
  return amounts(text).map((part) => (part.strong ? el("b", { class: "strong" }, part.text) : part.text));
}

function sentences(told) {
  return el("ul", { class: "sentences" }, told.sentences.map((text) => el("li", { class: "captured" }, sentence(text))));
}

function command(text) {
  const copier = button("Copy", {}, () => copy(text, copier));
  return el("div", { class: "command" }, el("code", {}, text), copier);
}

function actions(store, onFinding) {
  const list = store.verdict.actions;
  if (!list.length) return null;
  const most = Math.max(...list.map(([, , saving]) => saving ?? 0));
  return el(
    "div", { class: "actions" },
    el("h3", {}, "What to do", el("span", { class: "aside" }, "by time that can be won back")),
    el("ol", {}, list.map(([text, note, saving, finding, cause], place) => {
      const link = el("a", { href: `#finding-${finding + 1}`, on: { click: () => onFinding(finding) } }, captured(text));
      const track = el("div", { class: "track", "aria-hidden": "true" });
      if (saving && cause !== null) {
        const bar = fillOf(store.causes[cause], true, "block");
        bar.style.width = `${(100 * saving) / most}%`;
        track.append(bar);
      }
      return el(
        "li", {},
        el("span", { class: "place" }, place + 1),
        el("div", {}, link, note ? el("span", { class: "note" }, note) : null),
        track,
        el("span", { class: "number strong" }, saving === null ? "–" : duration(saving)),
      );
    })),
  );
}

function spent(store, onCause) {
  const told = store.verdict;
  const isUnknown = ([cause]) => store.causes[cause].group === "unknown";
  const groups = [
    ["Lost", told.spent.filter(([, lost]) => lost)],
    ["Ordinary", told.spent.filter((row) => !row[1] && !isUnknown(row))],
    ["Unexplained", told.spent.filter((row) => !row[1] && isUnknown(row))],
  ];
  const most = Math.max(...told.spent.map(([, , ns]) => ns));
  const stack = el("div", { class: "stack", "aria-hidden": "true" });
  for (const [cause, lost, ns] of told.spent) {
    const part = fillOf(store.causes[cause], lost);
    part.style.flex = `${ns / told.time} 0 0`;
    stack.append(part);
  }
  const body = groups.flatMap(([name, rows]) => groupRows(store, name, rows, most, onCause));
  return el(
    "div", { class: "where-time" },
    el("h2", { class: "strong" }, "Where the time went",
      el("span", { class: "aside" }, `${duration(told.time)} over ${count(store.count, "exchange")}`)),
    stack,
    el("table", { class: "spent" }, el("tbody", {}, body)),
    el("p", { class: "legend" },
      told.avoidable ? el("span", {}, swatch(store, "syn_retry", true), "Hatched time is lost: a finding says that it could have been avoided.") : null,
      el("span", {}, swatch(store, "server_think", false), "Plain time is ordinary."),
      told.spent.some(([cause]) => store.causes[cause].group === "unknown")
        ? el("span", {}, swatch(store, "unknown", false), "Dotted time is not known.") : null),
  );
}

export function swatch(store, name, lost) {
  return fillOf(store.causes.find((cause) => cause.name === name), lost, "swatch");
}

function groupRows(store, name, rows, most, onCause) {
  if (!rows.length) return [];
  const total = store.verdict.time;
  const sum = rows.reduce((ns, row) => ns + row[2], 0);
  const isShown = ([, lost], place) => lost || place < SHOWN;
  const shown = rows.filter(isShown);
  const rest = rows.filter((row, place) => !isShown(row, place));
  const head = el("tr", {}, el("th", { scope: "col" }, name),
    el("td", { class: "number third" }, duration(sum)), el("td", { class: "number third" }, share(sum, total)), el("td"));
  const lines = shown.map(([cause, lost, ns]) => {
    const entry = store.causes[cause];
    const label = button([fillOf(entry, lost, "swatch"), lost ? entry.lostTitle : entry.title],
      { class: "plain", title: `${entry.meaning}. Show the exchanges.`, "aria-pressed": "false", "data-cause": cause, "data-lost": lost },
      () => onCause(cause, lost));
    const bar = fillOf(entry, lost, "block");
    bar.style.width = `${(100 * ns) / most}%`;
    return el("tr", {}, el("td", {}, label), el("td", { class: "number" }, duration(ns)),
      el("td", { class: "number third" }, share(ns, total)),
      el("td", { class: "share-bar", "aria-hidden": "true" }, el("div", { class: "track" }, bar)));
  });
  if (rest.length) {
    const ns = rest.reduce((value, row) => value + row[2], 0);
    const names = rest.map(([cause]) => store.causes[cause].title).join(", ");
    lines.push(el("tr", { class: "total" }, el("td", { title: names }, `${rest.length} more`),
      el("td", { class: "number" }, duration(ns)), el("td", { class: "number" }, share(ns, total)), el("td")));
  }
  return [head, ...lines];
}
