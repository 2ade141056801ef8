// The owner's page: how the round stands, how well people agree, and the owner's word where they do not.

import { address, Away, request } from "./api.js";
import { byId, closingButtons, el, hide, prose, shown } from "./dom.js";
import { drawKeys, listen } from "./keys.js";
import { turnsOf } from "./talk.js";
import { language, loadWords, speak, t } from "./words.js";

const EVERY = 4000;
const PARTS = ["step1", "step2", "step3", "reply"];
const VERDICTS = { first_better: "7", second_better: "8", almost_equal: "9", neither: "0" };
const STEP_KEYS = [["1", "q"], ["2", "w"], ["3", "e"]];

let overview = null;
let waitingShown = null;
let dispute = null;

const percent = (share) => (share === null ? "–" : `${Math.round(share * 100)} %`);
const number = (value, digits = 2) => (value === null ? undefinedMark() : document.createTextNode(value.toFixed(digits)));
const undefinedMark = (reason = "") => el("span", { class: "undefined", title: reason || null }, t("undefined"));

function draw() {
  const o = overview;
  document.title = `${o.done}/${o.items} · ${t("round")}`;
  byId("meter").replaceChildren(...["done", "disputed", "open"].filter((state) => o[state] > 0).map((state) => meterPart(state, o[state])));
  byId("meter").setAttribute("aria-label", `${o.done} / ${o.items} ${t("done")}`);
  const tiles = [["items"], ["done"], ["in_progress"], ["disputed"], ["waiting", o.waiting > 0], ["answers"], ["median_seconds"], ["surplus"]];
  byId("tiles").replaceChildren(
    ...tiles.map(([name, calls]) => {
      const value = name === "median_seconds" ? (o[name] === null ? "–" : o[name].toFixed(0)) : String(o[name]);
      return el("div", { class: calls ? "tile call" : "tile", "data-name": name }, el("dt", {}, t(name)), el("dd", {}, value));
    }),
  );
  drawAgreement(o.agreement);
  drawPeople(o.annotators);
}

function meterPart(state, count) {
  const part = el("span", { class: state });
  part.style.flexGrow = count;
  return part;
}

function table(id, head, rows) {
  byId(id).replaceChildren(
    el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows),
  );
}

function drawAgreement(agreement) {
  const rows = PARTS.map((part) => {
    const found = agreement[part];
    const labels = Object.entries(found.shares).map(([name, share]) => `${labelWord(name)} ${percent(share)}`);
    const value = (v) => el("td", {}, v === null ? undefinedMark(found.reason) : number(v));
    return el(
      "tr",
      { "data-part": part },
      el("th", { scope: "row" }, t(part)),
      value(found.fleiss),
      value(found.alpha),
      el("td", {}, percent(found.raw)),
      el("td", {}, String(found.items)),
      el("td", { class: "words" }, [labels.join(" · "), found.reason || found.note].filter(Boolean).join(" — ")),
    );
  });
  table("agreement", [t("part"), "κ", "α", t("raw"), t("compared"), t("shares")], rows);
}

const labelWord = (name) => ({ True: t("true"), False: t("false") })[name] ?? t(name);

function drawPeople(people) {
  const rows = people.map((p) => {
    const flags = [p.source === "llm" && t("judge"), p.is_one_sided && t("flag_side"), p.is_drifting && t("flag_drift")].filter(Boolean);
    const rowsLink = el("a", { class: "button quiet", href: address(`export.jsonl?annotator=${encodeURIComponent(p.annotator)}`), download: `answers-${p.annotator}.jsonl`, "aria-label": `${t("export")}: ${p.annotator}` }, "↓ " + t("download"));
    return el(
      "tr",
      { "data-annotator": p.annotator },
      el("th", { scope: "row" }, shown(p.annotator), ...flags.map((flag) => el("span", { class: "flag" }, flag))),
      el("td", {}, String(p.answers)),
      el("td", {}, String(p.skipped)),
      el("td", {}, p.median_seconds === null ? "–" : p.median_seconds.toFixed(0)),
      ...[p.agreement, p.true_share, p.side_share, p.gold_accuracy, p.self_consistency].map((share) => el("td", {}, percent(share))),
      el("td", {}, rowsLink),
    );
  });
  const head = ["annotator", "answers", "skipped_count", "seconds", "with_others", "true_share", "side_share", "gold_accuracy", "self_consistency"];
  table("people", [...head.map((name) => t(name)), ""], rows);
}

// -- adjudication -----------------------------------------------------------------------------------------------------

async function drawQueue() {
  const { waiting } = await request("GET", "waiting");
  byId("queue-hint").textContent = waiting.length ? t("queue_some", { count: waiting.length }) : t("queue_none");
  byId("queue").replaceChildren(
    ...waiting.slice(0, 100).map((item) => {
      const button = el("button", { type: "button", "data-item": item.item_id }, el("span", {}, item.parts.map((part) => t(part)).join(" · ")), el("span", { class: "hint" }, t("votes", { count: item.votes })));
      button.onclick = () => guard(() => open(item.item_id));
      return el("li", {}, button);
    }),
  );
  waitingShown = overview.waiting;
}

async function open(item) {
  dispute = await request("GET", `items/${item}`);
  const { view, votes, parts } = dispute;
  byId("turns").replaceChildren(...turnsOf(view, (sha256) => address(`items/${item}/media/${sha256}`)));
  const cards = view.steps.map((step, index) => {
    const name = `step${step.number}`;
    const said = votes.map((vote) => voteLine(vote.annotator, t(String(vote.labels[index])), vote.critiques[index], view.lang));
    const [yes, no] = STEP_KEYS[index];
    return card(name, String(step.number), parts.includes(name), [prose(step.text, view.lang)], said, [["true", t("true"), yes, "yes"], ["false", t("false"), no, "no"]]);
  });
  if (view.replies) {
    const replies = el("div", { class: "pair" }, ...["first", "second"].map((name, i) => el("article", { class: `card reply ${name}` }, el("h3", {}, t(name)), prose(view.replies[i], view.lang))));
    const said = votes.map((vote) => voteLine(vote.annotator, t(vote.verdict), [...vote.reasons.map((r) => t(r)), vote.comment].filter(Boolean).join(" · "), view.lang));
    cards.push(card("reply", "4", parts.includes("reply"), [replies], said, Object.entries(VERDICTS).map(([value, key]) => [value, t(value), key, value])));
  }
  const isOpen = (made) => parts.includes(made.id.replace("part-", ""));
  byId("ruling-parts").replaceChildren(...cards.filter(isOpen), ...cards.filter((made) => !isOpen(made)));
  byId("note").value = "";
  byId("missing").textContent = "";
  drawKeys(byId("dispute"));
  byId("dispute").showModal();
}

function card(name, sign, isOpen, content, said, choices) {
  const state = el("span", { class: isOpen ? "badge" : "hint" }, t(isOpen ? "undecided" : "settled"));
  const inputs = choices.map(([value, text, key, kind]) => el("label", { class: `choice ${kind}`, "data-key": key }, el("input", { type: "radio", name, value }), text));
  return el(
    "fieldset",
    { class: isOpen ? "card step" : "card step is-settled", id: `part-${name}` },
    el("legend", { class: "visually-hidden" }, t(name)),
    el("div", { class: "step-head" }, el("h3", {}, el("span", { class: "number", "aria-hidden": "true" }, sign), t(name), state)),
    ...content,
    el("ul", { class: "votes" }, ...said),
    isOpen ? el("div", { class: choices.length === 2 ? "choices two" : "choices" }, ...inputs) : null,
  );
}

function voteLine(who, said, why, lang) {
  return el("li", {}, el("bdi", {}, shown(who)), ": ", el("b", {}, said), why ? el("span", { class: "said", dir: "auto", lang }, ` — ${shown(why)}`) : null);
}

async function decide() {
  const value = (name) => document.querySelector(`#ruling input[name="${name}"]:checked`)?.value ?? null;
  const steps = PARTS.slice(0, 3).map((name) => (value(name) === null ? null : value(name) === "true"));
  const verdict = value("reply");
  if (verdict === null && steps.every((step) => step === null)) {
    byId("missing").textContent = t("decides_nothing");
    return;
  }
  await request("POST", "decisions", { item_id: dispute.item_id, steps, verdict, note: byId("note").value });
  byId("dispute").close();
  byId("fresh").textContent = t("decided");
  overview = await request("GET", "overview");
  draw();
  await drawQueue();
}

// -- the page ---------------------------------------------------------------------------------------------------------

function trouble(text) {
  byId("trouble").textContent = text;
  hide(byId("trouble"), !text);
}

async function guard(act) {
  try {
    await act();
    trouble("");
    return true;
  } catch (error) {
    if (error.status === 404 && overview === null) {
      hide(byId("nothing"), false);
      byId("nothing-title").textContent = t("bad_link");
      byId("nothing-text").textContent = t("bad_link_text");
      return false;
    }
    trouble(error instanceof Away ? t("offline") : t("refused", { message: error.message }));
    return true;
  }
}

async function look() {
  if (document.visibilityState !== "visible" && overview !== null) return;
  overview = await request("GET", "overview");
  hide(byId("owner"), false);
  draw();
  byId("fresh").textContent = t("updated", { time: new Date().toLocaleTimeString(language()) });
  if (overview.waiting !== waitingShown && !byId("dispute").open) await drawQueue();
}

async function begin() {
  await loadWords();
  drawKeys();
  speak(language());
  closingButtons();
  listen();
  byId("lang").value = language();
  byId("lang").onchange = () => {
    speak(byId("lang").value);
    guard(async () => {
      draw();
      await drawQueue();
    });
  };
  byId("export").href = address("export.jsonl");
  byId("report").href = `${location.pathname.replace(/\/$/, "")}/report`;
  byId("ruling").addEventListener("submit", (event) => {
    event.preventDefault();
    guard(decide);
  });
  document.body.classList.remove("is-loading");
  const goOn = await guard(look);
  if (goOn) setInterval(() => guard(look), EVERY);
}

begin();
