"""The route `label-studio`: items to a Label Studio, our own or one that runs already, and answers back.

Each person has a project of their own, and a second one for items without a pair of replies. A project is known by the
mark in its description; a task by the name of its view in its data, under a seal of the round's secret key over all of
the data, so that an answer to a text that was changed there is never taken for one to ours.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotation.guidelines import guidelines
from annotation.items import Response
from annotation.ledger import Ledger, Task
from annotation.routes import Pulled, Pushed, RouteOptions, RouteStatus, Started
from ser_toolkit.engine import failure_of
from ser_toolkit.errors import AnnotationError, RecordError, UsageError
from ser_toolkit.schema import Failure

from . import server
from .answers import read_annotation
from .layout import SEAL, VIEW, config, task_data, words
from .remote import HeldTask, Project, Remote, must_have_sdk

NAME = server.NAME
START = "`ser annotate start --to label-studio` starts one here; --url names one that runs already"
PROGRESS = ("views", "submitted", "discarded", "drafts")


def open_route(options: RouteOptions) -> LabelStudioRoute:
    """The route. Raises UsageError without the extra, or for a server without the variable that holds its key."""
    must_have_sdk()
    if (options.url is None) != (options.token_env is None):
        raise UsageError("--url and --token-env belong together", "a server's address, and where its owner's key is")
    if options.token_env is not None and not os.environ.get(options.token_env):
        raise UsageError(f"--token-env {options.token_env}: no such variable is set", "export it with the owner's key")
    return LabelStudioRoute(options)


@dataclass(frozen=True, slots=True)
class Desk:
    """One person's project: `mark` is its name there, `has_pair` whether two replies are judged in it."""

    annotator: str
    has_pair: bool
    mark: str


class LabelStudioRoute:
    """See `annotation.routes.Route`."""

    name = NAME

    def __init__(self, options: RouteOptions) -> None:
        self._options = options
        self._media = options.workspace / "media"
        self.url = (options.url or "").rstrip("/")

    # -- the protocol ------------------------------------------------------------------------------------------------

    def start(self, ledger: Ledger) -> Started:
        """Our own server, up, with a project for each person."""
        if self._options.url is not None:
            raise UsageError("start starts a server here", "for one that runs already: `ser annotate push --url ...`")
        key = ledger.state.key
        running = server.start(self._options.workspace, key)
        remote = self._connect(ledger)
        there = remote.projects(_prefix(key))
        token, links = remote.invitation(), {}
        for who in _people(ledger):
            desk = _desk(key, who, has_pair=True)
            project = there.get(desk.mark) or self._create(remote, desk)
            links[who] = f"{self.url}/user/signup/?token={token}&next=/projects/{project.id}/data%3Flabeling=1"
        return Started(
            url=self.url,
            links=links,
            pid=running.pid,
            note="each person signs up once by their own link; "
            f"the owner is {server.OWNER}, password {server.password(key)}; "
            "`ser annotate pull --to label-studio` brings answers home, `ser annotate stop` ends the server",
        )

    def push(self, ledger: Ledger) -> Pushed:
        """Give out what is due; the server then holds each open view once, as it is, and none that was taken back."""
        key = ledger.state.key
        remote = self._connect(ledger)
        there = remote.projects(_prefix(key))
        ledger.deal(NAME)
        due: dict[tuple[str, bool], list[Task]] = defaultdict(list)
        for task in ledger.tasks(NAME):
            due[task.annotator, task.view.replies is not None].append(task)
        new = known = 0
        for desk in _desks(ledger):
            tasks = due.pop((desk.annotator, desk.has_pair), [])
            project = there.get(desk.mark)
            if project is None and not tasks:
                continue
            project = project or self._create(remote, desk)
            carried = self._carry(remote, project, desk, ledger, tasks)
            new, known = new + carried, known + len(tasks) - carried
        return Pushed(new=new, known=known, annotators=tuple(sorted({t.annotator for t in ledger.tasks(NAME)})))

    def pull(self, ledger: Ledger) -> Pulled:
        """Every answer and skip into the ledger; what was edited or deleted by hand is a failure."""
        remote = self._connect(ledger)
        there = remote.projects(_prefix(ledger.state.key))
        counts: Counter[str] = Counter()
        failures: list[Failure] = []
        missing = {task.view.id: task.annotator for task in ledger.tasks(NAME)}
        for desk in _desks(ledger):
            held = remote.tasks(there[desk.mark]) if desk.mark in there else ()
            for view, tasks in _by_view(held).items():
                missing.pop(view, None)
                try:
                    response = _answer(ledger, desk, view, tasks)
                    if response is None:
                        continue
                    accepted = ledger.accept(response, route=NAME)
                except RecordError as exc:
                    failures.append(failure_of(exc, "pull", view))
                    continue
                counts[accepted.outcome] += 1
                if accepted.outcome != "same":
                    counts["skipped"] += accepted.answer.skip is not None
                    counts["surplus"] += accepted.answer.is_surplus
        for view, who in missing.items():
            reason = f"{view}: not among {who}'s tasks (deleted there, or never carried): push again"
            failures.append(failure_of(RecordError("unreadable", reason), "pull", view))
        return Pulled(**counts, failures=tuple(failures))

    def status(self, ledger: Ledger) -> RouteStatus:
        """How each person stands."""
        people: dict[str, dict[str, int]] = {who: dict.fromkeys(PROGRESS, 0) for who in _people(ledger)}
        try:
            remote = self._connect(ledger)
            there = remote.projects(_prefix(ledger.state.key))
            for desk in _desks(ledger):
                for task in remote.tasks(there[desk.mark]) if desk.mark in there else ():
                    own = people[desk.annotator]
                    own["views"] += 1
                    own["submitted"] += any(not a.get("was_cancelled") for a in task.annotations)
                    own["discarded"] += any(a.get("was_cancelled") for a in task.annotations)
                    own["drafts"] += bool(task.drafts and not task.annotations)
        except AnnotationError as exc:
            return RouteStatus(url=self.url, is_reachable=False, note=f"{exc.message}; {exc.hint}".strip("; "))
        total = {name: sum(own[name] for own in people.values()) for name in PROGRESS}
        return RouteStatus(
            url=self.url,
            is_reachable=True,
            views=total["views"],
            submitted=total["submitted"],
            drafts=total["drafts"],
            by_annotator=people,
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _connect(self, ledger: Ledger) -> Remote:
        if self._options.url is not None:
            return Remote(self.url, os.environ[self._options.token_env or ""])
        running = server.process(self._options.workspace).running()
        if running is None:
            raise AnnotationError("no Label Studio of this workspace runs", START)
        self.url = running.url
        return Remote(self.url, server.token(ledger.state.key))

    def _create(self, remote: Remote, desk: Desk) -> Project:
        lang = self._options.lang
        say = words(lang)
        title = f"{desk.annotator[:30]} · {say['title' if desk.has_pair else 'steps_title']}"
        text = guidelines(lang, self._options.workspace / "guidelines")
        return remote.create(desk.mark, title[:50], config(lang, desk.has_pair), _as_html(text))

    def _carry(self, remote: Remote, project: Project, desk: Desk, ledger: Ledger, due: Sequence[Task]) -> int:
        """Make the project hold each of these once; returns how many were new to it."""
        wanted = {task.view.id: task for task in due}
        there: set[str] = set()
        for view, tasks in _by_view(remote.tasks(project)).items():
            kept = _kept(ledger, desk, view, tasks, is_wanted=view in wanted and view not in there)
            there |= {view} if kept is not None else set()
            for task in tasks:
                if task is not kept and _may_go(ledger, view, task):
                    remote.delete(task)
        new = [_sealed(ledger, task_data(task.view, self._media)) for v, task in wanted.items() if v not in there]
        remote.put(project, new)
        return len(new)


# -- tasks there -----------------------------------------------------------------------------------------------------


def _by_view(tasks: Iterable[HeldTask]) -> dict[str, list[HeldTask]]:
    """By the name that a task's data gives; one that was made by hand has none, and its number stands for it."""
    found: dict[str, list[HeldTask]] = {}
    for task in sorted(tasks, key=lambda t: t.id):
        found.setdefault(str(task.data.get(VIEW) or f"task {task.id}"), []).append(task)
    return found


def _kept(ledger: Ledger, desk: Desk, view: str, tasks: Sequence[HeldTask], *, is_wanted: bool) -> HeldTask | None:
    """Which of these stays as the one of the view: whole, and where there is a choice the one that was worked on."""
    whole = [t for t in tasks if _fault(ledger, desk, view, t) is None]
    return max(whole, key=lambda t: (bool(t.annotations), t.drafts, -t.id), default=None) if is_wanted else None


def _may_go(ledger: Ledger, view: str, task: HeldTask) -> bool:
    """Of a withdrawn dialogue everything; else what nobody has worked on. What others put there is left alone."""
    is_ours = VIEW in task.data
    return is_ours and (view not in ledger.state.views or not (task.annotations or task.drafts))


def _answer(ledger: Ledger, desk: Desk, view: str, tasks: Sequence[HeldTask]) -> Response | None:
    """What was said to a view; `None` where nothing is yet. Raises RecordError for what cannot be believed."""
    said = [(task, a) for task in tasks for a in task.annotations]
    for task, _ in said:
        fault = _fault(ledger, desk, view, task)
        if fault is not None:
            raise RecordError("malformed", f"{view}: {fault}", text=json.dumps(task.data, ensure_ascii=False)[:4000])
    if not said:
        return None
    accounts = {_account(a) for _, a in said}
    if len(accounts) > 1:
        raise RecordError("malformed", f"{view}: {len(accounts)} accounts answered what {desk.annotator} was asked")
    _, latest = max(said, key=lambda found: (str(found[1].get("updated_at") or ""), found[1].get("id") or 0))
    return read_annotation(view, latest)


def _fault(ledger: Ledger, desk: Desk, view: str, task: HeldTask) -> str | None:
    """Why a task there is not what was carried to this desk."""
    showing = ledger.state.views.get(view)
    if showing is None:
        return "no such view was given out, or its item was withdrawn"
    if showing.annotator != desk.annotator:
        return f"it stands in {desk.annotator}'s project and is not theirs"
    if not hmac.compare_digest(str(task.data.get(SEAL)), _seal(ledger, task.data)):
        return f"the text of task {task.id} was changed there"
    return None


def _account(annotation: Mapping[str, object]) -> object:
    by = annotation.get("completed_by")
    return by.get("id") if isinstance(by, Mapping) else by


def _sealed(ledger: Ledger, data: dict[str, str]) -> dict[str, str]:
    return {**data, SEAL: _seal(ledger, data)}


def _seal(ledger: Ledger, data: Mapping[str, object]) -> str:
    body = json.dumps({k: v for k, v in data.items() if k != SEAL}, sort_keys=True)
    return hmac.digest(ledger.state.key, f"label-studio\x1fseal\x1f{body}".encode(), hashlib.sha256).hex()[:32]


# -- projects there --------------------------------------------------------------------------------------------------


def _people(ledger: Ledger) -> list[str]:
    return [a for a, source in ledger.state.annotators.items() if source == "person"]


def _desks(ledger: Ledger) -> Iterator[Desk]:
    for who in _people(ledger):
        for has_pair in (True, False):
            yield _desk(ledger.state.key, who, has_pair)


def _desk(key: bytes, who: str, has_pair: bool) -> Desk:
    name = hmac.digest(key, f"label-studio\x1fdesk\x1f{who}\x1f{has_pair}".encode(), hashlib.sha256).hex()[:16]
    return Desk(who, has_pair, f"{_prefix(key)}{name}")


def _prefix(key: bytes) -> str:
    """How the marks of this round's projects begin."""
    return f"ser round {hmac.digest(key, b'label-studio round', hashlib.sha256).hex()[:12]} desk "


def _as_html(markdown: str) -> str:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).render(markdown)
