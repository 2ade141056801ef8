// A conversation as bubbles: cues and photos beside what was said, the last words marked.

import { el, prose, shown } from "./dom.js";
import { t } from "./words.js";

/** The turns of a view. `picture` gives the address of a photo. */
export function turnsOf(view, picture) {
  return view.history.map((turn, index) => {
    const isLast = index === view.history.length - 1;
    const risk = turn.risk ? el("span", { class: "badge" }, t("risk_turn")) : null;
    const mark = isLast ? el("span", { class: "last-mark" }, t("last_words")) : null;
    return el(
      "li",
      { class: `turn ${turn.speaker}${isLast ? " last" : ""}`, "data-index": index },
      el("p", { class: "speaker" }, t(turn.speaker), risk, mark),
      ...turn.photos.map((photo) => photoOf(photo, index, picture)),
      el("div", { class: "bubble" }, prose(turn.text, view.lang, t(turn.speaker))),
      turn.cues.length ? cuesOf(turn.cues, view.lang) : null,
    );
  });
}

function photoOf(photo, index, picture) {
  const image = el("img", { class: "photo", src: picture(photo.sha256), alt: t("photo", { number: index + 1 }), decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(el("p", { class: "hint" }, t("photo_missing"))), { once: true });
  return image;
}

function cuesOf(cues, lang) {
  return el(
    "ul",
    { class: "cues" },
    ...cues.map((cue) => el("li", {}, el("span", { class: "cue-name" }, t(cue.channel)), " ", el("bdi", { lang }, shown(cue.text)))),
  );
}
