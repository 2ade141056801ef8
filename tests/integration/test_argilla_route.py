"""The route argilla against the real argilla-server: the routes' contract, faults on the way, hands on the server."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError

import pytest

from annotation.argilla import desk
from annotation.argilla.accounts import AccountsFile
from annotation.argilla.route import ArgillaRoute
from annotation.ledger import Ledger, ledger_path
from annotation.rounds import RoundSettings
from ser_toolkit.errors import AnnotationError
from ser_toolkit.schema import Turn
from tests.annotating_three import PEOPLE, build_release, check_three
from tests.annotation_samples import begin, item, items, made_of, photo
from tests.contract.test_routes import check_route
from tests.integration.conftest import write_dialogues
from tests.servers.argilla import KEY, Argilla, Person, _stopped, argilla, said
from tests.servers.faulty_proxy import FaultyProxy, How, faulty_proxy
from tests.unit.annotation.answering import a_round, at_random

__all__ = ["_stopped", "argilla"]

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("argilla")]


def views_of(argilla: Argilla, ledger: Ledger) -> dict[str, list[str]]:
    """person -> the views of this round that they have on the server."""
    known = ledger.refresh().views
    return {who: [v for v in argilla.records(who) if v in known] for who in ledger.state.annotators}


def test_it_keeps_the_contract_of_routes(argilla, tmp_path):
    route = argilla.route(tmp_path)
    with a_round(tmp_path, 8) as ledger:
        route.start(ledger)
        check_route(route, Person(argilla, ("ada", "ben", "cem")), ledger)
        assert route.status(ledger).by_annotator["ada"]["submitted"] > 0


def test_three_people_label_real_dialogues_and_the_release_is_the_same(argilla, tmp_path, shared_data):
    home = build_release(tmp_path / "w", shared_data)
    route = argilla.route(home.root)
    with a_round(tmp_path, 1, " ".join(PEOPLE)) as other:
        route.start(other)  # the accounts
    check_three(home, route, Person(argilla, PEOPLE))


def test_a_view_is_shown_whole_and_blind(argilla, tmp_path):
    route = argilla.route(tmp_path)
    shown = item(0, photo=photo(tmp_path), risk="imminent")
    alone = made_of(
        (Turn(speaker="seeker", text="Alone."), Turn(speaker="supporter", text="")), ("a", "b", "c"), "d", "", 9
    )
    with begin(tmp_path, [shown, item(3), alone], ("dora", "王芳"), overlap=2) as ledger:
        route.push(ledger)
        for task in ledger.tasks("argilla"):
            record = argilla.records(task.annotator)[task.view.id]
            fields = record["fields"]
            assert [m["role"] for m in fields["conversation"]] == ["Seeker", "Supporter", "Seeker"][
                : len(task.view.history)
            ]
            assert [fields[f"step_{n}"] for n in (1, 2, 3)] == [s.text for s in task.view.steps]
            assert (fields.get("reply_1"), fields.get("reply_2")) == (task.view.replies or (None, None))
            assert not record.get("suggestions") and not record["metadata"]
            text = json.dumps(record, ensure_ascii=False)
            assert not any(word in text for word in ("parrot", "seer-9", "talk-", "generated", "dora", "王芳"))
            if task.item_id == shown.id:
                assert fields["photo_1"].startswith("data:image/png;base64,") and "danger to life" in fields["care"]
                assert "[Face: looks down, small smile]\n[Photo 1]" in fields["conversation"][2]["content"]
            elif task.item_id == alone.id:
                assert "photo_1" not in fields and "care" not in fields
        mine = {v for v, s in ledger.state.views.items() if s.annotator == "dora"}
        assert set(argilla.records("dora")) == mine and len(mine) == 3, "nobody is given another's records"
        others = [d for d in argilla.ask("GET", "me/datasets", key=argilla.key_of("王芳"))["items"]]
        assert {d["name"] for d in others} == {"steps and replies", "steps alone"}
        with pytest.raises(HTTPError) as refused:
            argilla.ask("GET", f"datasets/{others[0]['id']}", key=argilla.key_of("dora"))
        assert refused.value.code == 403


def test_a_form_in_chinese_has_its_own_words_and_the_workspace_its_guidelines(argilla, tmp_path):
    (tmp_path / "guidelines").mkdir()
    (tmp_path / "guidelines" / "zh.md").write_text("我们的说明", encoding="utf-8")
    with begin(tmp_path, [item(3)], ("李雷", "韩梅梅")) as ledger:
        argilla.route(tmp_path, lang="zh").push(ledger)
        (dataset,) = argilla.ask("GET", "me/datasets", key=argilla.key_of("李雷"))["items"]
        assert (dataset["name"], dataset["guidelines"]) == ("步骤与回复", "我们的说明")
        (record,) = argilla.records("李雷").values()
        assert "[表情: 低头，勉强笑了笑]" in record["fields"]["conversation"][2]["content"]
        again = argilla.route(tmp_path, lang="en")
        assert (again.push(ledger).new, len(argilla.records("李雷"))) == (0, 1), "what is there keeps its language"
        assert again.pull(ledger).failures == ()


FAULTS: tuple[How, ...] = ("hangs up", "hangs up late", "answers 500", "answers nonsense")


def test_a_push_that_breaks_anywhere_is_told_and_goes_on_and_nothing_is_there_twice(argilla, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "BATCH_RECORDS", 2)
    with begin(tmp_path, items(5), ("eva",), overlap=1) as ledger, faulty_proxy(argilla.url) as proxy:
        route = argilla.route(tmp_path, proxy.url)
        assert until_it_works(route.push, ledger, proxy, every=9) > len(FAULTS), "it broke in every way"
        proxy.mend()
        assert (route.push(ledger).new, len(ledger.tasks("argilla"))) == (0, 5)
        assert sorted(argilla.records("eva")) == sorted(ledger.state.views)
        assert len(argilla.ask("GET", "me/datasets", key=argilla.key_of("eva"))["items"]) == 1


def test_a_pull_that_breaks_anywhere_is_told_and_goes_on(argilla, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "PAGE", 2)
    with begin(tmp_path, items(13), ("gus",), overlap=1) as ledger, faulty_proxy(argilla.url) as proxy:
        route = argilla.route(tmp_path, proxy.url)
        route.push(ledger)
        answer = Person(argilla, ("gus",))
        for task in ledger.tasks("argilla"):
            answer(task.view, at_random(task, random.Random(task.view.id)))
        assert until_it_works(route.pull, ledger, proxy, every=3) >= len(FAULTS), "it broke in every way"
        proxy.mend()
        last = route.pull(ledger)
        assert (last.new, last.changed, last.same, last.failures) == (0, 0, 13, ())
        assert len([e for e in ledger.events() if e.kind == "answer"]) == 13, "each answer was taken in once"


def until_it_works(call, ledger: Ledger, proxy: FaultyProxy, *, every: int) -> int:
    """Call again and again over a way that breaks, each time otherwise and later; how often it broke."""
    for tries in range(40):
        proxy.fail(every * (1 + tries), FAULTS[tries % len(FAULTS)])
        try:
            call(ledger)
            return tries
        except AnnotationError as exc:
            assert exc.exit_code == 5 and proxy.url in exc.message and exc.hint
    raise AssertionError("it never came to an end")


def test_a_server_that_is_away_or_refuses_is_told(argilla, tmp_path, monkeypatch):
    with begin(tmp_path, items(1), ("ida", "jon")) as ledger:
        away = argilla.route(tmp_path, "http://127.0.0.1:9")
        found = away.status(ledger)
        assert (found.is_reachable, "does not answer" in found.note) == (False, True)
        with pytest.raises(AnnotationError, match="does not answer"):
            away.push(ledger)
        assert ledger.tasks("argilla") == [], "what cannot be carried is not given out"
        monkeypatch.setenv(KEY, "not the key")
        with pytest.raises(AnnotationError, match="refuses") as refused:
            argilla.route(tmp_path).push(ledger)
        assert "owner" in refused.value.hint and "not the key" not in str(refused.value)
        monkeypatch.setenv(KEY, argilla.key)
        argilla.route(tmp_path).start(ledger)
        monkeypatch.setenv(KEY, argilla.key_of("ida"))  # an annotator's key opens nothing
        with pytest.raises(AnnotationError, match="refuses"):
            argilla.route(tmp_path).push(ledger)
        with pytest.raises(AnnotationError, match="no Argilla runs") as lacking:
            ArgillaRoute(argilla.route(tmp_path)._options.model_copy(update={"url": None})).pull(ledger)
        assert "ser annotate start" in lacking.value.hint


def test_whoever_would_see_all_is_no_annotator(argilla, tmp_path):
    with begin(tmp_path, items(1), ("owner", "kim")) as ledger, pytest.raises(AnnotationError, match="see all answers"):
        argilla.route(tmp_path).push(ledger)


def test_hands_on_the_server_are_failures_never_answers(argilla, tmp_path):
    """Edited, deleted, added, answered by another, answered with what the form does not offer: each is told."""
    route, people = argilla.route(tmp_path), ("lea", "max")
    with begin(tmp_path, items(6), people) as ledger:
        route.push(ledger)
        tasks = {t.view.id: t for t in ledger.tasks("argilla") if t.annotator == "lea"}
        edited, deleted, foreign, torn, both, plain = tasks
        records = argilla.records("lea")
        answer = Person(argilla, people)
        argilla.ask("DELETE", f"records/{records[deleted]['id']}")
        good = said(at_random(tasks[plain], random.Random(1)))
        body = {"values": {k: {"value": v} for k, v in good.items()}, "status": "submitted"}
        argilla.ask("POST", f"records/{records[foreign]['id']}/responses", body)
        for view in (edited, torn, plain):
            answer(tasks[view].view, at_random(tasks[view], random.Random(view)))
        argilla.answer("lea", both, {**good, "skip": "unclear"})
        with sqlite3.connect(argilla.database, timeout=30) as db:
            db.execute(
                "update records set fields = json_set(fields, '$.step_1', 'x') where id = ?",
                (records[edited]["id"].replace("-", ""),),
            )
            db.execute(
                "update responses set \"values\" = json_set(\"values\", '$.step2.value', 'maybe') where record_id = ?",
                (records[torn]["id"].replace("-", ""),),
            )
        dataset = records[plain]["dataset_id"]
        by_hand = {"items": [{"fields": records[plain]["fields"], "external_id": "mine"}]}
        added = argilla.ask("POST", f"datasets/{dataset}/records/bulk", by_hand)["items"][0]
        argilla.ask("POST", f"records/{added['id']}/responses", body, key=argilla.key_of("lea"))

        pulled = route.pull(ledger)
        told = {f.record_id: f.reason for f in pulled.failures}
        assert pulled.new == 1 and ledger.refresh().answer_to(ledger.state.views[plain])
        assert "edited on the server" in told[edited]
        assert "deleted there" in told[deleted]
        assert "an account that is not lea's" in told[foreign]
        assert "steps.1.label: must be true or false" in told[torn]
        assert "with a reason to skip (unclear)" in told[both]
        assert "no view that was given to lea" in told["mine"]
        assert len(told) == 6

        route.push(ledger)  # puts back what was edited and what was deleted
        records = argilla.records("lea")
        assert set(tasks) <= set(records) and "mine" not in records
        assert records[edited]["responses"] == [], "what was said of another text is gone with it"
        assert records[edited]["fields"]["step_1"] == tasks[edited].view.steps[0].text
        answer = Person(argilla, people)
        answer(tasks[edited].view, at_random(tasks[edited], random.Random(2)))
        answer(tasks[deleted].view, at_random(tasks[deleted], random.Random(2)))
        argilla.answer("lea", both, good)
        again = route.pull(ledger)
        assert (again.new, again.same, {f.record_id for f in again.failures}) == (3, 1, {foreign, torn})


def test_skips_drafts_and_changes_of_mind(argilla, tmp_path):
    route, people = argilla.route(tmp_path), ("nia", "oda", "pit")
    with begin(tmp_path, items(2), people) as ledger:
        route.push(ledger)
        one, two = ledger.tasks("argilla")[:2]
        argilla.answer(one.annotator, one.view.id, {"skip": "distress", "comment": "too near"}, "discarded")
        argilla.answer(two.annotator, two.view.id, {"step1": "true"}, "draft")
        found = route.status(ledger)
        assert (found.views, found.submitted, found.drafts) == (4, 0, 1)
        pulled = route.pull(ledger)
        assert (pulled.new, pulled.skipped) == (1, 1)
        kept = ledger.state.answers[one.item_id][one.annotator, 0]
        assert (kept.skip, kept.comment) == ("distress", "too near")
        assert route.push(ledger).new == 1, "someone else is asked"
        argilla.answer(one.annotator, one.view.id, {}, "discarded")
        assert (route.pull(ledger).changed, ledger.state.answers[one.item_id][one.annotator, 0].skip) == (1, "other")
        argilla.answer(two.annotator, two.view.id, said(at_random(two, random.Random(4))))
        assert route.pull(ledger).new == 1


def test_what_is_withdrawn_or_taken_back_leaves_the_server(argilla, tmp_path):
    route, people = argilla.route(tmp_path), ("quin", "rob")
    with begin(tmp_path, items(3), people) as ledger:
        route.push(ledger)
        task = ledger.tasks("argilla")[0]
        Person(argilla, people)(task.view, at_random(task, random.Random(5)))
        route.pull(ledger)
        gone = next(i for i in ledger.state.items if i != task.item_id)
        ledger.withdraw([ledger.state.items[gone].dialogue_id])
        route.push(ledger)
        assert {who: len(v) for who, v in views_of(argilla, ledger).items()} == {"quin": 2, "rob": 2}
        assert sum(len(argilla.records(who)) for who in people) == 4, "its text is nowhere on the server"
        assert ledger.release("argilla") == 3
        ledger.deal("elsewhere")
        assert route.push(ledger).new == 0
        assert sum(len(argilla.records(who)) for who in people) == 1, "what was answered stays"


def test_a_half_made_or_changed_dataset_is_mended_or_told(argilla, tmp_path):
    route = argilla.route(tmp_path)
    with begin(tmp_path, items(1), ("sal", "tom")) as ledger:
        route.start(ledger)
        workspaces = argilla.ask("GET", "me/workspaces", key=argilla.key_of("sal"))["items"]
        draft = {"name": "steps and replies", "workspace_id": workspaces[0]["id"]}
        argilla.ask("POST", "datasets", draft)  # what a killed push leaves
        assert route.push(ledger).new == 2
        (dataset,) = argilla.ask("GET", "me/datasets", key=argilla.key_of("sal"))["items"]
        assert dataset["status"] == "ready" and dataset["distribution"] == {"strategy": "overlap", "min_submitted": 1}
        with sqlite3.connect(argilla.database, timeout=30) as db:
            db.execute(
                "delete from questions where dataset_id = ? and name = 'step2'", (dataset["id"].replace("-", ""),)
            )
        with pytest.raises(AnnotationError, match="changed by hand") as told:
            route.pull(ledger)
        assert "delete it" in told.value.hint
        argilla.ask("DELETE", f"datasets/{dataset['id']}")
        assert (route.push(ledger).new, len(argilla.records("sal"))) == (1, 1)


def test_many_records_and_long_words_arrive(argilla, tmp_path):
    long = "word " * 40_000
    turns = (Turn(speaker="seeker", text=long), Turn(speaker="supporter", text="x"))
    what = [*items(150), made_of(turns, (long, "b", "c"), "d", "e", 999)]
    with begin(tmp_path, what, ("uma",), overlap=1) as ledger:
        route = argilla.route(tmp_path)
        assert route.push(ledger).new == 151
        again = route.push(ledger)
        assert (again.new, again.known, route.pull(ledger).failures) == (0, 151, ())
        messages = max(
            (r["fields"]["conversation"] for r in argilla.records("uma").values()), key=lambda c: len(c[0]["content"])
        )
        assert len(messages) == 11 and all(len(m["content"]) <= 20_000 for m in messages)


def test_its_search_engine_answers_as_argillas_own_would(argilla, tmp_path):
    """Text, filters, order and counts, asked through the SDK: the page's search box and menus ask the same."""
    import argilla as rg

    client = rg.Argilla(api_url=argilla.url, api_key=argilla.key)
    rg.Workspace(name="search", client=client).create()
    settings = rg.Settings(
        fields=[rg.TextField(name="text"), rg.ChatField(name="chat", required=False)],
        questions=[
            rg.LabelQuestion(name="label", labels=["yes", "no"]),
            rg.RatingQuestion(name="stars", values=[1, 2, 3]),
        ],
        metadata=[rg.TermsMetadataProperty(name="kind"), rg.IntegerMetadataProperty(name="size")],
    )
    data = rg.Dataset(name="search", workspace="search", settings=settings, client=client).create()
    own = {"user_id": client.me.id, "status": "submitted"}
    answered = [rg.Response("label", "yes", **own), rg.Response("stars", 2, **own)]
    texts = ["A quiet evening", "考研又没过", "Evening, and quiet 100%", "nothing"]
    data.records.log([
        rg.Record(
            id=str(n), fields={"text": text, "chat": [{"role": "user", "content": f"说 {n}"}]},
            metadata={"kind": ["even", "odd"][n % 2], "size": n},
            suggestions=[rg.Suggestion("label", ["yes", "no"][n // 2], score=n / 4), rg.Suggestion("stars", 1 + n % 3)],
            responses=answered if n == 3 else [],
        )
        for n, text in enumerate(texts)
    ])  # fmt: skip

    def found(query: str | None = None, filter: list | None = None) -> str:
        asked = rg.Query(query=query, filter=rg.Filter(filter) if filter else None)
        return "".join(sorted(r.id for r in data.records(asked)))

    assert found("quiet evening") == found("QUIET") == "02" and found("考研") == "1" and found("说 2") == "2"
    assert found("100%") == "2" and found("absent") == "" and found("") == "0123"
    assert found(filter=[("metadata.kind", "==", "odd")]) == "13"
    assert found(filter=[("metadata.size", ">=", 1), ("metadata.size", "<=", 2)]) == "12"
    assert found(filter=[("label.suggestion", "==", "no")]) == "23"
    assert found(filter=[("label.score", ">=", 0.5)]) == "23"
    assert found(filter=[("label.response", "==", "yes")]) == "3"
    assert found(filter=[("response.status", "in", ["submitted"])]) == "3"
    assert found(filter=[("response.status", "in", ["pending"])]) == "012"
    assert found(filter=[("status", "==", "completed")]) == "3"
    assert found("quiet", [("metadata.kind", "==", "even")]) == "02"
    api = f"me/datasets/{data.id}/records/search?limit=2&offset=1"
    sort = {"sort": [{"scope": {"entity": "metadata", "metadata_property": "size"}, "order": "desc"}]}
    page = argilla.ask("POST", api, sort)
    assert (page["total"], [e["record"]["external_id"] for e in page["items"]]) == (4, ["2", "1"])
    for property in argilla.ask("GET", f"me/datasets/{data.id}/metadata-properties")["items"]:
        metrics = argilla.ask("GET", f"metadata-properties/{property['id']}/metrics")
        assert metrics in (
            {"type": "terms", "total": 4, "values": [{"term": "even", "count": 2}, {"term": "odd", "count": 2}]},
            {"type": "integer", "min": 0, "max": 3},
        )
    assert argilla.ask("GET", f"me/datasets/{data.id}/metrics")["responses"]["submitted"] == 1


def ser(*arguments: str, code: int = 0) -> tuple[str, str]:
    """`ser` in a process of its own; its two outputs."""
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run([sys.executable, "-m", "pipelines", *arguments], capture_output=True, text=True, env=env)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_the_commands_start_stop_and_say_where_the_passwords_are(argilla):
    """On the workspace whose server runs: a release is labelled by people who log in with the passwords of the file."""
    home = argilla.workspace
    write_dialogues(home / "in.jsonl", 3, rounds=1)

    with Ledger(ledger_path(home), RoundSettings(overlap=2, check_every=0)) as ledger:
        ledger.add_items(items(2))
        ledger.add_annotators(("vera", "will"))
        route = ArgillaRoute(argilla.route(home)._options.model_copy(update={"url": None, "token_env": None}))
        started = route.start(ledger)
        assert started.url == argilla.url and started.pid and set(started.links) == {"vera", "will"}
        assert route.push(ledger).new == 4
    file = AccountsFile(argilla.process.folder).path
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and str(file) in started.note
    assert stat.S_IMODE(argilla.process.folder.stat().st_mode) == 0o700
    passwords = json.loads(file.read_text())["passwords"]
    log = argilla.process.log.read_text()
    assert set(passwords) == {"owner", "vera", "will"} and not any(p in log for p in (*passwords.values(), argilla.key))
    out, _ = ser("annotate", "status", "--to", "argilla", "-w", str(home), "--json")
    assert json.loads(out)["views"] == 4
    assert json.loads(ser("annotate", "stop", "--to", "argilla", "-w", str(home), "--json")[0]) == {"stopped": True}
    out, _ = ser("annotate", "status", "--to", "argilla", "-w", str(home), "--json")
    assert (json.loads(out)["is_reachable"], "no Argilla runs" in json.loads(out)["note"]) == (False, True)
    _, told = ser("annotate", "pull", "--to", "argilla", "-w", str(home), code=5)
    assert "ser annotate start --to argilla" in told
    with Ledger(ledger_path(home)) as ledger:
        assert route.start(ledger).url == argilla.url, "the same address"
        assert (route.push(ledger).new, route.status(ledger).views) == (0, 4), "and all that it held"
