// What is drawn of the waterfall: bars beside the rows, ticks, and the overview above them.

import { drawBar, prepared } from "./bars.js";
import { colour } from "./theme.js";

const BAR = 12; // height of a bar
const OVERVIEW = 30; // height of the overview; the axis is below
const HEAD = 55;
const TICK_SPACE = 3; // px between the ticks of two events, at least
const EDGE = 6; // how near to an edge of the chosen range a pointer takes hold of it

/** Draws lanes of rows on one canvas that covers the rows in view. */
export class Lanes {
  constructor(store, paints, scale) {
    this.store = store;
    this.paints = paints;
    this.scale = scale;
    this.aligned = false;
    this.overviewImage = null;
  }

  /** x on the lanes of an instant of an exchange. */
  placer(no, width) {
    const { from, to } = this.scale;
    const factor = width / (to - from);
    const zero = this.aligned ? this.store.start[no] + from : from;
    return (ns) => (ns - zero) * factor;
  }

  /** The instant at x, of an exchange where starts are aligned. */
  instantAt(x, width, no) {
    const { from, to } = this.scale;
    return from + (x / width) * (to - from) + (this.aligned && no !== null ? this.store.start[no] : 0);
  }

  /** Draw rows: [{no, middle}] with the middle of their lanes, each `laneHeight` high. */
  draw(canvas, rows, width, height, laneHeight, selection) {
    const context = prepared(canvas, width, height);
    context.fillStyle = colour("line");
    for (const { ns } of this.scale.ticks(width)) {
      const x = Math.round(((ns - this.scale.from) / (this.scale.to - this.scale.from)) * width);
      for (const { middle } of rows) context.fillRect(x, middle - laneHeight / 2, 1, laneHeight);
    }
    const marks = colour("text");
    const faint = colour("third");
    for (const { no, middle } of rows) this.#drawRow(context, no, middle, width, marks, faint);
    if (selection) {
      context.globalAlpha = 0.18;
      context.fillStyle = colour("link");
      context.fillRect(Math.min(selection.from, selection.to), 0, Math.abs(selection.to - selection.from), height);
      context.globalAlpha = 1;
    }
  }

  #drawRow(context, no, middle, width, marks, faint) {
    const { store } = this;
    const place = this.placer(no, width);
    const from = place(store.start[no]);
    const to = place(store.end[no]);
    if (to < 0 || from > width) {
      arrow(context, to < 0 ? 3 : width - 3, middle, to < 0 ? -1 : 1, faint);
      return;
    }
    const first = store.ledger.first[no];
    drawBar(context, this.paints, store.ledger, first, store.ledger.first[no + 1], place, 0, width, middle - BAR / 2, BAR);
    const events = store.streams.get(no)?.drawn;
    if (events) ticks(context, events.time, place, Math.max(from, 0), Math.min(to, width), middle - BAR / 2, this.paints.background);
    if (store.firstContent.has(no)) {
      diamond(context, place(store.request[no] + store.firstContent.get(no)), middle - BAR / 2 - 2, marks);
    }
    if (store.look(no).cut && to >= 0 && to <= width) {
      context.fillStyle = marks;
      context.fillRect(to + 1, middle - BAR / 2 - 2, 1, BAR + 4); // the capture ends here, the exchange does not
    }
  }

  /** The head: all exchanges in small, the range that the lanes show, ticks. */
  drawHead(canvas, order, width) {
    const context = prepared(canvas, width, HEAD);
    if (this.overviewImage === null || this.overviewImage.width !== Math.round(width * devicePixelRatio)) {
      this.overviewImage = this.#overview(order, width);
    }
    context.drawImage(this.overviewImage, 0, 0, width, OVERVIEW);
    const { scale } = this;
    if (!scale.whole) {
      const [from, to] = this.#range(width);
      context.globalAlpha = 0.7;
      context.fillStyle = colour("surface");
      context.fillRect(0, 0, from, OVERVIEW);
      context.fillRect(to, 0, width - to, OVERVIEW);
      context.globalAlpha = 1;
      context.strokeStyle = colour("link");
      context.lineWidth = 1;
      context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 1), OVERVIEW - 1);
    }
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "alphabetic";
    for (const { ns, text } of scale.ticks(width)) {
      const x = Math.round(((ns - scale.from) / (scale.to - scale.from)) * width);
      context.fillStyle = colour("line");
      context.fillRect(x, OVERVIEW + 6, 1, HEAD - OVERVIEW - 6);
      context.fillStyle = colour("third");
      if (x + 4 + context.measureText(text).width < width) context.fillText(text, x + 4, HEAD - 7);
    }
  }

  #range(width) {
    const { scale } = this;
    const length = scale.most - scale.least;
    return [((scale.from - scale.least) / length) * width, ((scale.to - scale.least) / length) * width];
  }

  #overview(order, width) {
    const image = document.createElement("canvas");
    const context = prepared(image, width, OVERVIEW);
    const { store, scale } = this;
    const factor = width / (scale.most - scale.least);
    const step = (OVERVIEW - 4) / Math.max(order.length, 1);
    const height = Math.max(1, Math.min(2, step));
    order.forEach((no, place) => {
      const zero = this.aligned ? store.start[no] + scale.least : scale.least;
      const { cause, lost } = dominant(store.ledger, no);
      context.fillStyle = this.paints.fill(cause);
      context.globalAlpha = lost || order.length < 200 ? 1 : 0.5;
      context.fillRect((store.start[no] - zero) * factor, 2 + place * step, Math.max((store.end[no] - store.start[no]) * factor, 1), height);
    });
    return image;
  }

  /** What a pointer at x on the overview takes hold of: "from", "to", "move" or "new". */
  grip(x, width) {
    if (this.scale.whole) return "new";
    const [from, to] = this.#range(width);
    if (Math.abs(x - from) <= EDGE) return "from";
    if (Math.abs(x - to) <= EDGE) return "to";
    return x > from && x < to ? "move" : "new";
  }

  /** The instant at x on the overview. */
  overviewInstant(x, width) {
    return this.scale.least + (x / width) * (this.scale.most - this.scale.least);
  }
}

/** The cause that took most of an exchange; lost time goes before other time. */
function dominant(ledger, no) {
  let best = -1;
  let cause = 0;
  let lost = 0;
  for (let entry = ledger.first[no]; entry < ledger.first[no + 1]; entry += 1) {
    const weight = (ledger.to[entry] - ledger.from[entry]) * (ledger.lost[entry] ? 1000 : 1);
    if (weight > best) {
      best = weight;
      cause = ledger.cause[entry];
      lost = ledger.lost[entry];
    }
  }
  return { cause, lost: lost === 1 };
}

function arrow(context, x, y, direction, fill) {
  context.fillStyle = fill;
  context.beginPath();
  context.moveTo(x + 3 * direction, y);
  context.lineTo(x - 3 * direction, y - 4);
  context.lineTo(x - 3 * direction, y + 4);
  context.fill();
}

/** Light ticks for the events of a stream, no closer than can be told apart. */
function ticks(context, times, place, left, right, top, fill) {
  let last = left;
  context.fillStyle = fill;
  context.globalAlpha = 0.8;
  for (const ns of times) {
    const x = Math.round(place(ns));
    if (x > right - 1) break;
    if (x < last + TICK_SPACE) continue;
    context.fillRect(x, top, 1, BAR);
    last = x;
  }
  context.globalAlpha = 1;
}

function diamond(context, x, y, fill) {
  context.fillStyle = fill;
  context.beginPath();
  context.moveTo(x, y - 3.5);
  context.lineTo(x + 3.5, y);
  context.lineTo(x, y + 3.5);
  context.lineTo(x - 3.5, y);
  context.fill();
}
