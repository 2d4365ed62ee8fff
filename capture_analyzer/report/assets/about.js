// The end of the page: what the capture can't show, how numbers came about, what was removed.

import { captured, el } from "./dom.js";
import { whole } from "./numbers.js";

const ORIGINS = { capture: "not captured", peer: "an endpoint broke the rules", analyzer: "not read" };

export function aboutSection(store) {
  const { about, text } = store;
  const column = (title, sentences) => el("div", {}, el("h3", {}, title), sentences.map((sentence) => el("p", { class: "captured" }, sentence)));
  return el("section", { id: "about", class: "about", "aria-label": "About this report" },
    el("div", { class: "three" }, column("What this capture cannot show", about.cannot),
      column("How the numbers were obtained", about.obtained), column("What was removed", about.removed)),
    anomalies(about.anomalies, text), detectors(about.detectors, text),
    el("footer", { class: "captured" }, `Made by capture-analyzer ${store.version}. Same capture, same version, same report. This page loads nothing from the network.`));
}

function anomalies(rows, text) {
  if (!rows.length) return null;
  const head = el("thead", {}, el("tr", {}, ["What", "Why", "Times", "First packet", "Connection"].map((name, place) => el("th", { scope: "col", class: place > 1 ? "number" : "" }, name))));
  return el("div", { class: "wide" }, el("h3", {}, "What could not be read"),
    el("div", { class: "scroll" }, el("table", { class: "table" }, head, el("tbody", {}, rows.map(([code, origin, detail, times, packet, connection]) => el(
      "tr", {}, el("td", {}, captured(text(detail)), el("span", { class: "third" }, " ", captured(text(code)))), el("td", {}, ORIGINS[text(origin)] ?? text(origin)),
      el("td", { class: "number" }, whole(times)), el("td", { class: "number mono" }, packet ?? "–"), el("td", { class: "number" }, connection ?? "–")))))));
}

function detectors(rows, text) {
  const failed = rows.filter(([, outcome]) => outcome === "failed");
  const absent = rows.filter(([, outcome]) => outcome === "not_applicable");
  const ran = rows.length - failed.length - absent.length;
  const cut = rows.filter(([, outcome, reason]) => outcome === "ran" && text(reason));
  const line = ([id, , reason]) => el("li", {}, el("code", {}, id), text(reason) ? [": ", captured(text(reason))] : null);
  return el("div", { class: "wide" }, el("h3", {}, "Detectors"),
    el("p", {}, `${whole(ran)} of ${whole(rows.length)} ran.`),
    failed.length ? [el("p", { class: "strong" }, "Failed, so what they look for is not known:"), el("ul", {}, failed.map(line))] : null,
    cut.length ? [el("p", {}, "Found more than is listed:"), el("ul", {}, cut.map(line))] : null,
    absent.length ? el("details", {}, el("summary", {}, `${whole(absent.length)} did not apply`), el("ul", {}, absent.map(line))) : null);
}
