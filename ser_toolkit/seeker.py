"""A simulated seeker over any ChatModel: it plays a scenario from the seeker's side, one line at a time.

In its view of the talk the roles are flipped: its own lines are the assistant's, the supporter's the user's. Chat
templates want a user first, so the prompt's own question stands before the seeker's opening, which is thereby kept,
also when a long talk is cut to fit. A line that betrays the role or repeats what was said (see `seeker_checks`) is
asked for once more, then the record fails.

How it feels can be tracked from line to line, from 0 (cannot bear it, wants to give up) to 100 (relieved, understood):
beside its cues, as it speaks (`speak`), or before it speaks, as what the line then comes from (`feel`, then `say`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .errors import RecordError
from .history import (
    PROMPT_MARGIN,
    ROLE_NAMES,
    first_fitting,
    fit_turns,
    message_tokens,
    one_line,
    render_cues,
    render_history,
)
from .llm.chat import ChatModel, Message, Reply, Request, usable
from .llm.structured import ASK_AGAIN, ask_json, object_schema
from .prompting import Prompts
from .recipe import Recipe
from .schema import Cue, Lang, Role, Scenario, Turn
from .seeds import derive_seed
from .seeker_checks import END_MARKER, FAULT_KINDS, find_faults, says_goodbye, split_marker
from .taxonomy import ZH

LINE_TOKENS = 160
"""Completion limit of one spoken line."""
FEELING_TOKENS = 240
"""Of a feeling with the thought before it."""
TRIES, SMALL_TRIES = 2, 6
"""How often one line is asked for; the small embedded model falls out of its role more easily."""
ROUNDS_BEFORE_END = 2
"""A seeker is not told how to end, and is not heard when it does, before the supporter has spoken this often."""

_CUE_BRACKETS = re.compile(r"\[[^\[\]\n]{0,200}\]|【[^【】\n]{0,200}】|\*[^*\n]{1,60}\*|^\s*\([^()\n]{0,200}\)")
_NAMES = tuple(name + colon for names in ROLE_NAMES.values() for name in names.values() for colon in (":", "："))


@dataclass(frozen=True, slots=True)
class SeekerTurn:
    """What a seeker does next: a line (empty where it only stops), its cues, whether it ends the talk.

    `feeling` is how it feels by now, 0 to 100; `None` where that is not tracked, or could not be read.
    """

    text: str
    cues: tuple[Cue, ...] = ()
    is_end: bool = False
    feeling: int | None = None


class Seeker:
    """The seeker of one scenario. It keeps no state: the transcript is all that it remembers.

    `salt` tells several plays of one scenario apart: it enters the seeds.
    """

    def __init__(
        self,
        scenario: Scenario,
        chat: ChatModel,
        recipe: Recipe,
        prompts: Prompts,
        stage: str,
        salt: tuple[str | int, ...] = (),
    ) -> None:
        self.scenario, self.chat, self.recipe, self.prompts = scenario, chat, recipe, prompts
        self.stage, self.salt = stage, salt

    async def speak(self, transcript: Sequence[Turn], feeling: int | None = None) -> SeekerTurn:
        """Its next line after `transcript`. The first is the scenario's opening, where there is one.

        `feeling` is how it felt so far, 0 to 100: then the turn tells how it feels now, in the call for its cues.
        Raises RecordError: a kind of `FAULT_KINDS` where the line is out of role twice, and what the model raises.
        """
        turn = await self.say(transcript)
        if not turn.text:
            return turn
        cues, feeling = await self._state(transcript, turn.text, feeling)
        return replace(turn, cues=cues, feeling=feeling)

    async def say(self, transcript: Sequence[Turn], feeling: int | None = None) -> SeekerTurn:
        """Its next line alone, without cues; `feeling`, where it is tracked, is told to it as its own. Raises as
        `speak` does.
        """
        said = [t.text for t in transcript if t.speaker == "seeker"]
        may_end = sum(t.speaker == "supporter" for t in transcript) >= ROUNDS_BEFORE_END
        text, has_marker = one_line(self.scenario.opening), False
        if said or not text:
            text, has_marker = await self._line(transcript, said, may_end, feeling)
        return SeekerTurn(text, is_end=may_end and (has_marker or says_goodbye(text, self.scenario.lang)))

    async def feel(self, transcript: Sequence[Turn], feeling: int) -> int | None:
        """How the supporter's last words land: the feeling after them, from the one before; `None` where that could
        not be read. Raises RecordError where the model does not answer at all.
        """
        lang, prompt = self.scenario.lang, self.prompts.get("seeker_feeling", self.scenario.lang)
        about = {k: v for k, v in about_seeker(self.scenario).items() if k in prompt.variables}
        start = first_fitting(
            transcript, lang, self.chat.context_tokens, FEELING_TOKENS,
            lambda: prompt.render(**about, history="", feeling=feeling),
        )  # fmt: skip
        messages = prompt.render(**about, history=render_history(transcript[start:], lang), feeling=feeling)
        request = line_request(
            messages, self.recipe, self.scenario.id, self.stage, len(transcript), "feeling", self.salt
        )
        try:
            value, _ = await ask_json(self.chat, replace(request, stop=(), max_tokens=FEELING_TOKENS), LANDED)
        except RecordError as exc:
            if exc.kind not in ASK_AGAIN:
                raise
            return None
        return value["feeling"]

    async def _line(
        self, transcript: Sequence[Turn], said: list[str], may_end: bool, feeling: int | None
    ) -> tuple[str, bool]:
        lang, small = self.scenario.lang, self.recipe.llm.is_builtin
        heard = [t.text for t in transcript if t.speaker == "supporter"]
        if small:
            prompt = self.prompts.get("seeker_small", lang)
            messages = prompt.render(**self._about(), heard=one_line(heard[-1]) if heard else "")
        else:
            frame = self.prompts.get("seeker", lang).render(
                **self._about(), may_end=may_end, feeling="" if feeling is None else str(feeling)
            )
            messages = chat_view(frame, transcript, "seeker", lang, self.chat.context_tokens)
        request = line_request(messages, self.recipe, self.scenario.id, self.stage, len(transcript), salt=self.salt)
        failure = RecordError("seeker_role", "it says nothing")
        for _ in range(SMALL_TRIES if small else TRIES):
            try:
                reply = await self.chat.complete(request)
                written, has_marker = split_marker(read_line(reply, small))
                text = spoken(written)
                faults = find_faults(text, said, heard, lang)
                if not faults and (text or (has_marker and may_end)):
                    return text, has_marker
                kind, reason = (
                    FAULT_KINDS[faults[0]] if faults else "seeker_role",
                    "; ".join(faults) or "it says nothing",
                )
                failure = RecordError(kind, reason, text=reply.text, request_key=reply.request_key)
            except RecordError as exc:
                if exc.kind not in ASK_AGAIN:
                    raise
                failure = exc
            request = request.again()
        raise failure

    async def _state(
        self, transcript: Sequence[Turn], text: str, feeling: int | None
    ) -> tuple[tuple[Cue, ...], int | None]:
        """How the seeker looks and sounds, and how it feels; nothing where the model cannot tell, which harms nobody's
        words.
        """
        lang = self.scenario.lang
        turns = [*transcript, Turn(speaker="seeker", text=text)][-3:]
        messages = self.prompts.get("seeker_cues", lang).render(
            history=render_history(turns, lang), situation=one_line(self.scenario.situation), feeling=feeling
        )
        schema = SMALL_CUES[lang] if self.recipe.llm.is_builtin else CUES if feeling is None else STATE
        try:
            request = line_request(
                messages, self.recipe, self.scenario.id, self.stage, len(transcript), "cues", self.salt
            )
            value, _ = await ask_json(self.chat, replace(request, stop=()), schema)
        except RecordError as exc:
            if exc.kind not in ASK_AGAIN:
                raise
            return (), None
        return read_cues(value, f"model:{self.chat.model}"), value.get("feeling")

    def _about(self) -> dict[str, Any]:
        """What the prompt tells the seeker about itself."""
        return {**about_seeker(self.scenario), "end_marker": END_MARKER}


def about_seeker(scenario: Scenario) -> dict[str, str]:
    """A scenario as the values of a prompt, in its language."""
    emotion = (scenario.emotion.ser or scenario.emotion.original) if scenario.emotion else ""
    intensity = scenario.intensity or ""
    if scenario.lang == "zh":
        emotion, intensity = ZH.get(emotion, emotion), ZH.get(intensity, intensity)
    return {
        "situation": one_line(scenario.situation),
        "persona": " ".join(one_line(s.persona) for s in scenario.speakers if s.role == "seeker"),
        "culture": one_line(scenario.culture),
        "emotion": one_line(emotion),
        "intensity": one_line(intensity),
        "hidden_intention": one_line(scenario.hidden_intention),
    }


def read_cues(value: Mapping[str, Any], source: str) -> tuple[Cue, ...]:
    """The cues of a JSON answer; an empty one is none."""
    channels: tuple[Literal["face", "voice"], ...] = ("face", "voice")
    return tuple(Cue(channel=c, text=one_line(value[c]), source=source) for c in channels if value[c].strip())


def line_request(
    messages: tuple[Message, ...],
    recipe: Recipe,
    scenario_id: str,
    stage: str,
    turn: int,
    what: str = "line",
    salt: tuple[str | int, ...] = (),
) -> Request:
    """The call for one line of a played scenario; its seed hangs on scenario, stage, turn, what is asked, and `salt`.

    A line is one line; a small model, which would go on and on, is stopped after a sentence.
    """
    return Request(
        messages,
        temperature=recipe.llm.temperature,
        top_p=recipe.llm.top_p,
        max_tokens=LINE_TOKENS,
        seed=derive_seed(recipe.seed, scenario_id, stage, turn, what, *salt),
        stop=(". ", "\n") if recipe.llm.is_builtin else ("\n",),
        stage=stage,
        record_id=scenario_id,
    )


def read_line(reply: Reply, small: bool) -> str:
    """The line as written, with the full stop that a small model was stopped at. Raises RecordError."""
    text = usable(reply).text.strip()
    return f"{text}." if small and text[-1].isalnum() else text


def chat_view(
    frame: Sequence[Message], transcript: Sequence[Turn], role: Role, lang: Lang, context_tokens: int | None
) -> tuple[Message, ...]:
    """The talk as `role` sees it: its own lines are the assistant's, the other's (with their cues) the user's.

    `frame` is the rendered prompt; its user message is asked first where `role` itself opens, so that a user always
    comes first. Where the talk is too long its front goes, but never the seeker's opening.
    """
    turns = list(transcript)
    if context_tokens is not None:
        used = message_tokens(frame) + LINE_TOKENS + PROMPT_MARGIN
        start = fit_turns(turns, context_tokens - used, lang)
        opening = next((i for i, t in enumerate(turns) if t.speaker == "seeker"), start)
        turns = [*turns[opening : opening + 1], *turns[start:]] if opening < start else turns[start:]
    talk: list[Message] = []
    for turn in turns:
        mine = turn.speaker == role
        text = one_line(turn.text)
        if not mine and turn.cues:
            text = f"{text} {render_cues(turn.cues, lang)}"
        if talk and (talk[-1].role == "assistant") == mine:
            talk[-1] = replace(talk[-1], text=f"{talk[-1].text} {text}")
        else:
            talk.append(Message("assistant" if mine else "user", text))
    opens = not talk or talk[0].role == "assistant"
    return (*(m for m in frame if m.role == "system" or opens), *talk)


def spoken(text: str) -> str:
    """The words of a line alone: no speaker's name before it, no stage directions, no quotation marks around it."""
    text = " ".join(_CUE_BRACKETS.sub(" ", text).split())
    for name in _NAMES:
        text = text.removeprefix(name).strip()
    if len(text) > 1 and (text[0], text[-1]) in (('"', '"'), ("“", "”")) and not set(text[1:-1]) & set('"“”'):
        text = text[1:-1].strip()
    return text


CUE = {"type": "string", "maxLength": 120}
FEELING = {"type": "integer", "minimum": 0, "maximum": 100}
LANDED = object_schema(thought={"type": "string", "maxLength": 300}, feeling=FEELING)
"""What the seeker thinks of the last words, and how it feels after them."""
CUES = object_schema(face=CUE, voice=CUE)
"""Cues in the model's own words."""
STATE = object_schema(face=CUE, voice=CUE, feeling=FEELING)
"""Beside them how the seeker feels."""

SMALL_CUES: dict[Lang, dict[str, Any]] = {
    "en": object_schema(
        face={"enum": ["eyes down", "tears in the eyes", "a tense jaw", "a faint smile", "a blank look"]},
        voice={"enum": ["quiet", "shaky", "flat", "tense and fast", "calm", "tired and slow"]},
    ),
    "zh": object_schema(
        face={"enum": ["低着头", "眼里有泪", "咬紧牙关", "勉强微笑", "神情木然"]},
        voice={"enum": ["声音很轻", "声音发抖", "语调平平", "又急又紧", "平静", "疲惫缓慢"]},
    ),
}
"""Cues to choose from, for a model too small to word them."""
