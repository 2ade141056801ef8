"""Rewrite: the same conversation, utterance by utterance, as if its speakers were of another personality.

Source: PEER, arXiv 2508.09521, section 3: both speakers, the same meaning, the same emotion, the same number of
utterances. Each utterance is one call and gives one utterance, checked by code; speakers, labels, cues, media and
times carry over. Without personalities (`rewrite.personality: false`, the paper's ablation) it is merely reworded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.history import ROLE_NAMES, estimate_tokens, first_fitting, one_line, render_history
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.protection.crisis import CrisisSpan, find_crisis, highest
from ser_toolkit.protection.spans import PLACEHOLDER
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import RISK_LEVELS, Dialogue, Lang, Risk, Role, Speaker, Turn, content_id
from ser_toolkit.seeds import derive_seed

from ...sources.turn_rules import split_role_tags
from .describe import MEANINGS
from .records import Profile

STAGE = "rewrite"
TRIES, SMALL_TRIES = 2, 4
"""How often one utterance is asked for (a reply without JSON is asked for once more each time)."""
SHORTEST_LIMIT = 120
"""Characters that a rewritten utterance may have however short its original is; else three times the original's."""

_HAN = re.compile(r"[\u3400-\u9fff]")
_DIRECTION = re.compile(r"[\[\]【】]|\*[^*\s][^*]*\*")
_NAMES = tuple(name for names in ROLE_NAMES.values() for name in names.values())
_NAMED = re.compile(rf"(?:{'|'.join(_NAMES)})\s*[:：]")


async def rewrite(
    dialogue: Dialogue, drawn: Mapping[Role, Profile], chat: ChatModel, recipe: Recipe, prompts: Prompts
) -> list[Dialogue]:
    """The dialogue between people of the `drawn` profiles (none: merely reworded).

    Raises RecordError: `rewrite` where an utterance does not come out as one, or none was changed; and what the model
    raises.
    """
    task = _Task(dialogue, drawn, chat, recipe, prompts)
    turns: list[Turn] = []
    for index, turn in enumerate(dialogue.turns):
        turns.append(await task.reword(index, turns) if turn.text.strip() else turn)
    if all(one_line(new.text) == one_line(old.text) for new, old in zip(turns, dialogue.turns, strict=True)):
        raise RecordError("rewrite", "nothing was rewritten: every utterance came back as it was")
    change = {
        "id": task.id,
        "turns": tuple(turns),
        "rewritten_from": dialogue.id,
        "speakers": _speakers(dialogue, drawn),
    }
    return [dialogue.model_copy(update=change)]


def rewritten_id(dialogue_id: str, drawn: Mapping[Role, Profile]) -> str:
    """The id of a rewrite: another one for other personalities, so that what is withdrawn stays so."""
    return content_id(f"{dialogue_id}-rw", sorted(p.id for p in drawn.values()))


@dataclass(frozen=True, slots=True)
class _Task:
    """One dialogue to be rewritten."""

    dialogue: Dialogue
    drawn: Mapping[Role, Profile]
    chat: ChatModel
    recipe: Recipe
    prompts: Prompts

    @property
    def id(self) -> str:
        return rewritten_id(self.dialogue.id, self.drawn)

    async def reword(self, index: int, before: Sequence[Turn]) -> Turn:
        """The utterance `index`, after the rewritten ones `before` it."""
        old, small = self.dialogue.turns[index], self.recipe.llm.is_builtin
        longest = max(SHORTEST_LIMIT, 3 * len(old.text))
        schema = object_schema(line={"type": "string", "minLength": 1, "maxLength": longest})
        request = self._request(index, before)
        failure = RecordError("rewrite", "")
        for _ in range(SMALL_TRIES if small else TRIES):
            value, reply = await ask_json(self.chat, request, schema)
            text = one_line(value["line"])
            faults = line_faults(old, value["line"], self.dialogue)
            if not faults:
                return _rewritten(old, text, self.dialogue.lang, f"model:{self.chat.model}")
            reason = f"utterance {index + 1}: {'; '.join(faults)}"
            failure = RecordError("rewrite", reason, text=reply.text, request_key=reply.request_key)
            request = request.again().again()  # `ask_json` may have used the next attempt
        raise failure

    def _request(self, index: int, before: Sequence[Turn]) -> Request:
        old, lang, llm = self.dialogue.turns[index], self.dialogue.lang, self.recipe.llm
        profile, line = self.drawn.get(old.speaker), one_line(old.text)
        needed = 96 + 2 * estimate_tokens(line)
        if self.recipe.llm.is_builtin:
            messages = self.prompts.get("rewrite_small", lang).render(line=line, style=_style(profile))
            max_tokens = needed
        else:
            max_tokens = max(needed, llm.max_tokens)
            messages = self._messages(old, line, before, profile, max_tokens)
        return Request(
            messages,
            temperature=llm.temperature,
            top_p=llm.top_p,
            max_tokens=max_tokens,
            seed=derive_seed(self.recipe.seed, self.id, STAGE, index),
            stage=STAGE,
            record_id=self.id,
        )

    def _messages(self, old: Turn, line: str, before: Sequence[Turn], profile: Profile | None, max_tokens: int) -> Any:
        lang = self.dialogue.lang
        values = {
            "situation": one_line(self.dialogue.situation),
            "role": ROLE_NAMES[lang][old.speaker].lower(),
            "personality": _in_words(profile),
            "line": line,
        }
        prompt = self.prompts.get("rewrite", lang)
        said = [Turn(speaker=t.speaker, text=t.text) for t in before if t.text.strip()]  # cues are not to be retold
        start = first_fitting(
            said, lang, self.chat.context_tokens, max_tokens, lambda: prompt.render(history="", **values)
        )
        return prompt.render(history=render_history(said[start:], lang), **values)


def line_faults(old: Turn, line: str, dialogue: Dialogue) -> list[str]:
    """Why `line` is no rewriting of the utterance `old`, in words; empty where it is one.

    It must be one utterance of the same speaker: not empty, without role tags and stage directions, in the same
    script, with no placeholder of private data that the dialogue does not have, and with no graver crisis content.
    """
    text = one_line(line)
    if not text:
        return ["it is empty"]
    faults: list[str] = []
    if _holds_tags(line, old.speaker) and not _holds_tags(old.text, old.speaker):
        faults.append("it holds role tags")
    if _DIRECTION.search(PLACEHOLDER.sub("", text)) and not _DIRECTION.search(PLACEHOLDER.sub("", old.text)):
        faults.append("it holds a stage direction")
    if bool(_HAN.search(text)) != bool(_HAN.search(old.text)):
        faults.append("it is in another script")
    known = {m[0] for t in dialogue.turns for m in PLACEHOLDER.finditer(t.text)}
    if any(m[0] not in known for m in PLACEHOLDER.finditer(text)):
        faults.append("it names somebody who is not in the dialogue")
    if _rank(find_crisis(text, dialogue.lang)) > max(
        _rank(find_crisis(old.text, dialogue.lang)), RISK_LEVELS.index(old.risk.level) if old.risk else -1
    ):
        faults.append("it holds crisis content that the original lacks")
    return faults


def _holds_tags(text: str, speaker: Role) -> bool:
    turn = Turn(speaker=speaker, text=text.strip())
    return split_role_tags(turn) != (turn,) or bool(_NAMED.search(text))


def _rank(found: Sequence[CrisisSpan]) -> int:
    return max((RISK_LEVELS.index(s.level) for s in found), default=-1)


def _rewritten(old: Turn, text: str, lang: Lang, origin: str) -> Turn:
    """The turn with other words: labels, cues, media, times and feedback stay; what was said of the old text goes.

    Crisis content never loses its mark: where the rules do not find it in the new words, the whole of them is marked.
    """
    risk = None
    if old.risk:
        found = find_crisis(text, lang)
        span = next((s for s in found if s.level == highest(f.level for f in found)), None)
        start, end = (span.start, span.end) if span else (0, len(text))
        risk = Risk(level=old.risk.level, category=old.risk.category, start=start, end=end)
    return old.model_copy(update={"text": text, "raw": None, "origin": origin, "risk": risk, "flags": ()})


def _speakers(dialogue: Dialogue, drawn: Mapping[Role, Profile]) -> tuple[Speaker, ...]:
    """The speakers with the personalities that they were given: scores, and the profile's id."""
    speakers = {s.role: s for s in dialogue.speakers}
    for role, profile in drawn.items():
        speaker = speakers.get(role, Speaker(role=role))
        disc = {t.dimension: t.score for t in profile.traits}
        attributes = {**speaker.attributes, "disc": disc, "disc_profile": profile.id}
        speakers[role] = speaker.model_copy(update={"attributes": attributes})
    return tuple(speakers.values())


def _in_words(profile: Profile | None) -> str:
    if profile is None:
        return ""
    return "\n".join(f"{t.dimension} {t.score}/10: {t.analysis}" for t in profile.traits)


def _style(profile: Profile | None) -> str:
    """The strongest dimension in a few words, for a model too small for more."""
    if profile is None:
        return ""
    return MEANINGS[profile.lang][max(profile.traits, key=lambda t: t.score).dimension]
