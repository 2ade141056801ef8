"""What people see in the real Label Studio, in a real browser: by keys alone, and under attack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.label_studio.layout import REASON_KEYS, STEP_KEYS, VERDICT_KEYS
from annotation.ledger import Ledger
from ser_toolkit.schema import Cue, Turn
from tests.annotation_samples import begin, item, made_of, photo
from tests.servers.label_studio import LabelStudio, _ended, label_studio

__all__ = ["_ended", "label_studio"]

pytestmark = [pytest.mark.browser, pytest.mark.server, pytest.mark.xdist_group("label-studio")]
Seat = Callable[[Ledger, str], Page]


@pytest.fixture
def take_seat(browser: Browser, label_studio: LabelStudio) -> Iterator[Seat]:
    """`take_seat(ledger, who)`: that person's page, after signing up by a link. What it asks of another host, and any
    dialog, fails the test at its end.
    """
    contexts, complaints = [], []

    def sit(ledger: Ledger, who: str) -> Page:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        ours = (label_studio.url, "data:", "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(ours) else complaints.append(asked.url))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        link = next(iter(label_studio.started.links.values())).partition("&next=")[0]
        page.goto(f"{link}&next=/projects/{label_studio.project(ledger, who).id}/data%3Flabeling=1")
        page.fill("input[name=email]", f"{who}@example.org")
        page.fill("input[name=password]", "a-long-passphrase")
        page.click("button[type=submit]")
        expect(page.get_by_role("heading", name="How to judge")).to_be_visible(timeout=60_000)
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="How to judge")).to_be_hidden()
        return page

    yield sit
    for context in contexts:
        context.close()
    assert complaints == []


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def shot(page: Page, name: str) -> None:
    """SER_SCREENSHOTS keeps a picture there."""
    if folder := os.environ.get("SER_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / name)


def test_items_are_judged_and_skipped_by_keys_alone(label_studio, take_seat, tmp_path):
    what = [item(0, photo=photo(tmp_path)), item(1, risk="high"), item(2)]
    with begin(tmp_path, what, ("wim",), overlap=1) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        page = take_seat(ledger, "wim")
        for number in range(3):
            said = page.locator(".ser-turns .ser-text").first
            veil = page.locator(".ser-veil summary")
            expect(said.or_(veil).first).to_be_visible()
            if veil.count():
                expect(said).to_be_hidden()
                expect(page.locator(".ser-step").first).to_be_hidden()
                shot(page, "label-studio-veil.png")
                veil.focus()
                press(page, "Space")
                veil.evaluate("e => e.blur()")
            expect(page.locator(".ser-step").first).to_be_visible()
            first = page.locator(".ser-talk").inner_text()
            if number == 2:
                press(page, "j")
                expect(page.locator("input[name='It distresses me']")).to_be_checked()
                with page.expect_response(lambda r: "/annotations" in r.url and r.request.method == "POST"):
                    press(page, "Control+Space")
                break
            (yes, _), (_, no), (three, _) = STEP_KEYS
            expect(page.locator("[name=critique2]")).to_be_hidden()
            press(page, yes, no, three)
            page.locator("[name=critique2]").fill("Nobody said that.")
            page.locator("[name=critique2]").evaluate("e => e.blur()")
            press(page, VERDICT_KEYS["second_better"], REASON_KEYS["empathy"], REASON_KEYS["helpful"])
            expect(page.locator("input[name='Second better']")).to_be_checked()
            shot(page, f"label-studio-{number}.png")
            press(page, "Control+Enter")
            expect(page.locator(".ser-talk")).not_to_have_text(first)
            page.wait_for_function("t => document.querySelector('.ser-talk')?.innerText !== t", arg=first)
        pulled = route.pull(ledger)
        assert (pulled.new, pulled.skipped, pulled.failures) == (3, 1, ())
        answers = [a for table in ledger.state.answers.values() for a in table.values()]
        assert [a.skip for a in answers if a.skip] == ["distress"]
        for answer in answers:
            if answer.skip is None and answer.steps:
                assert [m.label for m in answer.steps] == [True, False, True]
                assert answer.steps[1].critique == "Nobody said that."
                assert (answer.verdict, answer.reasons) == ("second_better", ("empathy", "helpful"))
                assert answer.seconds and answer.seconds > 0


HOSTILE = (
    '<script>window.hit = 1</script><img src=x onerror="window.hit = 2">'
    " {{7*7}} ${hit} $talk &lt;b&gt; <style>*{display:none}</style> \x1b[31m \u202edesrever\u202c \u200b."
)
SHOWN = (
    '<script>window.hit = 1</script><img src=x onerror="window.hit = 2">'
    " {{7*7}} ${hit} $talk &lt;b&gt; <style>*{display:none}</style> \\x1b[31m \\u202edesrever\\u202c \\u200b."
)


def test_hostile_text_is_text_in_every_place(label_studio, take_seat, tmp_path):
    long = "so very long " * 15_500
    turns = (
        Turn(speaker="seeker", text=HOSTILE, cues=(Cue(channel="face", text=HOSTILE, source="x"),)),
        Turn(speaker="supporter", text=long),
        Turn(speaker="seeker", text=f"Last. {HOSTILE}"),
        Turn(speaker="supporter", text="x"),
    )
    what = made_of(turns, (f"1 {HOSTILE}", f"2 {HOSTILE}", f"3 {HOSTILE}"), f"A {HOSTILE}", f"B {HOSTILE}", 1)
    with begin(tmp_path, [what], ("xia",), overlap=1) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        page = take_seat(ledger, "xia")
        expect(page.locator(".ser-turn")).to_have_count(3)
        texts = page.locator(".ser-text").all_text_contents()
        assert texts[0] == SHOWN and texts[1] == long.rstrip(" ") + " " * (len(long) - len(long.rstrip(" ")))
        assert texts[2:6] == [f"Last. {SHOWN}", *(f"{n} {SHOWN}" for n in (1, 2, 3))]
        assert sorted(texts[6:]) == [f"A {SHOWN}", f"B {SHOWN}"]
        assert page.locator(".ser-cue").inner_text() == f"Face {SHOWN}"
        assert page.evaluate("window.hit") is None
        assert page.locator(".ser-talk img, .ser-text *").count() == 0
        press(page, "1", "2", "3", "9", "Control+Enter")
        page.wait_for_load_state("networkidle")
        expect(page.locator(".ser-turn")).to_have_count(0)
        assert route.pull(ledger).new == 1
