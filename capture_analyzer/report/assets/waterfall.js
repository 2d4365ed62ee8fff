// The waterfall: rows made on demand beside a canvas, zoom, sorting, grouping, keys and pointer.

import { announce, button, el, unseen } from "./dom.js";
import { count, duration, whole } from "./numbers.js";
import { nameOf, protocolOf } from "./store.js";
import { onTheme } from "./theme.js";
import { Filters } from "./filters.js";
import { TimeScale } from "./timescale.js";
import { Lanes } from "./lanes.js";
import { fillHeading, fillRow } from "./rows.js";
import { listenToLanes, listenToOverview } from "./pointer.js";

const MARGIN = 260; // px above and below the window that are drawn too
const ON_PAPER = 60; // rows

const COLUMNS = [
  { name: "no", label: "#", title: "Number", key: (store, no) => no },
  { name: "sign", label: "!", title: "Severity", key: (store, no) => store.severity[no] },
  { name: "method", label: "Method", key: (store, no) => store.look(no).method ?? "~" },
  { name: "place", label: "Host and path", key: (store, no) => `${store.host[no] ?? ""}${store.path[no] ?? ""}` },
  { name: "status", label: "Status", key: (store, no) => store.look(no).status ?? 1000 },
  { name: "protocol", label: "Protocol", key: protocolOf },
  { name: "size", label: "Size", number: true, key: (store, no) => store.received[no] },
  { name: "total", label: "Total", number: true, key: (store, no) => store.total(no) },
];
const LARGEST_FIRST = ["size", "total"];

export class Waterfall {
  /** `onOpen(no)` shows an exchange, `onClose()` takes it away. */
  constructor(store, paints, { onOpen, onClose }) {
    this.store = store;
    this.onOpen = onOpen;
    this.onClose = onClose;
    this.scale = new TimeScale(store.from, store.to, () => this.#zoomed());
    this.lanes = new Lanes(store, paints, this.scale);
    this.filters = new Filters(store, () => this.refresh());
    this.sortBy = "no";
    this.descending = false;
    this.grouped = false;
    this.chosen = null;
    this.opened = null;
    this.wanted = null; // to be brought into view with the next drawing
    this.printing = false;
    this.items = []; // exchange numbers; -1 - n is the heading of connection n
    this.places = new Map();
    this.live = new Map(); // place in items -> row element
    this.spare = [];
    this.selection = null;
    this.#build();
    onTheme(() => { this.lanes.overviewImage = null; this.schedule(); });
    new ResizeObserver(() => this.schedule(true)).observe(this.rows);
    this.refresh();
  }

  // What is shown

  /** Filter, sort and group anew. */
  refresh() {
    const { store } = this;
    const order = this.filters.passing();
    const column = COLUMNS.find(({ name }) => name === this.sortBy);
    if (this.sortBy !== "no" || this.descending) {
      const keys = new Map(order.map((no) => [no, column.key(store, no)]));
      const direction = this.descending ? -1 : 1;
      order.sort((a, b) => {
        const [left, right] = [keys.get(a), keys.get(b)];
        return left < right ? -direction : left > right ? direction : a - b;
      });
    }
    this.order = order;
    this.items = this.grouped ? groupedItems(store, order) : order;
    this.places = new Map(this.items.map((item, place) => [item, place]));
    this.lanes.overviewImage = null;
    const all = store.count === order.length;
    this.counter.textContent = all ? count(store.count, "exchange") : `${whole(order.length)} of ${count(store.count, "exchange")}`;
    this.nothing.hidden = order.length > 0;
    this.rows.hidden = order.length === 0;
    this.grid.setAttribute("aria-rowcount", String(this.items.length + 1));
    this.schedule(true);
  }

  /** Choose an exchange; an open one follows. The page stays where it is. */
  choose(no) {
    if (no === this.chosen) return;
    this.chosen = no;
    this.wanted = no;
    announce(`Exchange ${no}, ${nameOf(this.store, no)}, ${duration(this.store.total(no))}`);
    if (this.opened !== null) this.#show(no);
    this.schedule(true);
  }

  /** Open an exchange under the waterfall. */
  open(no) {
    this.choose(no);
    this.#show(no);
  }

  close() {
    if (this.opened === null) return;
    this.opened = null;
    this.section.classList.remove("opened");
    this.onClose();
    this.grid.focus({ preventScroll: true });
  }

  /** Choose an exchange even where filters hide it: they go. */
  reveal(no) {
    if (!this.places.has(no)) this.filters.clear();
    this.open(no);
  }

  #show(no) {
    this.opened = no;
    this.section.classList.add("opened");
    this.wanted = no;
    this.onOpen(no);
    this.schedule();
  }

  /** The chosen one's neighbour: step -1 or 1. */
  move(step) {
    if (!this.items.length) return;
    let place = this.places.get(this.chosen);
    if (place === undefined) place = step > 0 ? -1 : this.items.length;
    place = Math.min(Math.max(place + step, 0), this.items.length - 1);
    const direction = step < 0 ? -1 : 1;
    while (this.items[place] < 0 && this.items[place + direction] !== undefined) place += direction;
    if (this.items[place] < 0) place = this.items.findIndex((item) => item >= 0);
    this.choose(this.items[place]);
  }

  #intoView(no) {
    const place = this.places.get(no);
    if (place === undefined) return;
    const height = this.rowHeight;
    const top = place * height;
    if (top < this.rows.scrollTop) this.rows.scrollTop = top;
    else if (top + height > this.rows.scrollTop + this.rows.clientHeight) {
      this.rows.scrollTop = top + height - this.rows.clientHeight;
    }
  }

  sort(name) {
    if (this.sortBy === name) this.descending = !this.descending;
    else {
      this.sortBy = name;
      this.descending = LARGEST_FIRST.includes(name);
    }
    for (const [column, cell] of this.headings) {
      const direction = this.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", column === this.sortBy ? direction : "none");
    }
    this.refresh();
  }

  toggleGroup() {
    this.grouped = !this.grouped;
    this.groupToggle.setAttribute("aria-pressed", String(this.grouped));
    this.refresh();
  }

  toggleAlign() {
    this.lanes.aligned = !this.lanes.aligned;
    this.alignToggle.setAttribute("aria-pressed", String(this.lanes.aligned));
    const { store } = this;
    if (this.lanes.aligned) {
      let longest = 0;
      for (const no of store.listed) longest = Math.max(longest, store.total(no));
      this.scale.setBounds(0, longest);
    } else {
      this.scale.setBounds(store.from, store.to);
    }
    this.lanes.overviewImage = null;
    this.#zoomed();
  }

  /** Zoom to the chosen exchange. */
  zoomToChosen() {
    if (this.chosen === null) return;
    const { store } = this;
    const from = this.lanes.aligned ? 0 : store.start[this.chosen];
    const length = Math.max(store.total(this.chosen), 1);
    this.scale.show(from - length * 0.04, from + length * 1.04);
  }

  #zoomed() {
    this.wholeButton.disabled = this.scale.whole;
    this.schedule();
  }

  // Keys

  /** Handle a key; true where it was one of ours. `inside`: the waterfall has the focus. */
  key(event, inside) {
    const page = Math.max(1, Math.floor(this.rows.clientHeight / this.rowHeight) - 1);
    const anywhere = {
      j: () => this.move(1), k: () => this.move(-1), "+": () => this.scale.zoom(0.5), "=": () => this.scale.zoom(0.5),
      "-": () => this.scale.zoom(2), 0: () => this.scale.reset(), f: () => this.zoomToChosen(),
      g: () => this.toggleGroup(), a: () => this.toggleAlign(), "/": () => this.filters.search.focus(),
    };
    const focused = {
      ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1), PageDown: () => this.move(page), PageUp: () => this.move(-page),
      Home: () => this.move(-this.items.length), End: () => this.move(this.items.length),
      ArrowLeft: () => this.scale.move(-0.2), ArrowRight: () => this.scale.move(0.2),
      Enter: () => { if (this.chosen !== null) this.open(this.chosen); },
    };
    const action = anywhere[event.key] ?? (inside ? focused[event.key] : undefined);
    action?.();
    return action !== undefined;
  }

  // On paper

  /** Lay out for paper: the first rows only, all drawn. */
  setPrinting(on) {
    this.printing = on;
    this.rows.scrollTop = 0;
    this.paperNote.hidden = !on || this.items.length <= ON_PAPER;
    this.paperNote.textContent = `${ON_PAPER} of ${count(this.order.length, "exchange")} are printed.`;
    this.lanes.overviewImage = null;
    this.#render(true);
  }

  // Making and drawing

  get narrow() {
    return innerWidth < 720 && !this.printing;
  }

  get rowHeight() {
    return this.printing ? 18 : this.narrow ? 48 : 26;
  }

  #build() {
    this.counter = el("span", { class: "aside" });
    this.wholeButton = button("Whole capture", { disabled: true, "aria-keyshortcuts": "0" }, () => this.scale.reset());
    const zoom = el("span", { class: "joined zoom", role: "group", "aria-label": "Zoom" },
      button("−", { "aria-label": "Zoom out", "aria-keyshortcuts": "-" }, () => this.scale.zoom(2)), this.wholeButton,
      button("+", { "aria-label": "Zoom in", "aria-keyshortcuts": "+" }, () => this.scale.zoom(0.5)));
    this.groupToggle = button("Group by connection", { "aria-pressed": "false", "aria-keyshortcuts": "g" }, () => this.toggleGroup());
    this.alignToggle = button("Align starts", { "aria-pressed": "false", "aria-keyshortcuts": "a", title: "Let all bars begin at the left, to compare lengths" }, () => this.toggleAlign());
    this.filters.element.append(this.groupToggle, this.alignToggle);
    this.headings = new Map(COLUMNS.map(({ name, label, title, number }) => [name, el(
      "span", { class: `cell ${name}${number ? " number" : ""}`, role: "columnheader", "aria-sort": name === "no" ? "ascending" : "none" },
      button(label, { title: `Sort by ${(title ?? label).toLowerCase()}`, "aria-label": title ?? label }, () => this.sort(name)),
    )]));
    this.overview = el("canvas", { class: "overview", "aria-hidden": "true" });
    this.laneHead = el("span", { class: "lane", role: "columnheader" }, unseen("Time"), this.overview);
    this.head = el("div", { class: "head", role: "row" }, [...this.headings.values()], this.laneHead);
    this.canvas = el("canvas", { class: "lanes", "aria-hidden": "true" });
    this.body = el("div", { class: "canvas-space", role: "rowgroup" }, this.canvas);
    this.rows = el("div", { class: "rows", tabindex: "-1" }, this.body);
    this.nothing = el("p", { class: "nothing", hidden: true }, "No exchange passes these filters. ",
      button("Clear filters", { class: "plain" }, () => this.filters.clear()));
    this.grid = el("div", { class: "grid", role: "grid", tabindex: "0", "aria-label": "Exchanges", "aria-multiselectable": "false" },
      el("div", { role: "rowgroup" }, this.head), this.rows);
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.paperNote = el("p", { class: "third", hidden: true });
    this.section = el("section", { id: "waterfall", "aria-labelledby": "waterfall-title" },
      el("div", { class: "title" }, el("h2", { id: "waterfall-title" }, "Waterfall", this.counter), zoom),
      this.store.listed.length < this.store.count ? el("p", { class: "hint always" }, `Listed are ${whole(this.store.listed.length)}: those that findings name, then the slowest. All of them are counted above; the JSON output holds them all.`) : null,
      this.filters.element, this.filters.chips, this.grid, this.nothing, this.paperNote,
      el("p", { class: "hint" }, "Drag across the lanes to zoom, double-click for the whole capture, Ctrl + wheel to zoom at the pointer. Hatched time is lost.",
        this.store.firstContent.size ? " ◆ first generated content." : null, this.store.streams.size ? " Light ticks are events of a stream." : null),
      this.tip);
    this.filters.chips.hidden = true;
    this.rows.addEventListener("scroll", () => this.schedule(), { passive: true });
    listenToLanes(this);
    listenToOverview(this);
  }

  /** Draw with the next frame; `fresh`: make the rows anew. */
  schedule(fresh = false) {
    this.stale ||= fresh;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#render(this.stale);
      this.stale = false;
    });
  }

  /** Where lanes lie: {left, width} within the rows. */
  #measure() {
    const bar = this.rows.offsetWidth - this.rows.clientWidth;
    this.head.style.paddingRight = `${bar}px`;
    if (this.narrow) return { left: 0, width: Math.max(this.rows.clientWidth, 50) };
    const box = this.laneHead.getBoundingClientRect();
    return { left: box.left + 1 - this.rows.getBoundingClientRect().left, width: Math.max(box.width - 1, 50) };
  }

  /** Rows and canvas in one go, so that lanes and text never part. */
  #render(fresh) {
    if (!this.items.length) return;
    const height = this.rowHeight;
    const shown = this.printing ? Math.min(this.items.length, ON_PAPER) : this.items.length;
    this.body.style.height = `${shown * height}px`;
    this.rows.style.height = this.printing ? "auto" : `${Math.min(shown * height, this.narrow ? 480 : 600)}px`;
    this.lane = this.#measure();
    if (this.wanted !== null) this.#intoView(this.wanted);
    this.wanted = null;
    const view = this.printing ? shown * height : this.rows.clientHeight;
    const top = Math.min(this.rows.scrollTop, Math.max(shown * height - view, 0));
    const first = Math.max(0, Math.floor((top - MARGIN) / height));
    const last = Math.min(shown, Math.ceil((top + view + MARGIN) / height));
    for (const [place, row] of this.live) {
      if (fresh || place < first || place >= last) {
        row.remove();
        this.spare.push(row);
        this.live.delete(place);
      }
    }
    const drawn = [];
    for (let place = first; place < last; place += 1) {
      const item = this.items[place];
      if (!this.live.has(place)) this.live.set(place, this.#row(item, place));
      if (item >= 0) drawn.push({ no: item, middle: (place - first) * height + (this.narrow ? 35 : height / 2) });
    }
    const chosen = this.places.get(this.chosen);
    for (const [place, row] of this.live) {
      row.classList.toggle("chosen", place === chosen);
      row.setAttribute("aria-selected", String(place === chosen));
    }
    if (this.live.has(chosen)) this.grid.setAttribute("aria-activedescendant", this.live.get(chosen).id);
    else this.grid.removeAttribute("aria-activedescendant");
    this.canvas.style.transform = `translate(${this.lane.left}px, ${first * height}px)`;
    this.lanes.draw(this.canvas, drawn, this.lane.width, (last - first) * height, this.narrow ? 22 : height, this.selection);
    this.lanes.drawHead(this.overview, this.order, this.headWidth);
    this.wholeButton.disabled = this.scale.whole;
  }

  get headWidth() {
    return Math.max(this.laneHead.clientWidth, 50);
  }

  #row(item, place) {
    const row = this.spare.pop() ?? el("div", { role: "row" });
    row.style.transform = `translateY(${place * this.rowHeight}px)`;
    row.setAttribute("aria-rowindex", String(place + 2));
    if (item < 0) fillHeading(row, this.store, -1 - item);
    else fillRow(row, this.store, item);
    this.body.append(row);
    return row;
  }
}

/** Exchanges under a heading for each connection, in the order in which connections come first. */
function groupedItems(store, order) {
  const groups = new Map();
  for (const no of order) {
    const connection = store.connection[no];
    if (!groups.has(connection)) groups.set(connection, []);
    groups.get(connection).push(no);
  }
  const items = [];
  for (const [connection, numbers] of groups) {
    items.push(-1 - connection);
    for (const no of numbers) items.push(no);
  }
  return items;
}
