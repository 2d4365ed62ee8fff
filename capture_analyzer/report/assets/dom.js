// Elements. Text enters the page here and only as text nodes; there is no way to pass markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (null and false: left out), children, text; "on" holds listeners. */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  append(element, children);
  return element;
}

/** Add children: elements, text, or lists of them; null and false are left out. */
export function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Text that came from the capture: isolated, so that its direction stays its own. */
export function captured(text, tag = "span") {
  return el(tag, { class: "captured", dir: "auto" }, text);
}

export function button(label, attributes, action) {
  return el("button", { type: "button", ...attributes, on: { click: action } }, label);
}

/** Text only a screen reader gets. */
export function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

/** The mark of the bar: three offset bars of a waterfall. */
export function emblem() {
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of [["width", 16], ["height", 16], ["viewBox", "0 0 16 16"], ["aria-hidden", "true"]]) {
    svg.setAttribute(name, value);
  }
  for (const [x, y, width] of [[0, 2, 8], [4, 7, 7], [9, 12, 7]]) {
    const bar = document.createElementNS(SVG, "rect");
    for (const [name, value] of [["x", x], ["y", y], ["width", width], ["height", 3], ["rx", 1]]) {
      bar.setAttribute(name, value);
    }
    bar.setAttribute("fill", "currentColor");
    svg.append(bar);
  }
  return svg;
}

/** Severity as shape and word. */
export function severity(level) {
  return el("span", { class: `severity ${level}` }, el("span", { class: "mark" }), level[0].toUpperCase() + level.slice(1));
}

/** A filled element for a cause: a swatch, a segment of a bar. */
export function fillOf(cause, lost, extra = "") {
  return el("span", {
    class: `fill ${extra} cause-${cause.name.replaceAll("_", "-")} group-${cause.group}${lost ? " lost" : ""}`,
  });
}

const live = el("div", { class: "unseen", "aria-live": "polite", role: "status" });

/** The live region that tells a screen reader what changed. */
export function liveRegion() {
  return live;
}

export function announce(text) {
  live.textContent = text;
}

/** Copy text to the clipboard; from file:// the old way is the one that works everywhere. */
export async function copy(text, from) {
  const label = from.textContent;
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    from.focus();
  }
  from.textContent = done ? "Copied" : "Copy failed";
  announce(done ? "Copied" : "Copying failed");
  setTimeout(() => { from.textContent = label; }, 1500);
}

/** A Wireshark filter with its button. */
export function filterLine(text) {
  const copier = button("Copy", {}, () => copy(text, copier));
  return el("div", { class: "filter" }, el("code", {}, text), copier);
}
