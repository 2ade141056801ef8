"""Reason: for each drawn round, a history goes in and a four-part trace comes out (PEER, arXiv 2508.09521, section 3).

A model writes all four parts in one reply ("whole"), or, where it is small, a part a call ("each"): then the labels
are chosen under a JSON schema and put into words by code, so that the structure never depends on the model.

A model that takes pictures sees those of the seeker's last utterance; one that does not is told the cues instead, and
the trace says which it was (`saw`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from ser_toolkit.engine import failure_of
from ser_toolkit.errors import RecordError
from ser_toolkit.history import first_fitting, message_tokens, render_history
from ser_toolkit.llm.chat import ChatModel, Image, Message, Reply, Request, usable
from ser_toolkit.llm.structured import ASK_AGAIN, ask_json, object_schema
from ser_toolkit.media.store import MediaStore
from ser_toolkit.media.words import pictures_of, shown, told
from ser_toolkit.prompting import Prompt, Prompts
from ser_toolkit.reasoning import TITLES, parse_trace, render_trace
from ser_toolkit.reasoning_labels import Labels, read_labels
from ser_toolkit.reasoning_parse import headings
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Failure, Lang, Step, Trace
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS, STAGE_OF, STAGES, STRATEGIES, ZH

from .protect import must_stand_in_a_crisis
from .sample import Round, drawn_rounds

STAGE = "reason"
PART_TOKENS = 160
"""Completion limit of one part where each part is a call of its own."""
LONGEST = "Anticipation, Depression"
"""Stands for the emotions that a part's prompt names, when its length is estimated."""
MOST_PICTURES = 4
"""Of one request: the last ones of the seeker's utterance."""
PICTURE_TOKENS = 1300
"""What a picture of 1,024 pixels takes in today's vision models, from above."""


async def reason(
    dialogue: Dialogue, chat: ChatModel, recipe: Recipe, prompts: Prompts, store: MediaStore | None = None
) -> list[Trace | Failure]:
    """The traces of a dialogue's drawn rounds, in order; a round whose replies cannot be used is a Failure.

    `store` holds the pictures; without it none are shown.

    Rounds are asked all at once, but one after the other where each part is a call of its own: a small local model
    then reads each turn of the dialogue once, since every call begins as the one before it did.
    """
    is_each = recipe.reason.parts == "each" or (recipe.reason.parts == "auto" and recipe.llm.is_builtin)
    write = _write_each if is_each else _write_whole

    async def one(round_: Round) -> Trace | Failure:
        task = _Task(dialogue, round_, chat, recipe, prompts, store)
        try:
            return await write(task)
        except RecordError as exc:
            return failure_of(exc, STAGE, task.trace_id)

    rounds = drawn_rounds(dialogue, recipe)
    if is_each or len(rounds) == 1:
        return [await one(r) for r in rounds]
    return list(await asyncio.gather(*(one(r) for r in rounds)))


@dataclass(slots=True)
class _View:
    """What a model gets to see of a dialogue: `told` stands for `shown` where no pictures can be sent."""

    start: int
    shown: str
    told: str
    images: tuple[Image, ...] = ()
    has_cues: bool = False
    dropped: bool = False

    @property
    def saw(self) -> Literal["image", "cues", "text"]:
        if self.images and not self.dropped:
            return "image"
        return "cues" if self.has_cues else "text"

    def note(self, reply: Reply) -> Reply:
        """Whether the server took the pictures."""
        self.dropped = self.dropped or reply.images_dropped
        return reply

    def add_images(self, prompt: Prompt, **values: str) -> tuple[Message, ...]:
        """The prompt's messages, with the pictures beside the last of the user's."""
        messages = list(prompt.render(history=self.shown, **values))
        if self.images:
            last = max(i for i, m in enumerate(messages) if m.role == "user")
            instead = prompt.render(history=self.told, **values)[last].text
            messages[last] = Message("user", messages[last].text, self.images, instead)
        return tuple(messages)


@dataclass(frozen=True, slots=True)
class _Task:
    """One round to be reasoned about."""

    dialogue: Dialogue
    round: Round
    chat: ChatModel
    recipe: Recipe
    prompts: Prompts
    store: MediaStore | None = None

    @property
    def trace_id(self) -> str:
        return f"{self.dialogue.id}-r{self.round.number}"

    @property
    def lang(self) -> Lang:
        return self.dialogue.lang

    def prompt(self, task: str) -> Prompt:
        return self.prompts.get(task, self.lang)

    def view(self, reply_tokens: int, *prompts: Prompt, **values: str) -> _View:
        """As much of the history as fits the model's context beside the longest of the prompts, and the pictures."""
        turns = [told(t) for t in self.dialogue.turns[: self.round.target]]
        images = self._images()
        start = first_fitting(
            turns,
            self.lang,
            self.chat.context_tokens,
            reply_tokens + len(images) * PICTURE_TOKENS,
            lambda: max((p.render(history="", **values) for p in prompts), key=message_tokens),
        )
        in_words = render_history(turns[start:], self.lang)
        has_cues = any(t.cues for t in turns[start:] if t.speaker == "seeker")
        if not images:
            return _View(start, in_words, in_words, has_cues=has_cues)
        for i in range(max(start, self.round.start), self.round.target):
            if pictures_of(turns[i]):
                turns[i] = shown(turns[i], self.lang)
        return _View(start, render_history(turns[start:], self.lang), in_words, images, has_cues)

    def _images(self) -> tuple[Image, ...]:
        """The pictures of the seeker's last utterance, where the model may be sent some."""
        if self.store is None or not self.chat.vision:
            return ()
        block = self.dialogue.turns[self.round.start : self.round.target]
        found = [m for t in block for m in pictures_of(t)][-MOST_PICTURES:]
        return tuple(Image(self.store.read(m), m.media_type or "") for m in found)

    def request(self, prompt: Prompt, max_tokens: int, view: _View, **values: str) -> Request:
        llm = self.recipe.llm
        return Request(
            view.add_images(prompt, **values),
            temperature=llm.temperature,
            top_p=llm.top_p,
            max_tokens=max_tokens,
            seed=derive_seed(self.recipe.seed, self.trace_id, prompt.task),
            stage=STAGE,
            record_id=self.dialogue.id,
        )

    def trace(
        self,
        texts: Sequence[str],
        reply: str,
        labels: Labels,
        *,
        view: _View,
        label: str,
        titles: Sequence[str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Trace:
        """The finished record; raises RecordError where its text would not parse back."""
        render_trace(texts, reply, self.lang)
        titles = titles or TITLES[self.lang]
        one, two, three = (Step(number=n, title=titles[n - 1], text=texts[n - 1]) for n in (1, 2, 3))
        return Trace(
            id=self.trace_id,
            dialogue_id=self.dialogue.id,
            root_id=self.dialogue.root_id,
            lang=self.lang,
            round=self.round.number,
            target=self.round.target,
            history_start=view.start,
            steps=(one, two, three),
            reply=reply,
            reference=self.round.reference,
            stage=labels.stage,
            strategy=labels.strategy,
            sentiment=labels.sentiment,
            intensity=labels.intensity,
            emotions=labels.emotions,
            saw=view.saw,
            model=self.chat.model,
            prompt=label,
            notes=notes,
        )


async def _write_whole(task: _Task) -> Trace:
    prompt = task.prompt("reason_whole")
    words = {**_words(task.lang), "situation": task.dialogue.situation}
    limit = task.recipe.llm.max_tokens
    view = task.view(limit, prompt, **words)
    request = task.request(prompt, limit, view, **words)
    try:
        return _read_whole(task, view.note(await task.chat.complete(request)), view, prompt)
    except RecordError as exc:
        if exc.kind not in {*ASK_AGAIN, "format", "crisis_reply"}:
            raise
    return _read_whole(task, view.note(await task.chat.complete(request.again())), view, prompt)


def _read_whole(task: _Task, reply: Reply, view: _View, prompt: Prompt) -> Trace:
    parsed = parse_trace(usable(reply).text)
    one, two, three = parsed.steps
    if one is None or two is None or three is None or parsed.reply is None:
        raise RecordError("format", "; ".join(parsed.problems), text=reply.text, request_key=reply.request_key)
    titles = [found or usual for found, usual in zip(parsed.titles, TITLES[task.lang], strict=True)]
    must_stand_in_a_crisis(task.dialogue, task.round.target, parsed.reply, reply.request_key)
    try:
        return task.trace(
            (one, two, three),
            parsed.reply,
            read_labels((one, two, three), task.lang),
            view=view,
            label=prompt.label,
            titles=titles,
            notes=parsed.problems,
        )
    except RecordError as exc:
        exc.text, exc.request_key = reply.text, reply.request_key
        raise


async def _write_each(task: _Task) -> Trace:
    names = ("reason_step1", "reason_step2", "reason_step3", "reason_reply")
    view = task.view(PART_TOKENS, *map(task.prompt, names), emotions=LONGEST)
    problem = await _text(task, "reason_step1", view)
    state = await _choose(task, "reason_step2", STATE, view)
    emotions = tuple(dict.fromkeys(state["emotions"]))
    felt = _listed(emotions, task.lang)
    choice = await _choose(task, "reason_step3", CHOICE, view, emotions=felt)
    strategy = choice["strategy"]
    reply = await _text(task, "reason_reply", view)
    must_stand_in_a_crisis(task.dialogue, task.round.target, reply)
    labels = Labels(STAGE_OF[strategy], strategy, state["sentiment"], state["intensity"], emotions)
    return task.trace(
        _in_words(problem, labels, task.lang),
        reply,
        labels,
        view=view,
        label="+".join(task.prompt(n).label for n in names),
    )


async def _text(task: _Task, name: str, view: _View) -> str:
    """One part as prose on one line; asked once more where the reply was cut or empty."""
    request = replace(task.request(task.prompt(name), PART_TOKENS, view), stop=("\n",))
    try:
        return _line(usable(view.note(await task.chat.complete(request))))
    except RecordError as exc:
        if exc.kind not in ASK_AGAIN:
            raise
    return _line(usable(view.note(await task.chat.complete(request.again()))))


def _line(reply: Reply) -> str:
    """The reply on one line, without a heading or a speaker's name before it."""
    text = " ".join(reply.text.split())
    first = next(iter(headings(text)), None)
    if first is not None and first.start == 0:
        text = text[first.content :].strip()
    for name in ("Supporter:", "Seeker:", "支持者：", "求助者："):
        text = text.removeprefix(name).strip()
    text = text.strip('"“”').strip()
    if not text:
        raise RecordError("empty_reply", "the reply has no text", text=reply.text, request_key=reply.request_key)
    return text


async def _choose(task: _Task, name: str, schema: dict[str, Any], view: _View, **values: str) -> dict[str, Any]:
    value, reply = await ask_json(task.chat, task.request(task.prompt(name), PART_TOKENS, view, **values), schema)
    view.note(reply)
    return value


STATE = object_schema(
    sentiment={"enum": list(SENTIMENTS)},
    intensity={"enum": list(INTENSITIES)},
    emotions={"type": "array", "items": {"enum": list(EMOTIONS)}, "minItems": 1, "maxItems": 2},
)
"""What step 2 is chosen under."""
CHOICE = object_schema(strategy={"enum": list(STRATEGIES)})
"""What step 3 is chosen under."""


def _in_words(problem: str, labels: Labels, lang: Lang) -> tuple[str, str, str]:
    """The three steps as text. A small model's own reasons for its choices are noise: the labels stand alone."""
    stage, strategy, sentiment, intensity = (
        _in(word or "", lang) for word in (labels.stage, labels.strategy, labels.sentiment, labels.intensity)
    )
    felt = _listed(labels.emotions, lang)
    if lang == "zh":
        return (
            f"{problem} 支持阶段：{stage}。",
            f"情感倾向：{sentiment}。强度：{intensity}。情绪：{felt}。",
            f"策略：{strategy}。",
        )
    return (
        f"{problem} Stage of support: {stage}.",
        f"Sentiment: {sentiment}. Intensity: {intensity}. Emotions: {felt}.",
        f"Strategy: {strategy}.",
    )


@cache
def _words(lang: Lang) -> dict[str, str]:
    """The taxonomy's words, for a prompt."""
    return {
        "stages": _listed(tuple(STAGES), lang),
        "strategies": _listed(STRATEGIES, lang),
        "sentiments": _listed(SENTIMENTS, lang),
        "intensities": _listed(INTENSITIES, lang),
        "emotions": _listed(EMOTIONS, lang),
    }


def _listed(words: Sequence[str], lang: Lang) -> str:
    return ("、" if lang == "zh" else ", ").join(_in(w, lang) for w in words)


def _in(word: str, lang: Lang) -> str:
    return ZH[word] if lang == "zh" and word in ZH else word
