"""A real Chromium, driven by Playwright: the system's own, or the one that PLAYWRIGHT_CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.needs import lacking

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

OpenPage = Callable[..., Page]


def chromium() -> str | None:
    """Where Chromium is, or None."""
    named = os.environ.get("PLAYWRIGHT_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a module: while Playwright runs, no other event loop of this process can."""
    path = chromium()
    if path is None:
        lacking("no Chromium here: `apt-get install chromium` (or set PLAYWRIGHT_CHROMIUM) runs the browser tests")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(url, **context)`: a page in a context of its own. What it says on its console, throws, or asks of
    another host fails the test at its end.
    """
    contexts: list[Any] = []
    complaints: list[str] = []

    def make(url: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 860}, "locale": "en-GB", **options})
        contexts.append(context)
        page = context.new_page()
        home = "/".join(url.split("/")[:3])
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda told: complaints.append(f"console: {told.text}") if told.type == "error" else None)
        page.on(
            "request", lambda asked: None if asked.url.startswith((home, "data:")) else complaints.append(asked.url)
        )
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(url)
        return page

    make.complaints = complaints  # type: ignore[attr-defined]
    yield make
    for context in contexts:
        context.close()
    # A test's server ends before its pages do: what they then ask of it is refused. (Another host is told of above.)
    assert [c for c in complaints if "ERR_CONNECTION_REFUSED" not in c] == []
