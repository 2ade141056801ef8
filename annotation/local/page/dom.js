// Elements and text. Whatever came from people or models enters the page as text, never as markup.

/** An element with properties, attributes (null leaves one out) and children. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Untrusted text as it is shown: control characters become the signs that stand for them. */
export function shown(text) {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCodePoint(0x2400 + c.codePointAt(0)))
    .replace(/\u007f/g, "\u2421");
}

/** A paragraph of untrusted text: its own direction, which ends with it; a very long one scrolls in its own box. */
export function prose(text, lang, label) {
  const isLong = text.length > 3000;
  return el(
    "p",
    { class: isLong ? "text long" : "text", dir: "auto", lang, tabindex: isLong ? 0 : null, role: isLong ? "region" : null, "aria-label": isLong ? label : null },
    shown(text),
  );
}

export const byId = (id) => document.getElementById(id);

export function hide(element, isHidden = true) {
  element.hidden = isHidden;
}

/** Opens a dialog; resolves with the value of the button that closed it, "" for Escape. */
export function ask(dialog) {
  return new Promise((resolve) => {
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
    dialog.showModal();
  });
}

export function closingButtons() {
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close(button.dataset.close));
  }
}
