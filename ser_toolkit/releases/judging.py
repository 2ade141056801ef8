"""The four-round chat of the unified judge (PEER, arXiv 2508.09521, section 4.1): what it is trained on and asked.

Rounds 1 to 3 show one reasoning step each and expect True or False; round 4 shows two replies and expects one of four
verdicts. Later rounds see the earlier ones. The answers are the same words in every language, so that they can be
scored by likelihood. A change of any text here is a new version, and stands in a release's manifest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ser_toolkit.history import render_history
from ser_toolkit.reasoning import TITLES
from ser_toolkit.schema import Lang, Turn
from ser_toolkit.verdicts import Shown

JUDGE_VERSION = "1"

STEP_ANSWERS: tuple[str, str] = ("True", "False")
REPLY_ANSWERS: dict[Shown, str] = {
    "first_better": "First better",
    "second_better": "Second better",
    "almost_equal": "Almost equally good",
    "neither": "Neither acceptable",
}
"""Verdict -> the judge's whole answer."""

JUDGE_INSTRUCTIONS: dict[Lang, str] = {
    "en": (
        "You judge how a supporter thinks about and answers a person who talks about what troubles them. Words in "
        "square brackets describe how something was said. Answer each question with one of the given "
        "answers and nothing else."
    ),
    "zh": (
        "你要评判一位支持者如何理解并回应一位正在倾诉烦恼的人。方括号里的文字描述对方说话时的状态。"
        "每个问题只用给出的答案之一来回答，不要写别的内容。"
    ),
}
FIRST: dict[Lang, str] = {"en": "The conversation so far:\n{history}\n\n", "zh": "目前的对话：\n{history}\n\n"}
STEP: dict[Lang, str] = {"en": "Step {n}, {title}:\n{text}\n\n", "zh": "步骤{n}，{title}：\n{text}\n\n"}
ASK_STEP: dict[Lang, str] = {
    "en": "Is this step sound, given the conversation? Answer True or False.",
    "zh": "结合对话来看，这一步是否正确？回答 True 或 False。",
}
REPLY: dict[Lang, str] = {
    "en": (
        "Two replies to the person.\nFirst:\n{first}\n\nSecond:\n{second}\n\nWhich one is better? Answer First "
        "better, Second better, Almost equally good, or Neither acceptable."
    ),
    "zh": (
        "对这个人的两个回复。\n第一个：\n{first}\n\n第二个：\n{second}\n\n哪一个更好？回答 First better、"
        "Second better、Almost equally good 或 Neither acceptable。"
    ),
}


def judge_rounds(
    history: Sequence[Turn], steps: Sequence[str | None], pair: tuple[str, str] | None, lang: Lang
) -> list[tuple[int, str]]:
    """(round, user message) of the rounds that can be asked; the first one holds the history.

    A step that is absent (`None` or empty) is left out, and so is round 4 where there is no pair.
    """
    asked = [
        (n, step_question(n, title, text, lang))
        for n, (title, text) in enumerate(zip(TITLES[lang][:3], steps, strict=True), 1)
        if text and text.strip()
    ]
    if pair is not None:
        asked.append((4, reply_question(pair, lang)))
    opening = FIRST[lang].format(history=render_history(history, lang))
    return [(n, (opening if i == 0 else "") + text) for i, (n, text) in enumerate(asked)]


def step_question(n: int, title: str, text: str, lang: Lang) -> str:
    """The user message of rounds 1 to 3."""
    return STEP[lang].format(n=n, title=title, text=text.strip()) + ASK_STEP[lang]


def reply_question(pair: tuple[str, str], lang: Lang) -> str:
    """The user message of round 4, of two replies in the order in which they are shown."""
    return REPLY[lang].format(first=pair[0].strip(), second=pair[1].strip())


def judge_questions(history: Sequence[Turn], steps: Sequence[str], pair: tuple[str, str], lang: Lang) -> list[str]:
    """The user messages of the four rounds; the first one holds the history."""
    titled = zip(TITLES[lang][:3], steps, strict=True)
    asked = [step_question(n, title, text, lang) for n, (title, text) in enumerate(titled, 1)]
    asked.append(reply_question(pair, lang))
    asked[0] = FIRST[lang].format(history=render_history(history, lang)) + asked[0]
    return asked


def judge_chat(
    history: Sequence[Turn], steps: Sequence[str], pair: tuple[str, str], lang: Lang, answers: Sequence[str]
) -> list[dict[str, str]]:
    """The whole chat as {role, content}: instruction, then question and answer four times."""
    chat = [{"role": "system", "content": JUDGE_INSTRUCTIONS[lang]}]
    for question, answer in zip(judge_questions(history, steps, pair, lang), answers, strict=True):
        chat += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return chat
