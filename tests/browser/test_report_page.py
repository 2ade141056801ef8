"""`ser report` in a real browser: its policy lets its own style through, nothing else is asked for, and it fits."""

import pytest

from pipelines.reporting import report
from tests.unit.release.making import crowd, make

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    a, b = make(folder / "a", crowd(40)).path, make(folder / "b", crowd(60), name="other").path
    return report([a, b], out=folder / "page.html").file


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_scheme_of_the_reader_is_followed(open_page, page_file, scheme):
    page = open_page(page_file.as_uri(), color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = [int(x) for x in ground.removeprefix("rgb(").rstrip(")").split(",")]
    assert (min(parts) > 200) if scheme == "light" else (max(parts) < 60)
    fill = page.evaluate("getComputedStyle(document.querySelector('svg.plot .mark')).fill")
    assert fill.startswith("rgb(") and fill != "rgb(0, 0, 0)", "the policy lets the style sheet through"


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(open_page, page_file, width):
    page = open_page(page_file.as_uri(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cards = page.locator("figure")
    assert cards.count() > 20
    for i in range(0, cards.count(), 5):
        box = cards.nth(i).bounding_box()
        assert box is None or (box["x"] >= 0 and box["x"] + box["width"] <= width + 1)


def test_the_numbers_of_a_plot_open_by_keyboard(open_page, page_file):
    page = open_page(page_file.as_uri())
    numbers = page.locator("details").first
    assert not numbers.locator("table").is_visible()
    numbers.locator("summary").focus()
    page.keyboard.press("Enter")
    assert numbers.locator("table").is_visible()


def test_labels_of_plots_do_not_run_into_one_another(open_page, page_file):
    page = open_page(page_file.as_uri())
    overlaps = page.evaluate(
        """() => [...document.querySelectorAll('svg.plot')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text:not([transform])')]
                .map(t => [t.textContent, t.getBoundingClientRect()])
            return texts.flatMap(([a, x], i) => texts.slice(i + 1).filter(([, y]) =>
                x.left < y.right - 2 && y.left < x.right - 2 && x.top < y.bottom - 5 && y.top < x.bottom - 5
            ).map(([b]) => `${svg.getAttribute('aria-label')}: ${a} / ${b}`))
        })"""
    )
    assert overlaps == []
