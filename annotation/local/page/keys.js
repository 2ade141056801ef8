// One key a decision. An element says its key in data-key; the same attribute draws it on the element.

const NAMES = { Enter: "↵", Escape: "Esc", "?": "?" };
const KEY = "ser.keys";

export const areOn = () => localStorage.getItem(KEY) !== "off";
export const turn = (isOn) => {
  localStorage.setItem(KEY, isOn ? "on" : "off");
  document.documentElement.classList.toggle("keys-off", !isOn);
};

/** Draws the key on every element within that has one. */
export function drawKeys(within = document) {
  for (const element of within.querySelectorAll("[data-key]")) {
    if (element.querySelector(":scope > kbd")) continue;
    const text = document.createElement("span");
    text.className = "label";
    text.append(...element.childNodes);
    const key = document.createElement("kbd");
    key.textContent = NAMES[element.dataset.key] ?? element.dataset.key.toUpperCase();
    key.setAttribute("aria-hidden", "true");
    element.append(text, key);
    element.setAttribute("aria-keyshortcuts", element.dataset.key === "?" ? "Shift+?" : element.dataset.key);
  }
}

/** Listens. In a text only Esc (leaves it) and Ctrl+Enter count; in a dialog only its own keys. */
export function listen() {
  turn(areOn());
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.metaKey || event.defaultPrevented) return;
    const key = keyOf(event);
    if (isText(event.target)) {
      if (key === "Escape") leave(event);
      if (key !== "Enter" || !event.ctrlKey) return;
    } else if (event.ctrlKey || (key === "Enter" && event.target.matches("button, summary, a, select"))) {
      return; // the browser's own
    }
    if (key === "Escape" || (!areOn() && key !== "Enter")) return;
    const scope = document.querySelector("dialog[open]") ?? document;
    const element = [...scope.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key && isUsable(e));
    if (element) {
      event.preventDefault();
      element.click();
    }
  });
}

function keyOf(event) {
  if (event.key === "？") return "?";
  if (event.key === "Process" || event.key === "Unidentified") return event.code.replace(/^(Key|Digit)/, "").toLowerCase();
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

const isText = (target) => target.matches("textarea, input:not([type=radio], [type=checkbox])");
const isUsable = (e) => !e.disabled && !e.closest("[inert]") && e.getClientRects().length > 0;

function leave(event) {
  if (document.querySelector("dialog[open]")) return;
  event.preventDefault();
  event.target.blur();
}
