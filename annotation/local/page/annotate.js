// The annotator's page: one item at a time, every decision on one key, nothing lost.

import { address, Away, persist, request } from "./api.js";
import * as clock from "./clock.js";
import { ask, byId, closingButtons, el, hide, prose, shown } from "./dom.js";
import { areOn, drawKeys, listen, turn } from "./keys.js";
import { markdown } from "./markdown.js";
import { Saver } from "./saver.js";
import { turnsOf } from "./talk.js";
import { label, language, loadWords, speak, t } from "./words.js";

const STEP_KEYS = [["1", "q", "a"], ["2", "w", "s"], ["3", "e", "d"]];
const VERDICTS = { first_better: "7", second_better: "8", almost_equal: "9", neither: "0" };
const REASONS = { empathy: "z", fit: "x", safety: "c", natural: "v", helpful: "b", length: "n" };
const BREAK_ITEMS = 20;
const BREAK_MINUTES = 30;
const LEASE_EVERY = 120_000;
const EARLIER_KEPT = 4;
const session = `ser.session.${location.pathname}`;

let work = null; // what the server gave: view, draft, progress
let saver = null;
let isBusy = false;

// -- what is on the screen --------------------------------------------------------------------------------------------

function show(given) {
  work = given;
  const { view, draft, progress } = given;
  tellProgress(progress);
  hide(byId("work"), !view);
  hide(byId("nothing"), Boolean(view));
  hide(byId("missing"), true);
  saver = null;
  if (!view) {
    clock.hold(true);
    say("nothing-title", "all_done");
    say("nothing-text", "all_done_text");
    byId("nothing-title").focus();
    return;
  }
  document.title = `${progress.done + 1} · ${t("title")}`;
  showConversation(view);
  byId("step-cards").replaceChildren(...view.steps.map((step, index) => stepCard(step, index, view.lang)));
  showReplies(view);
  drawKeys(byId("judgement"));
  fill(draft);
  saver = new Saver(view.id, readDraft, (state) => status(t(state), state));
  clock.start(draft?.seconds ?? 0);
  veil(view);
  scrollTo(0, 0);
  byId(byId("veil").hidden ? "conversation-title" : "veil-title").focus({ preventScroll: true });
}

function showConversation(view) {
  const turns = turnsOf(view, (sha256) => address(`views/${view.id}/media/${sha256}`));
  byId("turns").replaceChildren(...turns);
  const risk = byId("risk");
  risk.textContent = view.risk ? t(`risk_${view.risk}`) : "";
  risk.dataset.level = view.risk ?? "";
  hide(risk, !view.risk);
  const earlier = byId("earlier");
  const folded = matchMedia("(max-width: 899px)").matches ? Math.max(0, turns.length - EARLIER_KEPT) : 0;
  for (const turn of turns.slice(0, folded)) hide(turn);
  hide(earlier, folded === 0);
  earlier.textContent = t("earlier", { count: folded });
  earlier.onclick = () => {
    for (const turn of turns) hide(turn, false);
    hide(earlier);
    byId("conversation-title").focus();
  };
  const box = byId("turns").parentElement;
  box.scrollTop = box.scrollHeight;
}

function stepCard(step, index, lang) {
  const [yes, no, write] = STEP_KEYS[index];
  const name = `step${step.number}`;
  const critique = el("textarea", { id: `critique${index}`, rows: 2, maxlength: 10000, dir: "auto", "aria-label": t("critique"), placeholder: t("critique") });
  critique.addEventListener("input", changed);
  const box = el("div", { class: "critique", hidden: true }, critique, el("label", { class: "key-label", for: critique.id, "data-key": write }, t("write")));
  const choices = el("div", { class: "choices two" }, choice(name, "true", t("true"), yes, "yes"), choice(name, "false", t("false"), no, "no"));
  return el(
    "fieldset",
    { class: "card step", id: name },
    el("legend", { class: "visually-hidden" }, `${t("step", { number: step.number })}: ${t(name)}`),
    el(
      "div",
      { class: "step-head" },
      el("h3", {}, el("span", { class: "number", "aria-hidden": "true" }, String(step.number)), t(name)),
      step.title.trim() ? el("p", { class: "step-title", dir: "auto", lang }, shown(step.title)) : null,
    ),
    choices,
    prose(step.text, lang, t("step", { number: step.number })),
    box,
  );
}

function choice(name, value, text, key, kind) {
  const input = el("input", { type: "radio", name, value });
  input.addEventListener("change", chosen);
  return el("label", { class: `choice ${kind}`, "data-key": key }, input, text);
}

function showReplies(view) {
  hide(byId("replies"), !view.replies);
  byId("pair").replaceChildren();
  byId("verdict-choices").replaceChildren();
  byId("reason-chips").replaceChildren();
  if (!view.replies) return;
  byId("pair").append(
    ...["first", "second"].map((name, index) =>
      el("article", { class: `card reply ${name}` }, el("h3", {}, t(name)), prose(view.replies[index], view.lang, t(name))),
    ),
  );
  byId("verdict-choices").append(...Object.entries(VERDICTS).map(([value, key]) => choice("verdict", value, t(value), key, value)));
  byId("reason-chips").append(
    ...Object.entries(REASONS).map(([value, key]) => {
      const input = el("input", { type: "checkbox", name: "reason", value });
      input.addEventListener("change", changed);
      return el("label", { class: "chip", "data-key": key }, input, t(value));
    }),
  );
}

function veil(view) {
  const seen = readSession().unveiled ?? [];
  const mustCover = ["high", "imminent"].includes(view.risk) && !seen.includes(view.id);
  hide(byId("veil"), !mustCover);
  for (const part of [document.querySelector(".conversation"), byId("judgement")]) part.inert = mustCover;
  document.body.classList.toggle("is-veiled", mustCover);
  clock.hold(mustCover);
}

function tellProgress(progress) {
  byId("progress-text").textContent = t("progress", progress);
  const bar = byId("progress");
  bar.max = Math.max(1, progress.done + progress.remaining);
  bar.value = progress.done;
  byId("undo").disabled = progress.done === 0;
}

function status(text, state = "") {
  const place = byId("saved");
  if (place.textContent !== text) place.textContent = text;
  place.dataset.state = state;
}

function trouble(text) {
  const place = byId("trouble");
  place.textContent = text;
  hide(place, !text);
}

const tellAway = (isAway) => trouble(isAway ? t("offline") : "");
const say = (id, name) => (byId(id).textContent = t(name));

// -- what is chosen ---------------------------------------------------------------------------------------------------

function checked(name) {
  return document.querySelector(`input[name="${name}"]:checked`)?.value ?? null;
}

function readDraft() {
  return {
    steps: [0, 1, 2].map((i) => {
      const value = checked(`step${i + 1}`);
      return { label: value === null ? null : value === "true", critique: byId(`critique${i}`).value };
    }),
    verdict: checked("verdict"),
    reasons: [...document.querySelectorAll('input[name="reason"]:checked')].map((input) => input.value),
    comment: byId("comment").value,
    seconds: clock.worked(),
  };
}

function fill(draft) {
  byId("comment").value = draft?.comment ?? "";
  byId("comment-box").open = Boolean(draft?.comment);
  draft?.steps.forEach((step, i) => {
    if (step.label !== null) document.querySelector(`input[name="step${i + 1}"][value="${step.label}"]`).checked = true;
    byId(`critique${i}`).value = step.critique;
  });
  if (draft?.verdict) document.querySelector(`input[name="verdict"][value="${draft.verdict}"]`).checked = true;
  for (const reason of draft?.reasons ?? []) document.querySelector(`input[name="reason"][value="${reason}"]`).checked = true;
  follow();
}

/** Shows what belongs to a choice: a critique to a False, reasons to a verdict. */
function follow() {
  [0, 1, 2].forEach((i) => {
    const value = checked(`step${i + 1}`);
    hide(byId(`critique${i}`).parentElement, value !== "false" && !byId(`critique${i}`).value);
    byId(`step${i + 1}`).dataset.value = value ?? "";
  });
  const verdict = checked("verdict");
  hide(byId("reasons"), verdict === null);
  byId("pair").dataset.verdict = verdict ?? "";
}

function changed() {
  saver?.touch();
}

function chosen(event) {
  follow();
  hide(byId("missing"));
  event.target.closest("fieldset").scrollIntoView({ block: "nearest" });
  changed();
}

// -- what is done -----------------------------------------------------------------------------------------------------

/** One thing at a time: a second press while the first is under way does nothing. */
async function busy(act) {
  if (isBusy) return;
  isBusy = true;
  byId("submit").disabled = true;
  try {
    await act();
  } catch (error) {
    if (error instanceof Away) trouble(t("offline"));
    else if (error.status === 404) badLink();
    else trouble(t("refused", { message: error.message }));
  } finally {
    isBusy = false;
    byId("submit").disabled = false;
  }
}

const next = async () => show(await persist("POST", "next", undefined, tellAway));

async function submit() {
  const draft = readDraft();
  const open = draft.steps.flatMap((step, i) => (step.label === null ? [`step${i + 1}`] : []));
  if (work.view.replies && draft.verdict === null) open.push("verdict");
  if (open.length) {
    const missing = byId("missing");
    missing.textContent = t("missing", { parts: open.map((name) => (name === "verdict" ? t("reply") : t("step", { number: name.at(-1) }))).join(", ") });
    hide(missing, false);
    document.querySelector(`input[name="${open[0]}"]`).focus();
    byId(open[0]).scrollIntoView({ block: "center" });
    return;
  }
  const steps = draft.steps.map(({ label: said, critique }) => ({ label: said, critique: said ? "" : critique }));
  await send({ ...draft, steps }, "submitted");
}

async function send(answer, told) {
  await saver.stop();
  status(t("submitting"), "saving");
  await persist("POST", "answers", { view_id: work.view.id, ...answer }, tellAway);
  status(t(told), "saved");
  await offerBreak();
  await next();
}

async function skip(reason) {
  await send({ skip: reason, comment: byId("comment").value, seconds: clock.worked() }, "skipped");
}

async function undo() {
  await saver?.flush();
  try {
    show(await request("POST", "undo"));
    status(t("undone"), "saved");
  } catch (error) {
    if (error.status !== 409) throw error;
    status(t("nothing_to_undo"));
    await next();
  }
}

async function dialogue(id) {
  clock.hold(true);
  const said = await ask(byId(id));
  clock.hold(!byId("veil").hidden || !work?.view);
  return said;
}

async function skipWhy() {
  const reason = await dialogue("skip-why");
  if (reason) await busy(() => skip(reason));
}

async function rest() {
  await dialogue("resting");
  writeSession({ items: 0, since: Date.now() });
}

async function offerBreak() {
  const { items = 0, since = Date.now() } = readSession();
  const minutes = Math.round((Date.now() - since) / 60_000);
  writeSession({ items: items + 1, since });
  if (items + 1 < BREAK_ITEMS && minutes < BREAK_MINUTES) return;
  byId("rest-text").textContent = t("rest_text", { items: items + 1, minutes });
  if ((await dialogue("rest")) === "rest") await rest();
  writeSession({ items: 0, since: Date.now() });
}

async function guidelines() {
  const { markdown: text } = await request("GET", `guidelines?lang=${language()}`);
  const [first, ...others] = markdown(text);
  byId("guidelines-text").replaceChildren(...(first.localName === "h2" ? others : [first, ...others]));
  byId("guidelines-text").scrollTop = 0;
  await dialogue("guidelines");
}

async function renew() {
  if (!work?.view || document.visibilityState !== "visible" || !clock.isActive(300_000)) return;
  const lease = await request("POST", `views/${work.view.id}/lease`).catch(() => null);
  if (lease && lease.seconds === null) trouble(t("lease_lost"));
}

function badLink() {
  hide(byId("work"));
  hide(byId("nothing"), false);
  hide(byId("again"));
  say("nothing-title", "bad_link");
  say("nothing-text", "bad_link_text");
}

// -- the session: the warning, and the count towards a break -----------------------------------------------------------

const readSession = () => JSON.parse(sessionStorage.getItem(session) ?? "{}");
const writeSession = (more) => sessionStorage.setItem(session, JSON.stringify({ ...readSession(), ...more }));

async function warn() {
  if (readSession().warned) return;
  while ((await ask(byId("warning"))) !== "go"); // Escape does not begin it
  writeSession({ warned: true, items: 0, since: Date.now() });
}

function change(lang) {
  const draft = work?.view ? readDraft() : null;
  speak(lang);
  for (const option of document.querySelectorAll('input[name="lang"]')) option.checked = option.value === language();
  if (work) {
    const before = saver;
    show({ ...work, draft });
    if (saver && before) before.flush();
  }
}

async function begin() {
  await loadWords();
  document.title = t("title");
  drawKeys();
  change(language());
  byId("keys-on").checked = areOn();
  closingButtons();
  listen();
  byId("judgement").addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit);
  });
  byId("comment").addEventListener("input", changed);
  byId("comment-box").firstElementChild.addEventListener("click", (event) => {
    event.preventDefault(); // opened here and now: the next key is already text
    byId("comment-box").open = true;
    byId("comment").focus();
  });
  byId("undo").onclick = () => busy(undo);
  byId("help").onclick = () => busy(guidelines);
  byId("pause").onclick = rest;
  byId("skip").onclick = skipWhy;
  byId("distress").onclick = byId("veil-distress").onclick = () => busy(() => skip("distress"));
  byId("again").onclick = () => busy(next);
  byId("keys-on").onchange = (event) => turn(event.target.checked);
  byId("unveil").onclick = () => {
    writeSession({ unveiled: [...(readSession().unveiled ?? []).slice(-50), work.view.id] });
    veil(work.view);
    byId("conversation-title").focus();
  };
  for (const option of document.querySelectorAll('input[name="lang"]')) option.onchange = () => change(option.value);
  addEventListener("pagehide", () => saver?.leave());
  setInterval(renew, LEASE_EVERY);
  document.body.classList.remove("is-loading");
  await warn();
  await busy(next);
}

begin();
