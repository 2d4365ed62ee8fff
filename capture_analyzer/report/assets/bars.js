// The bar of an exchange: its ledger as segments on a canvas, in the lanes and in the detail.

import { colour, onTheme } from "./theme.js";

/** Hatching by group, as strokes over a tile of 6 by 6: path /, set-up \, limits crossed, server level. */
const HATCHES = {
  path: [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5]],
  network: [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5]],
  setup: [[0, 0, 6, 6], [-1, 5, 1, 7], [5, -1, 7, 1]],
  limit: [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5], [0, 0, 6, 6], [-1, 5, 1, 7], [5, -1, 7, 1]],
  server: [[0, 1.5, 6, 1.5], [0, 4.5, 6, 4.5]],
  idle: [[0, 0, 6, 6]],
};

/** Paints of all causes for the present theme and pixel ratio. */
export class Paints {
  constructor(causes) {
    this.causes = causes;
    this.clear();
    onTheme(() => this.clear());
  }

  clear() {
    this.plain = null;
    this.patterns = new Map();
    this.background = colour("background");
  }

  fill(cause) {
    this.plain ??= this.causes.map((entry) => colour(entry.name.replaceAll("_", "-")));
    return this.plain[cause];
  }

  /** The fill style of a segment: a colour, or a pattern where it is lost or not known. */
  of(context, cause, lost) {
    const dotted = this.causes[cause].group === "unknown";
    if (!lost && !dotted) return this.fill(cause);
    const ratio = Math.max(1, Math.round(devicePixelRatio * 2) / 2);
    const key = `${cause} ${lost} ${ratio}`;
    if (!this.patterns.has(key)) this.patterns.set(key, this.#pattern(context, cause, lost, ratio));
    return this.patterns.get(key);
  }

  #pattern(context, cause, lost, ratio) {
    const tile = document.createElement("canvas");
    const side = 6 * ratio;
    tile.width = side;
    tile.height = side;
    const pen = tile.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = this.fill(cause);
    pen.fillRect(0, 0, 6, 6);
    if (lost) {
      pen.strokeStyle = this.background;
      pen.lineWidth = 1.25;
      for (const [fromX, fromY, toX, toY] of HATCHES[this.causes[cause].group] ?? HATCHES.path) {
        pen.beginPath();
        pen.moveTo(fromX, fromY);
        pen.lineTo(toX, toY);
        pen.stroke();
      }
    } else {
      pen.fillStyle = this.background;
      for (const [x, y] of [[1, 1], [4, 4]]) pen.fillRect(x, y, 1.25, 1.25);
    }
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / ratio));
    return pattern;
  }
}

/**
 * Draw the ledger entries from `first` up to `last`. `place` maps ns to x; `left` and `right` bound
 * what is seen. No segment is under one pixel, and what is lost is drawn over what is not.
 */
export function drawBar(context, paints, ledger, first, last, place, left, right, top, height) {
  for (const lostOnes of [0, 1]) {
    let drawnTo = -Infinity;
    for (let entry = first; entry < last; entry += 1) {
      if (ledger.lost[entry] !== lostOnes) continue;
      let from = place(ledger.from[entry]);
      let to = place(ledger.to[entry]);
      if (to < left || from > right) continue;
      from = Math.max(from, left);
      to = Math.min(to, right);
      if (to - from < 1) {
        if (to <= drawnTo) continue; // the pixel is taken: thousands of entries stay cheap
        to = from + 1;
      } else if (to - from > 4 && entry + 1 < last) {
        to -= 1;
      }
      drawnTo = to;
      const cause = ledger.cause[entry];
      context.fillStyle = paints.of(context, cause, lostOnes === 1);
      if (paints.causes[cause].group === "idle" && !lostOnes) {
        context.fillRect(from, top + height / 2 - 0.75, to - from, 1.5);
      } else {
        context.fillRect(from, top, to - from, height);
      }
    }
  }
}

/** Fit a canvas to a size in CSS pixels and give its context, cleared. */
export function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) {
    [canvas.width, canvas.height] = pixels;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
