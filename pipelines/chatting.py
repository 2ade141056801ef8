"""`ser chat`: talk with a model in the terminal, its three steps shown before its reply.

Nothing that is typed is kept. Where it tells of a crisis, the helplines of the recipe's country stand above the reply,
out of the dated table: the model is no help in a crisis, and is not asked whether it is one.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_training.policy import Answer, Policy, Style
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.open import open_model
from ser_toolkit.prompting import Prompts
from ser_toolkit.protection.crisis import find_crisis, highest
from ser_toolkit.protection.helplines import Helpline, country_of, emergency_numbers, helplines
from ser_toolkit.reasoning import TITLES
from ser_toolkit.recipe import load_recipe
from ser_toolkit.schema import Lang, RiskLevel, Turn
from ser_toolkit.visible import visible

from .evaluating_policy import spec_of
from .sources.finish import detect_lang

NEW, QUIT = "/new", "/quit"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
_WORDS: dict[Lang, dict[str, str]] = {
    "en": {
        "hello": "Type a message; {new} begins anew, {quit} or Ctrl-D ends. Nothing is kept. No help in a crisis.",
        "danger": "This sounds serious. A model cannot help in a crisis; people can:",
        "checked": "(numbers as of {date})",
        "emergency": "in danger right now: {numbers}",
        "nowhere": "call the emergency number of your country, or someone you trust. "
        "(protect.locale=en-US, GB, zh-CN ... names a country, and its helplines are shown here.)",
        "silent": "[no reply: {why}]",
    },
    "zh": {
        "hello": "请输入；{new} 重新开始，{quit} 或 Ctrl-D 结束。内容不会保存。危机时请不要依靠它。",
        "danger": "这听起来很严重。模型在危机中帮不了你，人可以：",
        "checked": "（号码核对于 {date}）",
        "emergency": "眼下有危险：{numbers}",
        "nowhere": "请拨打你所在国家的紧急电话，或联系你信任的人。"
        "（设置 protect.locale，如 zh-CN、en-US，这里会显示该国的热线。）",
        "silent": "［没有回复：{why}］",
    },
}


@dataclass(frozen=True, slots=True)
class Help:
    """What is shown where a message tells of a crisis; no number but of the dated table."""

    level: RiskLevel
    lines: tuple[Helpline, ...]
    emergency: tuple[str, ...]

    @property
    def checked(self) -> datetime.date | None:
        """The oldest day on which one of the numbers was compared with its source."""
        return min((line.checked for line in self.lines), default=None)

    def render(self, lang: Lang) -> str:
        words = _WORDS[lang]
        if not self.lines and not self.emergency:
            return f"{words['danger']} {words['nowhere']}"
        told = [words["danger"], *(f"  {line.name}: {', '.join(line.numbers)}" for line in self.lines)]
        if self.emergency:
            told.append("  " + words["emergency"].format(numbers=", ".join(self.emergency)))
        return "\n".join([*told, *([words["checked"].format(date=self.checked)] if self.checked else [])])


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message and what came of it; `problem` is why there is no reply, "" where there is one."""

    message: str
    lang: Lang
    answer: Answer | None
    problem: str
    help: Help | None

    def to_json(self) -> dict[str, Any]:
        answer, needed = self.answer, self.help
        return {
            "message": self.message,
            "steps": list(answer.steps) if answer else [None] * 3,
            "reply": answer.reply if answer else None,
            "is_formatted": answer.is_formatted if answer else False,
            "problem": self.problem,
            "crisis": needed
            and {
                "level": needed.level,
                "helplines": [{"name": line.name, "numbers": list(line.numbers)} for line in needed.lines],
                "emergency": list(needed.emergency),
                "checked": str(needed.checked) if needed.checked else None,
            },
        }

    def render(self, *, dim: bool) -> str:
        """For a terminal: the steps (dim), then the reply. What would act on the terminal is an escape."""
        if self.answer is None:
            return visible(_WORDS[self.lang]["silent"].format(why=self.problem))
        parts: list[str] = []
        for title, step in zip(TITLES[self.lang], self.answer.steps, strict=False):
            if step:
                text = visible(f"{title}: {' '.join(step.split())}")
                parts.append(f"{DIM}{text}{PLAIN}" if dim else text)
        return "\n".join([*parts, visible(self.answer.reply or "")])


@dataclass(slots=True)
class Conversation:
    """The talk so far, in the terminal's memory alone."""

    policy: Policy
    locale: str | None
    lang: Lang | None = None
    turns: list[Turn] = field(default_factory=list)

    async def say(self, message: str, warn: Callable[[str], None]) -> Exchange:
        """The person's message, and the model's answer. Help in a crisis goes to `warn` before the model is asked; a
        reply that did not come is told, not raised.
        """
        lang = self.lang or detect_lang(t.text for t in (*self.turns, Turn(speaker="seeker", text=message)))
        self.turns.append(Turn(speaker="seeker", text=message))
        needed = self._help(message, lang)
        if needed is not None:
            warn(needed.render(lang))
        try:
            answer = await self.policy.answer(self.turns, lang, "chat")
        except RecordError as exc:
            return Exchange(message, lang, None, f"{exc.kind}: {exc.reason}", needed)
        self.turns.append(Turn(speaker="supporter", text=answer.reply or ""))
        return Exchange(message, lang, answer, "", needed)

    def _help(self, message: str, lang: Lang) -> Help | None:
        level = highest(span.level for span in find_crisis(message, lang))
        if level is None:
            return None
        known = country_of(self.locale) is not None
        return Help(level, helplines(self.locale), emergency_numbers(self.locale) if known else ())


def chat(
    model: str,
    *,
    workspace: str | Path = ".",
    style: Style = "ser",
    lang: Lang | None = None,
    sets: Iterable[str] = (),
    lines: Iterable[str] | None = None,
    show: Callable[[Exchange], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> None:
    """Talk with `model` (a SPEC, or a folder of weights) until the lines end; on a terminal, until the person leaves.

    `show` gets each exchange, `warn` the help in a crisis as soon as there is one; by default both go to stdout.
    Raises UsageError for the model, RemoteError where its server refuses.
    """
    recipe = load_recipe(Path(workspace), sets, {"evaluate.policy.model": spec_of(model)})
    settings = recipe.evaluate.policy.over(recipe.llm)
    opened = open_model(settings)
    policy = Policy(opened, settings, Prompts(Path(workspace) / "prompts"), style, recipe.seed, "chat")
    talk = Conversation(policy, recipe.protect.locale, lang)
    with asyncio.Runner() as loop:
        try:
            check = getattr(opened, "check", None)
            if check is not None:
                loop.run(check())
            for line in lines if lines is not None else typed(lang or "en"):
                message = line.strip()
                if message == QUIT:
                    break
                if message == NEW:
                    talk.turns.clear()
                elif message:
                    (show or shown)(loop.run(talk.say(message, warn or warned)))
        except KeyboardInterrupt:
            pass  # the person leaves; there is nothing to lose
        finally:
            loop.run(opened.aclose())


def typed(lang: Lang) -> Iterator[str]:
    """What a person types, or what is piped in; it ends with the input."""
    if not sys.stdin.isatty():
        yield from (_clean(line) for line in sys.stdin)
        return
    import readline  # noqa: F401 - lines can be edited

    print(_WORDS[lang]["hello"].format(new=NEW, quit=QUIT), file=sys.stderr)
    while True:
        try:
            yield _clean(input("> "))
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return


def shown(exchange: Exchange) -> None:
    """An exchange on stdout."""
    print(exchange.render(dim=sys.stdout.isatty()), end="\n\n", flush=True)


def warned(text: str) -> None:
    """Help in a crisis on stdout, at once."""
    print(text, end="\n\n", flush=True)


def _clean(text: str) -> str:
    """Bytes that were no UTF-8 as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
