"""A Label Studio behind its SDK: projects and tasks, and every fault as an AnnotationError.

The SDK asks again by itself after a lost connection, which would put tasks there twice: what changes something is asked
once. Label Studio answers 404 past the last page, and so does a project that is gone: pages are counted.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ser_toolkit.errors import AnnotationError, UsageError
from ser_toolkit.visible import visible

TIMEOUT_S = 120
RETRIES = 1
PAGE = 100
BATCH_BYTES = 4_000_000
BATCH_TASKS = 100
AGAIN = "see that it runs, and run the same command again: what is there already is not carried twice"
ONCE: Any = {"max_retries": 0}


@dataclass(frozen=True, slots=True)
class Project:
    """A project there, with the mark that we gave it."""

    id: int
    mark: str


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task as the server has it, with its annotations and the number of its drafts."""

    id: int
    data: Mapping[str, Any]
    annotations: Sequence[Mapping[str, Any]]
    drafts: int


def must_have_sdk() -> None:
    """Raises UsageError where the extra is not installed."""
    if importlib.util.find_spec("label_studio_sdk") is None:
        raise UsageError("the route label-studio needs Label Studio's SDK", "pip install 'ser-toolkit[label-studio]'")


class Remote:
    """A server that runs at `url`. `token` is a legacy token or a personal access token, which the SDK renews.

    Every method raises AnnotationError where the server is gone, refuses, or answers what is no answer.
    """

    def __init__(self, url: str, token: str) -> None:
        import httpx
        from label_studio_sdk import LabelStudio

        self.url = url.rstrip("/")
        # A proxy is no way to this machine.
        http = httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, trust_env=not _is_here(url))
        with self._asking():
            # The SDK joins the address of the token's renewal to what stands before the last slash.
            self._sdk = LabelStudio(base_url=f"{self.url}/", api_key=token, httpx_client=http, max_retries=RETRIES)

    def projects(self, prefix: str) -> dict[str, Project]:
        """mark -> project, of all whose description is a mark that begins so. Raises for a mark that two have."""
        found: dict[str, Project] = {}
        with self._asking():
            for project in self._sdk.projects.list(page_size=100, include="id,description"):
                mark = project.description or ""
                if not mark.startswith(prefix):
                    continue
                if mark in found:
                    raise AnnotationError(
                        f"Label Studio at {self.url}: projects {found[mark].id} and {project.id} have one mark",
                        "someone copied it there: delete the copy, or change its description",
                    )
                found[mark] = Project(project.id, mark)
        return found

    def create(self, mark: str, title: str, config: str, instruction: str) -> Project:
        """A new project, in which one person answers each task once and sees the instruction first."""
        with self._asking():
            made = self._sdk.projects.create(
                title=title,
                description=mark,
                label_config=config,
                expert_instruction=instruction,
                show_instruction=True,
                show_skip_button=True,
                enable_empty_annotation=False,
                show_annotation_history=False,
                show_collab_predictions=False,
                maximum_annotations=1,
                sampling="Sequential sampling",
                request_options=ONCE,
            )
            if made.id is None:
                raise ValueError("a project without a number")
            return Project(made.id, mark)

    def tasks(self, project: Project) -> list[HeldTask]:
        """All that a project holds. Raises for a project that is gone, or changes while it is read."""
        found: dict[int, HeldTask] = {}
        page = 1
        while True:
            with self._asking():
                answer = self._sdk.tasks.list(
                    project=project.id, page=page, page_size=PAGE, fields="all", resolve_uri=False
                )
                response, tasks = answer.response, answer.items or []
                held = [_held(task.model_dump()) for task in tasks]
            found |= {task.id: task for task in held}
            if len(found) >= response.total:
                return list(found.values())
            if not held:
                raise AnnotationError(
                    f"Label Studio at {self.url}: project {project.id} changed while it was read", "run it again"
                )
            page += 1

    def put(self, project: Project, tasks: Sequence[Mapping[str, str]]) -> None:
        """Add tasks, some at a time."""
        for batch in _batches(tasks):
            with self._asking():
                self._sdk.projects.import_tasks(project.id, request=batch, request_options=ONCE)  # pyright: ignore[reportArgumentType]

    def delete(self, task: HeldTask) -> None:
        """Take a task away."""
        with self._asking():
            self._sdk.tasks.delete(str(task.id), request_options=ONCE)

    def invitation(self) -> str:
        """The token of the organisation's sign-up link; the SDK has no call for it."""
        with self._asking():
            answer = self._sdk._client_wrapper.httpx_client.request("api/invite", method="GET")
            return str(answer.raise_for_status().json()["token"])

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around calls of the SDK: whatever goes wrong is an AnnotationError that says what to do."""
        import httpx
        from label_studio_sdk.core.api_error import ApiError

        try:
            yield
        except httpx.HTTPError as exc:
            told = visible(str(exc), one_line=True)[:200] or type(exc).__name__
            raise AnnotationError(f"Label Studio at {self.url} does not answer ({told})", AGAIN) from exc
        except ApiError as exc:
            raise self._refused(exc.status_code, exc.body) from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            told = visible(str(exc), one_line=True)[:200]
            raise AnnotationError(
                f"Label Studio at {self.url} answers what is no answer ({told})", "is it a Label Studio? see --url"
            ) from exc

    def _refused(self, status: int | None, body: Any) -> AnnotationError:
        told = body.get("detail", body) if isinstance(body, Mapping) else body
        message = f"Label Studio at {self.url} answers {status}: {visible(str(told), one_line=True)[:300]}"
        if status in (401, 403):
            return AnnotationError(message, "the key is of no use: its owner finds one under Account & Settings")
        if status == 404:
            return AnnotationError(
                message, "is it a Label Studio? see --url; if a project was deleted there, push again"
            )
        return AnnotationError(message, AGAIN)


def _held(task: Mapping[str, Any]) -> HeldTask:
    annotations = task.get("annotations") or []
    return HeldTask(int(task["id"]), task.get("data") or {}, annotations, len(task.get("drafts") or []))


def _batches(tasks: Sequence[Mapping[str, str]]) -> Iterator[list[Mapping[str, str]]]:
    batch: list[Mapping[str, str]] = []
    size = 0
    for task in tasks:
        grown = len(json.dumps(task))
        if batch and (size + grown > BATCH_BYTES or len(batch) == BATCH_TASKS):
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += grown
    if batch:
        yield batch


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
