// The waterfall under a pointer: hover, click, drag, wheel. Keys do all of it too.

import { append, captured, el, fill, fillOf } from "./dom.js";
import { duration, share } from "./numbers.js";
import { nameOf } from "./store.js";

const DRAGGED = 4; // px before a press becomes a drag

/** The exchange and x on the lanes under a pointer; each is null where there is none. */
function under(waterfall, event) {
  const box = waterfall.rows.getBoundingClientRect();
  const y = event.clientY - box.top;
  const place = Math.floor((y + waterfall.rows.scrollTop) / waterfall.rowHeight);
  const item = waterfall.items[place];
  const x = event.clientX - box.left - waterfall.lane.left;
  const inLane = x >= 0 && x <= waterfall.lane.width && (!waterfall.narrow || (y + waterfall.rows.scrollTop) % 48 >= 24);
  return { no: item !== undefined && item >= 0 ? item : null, x: inLane ? x : null, rawX: x };
}

/** Hover, click, drag to zoom and wheel on the rows. */
export function listenToLanes(waterfall) {
  let pressed = null;
  let wasDrag = false;
  let clicked = null; // where the lanes were clicked last, and what was open then
  const { rows } = waterfall;
  rows.addEventListener("pointerdown", (event) => {
    wasDrag = false;
    const { x, no } = under(waterfall, event);
    if (x === null || event.button !== 0 || event.pointerType === "touch") return;
    pressed = { x, no };
  });
  rows.addEventListener("pointermove", (event) => {
    if (!pressed) {
      hover(waterfall, event);
      return;
    }
    const x = Math.min(Math.max(under(waterfall, event).rawX, 0), waterfall.lane.width);
    if (Math.abs(x - pressed.x) < DRAGGED && !waterfall.selection) return;
    if (!waterfall.selection) rows.setPointerCapture(event.pointerId);
    waterfall.selection = { from: pressed.x, to: x };
    waterfall.tip.hidden = true;
    waterfall.schedule();
  });
  rows.addEventListener("pointerup", () => {
    if (waterfall.selection) {
      wasDrag = true;
      const { from, to } = waterfall.selection;
      const [left, right] = [Math.min(from, to), Math.max(from, to)];
      waterfall.selection = null;
      const at = (x) => waterfall.lanes.instantAt(x, waterfall.lane.width, null);
      waterfall.scale.show(at(left), at(right));
    }
    pressed = null;
  });
  rows.addEventListener("pointercancel", () => { pressed = null; waterfall.selection = null; waterfall.schedule(); });
  rows.addEventListener("pointerleave", () => { waterfall.tip.hidden = true; });
  rows.addEventListener("click", (event) => {
    const { no, x } = under(waterfall, event);
    if (wasDrag || event.detail > 1) return; // the second of a double-click opens nothing
    clicked = x === null ? null : { x: event.clientX, y: event.clientY, opened: waterfall.opened };
    if (no === null) return;
    waterfall.grid.focus({ preventScroll: true });
    waterfall.open(no);
  });
  // A double-click in the lanes: its first click has opened an exchange, so that the second one
  // may find anything at its place, a browser's own double-click nothing. Hence by place alone.
  document.addEventListener("mousedown", (event) => {
    const first = clicked;
    clicked = null;
    if (event.detail !== 2 || !first || Math.abs(event.clientX - first.x) >= DRAGGED || Math.abs(event.clientY - first.y) >= DRAGGED) return;
    event.preventDefault();
    if (first.opened === null) waterfall.close();
    else waterfall.open(first.opened);
    waterfall.scale.reset();
  }, true);
  rows.addEventListener("wheel", (event) => {
    const { x } = under(waterfall, event);
    if (x !== null) wheel(waterfall, event, waterfall.lanes.instantAt(x, waterfall.lane.width, null));
  }, { passive: false });
}

function wheel(waterfall, event, about) {
  if (event.ctrlKey) {
    event.preventDefault();
    waterfall.scale.zoom(2 ** (Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY) / 100, 1) * 0.6), about);
  } else if (event.shiftKey) {
    event.preventDefault();
    waterfall.scale.move(((event.deltaY || event.deltaX) / 100) * 0.1);
  }
}

function hover(waterfall, event) {
  const { no, x } = under(waterfall, event);
  const cell = event.target.closest?.(".place");
  const isCut = cell && cell.scrollWidth > cell.clientWidth;
  if (no === null || (x === null && !isCut) || waterfall.narrow) {
    waterfall.tip.hidden = true;
    return;
  }
  const { store } = waterfall;
  fill(waterfall.tip, captured(nameOf(store, no), "div"));
  if (x !== null) append(waterfall.tip, causeAt(store, no, waterfall.lanes.instantAt(x, waterfall.lane.width, no)));
  waterfall.tip.hidden = false;
  const box = waterfall.tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18;
  const top = below + box.height > innerHeight - 8 ? event.clientY - box.height - 12 : below;
  waterfall.tip.style.transform = `translate(${Math.max(left, 8)}px, ${top}px)`;
}

function causeAt(store, no, ns) {
  const { ledger, causes } = store;
  const total = store.total(no);
  const lines = [];
  for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
    if (ns < ledger.from[entry] || ns >= ledger.to[entry]) continue;
    const cause = causes[ledger.cause[entry]];
    const lost = ledger.lost[entry] === 1;
    const length = ledger.to[entry] - ledger.from[entry];
    lines.push(el("div", {}, fillOf(cause, lost, "swatch"), `${lost ? cause.lostTitle : cause.title}: ${duration(length)}, ${share(length, total)}`));
  }
  lines.push(el("div", { class: "third" }, `${duration(total)} in all`));
  return lines;
}

/** Drag a new range, its edges or its middle in the overview. */
export function listenToOverview(waterfall) {
  let hold = null;
  const x = (event) => event.clientX - waterfall.overview.getBoundingClientRect().left;
  waterfall.overview.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    waterfall.overview.setPointerCapture(event.pointerId);
    const at = waterfall.lanes.overviewInstant(x(event), waterfall.headWidth);
    hold = { grip: waterfall.lanes.grip(x(event), waterfall.headWidth), at, from: waterfall.scale.from, to: waterfall.scale.to, x: x(event) };
  });
  waterfall.overview.addEventListener("pointermove", (event) => {
    if (!hold) {
      const grip = waterfall.lanes.grip(x(event), waterfall.headWidth);
      waterfall.overview.style.cursor = { new: "crosshair", move: "grab" }[grip] ?? "ew-resize";
      return;
    }
    const at = waterfall.lanes.overviewInstant(x(event), waterfall.headWidth);
    if (hold.grip === "new" && Math.abs(x(event) - hold.x) >= DRAGGED) waterfall.scale.show(Math.min(hold.at, at), Math.max(hold.at, at));
    else if (hold.grip === "move") waterfall.scale.show(hold.from + at - hold.at, hold.to + at - hold.at);
    else if (hold.grip === "from" && at < hold.to) waterfall.scale.show(at, hold.to);
    else if (hold.grip === "to" && at > hold.from) waterfall.scale.show(hold.from, at);
  });
  for (const end of ["pointerup", "pointercancel"]) waterfall.overview.addEventListener(end, () => { hold = null; });
  waterfall.overview.addEventListener("dblclick", () => waterfall.scale.reset());
  waterfall.overview.addEventListener("wheel", (event) => {
    wheel(waterfall, event, waterfall.lanes.overviewInstant(x(event), waterfall.headWidth));
  }, { passive: false });
}
