// Which exchanges the waterfall shows: search, severity, status, protocol, length, and the chips
// that a cause or a finding puts there.

import { button, el, fill, fillOf } from "./dom.js";
import { whole } from "./numbers.js";
import { NONE, SEVERITIES, protocolOf, statusOf } from "./store.js";

const SLOWER = [["100 ms", 1e8], ["500 ms", 5e8], ["1 s", 1e9], ["2 s", 2e9], ["5 s", 5e9], ["10 s", 1e10]];

/** The filters of the waterfall; `onChange` runs after each change. */
export class Filters {
  constructor(store, onChange) {
    this.store = store;
    this.onChange = onChange;
    this.levels = new Set();
    this.text = "";
    this.status = "";
    this.protocol = "";
    this.slower = 0;
    this.cause = null;
    this.finding = null;
    this.haystack = new Array(store.count);
    this.chips = el("div", { class: "chips" });
    this.element = this.#build();
  }

  get active() {
    return this.levels.size > 0 || this.text !== "" || this.status !== "" || this.protocol !== "" || this.slower > 0
      || this.cause !== null || this.finding !== null;
  }

  clear() {
    this.levels.clear();
    this.text = "";
    this.status = "";
    this.protocol = "";
    this.slower = 0;
    this.cause = null;
    this.finding = null;
    this.search.value = "";
    for (const select of [this.statusSelect, this.protocolSelect, this.slowerSelect]) select.value = "";
    for (const toggle of this.toggles) toggle.setAttribute("aria-pressed", "false");
    this.#changed();
  }

  /** Show only exchanges with time on a cause; again: all. */
  toggleCause(cause, lost) {
    const same = this.cause !== null && this.cause.cause === cause && this.cause.lost === lost;
    this.cause = same ? null : { cause, lost };
    this.#changed();
  }

  setFinding(no) {
    this.finding = no;
    this.#changed();
  }

  /** Numbers of the exchanges that pass, ascending. */
  passing() {
    const { store } = this;
    const terms = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const named = this.finding === null ? null : new Set(store.findings[this.finding].exchanges);
    const result = [];
    for (const no of store.listed) {
      if (this.levels.size && !this.levels.has(store.severity[no])) continue;
      if (named && !named.has(no)) continue;
      if (this.slower && store.total(no) < this.slower) continue;
      if (this.protocol && protocolOf(store, no) !== this.protocol) continue;
      if (this.status && !this.#hasStatus(no)) continue;
      if (this.cause && !this.#hasCause(no)) continue;
      if (terms.length && !this.#matches(no, terms)) continue;
      result.push(no);
    }
    return result;
  }

  #hasStatus(no) {
    const { status } = this.store.look(no);
    if (this.status === "none") return status === null;
    return status !== null && Math.floor(status / 100) === Number(this.status);
  }

  #hasCause(no) {
    const { ledger } = this.store;
    const { cause, lost } = this.cause;
    for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
      if (ledger.cause[entry] === cause && ledger.lost[entry] === lost) return true;
    }
    return false;
  }

  #matches(no, terms) {
    const { store } = this;
    this.haystack[no] ??= `${no} ${store.look(no).method ?? ""} ${store.host[no] ?? ""}${store.path[no] ?? ""} ${statusOf(store, no).text} ${protocolOf(store, no)}`.toLowerCase();
    return terms.every((term) => this.haystack[no].includes(term));
  }

  #changed() {
    this.#showChips();
    this.onChange();
  }

  #showChips() {
    const { store } = this;
    const chip = (content, remove) => button([content, el("span", { "aria-hidden": "true" }, "×")], { class: "chip", title: "Remove this filter" }, remove);
    const list = [];
    if (this.cause) {
      const entry = store.causes[this.cause.cause];
      const lost = this.cause.lost === 1;
      list.push(chip([fillOf(entry, lost, "swatch"), lost ? entry.lostTitle : entry.title], () => this.toggleCause(this.cause.cause, this.cause.lost)));
    }
    if (this.finding !== null) list.push(chip(`Finding ${this.finding + 1}`, () => this.setFinding(null)));
    if (this.active) list.push(button("Clear filters", { class: "plain" }, () => this.clear()));
    fill(this.chips, list);
    this.chips.hidden = !list.length;
    for (const control of document.querySelectorAll(".spent button")) {
      const pressed = this.cause !== null && Number(control.dataset.cause) === this.cause.cause && Number(control.dataset.lost) === this.cause.lost;
      control.setAttribute("aria-pressed", String(pressed));
    }
  }

  #build() {
    const { store } = this;
    this.search = el("input", {
      type: "search", class: "search", placeholder: "Search host, path, status", "aria-label": "Search host, path, status", "aria-keyshortcuts": "/",
      spellcheck: "false", autocomplete: "off",
      on: { input: () => { this.text = this.search.value; this.#changed(); } },
    });
    const counts = [0, 0, 0];
    for (const level of store.severity) if (level !== NONE) counts[level] += 1;
    this.toggles = SEVERITIES.map((name, level) => counts[level] ? el("button", {
      type: "button", class: `severity ${name}`, "aria-pressed": "false",
      on: { click: (event) => {
        if (!this.levels.delete(level)) this.levels.add(level);
        event.currentTarget.setAttribute("aria-pressed", String(this.levels.has(level)));
        this.#changed();
      } },
    }, el("span", { class: "mark" }), `${name[0].toUpperCase()}${name.slice(1)} ${whole(counts[level])}`) : null).filter(Boolean);
    const classes = new Set();
    const protocols = new Set();
    for (const no of store.listed) {
      const { status } = store.look(no);
      classes.add(status === null ? "none" : String(Math.floor(status / 100)));
      protocols.add(protocolOf(store, no));
    }
    const choose = (field, options) => {
      const select = el("select", { on: { change: () => { this[field] = field === "slower" ? Number(select.value) : select.value; this.#changed(); } } },
        el("option", { value: "" }, "any"), options.map(([label, value]) => el("option", { value }, label)));
      return select;
    };
    this.statusSelect = choose("status", [...classes].sort().map((name) => [name === "none" ? "none" : `${name}xx`, name]));
    this.protocolSelect = choose("protocol", [...protocols].sort().map((name) => [name, name]));
    this.slowerSelect = choose("slower", SLOWER);
    const labelled = (text, select) => el("label", { class: "select" }, el("span", {}, text), select);
    return el("div", { class: "filters", role: "search" },
      el("span", { class: "searching" }, this.search, el("kbd", { "aria-hidden": "true" }, "/")),
      this.toggles.length ? el("span", { class: "joined" }, this.toggles) : null,
      labelled("Status", this.statusSelect), labelled("Protocol", this.protocolSelect), labelled("Slower than", this.slowerSelect));
  }
}
