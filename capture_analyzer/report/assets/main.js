// Puts the page together: sections, links, keys, theme, paper.

import { button, el, emblem, fill, liveRegion } from "./dom.js";
import { whole } from "./numbers.js";
import { readStore } from "./store.js";
import { nextTheme, onTheme, printTheme, setTheme, themeName } from "./theme.js";
import { Paints } from "./bars.js";
import { verdictSection } from "./verdict.js";
import { findingsSection } from "./findings.js";
import { Waterfall } from "./waterfall.js";
import { Detail } from "./detail.js";
import { connectionsSection } from "./connections.js";
import { TraceView } from "./trace.js";
import { aboutSection } from "./about.js";

const KEYS = [
  ["↑ ↓ or j k", "previous, next exchange; an open one follows"], ["Page, Home, End", "move further"], ["Enter, Esc", "open, close"],
  ["← →", "move in time"], ["+ − 0", "zoom in, out, whole capture"], ["f", "zoom to the chosen exchange"], ["/", "search"],
  ["g", "group by connection"], ["a", "align starts, to compare lengths"], ["← → in a connection’s graph", "previous, next packet; with Shift, the next one to note; Enter opens its exchange"], ["t", "theme"], ["?", "this list"],
];

function start() {
  setTheme(new URLSearchParams(location.search).get("theme") ?? "auto");
  const store = readStore(JSON.parse(document.getElementById("data").textContent));
  const paints = new Paints(store.causes);
  let waterfall = null;
  const openExchange = (no) => {
    if (store.connection[no] === undefined) return; // not listed
    waterfall?.reveal(no);
    bringIntoView();
  };
  const findings = findingsSection(store, {
    onExchange: openExchange,
    onPacket: (no, connection) => showTrace(connection, { packet: no }),
    onExchanges: (no) => {
      waterfall.filters.setFinding(no);
      waterfall.section.scrollIntoView({ block: "start" });
    },
  });
  const verdict = verdictSection(store, {
    onCause: (cause, lost) => waterfall.filters.toggleCause(cause, lost),
    onFinding: (no) => findings.open(no),
  });
  const detail = new Detail(store, paints, {
    onMove: (step) => waterfall.move(step),
    onClose: () => waterfall.close(),
    onFinding: (no) => findings.open(no),
    onTrace: (no, from, to) => showTrace(no, { from, to }),
    onPacket: (no, connection) => showTrace(connection, { packet: no }),
  });
  const trace = new TraceView(store, {
    onExchange: openExchange,
    onConnection: (no) => connections.choose(no),
  });
  const connections = connectionsSection(store, {
    onExchange: openExchange,
    onTrace: (no) => showTrace(no),
    onChoose: (no) => { if (!trace.section.hidden && trace.no !== no) trace.show(no); },
  });
  const showTrace = (no, aim) => {
    if (!trace.show(no, aim)) return;
    history.replaceState(null, "", aim?.packet ? `#packet-${aim.packet}` : `#connection-${no}`);
    trace.section.scrollIntoView({ block: "start" });
    trace.focus();
  };
  const main = el("main", { class: "inside", id: "report" }, verdict);
  if (store.count || store.findings.length) main.append(findings.section);
  const bringIntoView = () => {
    const box = detail.section.getBoundingClientRect();
    if (box.top > innerHeight - 160 || box.top < 48) waterfall.section.scrollIntoView({ block: "start" });
  };
  if (store.count) {
    waterfall = new Waterfall(store, paints, {
      onOpen: (no) => {
        detail.show(no);
        connections.choose(store.connection[no]);
        history.replaceState(null, "", `#exchange-${no}`);
      },
      onClose: () => {
        detail.hide();
        history.replaceState(null, "", location.pathname + location.search);
      },
    });
    waterfall.section.addEventListener("click", (event) => { if (event.target.closest(".row")) bringIntoView(); });
    main.append(waterfall.section, detail.section);
    onTheme(() => detail.draw());
  }
  onTheme(() => trace.draw());
  main.append(connections.section, trace.section, aboutSection(store));
  const help = keysDialog();
  document.body.append(bar(store, help), main, help, liveRegion());
  document.title = `${store.verdict.name}: capture-analyzer report`;
  listenToKeys(waterfall, trace, help);
  listenToPrint(waterfall, detail, trace, findings);
  const follow = () => followLink(store, waterfall, findings, { openExchange, showTrace });
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = "yes";
}

let themeButton = null;

function bar(store, help) {
  themeButton = button(`Theme: ${themeName()}`, { "aria-keyshortcuts": "t" }, changeTheme);
  const link = (id, text, extra) => el("a", { href: `#${id}` }, text, extra ? el("span", { class: "third" }, ` ${extra}`) : null);
  return el("header", { class: "bar" }, el("a", { class: "skip", href: "#report" }, "To the report"),
    el("div", { class: "inside" },
      el("span", { class: "brand" }, emblem(), "capture-analyzer"),
      el("nav", { "aria-label": "Sections" }, link("verdict", "Verdict"),
        store.count || store.findings.length ? link("findings", "Findings", whole(store.findings.length)) : null,
        store.count ? link("waterfall", "Waterfall") : null, link("connections", "Connections"), link("about", "About this report")),
      el("span", { class: "tools" }, store.count ? button([el("kbd", {}, "?"), " Keys"], { class: "keys" }, () => help.showModal()) : null, themeButton)));
}

function changeTheme() {
  themeButton.textContent = `Theme: ${nextTheme()}`;
}

function keysDialog() {
  const dialog = el("dialog", { "aria-label": "Keys" }, el("h2", { class: "strong" }, "Keys"),
    el("dl", { class: "pairs" }, KEYS.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])),
    el("p", { class: "third" }, "Arrows, Page, Home, End and Enter work while the waterfall has the focus."));
  dialog.append(button("Close", { class: "more" }, () => dialog.close()));
  return dialog;
}

function listenToKeys(waterfall, trace, help) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || help.open) return;
    const field = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      if (field) field.blur();
      else if (trace.section.contains(event.target)) trace.hide();
      else waterfall?.close();
      return;
    }
    if (field) return;
    const inside = waterfall !== null && event.target === waterfall.grid;
    if (event.key === "t") changeTheme();
    else if (event.key === "?") help.showModal();
    else if (!waterfall?.key(event, inside)) return;
    event.preventDefault();
  });
}

function listenToPrint(waterfall, detail, trace, findings) {
  let undo = null;
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    printTheme(true);
    undo = findings.openForPrint();
    waterfall?.setPrinting(true);
    detail.draw();
    trace.draw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    printTheme(false);
    undo?.();
    waterfall?.setPrinting(false);
    detail.draw();
    trace.draw();
  });
}

/** #exchange-39, #finding-5, #connection-3 and #packet-812. */
function followLink(store, waterfall, findings, { openExchange, showTrace }) {
  const [, kind, number] = location.hash.match(/^#(exchange|finding|connection|packet)-(\d+)$/) ?? [];
  const no = Number(number);
  if (kind === "connection") showTrace(no);
  if (kind === "packet") {
    const holding = store.traces.holding(no, store.packets.find(no)?.connection);
    if (holding) showTrace(holding.no, { packet: no });
  }
  if (kind === "finding") findings.open(no - 1);
  if (kind === "exchange" && store.connection[no] !== undefined && waterfall.opened !== no) {
    openExchange(no);
    waterfall.section.scrollIntoView({ block: "start" });
  }
}

start();
