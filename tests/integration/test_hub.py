"""Push to a Hub that speaks over a real socket, and load from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ser_toolkit.errors import DataError, RemoteError, UsageError
from ser_toolkit.hub import push_release
from ser_toolkit.releases.load import load_release
from ser_toolkit.releases.manifest import read_manifest
from tests.servers.hub_stand_in import HubStandIn
from tests.unit.release.making import crowd, dialogue, make
from tests.unit.release.test_load import load_outside

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStandIn]:
    """A stand-in that this process takes for the Hub (huggingface_hub reads the environment at its import)."""
    from huggingface_hub import constants

    with HubStandIn() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make(tmp_path / "releases", crowd(60)).path


def remote_files(hub: HubStandIn, repo_id: str, revision: str = "main") -> dict[str, bytes]:
    repo = hub.repos[repo_id]
    return {p: b.data for p, b in repo.commits[repo.resolve(revision) or ""].items() if p != ".gitattributes"}


def local_files(release: Path) -> dict[str, bytes]:
    return {str(p.relative_to(release)): p.read_bytes() for p in release.rglob("*") if p.is_file()}


def test_a_push_creates_a_private_repository_with_the_version_as_tag(hub: HubStandIn, release: Path):
    result = push_release(release, "me/ser")
    repo = hub.repos["me/ser"]
    assert repo.private and hub.calls["create"] == 1
    assert repo.tags == {"0.1.0": result.commit} == {"0.1.0": repo.branches["main"]}
    assert remote_files(hub, "me/ser", "0.1.0") == local_files(release)
    assert all(b.is_lfs == p.endswith(".parquet") for p, b in repo.commits[result.commit].items())
    assert (result.status, result.private, result.tag) == ("pushed", True, "0.1.0")
    assert repo.messages[-1] == "ser 0.1.0" and result.url == f"{hub.url}/datasets/me/ser"


def test_every_config_loads_from_the_hub(hub: HubStandIn, release: Path, tmp_path: Path):
    push_release(release, "me/ser")
    rows = read_manifest(release)["rows"]
    online = {**hub.environment, "HF_DATASETS_OFFLINE": "0"}
    seen = load_outside("me/ser", list(rows), tmp_path / "hf", **online)
    assert seen["rows"] == {**rows, "": rows["traces"]} and sorted(seen["names"]) == sorted(rows)
    assert hub.calls["cdn"] >= len(read_manifest(release)["files"])


def test_a_stranger_sees_nothing_of_a_private_one(hub: HubStandIn, release: Path, monkeypatch: pytest.MonkeyPatch):
    push_release(release, "me/ser")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(RemoteError, match="401") as caught:
        load_release("me/ser@0.1.0")
    assert "HF_TOKEN" in caught.value.hint


def test_load_release_reads_a_version_from_the_hub(hub: HubStandIn, release: Path, tmp_path: Path):
    push_release(release, "me/ser")
    push_release(make(tmp_path / "releases", crowd(70)).path, "me/ser")
    assert load_release("me/ser").manifest["version"] == "0.1.1"
    old = load_release("me/ser@0.1.0")
    assert old.manifest == read_manifest(release)
    assert old.frame("traces").equals(load_release(release).frame("traces"))
    with pytest.raises(RemoteError, match="404"):
        load_release("me/ser@9.9.9")
    with pytest.raises(RemoteError, match="404"):
        load_release("me/nothing")


def test_the_same_push_again_sends_nothing(hub: HubStandIn, release: Path):
    first = push_release(release, "me/ser")
    before = dict(hub.calls)
    again = push_release(release, "me/ser")
    assert (again.status, again.commit) == ("unchanged", first.commit)
    for route in ("create", "preupload", "lfs-batch", "lfs-put", "commit", "tag"):
        assert hub.calls[route] == before[route]


def test_a_tag_with_other_content_is_refused(hub: HubStandIn, release: Path, tmp_path: Path):
    push_release(release, "me/ser")
    other = make(tmp_path / "elsewhere", crowd(61)).path
    before = local_files(release)
    with pytest.raises(UsageError, match=r"tag 0\.1\.0 with other content"):
        push_release(other, "me/ser")
    assert remote_files(hub, "me/ser") == before
    assert push_release(other, "me/ser", tag="0.1.0-b").status == "pushed"


def test_a_tag_that_is_no_release_is_refused(hub: HubStandIn, release: Path):
    repo = hub.add_repo("me/ser", private=True)
    repo.tags["0.1.0"] = repo.branches["main"]
    with pytest.raises(UsageError, match="other content"):
        push_release(release, "me/ser")


def test_a_new_version_replaces_the_files_and_keeps_the_old_tag(hub: HubStandIn, release: Path, tmp_path: Path):
    push_release(release, "me/ser")
    smaller = make(tmp_path / "releases", crowd(4), ratios=(1.0, 0.0, 0.0)).path
    push_release(smaller, "me/ser")
    assert remote_files(hub, "me/ser") == local_files(smaller)
    assert remote_files(hub, "me/ser", "0.1.0") == local_files(release)


@pytest.mark.parametrize("route", ["lfs-put", "commit", "tag"])
def test_a_push_that_broke_off_is_finished_by_the_next(hub: HubStandIn, release: Path, route: str):
    hub.fail(route, 400)
    with pytest.raises(RemoteError, match="400"):
        push_release(release, "me/ser")
    assert hub.repos["me/ser"].tags == {}
    assert push_release(release, "me/ser").status == "pushed"
    assert remote_files(hub, "me/ser", "0.1.0") == local_files(release)
    # What was already sent is not sent again.
    assert hub.calls["lfs-put"] == len(read_manifest(release)["files"]) + (route == "lfs-put")
    assert len(hub.repos["me/ser"].commits) == 2


@pytest.mark.parametrize(
    ("route", "status", "hint"),
    [("info", 403, "HF_TOKEN"), ("create", 403, "HF_TOKEN"), ("create", 409, "under way"), ("refs", 500, "later"),
     ("tag", 409, "under way"), ("commit", 429, "later")],
)  # fmt: skip
def test_a_refusal_of_the_hub_says_what_to_do(hub: HubStandIn, release: Path, route: str, status: int, hint: str):
    hub.fail(route, status, times=20)
    with pytest.raises(RemoteError, match=str(status)) as caught:
        push_release(release, "me/ser")
    assert hint in caught.value.hint and caught.value.exit_code == 4


def test_another_ones_namespace_is_refused(hub: HubStandIn, release: Path):
    with pytest.raises(RemoteError, match="403") as caught:
        push_release(release, "you/ser")
    assert "HF_TOKEN" in caught.value.hint


@pytest.mark.parametrize("token", [None, "hf_wrong_token"])
def test_a_missing_or_wrong_token_is_never_shown(
    hub: HubStandIn, release: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str | None
):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN") if token is None else monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(RemoteError) as caught:
        push_release(release, "me/ser")
    assert "HF_TOKEN" in caught.value.hint and "hf_wrong" not in str(caught.value)
    assert not hub.repos


def test_nobody_listening_is_a_remote_error(hub: HubStandIn, release: Path, monkeypatch: pytest.MonkeyPatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(RemoteError, match="cannot be reached"):
        push_release(release, "me/ser")


def test_a_public_repository_is_not_written_by_a_private_push(hub: HubStandIn, release: Path):
    hub.add_repo("me/open", private=False)
    hub.add_repo("me/closed", private=True)
    with pytest.raises(UsageError, match="public already"):
        push_release(release, "me/open")
    with pytest.raises(UsageError, match="private already"):
        push_release(release, "me/closed", public=True)
    assert hub.repos["me/closed"].private and hub.calls["commit"] == 0
    assert push_release(release, "me/open", public=True).private is False


def test_closed_licences_are_not_published_unless_one_says_so(hub: HubStandIn, tmp_path: Path):
    closed = [
        dialogue("nc", "My sister moved out last week.", "Oh.", licence="CC-BY-NC-4.0"),
        dialogue("no", "I am afraid of the stairs now.", "Why?", licence="unknown"),
    ]
    made = make(tmp_path, [*crowd(3), *closed]).path
    with pytest.raises(UsageError) as caught:
        push_release(made, "me/ser", public=True)
    assert "CC-BY-NC-4.0, non-commercial" in str(caught.value) and "unknown, not known" in str(caught.value)
    assert "CC-BY-4.0," not in caught.value.message and not hub.calls
    with pytest.raises(UsageError):
        push_release(made, "me/ser", public=True, dry_run=True)
    assert push_release(made, "me/ser").status == "pushed"
    assert push_release(made, "me/ser-open", public=True, allow_noncommercial=True).status == "pushed"
    assert not hub.repos["me/ser-open"].private


def test_a_dry_run_lists_what_would_go_and_asks_nobody(hub: HubStandIn, release: Path):
    result = push_release(release, "me/ser", dry_run=True)
    assert result.files == {p: len(data) for p, data in local_files(release).items()}
    assert result.status == "planned" and "traces/train.parquet" in result.render()
    assert not hub.calls and json.loads(json.dumps(result.to_json()))["tag"] == "0.1.0"


def test_only_the_release_goes(hub: HubStandIn, release: Path):
    expected = local_files(release)
    (release / "notes.txt").write_text("mine alone")
    (release / "traces" / "more.parquet").write_bytes(b"x")
    push_release(release, "me/ser")
    assert remote_files(hub, "me/ser") == expected


def test_a_damaged_release_is_not_pushed(hub: HubStandIn, release: Path):
    (release / "traces" / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"train\.parquet"):
        push_release(release, "me/ser")
    assert not hub.calls


def test_a_machinery_release_is_pushed_with_a_warning(hub: HubStandIn, tmp_path: Path):
    result = push_release(make(tmp_path, crowd(3), machinery_only=True).path, "me/ser")
    assert "no training data" in result.render() and result.status == "pushed"


@pytest.mark.parametrize("repo_id", ["ser", "me/ser/x", "me/", "/ser", "me/s er", "../ser", "me/--x"])
def test_what_is_no_repository_id_is_refused(hub: HubStandIn, release: Path, repo_id: str):
    with pytest.raises(UsageError, match="owner/name"):
        push_release(release, repo_id)
    assert not hub.repos


def test_a_folder_that_is_not_there_is_a_usage_error(hub: HubStandIn, tmp_path: Path):
    with pytest.raises(UsageError, match="no such folder"):
        push_release(tmp_path / "nothing", "me/ser")


def test_a_fresh_process_needs_only_the_environment(release: Path, tmp_path: Path):
    """As a user runs it: endpoint and token from the environment, nothing patched."""
    code = "import sys; from ser_toolkit.hub import push_release; print(push_release(sys.argv[1], 'me/ser').render())"
    with HubStandIn() as server:
        env = {**os.environ, **server.environment, "HF_HOME": str(tmp_path / "hf")}
        run = [sys.executable, "-c", code, str(release)]
        done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("pushed ") and server.token not in done.stdout + done.stderr
        shutil.rmtree(release)
        assert set(server.repos["me/ser"].tags) == {"0.1.0"}
