"""The built-in page in a real browser: by keys alone, by reloads, by night, on a phone, in Chinese, under attack."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from annotation.ledger import Ledger, ledger_path
from ser_toolkit.schema import Cue, Turn
from tests.annotation_samples import begin, item, items, made_of, photo
from tests.served import served

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture
def shots(tmp_path) -> Path:
    """Where screenshots go: SER_SCREENSHOTS keeps them."""
    folder = Path(os.environ.get("SER_SCREENSHOTS", tmp_path / "shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start(page: Page) -> None:
    """Past the warning, with the keyboard."""
    expect(page.locator("#warning")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#work")).to_be_visible()


def press(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def submit(page: Page) -> None:
    """Enter, and wait for the next item."""
    before = page.locator("#progress-text").text_content()
    page.keyboard.press("Enter")
    expect(page.locator("#progress-text")).not_to_have_text(before or "")


def saved(page: Page) -> None:
    expect(page.locator("#saved")).to_have_attribute("data-state", "saved")


def test_twenty_items_by_keyboard_with_a_reload_and_an_undo(tmp_path, open_page):
    begin(tmp_path, items(20), ("ann", "bo")).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        for number in range(20):
            expect(page.locator("#progress-text")).to_contain_text(f"{number} done")
            press(page, "12e" if number % 3 == 0 else "123")
            if number % 3 == 0:  # a False asks for a line
                press(page, "d")
                page.keyboard.type(f"not what was said, {number}")
                page.keyboard.press("Escape")
            press(page, "7890"[number % 4])
            press(page, "z")
            if number == 6:
                words = page.locator("#turns").text_content()
                page.locator("#saved[data-state=saved]").wait_for()
                page.reload()
                expect(page.locator("#work")).to_be_visible()  # no second warning in one session
                assert page.locator("#turns").text_content() == words
                expect(page.locator("#critique2")).to_have_value("not what was said, 6")
                expect(page.locator("input[name=step3][value=false]")).to_be_checked()
                expect(page.locator("input[name=verdict][value=almost_equal]")).to_be_checked()
            if number == 18:  # the twentieth that is sent in, with the one that was taken back
                page.keyboard.press("Enter")
                expect(page.locator("#rest")).to_contain_text("20 items")
                page.keyboard.press("p")
                expect(page.locator("#resting")).to_be_visible()
            submit(page)
            if number == 9:
                page.keyboard.press("u")
                expect(page.locator("#progress-text")).to_contain_text("9 done")
                expect(page.locator("#critique2")).to_have_value("not what was said, 9")
                expect(page.locator("input[name=verdict][value=second_better]")).to_be_checked()
                submit(page)
        expect(page.locator("#nothing-title")).to_be_visible()
    with Ledger(ledger_path(tmp_path)) as ledger:
        answers = [a for table in ledger.state.answers.values() for a in table.values()]
        assert len(answers) == 20
        assert sum(not a.steps[2].label for a in answers if a.steps) == 7
        assert {a.steps[2].critique for a in answers if a.steps} == {
            "",
            *(f"not what was said, {n}" for n in range(0, 20, 3)),
        }
        assert {a.verdict for a in answers} == {"first_better", "second_better", "almost_equal", "neither"}
        assert all(a.reasons == ("empathy",) and a.seconds is not None and a.seconds < 300 for a in answers)


def test_a_draft_is_on_disk_within_a_quarter_of_a_second_and_saved_is_shown(tmp_path, open_page):
    begin(tmp_path, items(3)).close()
    with served(tmp_path) as at, Ledger(ledger_path(tmp_path)) as ledger:
        page = open_page(at.url + at.people["ann"])
        start(page)
        page.evaluate(
            """() => {
              const place = document.getElementById("saved");
              let began = 0;
              window.took = [];
              document.addEventListener("change", () => (began = performance.now()));
              new MutationObserver(() => place.dataset.state === "saved" && took.push(performance.now() - began))
                .observe(place, { attributes: true });
            }"""
        )
        for key in "1w3e8":
            press(page, key)
            page.wait_for_timeout(400)
            saved(page)
        took = page.evaluate("took")
        assert len(took) == 5 and min(took) < 250, took  # a busy machine may be slower at times
        view = next(iter(ledger.refresh().views))
        draft = ledger.draft(view)
        assert draft and [s["label"] for s in draft["steps"]] == [True, False, False]
        assert draft["verdict"] == "second_better"


def test_every_decision_shows_its_key_and_the_key_does_it(tmp_path, open_page):
    begin(tmp_path, items(1)).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        press(page, "7")
        for place in page.locator("#judgement [data-key]:visible, .bar [data-key]:visible").all():
            key = place.get_attribute("data-key") or ""
            drawn = place.locator("kbd").text_content()
            assert drawn == {"Enter": "↵"}.get(key, key.upper())
        keys = [p.get_attribute("data-key") for p in page.locator("#judgement [data-key]:visible").all()]
        assert len(set(keys)) == len(keys)
        for choice in page.locator(".choice").all():
            press(page, choice.get_attribute("data-key") or "")
            expect(choice.locator("input")).to_be_checked()
        page.keyboard.press("?")
        expect(page.locator("#guidelines-text")).to_contain_text("How the seeker feels.")
        page.keyboard.press("Escape")
        press(page, "m")
        page.keyboard.type("12e, q? typed, not pressed")
        expect(page.locator("#comment")).to_have_value("12e, q? typed, not pressed")
        page.keyboard.press("Escape")
        page.locator("summary", has_text="Settings").click()
        page.locator("#keys-on").uncheck()
        press(page, "1")
        expect(page.locator("input[name=step1][value=false]")).to_be_checked()  # keys are off


def test_an_unfinished_answer_is_not_sent_and_the_open_part_is_named_and_focused(tmp_path, open_page):
    begin(tmp_path, items(1)).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        press(page, "13")
        page.keyboard.press("Enter")
        expect(page.locator("#missing")).to_contain_text("Step 2, The two replies")
        assert page.evaluate("document.activeElement.name") == "step2"
        assert at.next("ann")["progress"]["done"] == 0


def test_distress_skips_at_once_and_a_crisis_is_covered_until_asked_for(tmp_path, open_page):
    begin(tmp_path, [item(0, risk="imminent")]).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        expect(page.locator("#veil")).to_be_visible()
        press(page, "1")
        assert page.locator("input:checked[name=step1]").count() == 0
        press(page, "v")
        expect(page.locator("#veil")).to_be_hidden()
        expect(page.locator("#risk")).to_contain_text("immediate danger")
        press(page, "j")
        expect(page.locator("#nothing")).to_be_visible()
        press(page, "u")
        expect(page.locator("#work")).to_be_visible()
        press(page, "k")
        press(page, "3")
        expect(page.locator("#nothing")).to_be_visible()
    with Ledger(ledger_path(tmp_path)) as ledger:
        assert [a.skip for table in ledger.state.answers.values() for a in table.values()] == ["language"]


def test_the_page_waits_for_a_server_that_is_away_and_loses_nothing(tmp_path, open_page):
    begin(tmp_path, items(2)).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        page.context.set_offline(True)
        press(page, "12e7")
        press(page, "d")
        page.keyboard.type("typed while away")
        page.keyboard.press("Escape")
        expect(page.locator("#saved")).to_have_attribute("data-state", "not_saved")
        page.keyboard.press("Enter")
        expect(page.locator("#trouble")).to_contain_text("No connection")
        page.context.set_offline(False)
        expect(page.locator("#progress-text")).to_contain_text("1 done", timeout=20_000)
        expect(page.locator("#trouble")).to_be_hidden()
    open_page.complaints[:] = [c for c in open_page.complaints if "ERR_INTERNET_DISCONNECTED" not in c]
    with Ledger(ledger_path(tmp_path)) as ledger:
        (answer,) = [a for table in ledger.state.answers.values() for a in table.values()]
        assert answer.steps and answer.steps[2].critique == "typed while away"


@pytest.mark.parametrize(
    ("name", "options", "query"),
    [
        ("light", {}, "?lang=en"),
        ("dark", {"color_scheme": "dark"}, "?lang=en"),
        ("phone", PHONE, "?lang=en"),
        ("chinese", {}, "?lang=zh"),
    ],
)
def test_by_day_by_night_on_a_phone_and_in_chinese(tmp_path, open_page, shots, name, options, query):
    begin(tmp_path, [item(0, photo=photo(tmp_path))]).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"] + query, **options)
        start(page)
        page.locator(".photo").evaluate("i => i.decode()")
        page.locator("#step1 .yes").click()
        page.locator("#step3 .no").click()
        saved(page)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=shots / f"annotate-{name}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == (name == "dark")
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, .choice, .chip, summary")]
              .filter((e) => e.getClientRects().length).map((e) => [e.id, e.getBoundingClientRect().height])
              .filter(([, height]) => height < 44)"""
        )
        assert small == [], "too small for a finger"
        expect(page.locator("#submit .label")).to_have_text("提交" if name == "chinese" else "Submit")
        assert page.evaluate("document.documentElement.lang") == ("zh" if name == "chinese" else "en")
        if name == "chinese":  # the choice is kept
            page.goto(at.url + at.people["ann"])
            expect(page.locator("#submit .label")).to_have_text("提交")


def test_contrast_is_readable_by_day_and_by_night(tmp_path, open_page):
    begin(tmp_path, [item(0, risk="concern")]).close()
    with served(tmp_path) as at:
        for scheme in ("light", "dark"):
            page = open_page(at.url + at.people["ann"], color_scheme=scheme)
            start(page)
            press(page, "1w3e70")
            poor = page.evaluate(CONTRAST)
            assert poor == [], scheme


CONTRAST = """() => {
  document.getAnimations().forEach((running) => running.finish());  // a colour half way is nobody's choice
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (e) => {
    const colour = e ? rgb(getComputedStyle(e).backgroundColor) : [255, 255, 255, 255];
    return colour[3] === 255 ? colour : behind(e.parentElement);
  };
  const ratio = (e) => {
    const [dark, bright] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => x - y);
    return (bright + 0.05) / (dark + 0.05);
  };
  const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll("p, h1, h2, h3, legend, .label, kbd, bdi, span")]
    .filter((e) => e.getClientRects().length && says(e) && !e.closest(":disabled, .visually-hidden, .primary"))
    .map((e) => [e.textContent.slice(0, 30), ratio(e)]).filter(([, found]) => found < 4.5);
}"""
"""The texts whose contrast is below WCAG's AA, as browsers compute it."""


def test_a_screen_reader_finds_landmarks_names_and_news(tmp_path, open_page):
    begin(tmp_path, [item(0, photo=photo(tmp_path))]).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        assert page.evaluate("document.activeElement.id") == "conversation-title"
        for role, name in (("main", None), ("banner", None), ("navigation", "Actions"), ("region", "Conversation")):
            expect(page.get_by_role(role, name=name)).to_have_count(1)
        for number, name in enumerate(("What the conversation is about", "How the seeker feels", "What to do now"), 1):
            group = page.get_by_role("group", name=f"Step {number}: {name}")
            expect(group.get_by_role("radio", name="True")).to_have_count(1)
        expect(page.get_by_role("img", name="Photo of the seeker, turn 3")).to_have_count(1)
        expect(page.locator("#saved[role=status], #trouble[role=alert], #missing[role=alert]")).to_have_count(3)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, textarea, select, summary")]
              .filter((e) => e.getClientRects().length)
              .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length))
              .map((e) => e.outerHTML)"""
        )
        assert nameless == []
        page.keyboard.press("Tab")  # on from the conversation, without a trap
        seen = set()
        for _ in range(30):
            seen.add(page.evaluate("document.activeElement.name || document.activeElement.id"))
            page.keyboard.press("Tab")
        assert {"step1", "step2", "step3", "verdict", "submit", "distress", "skip"} <= seen


HOSTILE = [
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    "{{ 7 * 7 }} {% include '/etc/passwd' %} ${7*7} #{7*7} <%= 7*7 %>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\u202eevil\u202c \u2066iso\u2069 \u200f\u200e \u202b",
    "</textarea></p></section><h1>out</h1><!-- ",
    "javascript:alert(1) data:text/html,<script>1</script>",
    "x" * 200_000,
    "\ufdfa\u0301\u0301\u0301" * 50,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_hostile_text_in_every_field_is_text(tmp_path, open_page, text):
    turns = (
        Turn(speaker="seeker", text=text, cues=(Cue(channel="face", text=text, source="corpus"),)),
        Turn(speaker="supporter", text=text),
        Turn(speaker="seeker", text=text),
        Turn(speaker="supporter", text=f"{text} reference"),
    )
    begin(
        tmp_path, [made_of(turns, (text, text, text), text, f"{text} reference", 0)], ("ann", "<b>bo</b>"), overlap=1
    ).close()
    with served(tmp_path) as at:
        page = open_page(at.url + at.people["ann"])
        start(page)
        expected = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in text)
        assert [page.locator(".turn .text").nth(n).text_content() for n in range(3)] == [expected] * 3
        assert [page.locator(".step .text").nth(n).text_content() for n in range(3)] == [expected] * 3
        assert page.locator(".cues bdi").text_content() == expected
        replies = {page.locator(".reply .text").nth(n).text_content() for n in (0, 1)}
        assert replies == {expected, f"{expected} reference"}
        assert page.locator("script").count() == 1 and page.locator("#work img, #work script, #work h1").count() == 1
        assert "owned" not in page.title()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        order = page.locator("#steps-title").evaluate("e => getComputedStyle(e).direction")
        assert order == "ltr"  # a bidi mark ends with its own text
        press(page, "q2e0")
        press(page, "a")
        if len(text) < 10_000:  # and what a person types comes back as text
            page.locator("#critique0").fill(text.replace("\x1b", "").replace("\x07", ""))
        page.keyboard.press("Escape")
        submit_and_see(page)
        owner = open_page(at.url + at.owner)
        expect(owner.locator("#people")).to_contain_text("<b>bo</b>")
        assert owner.locator("#people b").count() == 0


def submit_and_see(page: Page) -> None:
    page.keyboard.press("Enter")
    expect(page.locator("#nothing")).to_be_visible()


def test_the_owner_watches_decides_and_takes_the_answers_away(tmp_path, open_page, shots):
    begin(tmp_path, items(6)).close()
    with served(tmp_path) as at:
        owner = open_page(at.url + at.owner)
        tile = owner.locator(".tile[data-name=done] dd")
        expect(tile).to_have_text("0")
        expect(owner.locator("tr[data-part=step1] .undefined")).to_have_count(2)  # not 0
        for who, label, verdict in (
            ("ann", True, "neither"),
            ("bo", True, "almost_equal"),
            ("cy", False, "first_better"),
        ):
            while view := at.next(who)["view"]:
                steps = [{"label": label, "critique": "" if label else "太早了"}] * 3
                body = {"view_id": view["id"], "steps": steps, "verdict": verdict, "seconds": 9}
                assert at.ask(who, "POST", "answers", body).status == 200
        expect(owner.locator(".tile[data-name=waiting] dd")).to_have_text("6", timeout=15_000)
        expect(owner.locator("#queue button")).to_have_count(6)
        expect(owner.locator("tr[data-part=step1] .undefined")).to_have_count(1)  # the first two: all True
        owner.screenshot(path=shots / "owner.png")
        owner.locator("#queue button").first.click()
        expect(owner.locator("#dispute")).to_contain_text("太早了")
        assert "generated" not in (owner.locator("#dispute").inner_text() or "")
        owner.keyboard.press("Enter")
        expect(owner.locator("#dispute")).to_be_visible()
        owner.keyboard.press("9")
        owner.screenshot(path=shots / "owner-decides.png")
        owner.locator("#ruling .primary").click()
        expect(owner.locator("#queue button")).to_have_count(5)
        with owner.expect_download() as waiting:
            owner.locator("#export").click()
        rows = [json.loads(line) for line in Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()]
        assert len(rows) == 18 and {r["annotator"] for r in rows} == {"ann", "bo", "cy"}
    with Ledger(ledger_path(tmp_path)) as ledger:
        assert [d.better for d in ledger.state.decisions.values()] == ["almost_equal"]


def test_a_wrong_link_says_so(tmp_path, open_page):
    begin(tmp_path, items(1)).close()
    with served(tmp_path) as at:
        page = open_page(f"{at.url}/a/{'x' * 32}")
        expect(page.locator("#warning")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.locator("#nothing-title")).to_have_text("This link does not work")
        owner = open_page(f"{at.url}/o/{'x' * 32}")
        expect(owner.locator("#nothing-title")).to_have_text("This link does not work")
    open_page.complaints[:] = [c for c in open_page.complaints if "404" not in c]
