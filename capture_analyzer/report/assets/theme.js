// Light, dark, or as the system has it; and the colours as the canvas needs them.

const THEMES = ["auto", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let theme = "auto";
let printing = false;

export function themeName() {
  return theme;
}

/** Call `listener` when colours change. */
export function onTheme(listener) {
  listeners.push(listener);
}

export function setTheme(name) {
  theme = THEMES.includes(name) ? name : "auto";
  apply();
}

export function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  return theme;
}

/** Paper is light, whatever the screen is. */
export function printTheme(on) {
  printing = on;
  apply();
}

function apply() {
  const dark = !printing && (theme === "dark" || (theme === "auto" && system.matches));
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);

/** The value of a colour of colours.css by its name. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
