// The words of the interface, in both languages; an item keeps its own language.

const KEY = "ser.language";
let words = {};
let column = 0;

export const language = () => (column === 1 ? "zh" : "en");

/** Fetches the words. The language is the address' ?lang=, else the one chosen last, else the browser's. */
export async function loadWords() {
  words = await (await fetch("/static/words.json")).json();
  const asked = new URLSearchParams(location.search).get("lang");
  speak(asked ?? localStorage.getItem(KEY) ?? navigator.language);
}

/** From now on in this language. */
export function speak(lang) {
  column = lang.toLowerCase().startsWith("zh") ? 1 : 0;
  localStorage.setItem(KEY, language());
  document.documentElement.lang = language();
  for (const element of document.querySelectorAll("[data-t]")) label(element, t(element.dataset.t));
  for (const element of document.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
}

/** A text by its name, with {places} filled in. */
export function t(name, values = {}) {
  const text = words[name]?.[column] ?? name;
  return text.replace(/\{(\w+)\}/g, (_, place) => values[place]);
}

/** Puts a text into an element, beside the key that it may show. */
export function label(element, text) {
  const place = element.querySelector(":scope > .label") ?? element;
  place.textContent = text;
}
