"""Releases on the Hugging Face Hub: push one, pull one.

A repository is private unless the caller says otherwise, and is never made public in passing. A version is a
tag, set once the whole folder is there, so a tag that exists is a release that is whole. The token comes from
`HF_TOKEN` or from the login of huggingface_hub, and is never printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .errors import DataError, RemoteError, UsageError
from .releases.card import CARD
from .releases.licences import lent_media, objection
from .releases.load import REPO_ID, Release, load_release
from .releases.manifest import MANIFEST, read_manifest
from .releases.rows import CONFIGS

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

_TOKEN_HINT = "set HF_TOKEN to a token that may write there (or run `hf auth login`)"


@dataclass(frozen=True, slots=True)
class PushResult:
    """What went, or would go. `files` is path -> bytes; "unchanged": this version was there, with the same
    content.
    """

    repo_id: str
    tag: str
    status: Literal["planned", "pushed", "unchanged"]
    private: bool
    files: dict[str, int]
    url: str = ""
    commit: str = ""
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        total = sum(self.files.values())
        what = {"planned": "would push", "pushed": "pushed", "unchanged": "already there, the same content:"}
        lines = [
            f"{what[self.status]} {len(self.files)} files, {total:,} bytes, to {self.repo_id}"
            f" ({'private' if self.private else 'public'}), tag {self.tag}"
        ]
        if self.status == "planned":
            lines += [f"  {path}  {size:,}" for path, size in self.files.items()]
        if self.url:
            lines.append(f"  {self.url}")
        return "\n".join([*lines, *(f"warning: {w}" for w in self.warnings)])


def push_release(
    path: str | Path,
    repo_id: str,
    *,
    public: bool = False,
    allow_noncommercial: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
) -> PushResult:
    """Put a release, its files checked first, into the dataset repository `repo_id`, created where it is not there.

    `tag` defaults to the version. `dry_run` uses no network. Raises UsageError where the push must not be
    made as asked (a licence, a visibility, a tag that holds other content), DataError for a damaged release,
    RemoteError where the Hub refuses.
    """
    if not REPO_ID.fullmatch(repo_id):
        raise UsageError(f"{repo_id}: not a repository's id", "it has the form owner/name")
    if not Path(path).is_dir():
        raise UsageError(f"{path}: no such folder", "name a folder under releases/")
    release = load_release(path)
    if public and not allow_noncommercial:
        _refuse_closed_licences(release)
    tag = tag or str(release.manifest["version"])
    files = {f: (release.path / f).stat().st_size for f in (CARD, MANIFEST, *release.manifest["files"])}
    warnings = _warnings(release)
    if dry_run:
        return PushResult(repo_id, tag, "planned", not public, files, warnings=warnings)
    with _hub_errors(repo_id):
        api = _api()
        url = _open_repository(api, repo_id, public)
        there = {ref.name: ref.target_commit for ref in api.list_repo_refs(repo_id, repo_type="dataset").tags}
        if tag in there:
            _refuse_other_content(api, repo_id, tag, release)
            return PushResult(repo_id, tag, "unchanged", not public, files, url, there[tag], warnings)
        commit = api.upload_folder(
            repo_id=repo_id,
            repo_type="dataset",
            folder_path=release.path,
            allow_patterns=list(files),
            delete_patterns=[f"{config}/*.parquet" for config in CONFIGS],
            commit_message=f"{release.manifest['name']} {release.manifest['version']}",
        )
        api.create_tag(repo_id, repo_type="dataset", tag=tag, revision=commit.oid)
    return PushResult(repo_id, tag, "pushed", not public, files, url, commit.oid, warnings)


def pull_release(repo_id: str, revision: str | None = None) -> Path:
    """The folder of a release fetched from the Hub (into its cache): a tag, or the newest. Raises
    RemoteError.
    """
    from huggingface_hub import snapshot_download

    with _hub_errors(repo_id):
        return Path(snapshot_download(repo_id, repo_type="dataset", revision=revision))


def _api() -> HfApi:
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise RemoteError("the Hub wants a token, and there is none", _TOKEN_HINT)
    return HfApi(library_name="ser-toolkit")


def _open_repository(api: HfApi, repo_id: str, public: bool) -> str:
    """Its URL, created where it was not there. Raises UsageError where it stands with the other visibility."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        private = bool(api.dataset_info(repo_id).private)
    except RepositoryNotFoundError as exc:
        if exc.response.status_code != 404:  # 401 and 403 say nothing on whether it is there
            raise
        return str(api.create_repo(repo_id, repo_type="dataset", private=not public))
    if public == private:
        is_, other = ("private", "public") if private else ("public", "private")
        raise UsageError(
            f"{repo_id} is {is_} already, and this push is {other}",
            f"push {'without' if public else 'with'} --public, or choose another repository"
            " (a visibility is changed on the Hub's own settings page)",
        )
    return f"{api.endpoint}/datasets/{repo_id}"


def _refuse_other_content(api: HfApi, repo_id: str, tag: str, release: Release) -> None:
    from huggingface_hub.errors import RemoteEntryNotFoundError

    try:
        file = Path(api.hf_hub_download(repo_id, MANIFEST, repo_type="dataset", revision=tag))
        content = read_manifest(file.parent)["content_hash"]
    except (RemoteEntryNotFoundError, DataError):
        content = None
    if content != release.manifest["content_hash"]:
        raise UsageError(
            f"{repo_id} has a tag {tag} with other content, and a release never changes",
            "export a new version, or name another --tag",
        )


def _refuse_closed_licences(release: Release) -> None:
    closed = [
        f"{s['format']}: {s['licence']}, {why} ({s['dialogues']} dialogues)"
        for s in release.manifest["sources"]
        if (why := objection(s["licence"]))
    ]
    closed += [
        f"{m['kind']} from {m['origin']}: {m['licence']}, {why} ({m['count']})"
        for m in lent_media(release.manifest)
        if (why := objection(m["licence"]))
    ]
    if closed:
        raise UsageError(
            "\n  ".join(
                [f"{release.path.name} holds rows that their licence does not plainly let you publish:", *closed]
            ),
            "push it private, leave these sources out, or pass --allow-noncommercial if you may publish them",
        )


def _warnings(release: Release) -> list[str]:
    if release.manifest.get("machinery_only"):
        return ["this release was made with the embedded model: it tests the machinery and is no training data"]
    return []


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    """Turn whatever huggingface_hub raises into a SerError that says what to do."""
    from huggingface_hub import errors
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  (its HTTP client's)

    try:
        yield
    except RuntimeError as exc:  # huggingface_hub wraps what stops the upload of a large file in one
        if isinstance(exc.__cause__, errors.HfHubHTTPError):
            raise _answered(repo_id, exc.__cause__) from exc
        if isinstance(exc.__cause__, HTTPError):
            raise _unreachable(repo_id, exc.__cause__) from exc
        raise
    except errors.HFValidationError as exc:
        raise UsageError(f"{repo_id}: {exc}", "it has the form owner/name") from exc
    except errors.HfHubHTTPError as exc:
        raise _answered(repo_id, exc) from exc
    except errors.OfflineModeIsEnabled as exc:
        raise RemoteError("the Hub cannot be asked: HF_HUB_OFFLINE is set", "unset it and run the same again") from exc
    except (HTTPError, errors.RevisionResolutionError, errors.LocalEntryNotFoundError, ConnectionError) as exc:
        raise _unreachable(repo_id, exc) from exc


def _answered(repo_id: str, exc: HfHubHTTPError) -> RemoteError:
    status = exc.response.status_code
    said = f": {exc.server_message}" if exc.server_message else ""
    return RemoteError(f"the Hub answered {status} for {repo_id}{said}", _advice(status))


def _unreachable(repo_id: str, exc: Exception) -> RemoteError:
    return RemoteError(f"the Hub cannot be reached for {repo_id}: {exc}", _advice(503))


def _advice(status: int) -> str:
    if status in (401, 403):
        return _TOKEN_HINT
    if status == 404:
        return "check the id owner/name and the tag; a private repository wants HF_TOKEN"
    if status == 409:
        return "another push is under way, or the name is taken: look at the repository, then run the same again"
    if status == 429 or status >= 500:
        return "run the same again later: what is there already is not sent twice, and the tag comes last"
    return "the Hub's documentation says what this code means"
