// The part of time that the lanes show: zoom, move, and where ticks belong.

const LEAST_NS = 10_000; // nothing is to be seen in less

/** A range [from, to] of ns within bounds; `onChange` runs after each change. */
export class TimeScale {
  constructor(from, to, onChange) {
    this.onChange = onChange;
    this.setBounds(from, to);
  }

  /** New bounds, all of them shown. */
  setBounds(from, to) {
    const length = Math.max(to - from, LEAST_NS);
    this.least = from;
    this.most = from + length * 1.005; // the last bar ends short of the edge
    this.from = this.least;
    this.to = this.most;
  }

  get whole() {
    return this.to - this.from >= (this.most - this.least) * (1 - 1e-9);
  }

  reset() {
    this.show(this.least, this.most);
  }

  /** Show a range, kept within the bounds. */
  show(from, to) {
    const length = Math.min(Math.max(to - from, LEAST_NS), this.most - this.least);
    const start = Math.min(Math.max(from + (to - from - length) / 2, this.least), this.most - length);
    this.from = start;
    this.to = start + length;
    this.onChange();
  }

  /** Zoom by a factor (below 1: in) about an instant, which stays where it is. */
  zoom(factor, about = (this.from + this.to) / 2) {
    this.show(about - (about - this.from) * factor, about + (this.to - about) * factor);
  }

  /** Move by a part of what is shown. */
  move(part) {
    const by = (this.to - this.from) * part;
    const bounded = Math.min(Math.max(by, this.least - this.from), this.most - this.to);
    this.show(this.from + bounded, this.to + bounded);
  }

  /** Round instants, about `space` px apart on `width` px: [{ns, text}]. */
  ticks(width, space = 100) {
    const step = niceStep(((this.to - this.from) * space) / Math.max(width, 1));
    const result = [];
    for (let ns = Math.ceil(this.from / step) * step; ns <= this.to; ns += step) {
      result.push({ ns, text: tickText(ns, step) });
    }
    return result;
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

/** As many digits as the step needs, in s or ms or µs. */
function tickText(ns, step) {
  const [unit, name] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  if (Math.abs(ns) < step / 2) return `0\u00a0${name}`;
  return `${ns < 0 ? "\u2212" : ""}${(Math.abs(ns) / unit).toFixed(decimals)}\u00a0${name}`;
}
