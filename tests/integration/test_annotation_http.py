"""The HTTP API of the built-in page: who may do what, what is refused, and that its description is true."""

from __future__ import annotations

import json
import re

import fastjsonschema
import pytest

from annotation.blinding import generated_position
from annotation.ledger import Ledger, ledger_path
from tests.annotation_samples import TALKS, begin, item, items, photo
from tests.served import Page, answer, served, wait_for


@pytest.fixture
def page(tmp_path):
    begin(tmp_path, items(6)).close()
    with served(tmp_path) as page:
        yield page


def _ledger(tmp_path) -> Ledger:
    return Ledger(ledger_path(tmp_path))


# -- one person's work -----------------------------------------------------------------------------------------------


def test_the_same_item_comes_until_it_is_answered_with_its_draft(page):
    view = page.next("ann")["view"]
    draft = {
        "steps": [
            {"label": True, "critique": ""}, {"label": False, "critique": "没有依据"}, {"label": None, "critique": ""},
        ],
        "verdict": "neither", "reasons": ["safety"], "comment": "<b>hm</b>", "seconds": 3.5,
    }  # fmt: skip
    assert page.ask("ann", "PUT", f"views/{view['id']}/draft", draft).status == 204
    again = page.next("ann")
    assert again["view"] == view
    assert again["draft"] == draft
    submitted = page.ask("ann", "POST", "answers", answer(view)).json
    assert submitted == {"outcome": "new", "progress": {"annotator": "ann", "done": 1, "remaining": 5}}
    assert page.next("ann")["view"]["id"] != view["id"]


def test_an_answer_sent_twice_is_kept_once(page, tmp_path):
    view = page.next("ann")["view"]
    first = page.ask("ann", "POST", "answers", answer(view)).json
    second = page.ask("ann", "POST", "answers", answer(view)).json
    assert (first["outcome"], second["outcome"]) == ("new", "same")
    with _ledger(tmp_path) as ledger:
        assert sum(e.kind == "answer" for e in ledger.events()) == 1


def test_undo_brings_the_last_answer_back_as_it_was_also_after_a_reload(page):
    view = page.next("ann")["view"]
    said = answer(
        view, steps=[{"label": True}, {"label": False, "critique": "too early"}, {"label": True}], comment="see turn 2"
    )
    page.ask("ann", "POST", "answers", said)
    page.next("ann")
    undone = page.ask("ann", "POST", "undo").json
    assert undone["view"]["id"] == view["id"]
    assert undone["draft"]["steps"][1] == {"label": False, "critique": "too early"}
    assert (undone["draft"]["verdict"], undone["draft"]["comment"]) == ("first_better", "see turn 2")
    assert page.next("ann") == undone  # a reload
    assert page.ask("ann", "POST", "answers", said).json["outcome"] == "new"
    page.ask("ann", "POST", "undo")
    assert page.ask("ann", "POST", "undo").status == 409


def test_a_skip_goes_to_someone_else_and_can_be_taken_back(page, tmp_path):
    view = page.next("ann")["view"]
    assert page.ask("ann", "POST", "answers", {"view_id": view["id"], "skip": "distress"}).status == 200
    assert page.next("ann")["view"]["id"] != view["id"]
    with _ledger(tmp_path) as ledger:
        skipped = ledger.state.views[view["id"]].item_id
        assert ledger.state.may_see(skipped, "bo", 0) and not ledger.state.may_see(skipped, "ann", 0)
    assert page.ask("ann", "POST", "undo").json["view"]["id"] == view["id"]


def test_a_lease_that_ran_out_frees_the_seat_and_a_late_answer_is_surplus(tmp_path):
    begin(tmp_path, items(1), ("ann", "bo"), overlap=1, lease_s=0.4).close()
    with served(tmp_path) as page:
        view = page.next("ann")["view"]
        assert page.next("bo")["view"] is None  # reserved
        wait_for(lambda: page.next("bo")["view"] is not None)
        mine = page.next("bo")["view"]
        assert page.ask("bo", "POST", "answers", answer(mine)).json["outcome"] == "new"
        assert page.ask("ann", "POST", f"views/{view['id']}/lease").json == {"seconds": None}
        assert page.ask("ann", "POST", "answers", answer(view)).status == 200
        overview = page.ask("owner", "GET", "overview").json
    assert (overview["answers"], overview["surplus"], overview["done"]) == (2, 1, 1)


def test_a_lease_is_prolonged_for_whoever_works_on(tmp_path):
    begin(tmp_path, items(1), ("ann", "bo"), overlap=1, lease_s=60).close()
    with served(tmp_path) as page:
        view = page.next("ann")["view"]
        assert 50 < page.ask("ann", "POST", f"views/{view['id']}/lease").json["seconds"] <= 60


# -- what does not leave the house -----------------------------------------------------------------------------------


def test_nothing_tells_models_systems_or_which_reply_was_generated(tmp_path):
    begin(tmp_path, [item(n, photo=photo(tmp_path)) for n in range(6)]).close()
    seen = b""
    with served(tmp_path) as page:
        for name in ("", "annotate.html", "annotate.js"):
            seen += page.client.ask("GET", f"/static/{name}" if name else page.people["ann"]).body
        while (work := page.next("ann"))["view"]:
            view = work["view"]
            seen += json.dumps(work, ensure_ascii=False).encode()
            for what, body in (("answers", answer(view)), ("undo", None), ("answers", answer(view, comment="b"))):
                seen += page.ask("ann", "POST", what, body).body
            seen += page.ask("ann", "POST", f"views/{view['id']}/lease").body
    with _ledger(tmp_path) as ledger:
        hidden = [*ledger.state.items, *(i.trace_id for i in ledger.state.items.values()), "bo", "cy"]
    for word in (
        *hidden,
        "parrot-7b",
        "seer-9",
        "corpus",
        "Content Restatement",
        "generated_position",
        "is_gold",
        "repeat",
    ):
        assert not re.search(rf"\b{re.escape(word)}\b".encode(), seen), word
    assert b"looks down" in seen


def test_the_order_of_the_replies_is_each_annotators_own_and_stored_with_the_vote(tmp_path):
    begin(tmp_path, items(6), ("ann", "bo")).close()
    said = {}
    with served(tmp_path) as page:
        for who in ("ann", "bo"):
            while view := page.next(who)["view"]:
                said[who, view["id"]] = view["replies"]
                page.ask(who, "POST", "answers", answer(view))
    with _ledger(tmp_path) as ledger:
        for (who, view), replies in said.items():
            its = ledger.item(ledger.state.views[view].item_id)
            shown_first = replies[0] == its.generated
            vote = ledger.state.answers[its.id][who, 0]
            assert (
                vote.generated_position
                == (1 if shown_first else 2)
                == generated_position(ledger.state.key, its.id, who)
            )
            assert vote.better == ("generated" if shown_first else "reference")


def test_an_annotator_reaches_nothing_of_anyone_else(tmp_path):
    sha = photo(tmp_path)
    begin(tmp_path, [item(0, photo=sha)]).close()
    with served(tmp_path) as page:
        mine, theirs = page.next("ann")["view"]["id"], page.next("bo")["view"]["id"]
        assert mine != theirs
        draft = {"comment": "mine"}
        refused = [
            page.ask("ann", "PUT", f"views/{theirs}/draft", draft),
            page.ask("ann", "POST", f"views/{theirs}/lease"),
            page.ask("ann", "POST", "answers", {"view_id": theirs, "skip": "other"}),
            page.ask("ann", "GET", f"views/{theirs}/media/{sha}"),
            page.ask("cy", "GET", f"views/{mine}/media/{sha}"),
            page.client.ask("GET", f"{page.people['ann'].replace('/a/', '/o/')}/api/overview"),
            page.client.ask("GET", f"{page.owner.replace('/o/', '/a/')}/api/guidelines"),
            page.client.ask("POST", "/a/x/api/next"),
            page.client.ask("POST", f"{page.people['ann'][:-1]}/api/next"),
            page.client.ask("GET", "/o/%00/api/overview"),
        ]
        assert [r.status for r in refused] == [404] * len(refused)
        assert len({r.body for r in refused}) == 1  # nothing can be told apart
        assert page.ask("ann", "GET", f"views/{mine}/media/{sha}").status == 200


def test_a_picture_comes_with_its_own_type_and_nothing_else_of_the_folder(tmp_path):
    sha = photo(tmp_path)
    evil = "e" * 64
    (tmp_path / "media" / "ee").mkdir()
    (tmp_path / "media" / "ee" / f"{evil}.html").write_text("<script>1</script>")
    begin(tmp_path, [item(0, photo=sha), item(1, photo=evil)]).close()
    with served(tmp_path) as page:
        views = []
        while view := page.next("ann")["view"]:
            views.append(view)
            page.ask("ann", "POST", "answers", answer(view))
        found = {p["sha256"]: v["id"] for v in views for t in v["history"] for p in t["photos"]}
        picture = page.ask("ann", "GET", f"views/{found[sha]}/media/{sha}")
        assert (picture.status, picture.headers["content-type"]) == (200, "image/png")
        assert picture.headers["x-content-type-options"] == "nosniff"
        assert page.ask("ann", "GET", f"views/{found[evil]}/media/{evil}").status == 404
        assert page.ask("ann", "GET", f"views/{found[sha]}/media/..%2f..%2fannotation.sqlite").status == 404


# -- what is refused at the door -------------------------------------------------------------------------------------


def test_other_hosts_and_other_origins_are_refused(page):
    path = f"{page.people['ann']}/api/next"
    ask = page.client.ask
    assert ask("POST", path, headers={"Host": "rebound.example.com"}).status == 421
    assert ask("GET", "/", headers={"Host": "rebound.example.com"}).status == 421
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"http://127.0.0.1.evil.example:{page.client.port}",
    ):
        assert ask("POST", path, headers={"Origin": origin}).status == 403, origin
    assert ask("POST", path, headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert ask("POST", path, headers={"Origin": page.url, "Sec-Fetch-Site": "same-origin"}).status == 200
    named = {"Host": "annotate.example.org", "Origin": "https://annotate.example.org"}
    assert ask("POST", path, headers=named).status == 200
    assert ask("POST", path, headers={"Host": "[::1]:9", "Origin": "http://[::1]:9"}).status == 200


def test_bodies_are_bounded_and_checked(page):
    view = page.next("ann")["view"]["id"]
    draft = f"views/{view}/draft"
    assert page.ask("ann", "PUT", draft, b"{" + b" " * 600_000 + b"}").status == 413
    assert page.ask("ann", "PUT", draft, b"{}", **{"Content-Type": "text/plain"}).status == 415
    for body in (b"", b"[]", b"{", b'{"verdict": "first"}', b'{"seconds": -1}', b'{"seconds": 1e999}', b'{"extra": 1}'):
        assert page.ask("ann", "PUT", draft, body).status == 422, body
    long = {"comment": "x" * 10_001}
    assert page.ask("ann", "PUT", draft, long).json["code"] == "malformed"
    for wrong in (
        {"view_id": view},
        {"view_id": view, "steps": [{"label": True}] * 3},  # no verdict
        {"view_id": view, "steps": [{"label": True}] * 2, "verdict": "neither"},
        {"view_id": view, "skip": "failed"},
        {"view_id": view, "skip": "distress", "steps": [{"label": True}] * 3},
    ):
        assert page.ask("ann", "POST", "answers", wrong).status == 422, wrong
    assert page.ask("ann", "GET", "next").status == 405


def test_every_answer_carries_the_headers_that_keep_the_page_shut(page):
    for path in ("/", page.people["ann"], "/static/annotate.js", "/nothing", "/openapi.json"):
        headers = page.client.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
    assert page.client.ask("POST", f"{page.people['ann']}/api/next").headers["cache-control"] == "no-store"


def test_pages_hold_no_inline_script_style_or_foreign_address(page):
    for name in ("annotate.html", "owner.html", "home.html"):
        text = page.client.ask("GET", f"/static/{name}").body.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", text), name


# -- the owner -------------------------------------------------------------------------------------------------------


def _judge_all(page: Page, who: str, label: bool, verdict: str) -> None:
    while view := page.next(who)["view"]:
        page.ask(who, "POST", "answers", answer(view, steps=[{"label": label}] * 3, verdict=verdict))


def test_the_owner_sees_the_round_and_undefined_agreement_as_undefined(page):
    _judge_all(page, "ann", True, "almost_equal")
    _judge_all(page, "bo", True, "almost_equal")
    found = page.ask("owner", "GET", "overview").json
    assert {k: found[k] for k in ("items", "done", "disputed", "waiting", "answers")} == {
        "items": 6, "done": 6, "disputed": 0, "waiting": 0, "answers": 12,
    }  # fmt: skip
    assert found["agreement"]["step1"]["alpha"] is None and found["agreement"]["step1"]["fleiss"] is None
    assert found["agreement"]["step1"]["raw"] == 1.0 and "one category" in found["agreement"]["step1"]["reason"]
    assert found["median_seconds"] == 12.5
    assert {r["annotator"]: r["answers"] for r in found["annotators"]} == {"ann": 6, "bo": 6, "cy": 0}


def test_the_owner_decides_what_three_votes_left_open_as_blind_as_they(page, tmp_path):
    _judge_all(page, "ann", True, "almost_equal")
    _judge_all(page, "bo", True, "neither")
    with _ledger(tmp_path) as ledger:
        assert len(ledger.state.items) == 6
    while view := page.next("cy")["view"]:  # the third wants the generated one everywhere
        with _ledger(tmp_path) as ledger:
            its = ledger.item(ledger.state.views[view["id"]].item_id)
        verdict = "first_better" if view["replies"][0] == its.generated else "second_better"
        page.ask("cy", "POST", "answers", answer(view, verdict=verdict))
    waiting = page.ask("owner", "GET", "waiting").json["waiting"]
    assert len(waiting) == 6 and all(w["parts"] == ["reply"] and w["votes"] == 3 for w in waiting)
    for entry in waiting:
        dispute = page.ask("owner", "GET", f"items/{entry['item_id']}").json
        text = json.dumps(dispute)
        assert "generated" not in text and "parrot" not in text
        third = next(v["verdict"] for v in dispute["votes"] if v["annotator"] == "cy")
        ruling = {"item_id": entry["item_id"], "verdict": third}
        assert page.ask("owner", "POST", "decisions", {**ruling, "steps": [False, None, None]}).status == 422
        assert page.ask("owner", "POST", "decisions", {"item_id": entry["item_id"]}).status == 422
        assert page.ask("owner", "POST", "decisions", ruling).status == 204
    with _ledger(tmp_path) as ledger:
        assert {d.better for d in ledger.state.decisions.values()} == {"generated"}
    assert page.ask("owner", "GET", "waiting").json == {"waiting": []}
    assert page.ask("owner", "GET", "overview").json["waiting"] == 0


def test_the_export_keeps_every_raters_row_in_plain_chinese_and_counts_no_skip(page):
    for who in ("ann", "bo"):
        for n in range(2):
            view = page.next(who)["view"]
            said = answer(view, comment="太快给建议了") if n == 0 else {"view_id": view["id"], "skip": "unclear"}
            page.ask(who, "POST", "answers", said)
    reply = page.ask("owner", "GET", "export.jsonl")
    assert "太快给建议了" in reply.body.decode("utf-8") and "attachment" in reply.headers["content-disposition"]
    rows = [json.loads(line) for line in reply.body.splitlines()]
    assert sorted((r["annotator"], r["is_vote"]) for r in rows) == [
        ("ann", False), ("ann", True), ("bo", False), ("bo", True),
    ]  # fmt: skip
    assert page.ask("owner", "GET", "overview").json["answers"] == 2
    only = page.ask("owner", "GET", "export.jsonl?annotator=bo").body.decode()
    assert [json.loads(line)["annotator"] for line in only.splitlines()] == ["bo", "bo"]


# -- the description -------------------------------------------------------------------------------------------------


def test_the_openapi_description_names_every_route_and_every_reply_fits_it(tmp_path):
    sha = photo(tmp_path)
    begin(tmp_path, [item(n, photo=sha) for n in range(6)]).close()
    with served(tmp_path) as page:
        described = page.client.ask("GET", "/openapi.json").json
        view = page.next("ann")["view"]
        views = f"/views/{view['id']}"
        _judge_all(page, "bo", False, "neither")
        person, owner = page.people["ann"] + "/api", page.owner + "/api"
        with _ledger(tmp_path) as ledger:
            its = ledger.state.views[view["id"]].item_id
        calls = [
            ("/a/{token}/api/next", "post", f"{person}/next", None),
            ("/a/{token}/api/views/{view}/draft", "put", f"{person}{views}/draft", {"comment": "a"}),
            ("/a/{token}/api/views/{view}/draft", "put", f"{person}{views}/draft", {"no": 1}),
            ("/a/{token}/api/views/{view}/lease", "post", f"{person}{views}/lease", None),
            ("/a/{token}/api/views/{view}/media/{sha256}", "get", f"{person}{views}/media/{sha}", None),
            ("/a/{token}/api/answers", "post", f"{person}/answers", answer(view)),
            ("/a/{token}/api/answers", "post", f"{person}/answers", {}),
            ("/a/{token}/api/undo", "post", f"{person}/undo", None),
            ("/a/{token}/api/undo", "post", f"{person}/undo", None),
            ("/a/{token}/api/guidelines", "get", f"{person}/guidelines?lang=zh", None),
            ("/a/{token}/api/next", "post", "/a/nobody/api/next", None),
            ("/o/{token}/api/overview", "get", f"{owner}/overview", None),
            ("/o/{token}/api/waiting", "get", f"{owner}/waiting", None),
            ("/o/{token}/api/items/{item}", "get", f"{owner}/items/{its}", None),
            ("/o/{token}/api/items/{item}", "get", f"{owner}/items/none", None),
            ("/o/{token}/api/items/{item}/media/{sha256}", "get", f"{owner}/items/{its}/media/{sha}", None),
            ("/o/{token}/api/decisions", "post", f"{owner}/decisions", {"item_id": its, "steps": [True, None, None]}),
            ("/o/{token}/api/decisions", "post", f"{owner}/decisions", {"item_id": its}),
            ("/o/{token}/api/export.jsonl", "get", f"{owner}/export.jsonl", None),
        ]
        assert {(path, method) for path, method, _, _ in calls} == {
            (path, method) for path, methods in described["paths"].items() for method in methods
        }
        for path, method, address, body in calls:
            reply = page.client.ask(method.upper(), address, body)
            operation = described["paths"][path][method]
            told = operation["responses"].get(str(reply.status))
            assert told is not None, (path, reply.status, reply.body)
            _fits(described, told, reply)


def _fits(described, told, reply) -> None:
    content = told.get("content")
    kind = (reply.headers["content-type"] or "").partition(";")[0]
    if content is None:
        assert reply.body == b""
        return
    assert kind in content
    if kind == "application/json":
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", **content[kind]["schema"]}
        schema["components"] = described["components"]
        fastjsonschema.compile(schema)(reply.json)


def test_chinese_items_stay_chinese(page):
    seen = []
    while view := page.next("ann")["view"]:
        seen.append(view["history"][0]["text"])
        page.ask("ann", "POST", "answers", answer(view))
    assert sorted(seen) == sorted(talk[1] for talk in TALKS)
