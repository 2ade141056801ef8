"""A link is called back singly, while others work on; the annotator report as a page, for the owner and as a file."""

from __future__ import annotations

import json
import re

import pytest

from annotation.ledger import Ledger, ledger_path
from annotation.reporting import every_report
from ser_toolkit.errors import UsageError
from tests.annotation_samples import begin, items
from tests.cli.conftest import ser
from tests.served import answer, launch, served, stop
from tests.unit.annotation.answering import play

__all__ = ["ser"]


def test_a_link_that_was_called_back_is_dead_at_once_and_the_work_behind_it_is_kept(tmp_path):
    begin(tmp_path, items(4), ("ann", "bo")).close()
    with served(tmp_path) as page:
        view = page.next("ann")["view"]
        assert page.ask("ann", "POST", "answers", answer(view)).status == 200
        on_desk = page.next("ann")["view"]["id"]
        with Ledger(ledger_path(tmp_path)) as other:
            other.revoke_links(["ann"])
        assert page.ask("ann", "POST", "next").status == 404, "another process called it back"
        assert page.ask("ann", "POST", "answers", answer(view)).status == 404
        assert page.ask("bo", "POST", "next").status == 200, "the others' links are as they were"
        assert page.ask("owner", "GET", "overview").json["answers"] == 1
    with served(tmp_path) as page, Ledger(ledger_path(tmp_path)) as ledger:
        from annotation.local.access import Access

        old, new = (Access(ledger.state.key).token("ann", n) for n in (0, 1))
        assert page.client.ask("POST", f"/a/{old}/api/next").status == 404
        assert page.client.ask("POST", f"/a/{new}/api/next").json["view"]["id"] == on_desk
        with pytest.raises(UsageError, match="'zoe' is no annotator"):
            ledger.revoke_links(["bo", "zoe"])
        assert ledger.state.links == {"ann": 1}, "none is called back where one name is wrong"


def test_serve_revokes_and_prints_the_new_link(tmp_path):
    begin(tmp_path, items(2), ("ann", "bo")).close()
    process, before = launch(tmp_path)
    stop(process)
    process, after = launch(tmp_path, "--revoke", "bo")
    try:
        assert after.people["ann"] == before.people["ann"] and after.people["bo"] != before.people["bo"]
        assert after.next("bo")["view"] and before.owner == after.owner
        assert after.client.ask("POST", f"{before.people['bo']}/api/next").status == 404
    finally:
        stop(process)
    process, again = launch(tmp_path)
    stop(process)
    assert again.people == after.people, "and it stays the link"


NAMES = ("ann", "<b>bo</b>", "李雷")


def test_the_report_is_a_page_for_the_owner_and_a_file_for_anyone(tmp_path, ser):
    (tmp_path / "w").mkdir()
    with begin(tmp_path / "w", items(24), NAMES) as ledger:
        play(ledger)
        found = every_report(ledger.state, resamples=10)
    said = ser("annotate", "report", "-w", "w", "--html", "report.html", "--json")
    assert said.returncode == 0 and "page written" in said.stderr, said.stderr
    assert len(json.loads(said.stdout)["annotators"]) == 3
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and not re.search(r"(?:src|href)=|url\(", text), "it asks for nothing"
    assert "&lt;b&gt;bo&lt;/b&gt;" in text and "<b>bo" not in text
    for row in found["annotators"]:
        cells = rows_of(text, "annotators")[row["annotator"].replace("<", "&lt;").replace(">", "&gt;")]
        assert cells[0] == str(row["answers"]) and cells[5].startswith(f"{row['agreement']:.0%}")
    assert len(rows_of(text, "coefficients")) == 4 and "None" not in text
    with served(tmp_path / "w") as page:
        reply = page.client.ask("GET", f"{page.owner}/report")
        assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
        assert "style-src 'self'" in reply.headers["Content-Security-Policy"] and b"<style" not in reply.body
        for href in re.findall(rb'href="([^"]+)"', reply.body):
            assert page.client.ask("GET", href.decode()).status == 200
        assert page.client.ask("GET", f"{page.people['ann']}/report").status == 404, "it is the owner's"
        assert page.client.ask("GET", "/o/wrong/report").status == 404


def test_a_round_in_which_nothing_was_said_has_dashes_no_zeros(tmp_path, ser):
    (tmp_path / "w").mkdir()
    begin(tmp_path / "w", items(2), ("ann", "bo")).close()
    assert ser("annotate", "report", "-w", "w", "--html", "r.html").returncode == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert rows_of(text, "annotators")["ann"] == ["0", "0", "0", "–", "–", "–", "–", "–"] and "undefined" in text


def rows_of(text: str, table: str) -> dict[str, list[str]]:
    """First cell -> the other cells, as text."""
    body = text.partition(f'<table id="{table}">')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in body.split("</tr>")]
    return {r[0].strip(): [re.sub(r"<svg.*?</svg>", "", c).strip() for c in r[1:]] for r in rows if r}
