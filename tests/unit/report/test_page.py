"""The page of `ser report`: safe, self-contained, readable."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report import charts
from pipelines.report.svg import element, spread, text
from pipelines.reporting import report
from ser_toolkit.errors import DataError
from tests.unit.release.making import crowd, dialogue, make, trace

STYLE = Path(charts.__file__).with_name("style.css").read_text()
HOSTILE = "</title></svg><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}"


def page_of(tmp_path: Path, *releases: Path) -> str:
    return report(releases, out=tmp_path / "page.html").file.read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Every tag with its attributes, and whether tags close in order."""

    VOID = ("meta", "br", "img", "link", "input", "hr")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"


def test_the_page_is_one_file_without_script_or_outside_request(tmp_path):
    page = page_of(tmp_path, make(tmp_path / "r", crowd(30)).path)
    tags = Tags(page)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    for _, attributes in tags.seen:
        assert "style" not in attributes, "the policy forbids style attributes"
        assert not [a for a in attributes if a.startswith("on")]
        assert str(attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
    assert "url(" not in STYLE and "@import" not in STYLE


def test_the_policy_names_the_hash_of_the_very_style_that_stands_in_the_page(tmp_path):
    page = page_of(tmp_path, make(tmp_path / "r", crowd(10)).path)
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page


def test_hostile_text_of_the_data_stays_text(tmp_path):
    talk = dialogue(HOSTILE, "I cannot sleep at all.", "Since when?", licence=HOSTILE)
    talk = talk.model_copy(update={"source": talk.source.model_copy(update={"format": HOSTILE})})
    told = trace(talk).model_copy(
        update={"strategy": HOSTILE, "emotions": (HOSTILE,), "sentiment": HOSTILE, "model": HOSTILE, "stage": HOSTILE}
    )
    path = make(
        tmp_path / "r", [talk, *crowd(5)], traces=[told], verdicts={"judged": 3, f"rejected: {HOSTILE}": 1},
        failures={HOSTILE: 3}, absent_reasons={"judgements": HOSTILE, "steps": HOSTILE},
        lineage={"recipe": {"protect": {"enabled": True}}},
    ).path  # fmt: skip
    page = page_of(tmp_path, path)
    tags = Tags(page)
    assert {"script", "img"}.isdisjoint({tag for tag, _ in tags.seen})
    assert "alert(1)" in page and "<script" not in page and "{{7*7}}" in page, "shown, and not run"


@given(st.text())
def test_whatever_a_label_says_it_is_escaped(said):
    made = element("g", text((0, 0), said), aria_label=said)
    assert not re.search(r"<(?!/?(g|text)\b)", made)
    assert '"' not in made.partition('aria-label="')[2].partition('">')[0]


def test_two_releases_stand_side_by_side_with_their_difference(tmp_path):
    a, b = make(tmp_path / "a", crowd(10)).path, make(tmp_path / "b", crowd(25), name="other").path
    page = page_of(tmp_path, a, b)
    assert "A: ser-0.1.0" in page and "B: other-0.1.0" in page
    assert "difference" in page and "+15" in page


def test_missing_is_a_dash_with_its_reason(tmp_path):
    page = page_of(tmp_path, make(tmp_path / "r", crowd(8), traces=[]).path)
    assert "no rewriting in this release" in page
    assert re.search(r'Rewritten dialogues</th>\s*<td class="number">–</td>', page)
    assert "Embedding distance is not measured: needs a model of embeddings" in page


def test_every_plot_has_a_name_and_a_table_or_numbers(tmp_path):
    tags = Tags(page_of(tmp_path, make(tmp_path / "r", crowd(30)).path))
    plots = [a for tag, a in tags.seen if tag == "svg" and a.get("aria-hidden") != "true"]
    assert len(plots) > 10
    assert all(a.get("role") == "img" and a.get("aria-label") for a in plots)


def test_the_curve_stands_in_the_page_with_the_number_that_it_chose(tmp_path):
    curve = [(1, 90.0), (2, 30.0), (3, 4.0), (4, 3.0)]
    told = {
        "personality": True, "rewritten": 9, "kept": 9, "traces": 9, "quality": {"scored": 0, "mean": {}},
        "verdicts": {}, "left_out": {},
        "clusters": [
            {
                "role": "seeker", "lang": "en", "profiles": 9, "k": 3, "curve": [{"k": k, "sse": e} for k, e in curve],
                "centres": [
                    {"cluster": c, "size": 3, "dominance": 1, "influence": 2, "steadiness": 3, "compliance": c}
                    for c in range(3)
                ],
            }
        ],
    }  # fmt: skip
    page = page_of(tmp_path, make(tmp_path / "r", crowd(5), lineage={"rewriting": told}).path)
    plot = page.partition('aria-label="Seekers (en): squared error by number of clusters"')[2].partition("</svg>")[0]
    assert re.findall(r"k = (\d): ([\d.]+)", plot) == [(str(k), str(e)) for k, e in curve]
    assert re.findall(r"chosen: k = (\d)", plot) == ["3"] and plot.count('class="chosen"') == 1
    heights = [float(y) for y in re.findall(r'<circle[^>]* cy="([\d.]+)"', plot)]
    assert heights == sorted(heights) and len(heights) == 4, "an error that falls is drawn falling"
    assert "Seekers (en): mean DISC scores of each cluster" in page


def test_a_report_that_cannot_be_written_says_so(tmp_path):
    path = make(tmp_path / "r", crowd(4)).path
    with pytest.raises(DataError, match="cannot be written"):
        report([path], out=tmp_path / "nowhere" / "page.html")


def schemes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)[:2]
    read = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": read[0], "dark": read[1]}


def luminance(colour: tuple[float, ...]) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(scheme):
    colours = schemes()[scheme]
    for ink in ("ink", "muted", "accent"):
        for ground in ("page", "card"):
            assert contrast(rgb(colours[ink]), rgb(colours[ground])) >= 4.5, (ink, ground)
    assert contrast(rgb(colours["ink"]), rgb(colours["notice"])) >= 4.5
    most = charts.HEAT_OPACITY
    cell = tuple(most * a + (1 - most) * b for a, b in zip(rgb(colours["heat"]), rgb(colours["ghost"]), strict=True))
    assert contrast(rgb(colours["ink"]), cell) >= 4.5


def test_both_schemes_know_every_colour():
    assert schemes()["light"].keys() == schemes()["dark"].keys()


@given(st.lists(st.floats(0, 200), max_size=12))
def test_labels_are_moved_apart_and_stay_in_order(wanted):
    placed = spread(sorted(wanted), 15, 4, 230)
    assert len(placed) == len(wanted)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(placed))
    assert not placed or placed[-1] <= 230 + 1e-6
