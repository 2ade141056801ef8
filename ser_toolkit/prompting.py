"""Prompts as versioned files: find one, check it, fill it in.

A prompt is `prompts/<lang>/<task>.md`: front matter between two "---" lines (`version`, a whole number, and
`purpose`, a line for people), then sections "# system", "# user" and "# assistant", each a Jinja2 template. A
workspace overrides one by a file of the same name under its own `prompts/`; such a file may use the values that
the bundled one uses and no others. Templates run in a sandbox. What is filled in is data: it is never read as a
template, and no section marker in it counts.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .errors import UsageError
from .llm.chat import Message
from .schema import Lang

BUNDLED = Path(__file__).parent / "prompts"
_SECTION = re.compile(r"#[ \t]*(system|user|assistant)[ \t]*")
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
)
_HINT = "mend the override, or delete it to use the bundled prompt"

SectionRole = Literal["system", "user", "assistant"]


@dataclass(slots=True)
class Section:
    """One message to be: its template, the values it needs, the line of the file that it starts on (from 1)."""

    role: SectionRole
    template: Template
    needs: tuple[str, ...]
    line: int
    _last: tuple[list[Any], Message | None] | None = field(default=None, init=False, repr=False)

    def message(self, values: dict[str, Any]) -> Message | None:
        """The message, `None` where it comes out empty. Texts as last time give the last message: in a run a system
        section is nearly always the same.
        """
        given = [values.get(name) for name in self.needs]
        if self._last is not None and self._last[0] == given:
            return self._last[1]
        text = self.template.render(values).strip()
        message = Message(self.role, text) if text else None
        if all(type(value) is str for value in given):
            self._last = given, message
        return message


@dataclass(frozen=True, slots=True)
class Prompt:
    """One checked prompt. `sha` is the SHA-256 (hex) of its file; `variables` are the values it needs."""

    task: str
    lang: Lang
    version: int
    purpose: str
    sha: str
    is_override: bool
    variables: frozenset[str]
    sections: tuple[Section, ...] = field(repr=False)
    file: Path = field(repr=False)

    @property
    def label(self) -> str:
        """What a record keeps of it: "reason_whole@1", or with "+override:<sha8>"."""
        return f"{self.task}@{self.version}" + (f"+override:{self.sha[:8]}" if self.is_override else "")

    def render(self, **values: Any) -> tuple[Message, ...]:
        """The messages with `values` filled in; a section that comes out empty is left out. Raises UsageError."""
        messages: list[Message] = []
        for section in self.sections:
            try:
                message = section.message(values)
            except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as exc:
                line = section.line + _template_line(exc) - 1
                raise UsageError(f"{self.file}, line {line}: {exc}", _HINT) from exc
            if message is not None:
                messages.append(message)
        return tuple(messages)


class Prompts:
    """The prompts of one run: the bundled ones, with a workspace's `prompts/` laid over them. Each is read once."""

    def __init__(self, overrides: Path | None = None) -> None:
        self.overrides = overrides
        self._loaded: dict[tuple[str, Lang], Prompt] = {}

    def get(self, task: str, lang: Lang) -> Prompt:
        """The prompt of a task in a language. Raises UsageError where it is broken."""
        if (task, lang) not in self._loaded:
            self._loaded[task, lang] = load_prompt(task, lang, self.overrides)
        return self._loaded[task, lang]


def load_prompt(task: str, lang: Lang, overrides: Path | None = None) -> Prompt:
    """The prompt of a task, from `overrides/<lang>/<task>.md` where that file is there.

    Raises UsageError, with file and line, for a prompt that is broken.
    """
    bundled_file = BUNDLED / lang / f"{task}.md"
    if not bundled_file.is_file():
        known = ", ".join(sorted(f.stem for f in (BUNDLED / lang).glob("*.md")))
        raise UsageError(f"no prompt is called {task!r} in {lang!r}", f"known: {known}")
    bundled = _read(bundled_file, task, lang, allowed=None)
    file = overrides / lang / f"{task}.md" if overrides else bundled_file
    return _read(file, task, lang, allowed=bundled.variables) if overrides and file.exists() else bundled


def _read(file: Path, task: str, lang: Lang, allowed: frozenset[str] | None) -> Prompt:
    try:
        data = file.read_bytes()
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        raise UsageError(f"{file}, line {line}: not UTF-8", _HINT) from exc
    except OSError as exc:
        raise UsageError(f"{file}: cannot be read: {exc.strerror}", _HINT) from exc
    lines = text.rstrip().split("\n")
    version, purpose, body = _front_matter(file, lines)
    sections: list[Section] = []
    variables: set[str] = set()
    for role, start, source in _sections(file, lines, body):
        try:
            names = meta.find_undeclared_variables(_ENVIRONMENT.parse(source))
            sections.append(Section(role, _ENVIRONMENT.from_string(source), tuple(sorted(names)), start))
        except TemplateSyntaxError as exc:
            raise UsageError(f"{file}, line {start + exc.lineno - 1}: {exc.message}", _HINT) from exc
        for name in sorted(names - allowed) if allowed is not None else ():
            at = next((i for i, row in enumerate(lines[start - 1 :], start) if re.search(rf"\b{name}\b", row)), start)
            known = ", ".join(sorted(allowed or ())) or "none"
            raise UsageError(f"{file}, line {at}: the prompt knows no value {name!r}", f"it may use: {known}")
        variables |= names
    if all(s.role != "user" for s in sections):
        raise UsageError(f"{file}, line {len(lines)}: there is no '# user' section", _HINT)
    sha = hashlib.sha256(data).hexdigest()
    return Prompt(task, lang, version, purpose, sha, allowed is not None, frozenset(variables), tuple(sections), file)


def _front_matter(file: Path, lines: list[str]) -> tuple[int, str, int]:
    """(version, purpose, index of the first line after the front matter)."""
    if lines[0].strip() != "---":
        raise UsageError(f"{file}, line 1: a prompt opens with '---', version, purpose, '---'", _HINT)
    end = next((i for i in range(1, len(lines)) if lines[i].strip() == "---"), None)
    if end is None:
        raise UsageError(f"{file}, line {len(lines)}: the front matter is not closed by '---'", _HINT)
    try:
        front = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        raise UsageError(f"{file}, line {line}: {getattr(exc, 'problem', None) or exc}", _HINT) from exc
    version = front.get("version") if isinstance(front, dict) else None
    purpose = front.get("purpose") if isinstance(front, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"{file}, line 2: `version` must be a whole number from 1", f"got {version!r}")
    if not isinstance(purpose, str) or not purpose.strip():
        raise UsageError(f"{file}, line 2: `purpose` must be a line of text", f"got {purpose!r}")
    return version, purpose.strip(), end + 1


def _sections(file: Path, lines: list[str], first: int) -> Iterator[tuple[SectionRole, int, str]]:
    """(role, line of its first template line, template) of each section."""
    marks = [(i, m[1]) for i in range(first, len(lines)) if (m := _SECTION.fullmatch(lines[i]))]
    before = marks[0][0] if marks else len(lines)
    stray = next((i for i in range(first, before) if lines[i].strip()), None)
    if stray is not None:
        raise UsageError(f"{file}, line {stray + 1}: text outside a section", "open it with '# user' or '# system'")
    for (at, role), end in zip(marks, [*(i for i, _ in marks[1:]), len(lines)], strict=True):
        yield cast(SectionRole, role), at + 2, "\n".join(lines[at + 1 : end])


def _template_line(exc: BaseException) -> int:
    """The template's line that an exception of its rendering came from (from 1)."""
    frames = [f.lineno for f in traceback.extract_tb(exc.__traceback__) if f.filename == "<template>"]
    return frames[-1] or 1 if frames else 1
