// Charts by Plotly. Its script is part of the file, compressed; it is unpacked and run when a chart
// is first opened, which the page's policy allows by the script's hash.
//
// Plotly reads texts as a markup of its own (<b>, <a href>, style). So no captured text may ever
// become part of a figure: numbers and our own words only. Nor <b> and <span>, which Plotly sets
// as style attributes, and those the policy refuses.

import { el } from "./dom.js";
import { colour, onTheme } from "./theme.js";

const CONFIG = { displayModeBar: false, showTips: false, scrollZoom: false, doubleClick: "reset", responsive: false };

/** Patterns of Plotly that look like the hatching of the page, by group of causes. */
const PATTERNS = { path: "/", network: "/", setup: "\\", limit: "x", server: "-", idle: "/", unknown: "." };

let loading = null;
let theme = 0; // counts its changes
onTheme(() => { theme += 1; });

/** Whether this report was written with charts. */
export function hasCharts() {
  return document.getElementById("chart-script") !== null;
}

function load() {
  loading ??= unpack(document.getElementById("chart-script").textContent).then(run);
  return loading;
}

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function run(text) {
  // Its style sheet is ours already (charts.css): an element of this id and class tells it so.
  document.head.append(el("template", { id: "plotly.js-style-global", class: "no-inline-styles" }));
  // A map library in it brings a style sheet too, as an element that the policy would refuse and
  // report. Nothing here draws maps: while the script starts, what it makes of it does nothing.
  document.createElement = (name, options) => Document.prototype.createElement.call(document, name === "style" ? "template" : name, options);
  const script = el("script", {}, text);
  document.head.append(script); // runs here
  delete document.createElement;
  script.remove();
  if (!window.Plotly) throw new Error("the script of the charts did not run");
  return window.Plotly;
}

/**
 * A chart in the page. `figure(width, height)` gives {data, layout}; `label` says it in words; `on` holds
 * listeners for Plotly's events, which then does nothing of its own on a double-click.
 */
export class Chart {
  constructor(height, label, figure, on = null) {
    this.figure = figure;
    this.on = on;
    this.plot = el("div", { class: "plot", role: "img", "aria-label": label });
    this.note = el("p", { class: "third" }, "Preparing the chart …");
    this.element = el("div", { class: `chart ${height}` }, this.note, this.plot);
    this.drawn = null;
    this.gone = false;
    this.finished = null; // a promise
  }

  /** Draw, or draw anew where width or theme have changed. */
  draw() {
    const width = this.element.clientWidth;
    const state = `${width} ${theme}`;
    if (width < 40 || state === this.drawn) return;
    if (window.Plotly) {
      this.#show(window.Plotly, width, state);
      return;
    }
    if (this.waiting) return;
    this.waiting = true;
    // After the next frame, so that the rest of the exchange is there first.
    requestAnimationFrame(() => setTimeout(() => load().then(() => this.draw(), () => this.#fail())));
  }

  /** Draw anew: what the figure shows has changed. */
  redraw() {
    this.drawn = null;
    this.draw();
  }

  #show(plotly, width, state) {
    if (this.gone) return;
    this.drawn = state;
    this.note.hidden = true;
    const { data, layout } = this.figure(width, this.element.clientHeight);
    const first = this.finished === null;
    this.finished = plotly.react(this.plot, data, { ...frame(width, this.element.clientHeight), ...layout }, this.on ? { ...CONFIG, doubleClick: false } : CONFIG);
    if (first && this.on) this.finished.then(() => { for (const [event, listener] of Object.entries(this.on)) this.plot.on(event, listener); });
  }

  #fail() {
    this.note.textContent = "This browser cannot draw the charts: it is too old, or it blocks the script in this file. The figures are in the tables.";
  }

  /** Give up what Plotly holds, once it has finished drawing. */
  drop() {
    this.gone = true;
    this.finished?.then(() => window.Plotly.purge(this.plot));
  }
}

/** What all charts have in common. */
function frame(width, height) {
  return {
    width, height, autosize: false, showlegend: false, hovermode: "closest", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: colour("third") },
    hoverlabel: { bgcolor: colour("background"), bordercolor: colour("line"), font: { color: colour("text"), size: 12, family: getComputedStyle(document.body).fontFamily }, align: "left" },
  };
}

/** The marker of a bar for a cause: plain, hatched where lost, dotted where not known. */
export function barOf(cause, lost) {
  const fill = colour(cause.name.replaceAll("_", "-"));
  const dotted = cause.group === "unknown";
  const pattern = lost || dotted
    ? { shape: PATTERNS[cause.group] ?? "/", size: dotted ? 4 : 5, solidity: dotted ? 0.25 : 0.28, fillmode: "overlay", fgcolor: colour("background"), fgopacity: 1, bgcolor: fill }
    : { shape: "" };
  return { color: fill, line: { width: 0 }, pattern };
}

/** An axis without anything. */
export const BARE = { showgrid: false, zeroline: false, showticklabels: false, ticks: "", showline: false, fixedrange: true };
