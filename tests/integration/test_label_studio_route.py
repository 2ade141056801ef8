"""The route label-studio against the real Label Studio: what every route must do, faults on the way, hands there."""

from __future__ import annotations

import importlib.util
import json
import random
import stat
import subprocess
import sys

import pytest

from annotation.label_studio import remote
from annotation.label_studio.remote import Remote
from annotation.label_studio.route import open_route
from annotation.ledger import Ledger
from annotation.routes import RouteOptions
from ser_toolkit.errors import AnnotationError, UsageError
from ser_toolkit.schema import Turn
from tests.annotating_three import build_release, check_three
from tests.annotation_samples import begin, item, items, made_of, photo
from tests.contract.test_routes import check_route
from tests.servers.faulty_proxy import FaultyProxy, How, faulty_proxy
from tests.servers.label_studio import TOKEN, People, _ended, chosen, label_studio, results
from tests.unit.annotation.answering import a_round, at_random

__all__ = ["_ended", "label_studio"]

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("label-studio")]
FAULTS: tuple[How, ...] = ("hangs up", "hangs up late", "answers 500", "answers nonsense")


def test_it_is_ours_alone_and_keeps_to_itself(label_studio):
    folder = label_studio.process.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert label_studio.url.startswith("http://127.0.0.1:") and label_studio.started.pid
    log = label_studio.process.log.read_text()
    assert label_studio.token not in log and label_studio.password not in log
    assert set(label_studio.started.links) == {"ada", "ben", "cem"}
    with Ledger(label_studio.workspace / "annotation.sqlite") as ledger:
        route = open_route(RouteOptions(workspace=label_studio.workspace))
        again = route.start(ledger)
        assert (again.url, again.pid, again.links) == (
            label_studio.url, label_studio.started.pid, label_studio.started.links,
        ), "started again is the same"  # fmt: skip
        assert route.push(ledger).new == 4 and route.status(ledger).views == 4
    for command, expected in (("status", {"views": 4, "is_reachable": True}), ("pull", {"new": 0, "failures": []})):
        asked = [sys.executable, "-m", "pipelines", "annotate", command, "--to", "label-studio", "--json"]
        done = subprocess.run([*asked, "-w", str(label_studio.workspace)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout).items() >= expected.items()


def test_it_keeps_the_contract_of_routes(label_studio, tmp_path):
    route = label_studio.route(tmp_path)
    route.start = lambda _: None  # it runs
    with a_round(tmp_path, 6) as ledger:
        check_route(route, People(label_studio), ledger)


def test_three_people_label_real_dialogues_and_the_release_is_the_same(label_studio, tmp_path, shared_data):
    home = build_release(tmp_path / "w", shared_data)
    route = label_studio.route(home.root)
    route.start = lambda _: None
    check_three(home, route, People(label_studio))


def test_a_view_is_shown_whole_and_blind_in_a_project_of_ones_own(label_studio, tmp_path):
    alone = made_of(
        (Turn(speaker="seeker", text="Alone."), Turn(speaker="supporter", text="")), ("a", "b", "c"), "d", "", 9
    )
    with begin(tmp_path, [item(0, photo=photo(tmp_path), risk="imminent"), item(3), alone], ("dora", "王芳")) as ledger:
        route = label_studio.route(tmp_path, lang="zh")
        assert route.push(ledger).new == 6
        mine, theirs = (label_studio.tasks(ledger, who) for who in ("dora", "王芳"))
        assert len(mine) == len(theirs) == 2 and not set(mine) & set(theirs)
        for task in (*mine.values(), *theirs.values()):
            text = json.dumps(dict(task.data), ensure_ascii=False)
            assert not any(w in text for w in ("parrot", "seer-9", "talk-", "generated", "dora", "王芳"))
            assert not task.annotations
        (single,) = label_studio.remote.tasks(label_studio.project(ledger, "dora", has_pair=False))
        assert "reply1" not in single.data
        people = People(label_studio)
        for task in ledger.tasks("label-studio"):
            people(task.view, at_random(task, random.Random(task.view.id)))
        pulled = route.pull(ledger)
        assert (pulled.new, pulled.failures) == (6, ())
        known = label_studio.remote._sdk.projects.get(label_studio.project(ledger, "dora").id)
        assert (
            "第一个更好" in known.label_config and known.title.startswith("dora") and "<h1>" in known.expert_instruction
        )


@pytest.mark.parametrize("how", FAULTS)
def test_a_push_that_breaks_anywhere_is_told_and_goes_on_and_nothing_is_there_twice(
    label_studio, tmp_path, monkeypatch, how
):
    monkeypatch.setattr(remote, "BATCH_TASKS", 2)
    monkeypatch.setattr(remote, "RETRIES", 0)
    with begin(tmp_path, items(5), ("eva", "fred")) as ledger, faulty_proxy(label_studio.url) as proxy:
        route = label_studio.route(tmp_path, proxy.url)
        assert until_it_works(route.push, ledger, proxy, how) > 3, "it broke on the way"
        assert route.push(ledger).new == 0
        for who in ("eva", "fred"):
            held = label_studio.remote.tasks(label_studio.project(ledger, who))
            assert len(held) == len(label_studio.tasks(ledger, who)) == 5


@pytest.mark.parametrize("how", ["hangs up", "answers 500"])
def test_a_pull_that_breaks_anywhere_is_told_and_goes_on(label_studio, tmp_path, monkeypatch, how):
    monkeypatch.setattr(remote, "PAGE", 2)
    monkeypatch.setattr(remote, "RETRIES", 0)
    with begin(tmp_path, items(3), ("gus", "hal")) as ledger, faulty_proxy(label_studio.url) as proxy:
        route = label_studio.route(tmp_path, proxy.url)
        route.push(ledger)
        people = People(label_studio)
        for task in ledger.tasks("label-studio"):
            people(task.view, at_random(task, random.Random(task.view.id)))
        assert until_it_works(route.pull, ledger, proxy, how) > 2
        last = route.pull(ledger)
        assert (last.new, last.changed, last.same, last.failures) == (0, 0, 6, ())
        assert len([e for e in ledger.events() if e.kind == "answer"]) == 6, "each answer was taken in once"


def until_it_works(call, ledger: Ledger, proxy: FaultyProxy, how: How) -> int:
    """Call again and again over a way that breaks, each time one request later; how often it broke."""
    for tries in range(60):
        proxy.fail(tries, how)
        try:
            call(ledger)
        except AnnotationError as exc:
            assert exc.exit_code == 5 and proxy.url in exc.message and exc.hint
        else:
            proxy.mend()
            return tries
    raise AssertionError("it never came to an end")


def test_a_server_that_is_away_or_refuses_is_told(label_studio, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "RETRIES", 0)
    with begin(tmp_path, items(1), ("ida", "jon")) as ledger:
        away = label_studio.route(tmp_path, "http://127.0.0.1:9")
        found = away.status(ledger)
        assert (found.is_reachable, "does not answer" in found.note) == (False, True)
        with pytest.raises(AnnotationError, match="does not answer"):
            away.push(ledger)
        assert ledger.tasks("label-studio") == [], "what cannot be carried is not given out"
        monkeypatch.setenv(TOKEN, "0" * 40)
        with pytest.raises(AnnotationError, match="answers 401") as refused:
            label_studio.route(tmp_path).push(ledger)
        assert "Account" in refused.value.hint and "0" * 40 not in str(refused.value)
        ours = open_route(RouteOptions(workspace=tmp_path))
        with pytest.raises(AnnotationError, match="no Label Studio of this workspace runs") as none:
            ours.pull(ledger)
        assert "ser annotate start" in none.value.hint and not ours.status(ledger).is_reachable
        with pytest.raises(UsageError, match="starts a server here"):
            label_studio.route(tmp_path).start(ledger)


def test_what_is_missing_is_a_usage_error(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="belong together"):
        open_route(RouteOptions(workspace=tmp_path, url="http://127.0.0.1:9"))
    with pytest.raises(UsageError, match="NO_SUCH_KEY"):
        open_route(RouteOptions(workspace=tmp_path, url="http://127.0.0.1:9", token_env="NO_SUCH_KEY"))
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "label_studio_sdk" else real(n, *a))
    with pytest.raises(UsageError) as caught:
        open_route(RouteOptions(workspace=tmp_path))
    assert caught.value.exit_code == 2 and caught.value.hint == "pip install 'ser-toolkit[label-studio]'"


def test_a_personal_access_token_is_renewed_and_one_that_was_revoked_is_told(label_studio, tmp_path, monkeypatch):
    sdk = label_studio.remote._sdk
    personal = sdk.tokens.create().token
    assert personal.count(".") == 2
    monkeypatch.setenv(TOKEN, personal)
    with begin(tmp_path, items(2), ("kim", "lea")) as ledger:
        route = label_studio.route(tmp_path)
        assert route.push(ledger).new == 4
    client = Remote(label_studio.url, personal)
    client.projects("ser")
    tokens = client._sdk._client_wrapper._tokens_client
    before, tokens._access_token = tokens._access_token, expired()
    client.projects("ser")
    assert tokens._access_token not in (None, expired()) and before
    sdk.tokens.blacklist(refresh=personal)
    with pytest.raises(AnnotationError, match="answers 401"):
        Remote(label_studio.url, personal).projects("ser")
    with pytest.raises(AnnotationError, match="answers 401"):
        Remote(label_studio.url, expired())


def expired() -> str:
    import jwt

    return jwt.encode({"exp": 1_000_000_000, "token_type": "refresh"}, "k" * 32, "HS256")


def test_hands_on_the_server_are_failures_never_answers(label_studio, tmp_path):
    """Edited, deleted, added, moved, answered by two, answered with what the page does not offer: each is told."""
    with begin(tmp_path, items(8), ("max", "nia")) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        sdk, project = label_studio.remote._sdk, label_studio.project(ledger, "max")
        due = {t.view.id: t for t in ledger.tasks("label-studio") if t.annotator == "max"}
        good = {view: results(at_random(task, random.Random(view))) for view, task in due.items()}
        edited, deleted, torn, both, two, twice, plain, idle = due
        held = label_studio.tasks(ledger, "max")
        sdk.tasks.update(str(held[edited].id), data={**held[edited].data, "text1": "other words"})
        sdk.tasks.delete(str(held[deleted].id))
        for view in (edited, two, twice, plain):
            label_studio.annotate(held[view].id, good[view])
        label_studio.annotate(held[torn].id, [chosen("step1", "text1", ["Perhaps"]), *good[torn][1:]])
        label_studio.annotate(held[both].id, [*good[both], chosen("skip", "talk", ["unclear"])])
        stranger = label_studio.sign_up("stranger@example.org")
        said = stranger.post(
            f"{label_studio.url}/api/tasks/{held[two].id}/annotations/",
            json={"result": good[two]},
            headers={"X-CSRFToken": stranger.cookies["csrftoken"], "Referer": label_studio.url},
        )
        assert said.status_code == 201, said.text
        label_studio.annotate(held[twice].id, [chosen("step1", "text1", ["False"]), *good[twice][1:]])
        copy = sdk.projects.import_tasks(
            project.id, request=[dict(held[idle].data), {**held[plain].data, "ser_view": "mine"}], return_task_ids=True
        )
        label_studio.annotate(copy.task_ids[1], good[plain])

        pulled = route.pull(ledger)
        told = {f.record_id: f.reason for f in pulled.failures}
        assert "was changed there" in told[edited] and "deleted there" in told[deleted]
        assert "'Perhaps', neither True nor False" in told[torn] and "a reason to skip (unclear)" in told[both]
        assert "2 accounts" in told[two] and "no such view" in told["mine"]
        assert len(told) == 6 and pulled.new == 2
        assert ledger.state.answers[due[twice].item_id]["max", 0].steps[0].label is False, "the last word holds"

        again = route.push(ledger)
        held = label_studio.tasks(ledger, "max")
        assert again.new == 2, "what was edited and what was deleted"
        assert len([t for t in label_studio.remote.tasks(project) if t.data["ser_view"] == idle]) == 1, (
            "the copy is gone"
        )
        for view in (edited, deleted, idle):
            task = max(
                (t for t in label_studio.remote.tasks(project) if t.data["ser_view"] == view), key=lambda t: t.id
            )
            label_studio.annotate(task.id, good[view])
        last = route.pull(ledger)
        assert {f.record_id for f in last.failures} == {edited, torn, both, two}, (
            "what was put there by hand under a name of ours is gone"
        )
        assert last.new == 2


def test_skips_drafts_and_changes_of_mind(label_studio, tmp_path):
    with begin(tmp_path, items(2), ("oda", "pit", "quin")) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        sdk = label_studio.remote._sdk
        one, two = ledger.tasks("label-studio")[:2]
        tasks = {v: t for who in ("oda", "pit", "quin") for v, t in label_studio.tasks(ledger, who).items()}
        skip = [chosen("skip", "talk", ["distress"])]
        kept = label_studio.annotate(tasks[one.view.id].id, skip, was_cancelled=True)
        http = sdk._client_wrapper.httpx_client
        http.request(f"api/tasks/{tasks[two.view.id].id}/drafts", method="POST", json={"result": skip, "lead_time": 1})
        found = route.status(ledger)
        assert (found.views, found.submitted, found.drafts) == (4, 0, 1)
        assert found.by_annotator[one.annotator]["discarded"] == 1
        pulled = route.pull(ledger)
        assert (pulled.new, pulled.skipped) == (1, 1)
        assert ledger.state.answers[one.item_id][one.annotator, 0].skip == "distress"
        assert route.push(ledger).new == 1, "someone else is asked"
        sdk.annotations.update(kept, result=results(at_random(one, random.Random(1))), was_cancelled=False)
        assert route.pull(ledger).changed == 1
        assert ledger.state.answers[one.item_id][one.annotator, 0].skip is None


def test_what_is_withdrawn_or_taken_back_leaves_the_server(label_studio, tmp_path):
    with begin(tmp_path, items(3), ("rob", "sal")) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        task = ledger.tasks("label-studio")[0]
        People(label_studio)(task.view, at_random(task, random.Random(5)))
        route.pull(ledger)
        ledger.withdraw([ledger.state.items[task.item_id].dialogue_id])
        route.push(ledger)
        assert [len(label_studio.tasks(ledger, who)) for who in ("rob", "sal")] == [2, 2], "its answer is gone, too"
        ledger.release("label-studio")
        ledger.deal("elsewhere")
        assert route.push(ledger).new == 0
        assert [len(label_studio.tasks(ledger, who)) for who in ("rob", "sal")] == [0, 0]


def test_a_project_that_was_deleted_or_copied_is_told(label_studio, tmp_path):
    with begin(tmp_path, items(2), ("tom", "uma")) as ledger:
        route = label_studio.route(tmp_path)
        route.push(ledger)
        sdk, project = label_studio.remote._sdk, label_studio.project(ledger, "tom")
        sdk.projects.delete(project.id)
        pulled = route.pull(ledger)
        assert pulled.new == 0 and [f.kind for f in pulled.failures] == ["unreadable"] * 2
        assert route.push(ledger).new == 2 and route.pull(ledger).failures == ()
        copy = sdk.projects.create(title="copy", description=label_studio.project(ledger, "tom").mark)
        with pytest.raises(AnnotationError, match="have one mark") as told:
            route.pull(ledger)
        assert "delete the copy" in told.value.hint
        sdk.projects.delete(copy.id)
        assert route.pull(ledger).failures == ()


def test_many_tasks_and_long_words_arrive(label_studio, tmp_path):
    long = "word " * 40_000
    turns = (Turn(speaker="seeker", text=long), Turn(speaker="supporter", text="x"))
    what = [*items(120), made_of(turns, (long, "b", "c"), "d", "e", 999)]
    with begin(tmp_path, what, ("vi",), overlap=1) as ledger:
        route = label_studio.route(tmp_path)
        assert route.push(ledger).new == 121
        again = route.push(ledger)
        assert (again.new, again.known, route.pull(ledger).failures) == (0, 121, ())
