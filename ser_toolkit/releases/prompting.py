"""The chat prompt of a round: what SFT reads, RL rolls out from, and an evaluation asks.

One rendering for all of them, so that a policy meets in training what it meets later. A chat template wants
user and assistant in turn, the user first: neighbouring turns of one speaker are merged, and a history that
the supporter opens gets a neutral first user message, which the caller counts and the release reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from ser_toolkit.reasoning import TITLES
from ser_toolkit.schema import Dialogue, Lang, Turn
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS, STAGES, ZH

PROMPT_VERSION = "1"
"""Of the instruction and of the rendering; a change of either is a new version, and stands in a release's
lineage.
"""

OPENINGS: dict[Lang, tuple[str, str]] = {
    "en": ("(The conversation begins.)", "(The conversation goes on.)"),
    "zh": ("（对话开始。）", "（对话继续。）"),
}
"""The user message before a supporter's first turn: where the dialogue begins, and where the history was cut.
"""

_CHANNELS_ZH = {"face": "表情", "voice": "语气", "body": "动作", "scene": "场景", "mixed": "状态"}


def _words(lang: Lang) -> dict[str, str]:
    def listed(words: tuple[str, ...]) -> str:
        return ", ".join(words) if lang == "en" else "、".join(ZH[w] for w in words)

    sign = ("{}: {}", "; ") if lang == "en" else ("{}：{}", "；")
    stages = sign[1].join(sign[0].format(listed((stage,)), listed(group)) for stage, group in STAGES.items())
    return {
        "stages": listed(tuple(STAGES)), "strategies": stages, "sentiments": listed(SENTIMENTS),
        "intensities": listed(INTENSITIES), "emotions": listed(EMOTIONS),
    }  # fmt: skip


_TEMPLATES: dict[Lang, str] = {
    "en": (
        "You support a person who talks about what troubles them. Words in square brackets describe how "
        "something was said; they were not spoken. Answer in four parts, each under its own heading:\n"
        "Step 1. {titles[0]}: the core problem so far, and the stage of support that fits now ({stages}).\n"
        "Step 2. {titles[1]}: the person's sentiment ({sentiments}), its intensity ({intensities}) "
        "and emotions ({emotions}).\n"
        "Step 3. {titles[2]}: the one strategy to use, and why ({strategies}).\n"
        "Step 4. {titles[3]}: the reply itself inside \\boxed{{...}}: spoken, warm and short, without "
        "jargon or lists."
    ),
    "zh": (
        "你在支持一位正在倾诉烦恼的人。方括号【】里的文字描述对方说话时的状态，并不是说出来的话。请分四个部分回答，每部分有自己的标题：\n"
        "步骤1：{titles[0]}。目前的核心问题，以及适合的支持阶段（{stages}）。\n"
        "步骤2：{titles[1]}。对方的情感倾向（{sentiments}）、强度（{intensities}）和情绪（{emotions}）。\n"
        "步骤3：{titles[2]}。要使用的一种策略及其理由（{strategies}）。\n"
        "步骤4：{titles[3]}。把回复写在 \\boxed{{...}} 里：口语、温暖、简短，不用术语，不列清单。"
    ),
}

INSTRUCTIONS: dict[Lang, str] = {
    lang: text.format(titles=TITLES[lang], **_words(lang)) for lang, text in _TEMPLATES.items()
}
"""The system message, in the dialogue's language."""

Chat = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """`messages` as {role, content}; `is_opening_added`: the history began with the supporter."""

    messages: Chat
    is_opening_added: bool


def policy_prompt(dialogue: Dialogue, target: int, history_start: int = 0) -> Prompt:
    """The prompt for the supporter's turn `target`: the instruction, then the history as a chat that the user
    opens and ends.
    """
    chat: Chat = [{"role": "system", "content": INSTRUCTIONS[dialogue.lang]}]
    history = dialogue.turns[history_start:target]
    is_opening_added = bool(history) and history[0].speaker == "supporter"
    if is_opening_added:
        chat.append({"role": "user", "content": OPENINGS[dialogue.lang][history_start > 0]})
    for turn in history:
        role = "user" if turn.speaker == "seeker" else "assistant"
        said = spoken_with_cues(turn, dialogue.lang) if role == "user" else turn.text
        if chat[-1]["role"] == role:
            chat[-1]["content"] += "\n" + said
        else:
            chat.append({"role": role, "content": said})
    return Prompt(chat, is_opening_added)


def spoken_with_cues(turn: Turn, lang: Lang) -> str:
    """What was said, its cues behind it in brackets."""
    if not turn.cues:
        return turn.text
    if lang == "zh":
        return turn.text + "【" + "；".join(f"{_CHANNELS_ZH[c.channel]}：{c.text}" for c in turn.cues) + "】"
    return f"{turn.text} [" + "; ".join(f"{c.channel}: {c.text}" for c in turn.cues) + "]"
