"""Argilla's own page in a real browser: an annotator logs in, is shown hostile text as text, and answers with keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from annotation.argilla.accounts import AccountsFile
from annotation.items import Item
from ser_toolkit.schema import Cue, Turn
from ser_toolkit.visible import visible
from tests.annotation_samples import begin, item, made_of, photo
from tests.servers.argilla import Argilla, _stopped, argilla

__all__ = ["_stopped", "argilla"]

pytestmark = [pytest.mark.browser, pytest.mark.server, pytest.mark.xdist_group("argilla")]

HOSTILE = [
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title = 'owned'</script><style>*{display:none}</style>",
    "{{ 7 * 7 }} {% include '/etc/passwd' %} ${7*7} {{constructor.constructor('document.title=1')()}}",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\u202eevil\u202c \u2066iso\u2069 \u200f\u200e \u202b",
    "</textarea></p></section><h1>out</h1><!-- ![x](http://evil.example/x.png) [link](javascript:alert(1))",
    "x" * 200_000,
]


def hostile(text: str, number: int) -> Item:
    turns = (
        Turn(speaker="seeker", text=text, cues=(Cue(channel="face", text=text[:1000], source="corpus"),)),
        Turn(speaker="supporter", text="Go on."),
        Turn(speaker="seeker", text="That was all."),
        Turn(speaker="supporter", text=f"{text} reference"),
    )
    return made_of(turns, (text, text, text), text, f"{text} reference", number)


def log_in(open_page, argilla: Argilla, workspace: Path, who: str) -> Page:
    """As a person does, with the password that the owner has handed over."""
    page = open_page(argilla.url)
    page.locator("input[name=Username]").fill(who)
    page.locator("input[type=password]").fill(AccountsFile(workspace / "servers/argilla", argilla.url).password(who))
    page.keyboard.press("Enter")
    page.locator("a[href*=annotation-mode]").first.click()
    expect(page.locator(".chat")).to_be_visible(timeout=60_000)
    return page


def only_ours(open_page) -> None:
    """Its page would fetch fonts from elsewhere; our server's policy forbids it, and the browser tells of that."""
    told = open_page.complaints
    assert any("fonts.googleapis.com" in c and "blocked" in c for c in told)
    told[:] = [c for c in told if "fonts.googleapis.com" not in c]


def test_hostile_text_in_every_field_is_text(argilla, tmp_path, open_page):
    with begin(tmp_path, [hostile(text, n) for n, text in enumerate(HOSTILE)], ("xenia",), overlap=1) as ledger:
        argilla.route(tmp_path).push(ledger)
        page = log_in(open_page, argilla, tmp_path, "xenia")
        seen = set()
        for number in range(1, len(HOSTILE) + 1):
            page.goto(page.url.split("?")[0] + f"?page={number}&status=pending")
            expect(page.locator(".chat")).to_be_visible(timeout=60_000)
            body = page.locator("body").text_content() or ""
            text = next(t for t in HOSTILE if f"{visible(t)} reference" in body)
            seen.add(text)
            said = "".join(b.text_content() or "" for b in page.locator(".chat__bubble").all())
            whole = visible(text)
            if len(text) < 10_000:
                assert whole in said and f"[Face: {whole}]" in said
                assert body.count(whole) >= 7  # turn, cue, three steps, two replies
            else:
                assert said.count("x") >= 201_000 and body.count(whole) == 5
            assert "owned" not in page.title() and page.title() != "1"
            assert page.locator(".chat, .text_field_component").locator("script, h1, a, img, b").count() == 0
            assert page.locator("iframe").count() == 0
            assert page.locator("text=49").count() == 0
        assert seen == set(HOSTILE)
    only_ours(open_page)


def test_a_person_answers_with_keys_and_the_answer_comes_home(argilla, tmp_path, open_page):
    shots = Path(os.environ.get("SER_SCREENSHOTS", tmp_path / "shots"))
    shots.mkdir(parents=True, exist_ok=True)
    with begin(tmp_path, [item(0, photo=photo(tmp_path), risk="imminent")], ("yuri",), overlap=1) as ledger:
        route = argilla.route(tmp_path)
        route.push(ledger)
        page = log_in(open_page, argilla, tmp_path, "yuri")
        picture = page.locator("img[src^='data:image/png']")
        expect(picture).to_have_count(1)
        picture.evaluate("i => i.decode()")
        expect(page.locator("body")).to_contain_text("immediate danger to life")
        page.screenshot(path=shots / "argilla.png")
        questions = page.locator("form")
        for title, label in (
            ("Step 1: What the conversation is about", "True"),
            ("Step 2: How the seeker feels", "False"),
            ("Step 3: What to do now", "True"),
            ("Which reply would do more good?", "Second better"),
        ):
            group = questions.locator(".wrapper, .question, [class*=question]").filter(has_text=title)
            group.last.locator("label", has_text=label).first.click()
        page.keyboard.press("Enter")
        expect(page.locator("body")).to_contain_text("1", timeout=30_000)
        page.wait_for_function("!document.querySelector('.chat')", timeout=30_000)
        pulled = route.pull(ledger)
        assert (pulled.new, pulled.failures) == (1, ())
        (kept,) = next(iter(ledger.state.answers.values())).values()
        assert [s.label for s in kept.steps or ()] == [True, False, True] and kept.verdict == "second_better"
    only_ours(open_page)
