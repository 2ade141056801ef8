"""What a simulated seeker's line gives away, as pure functions: a stop marker, a farewell, the helper's part, a loop.

Rules are few and readable. They look for what only a helper says; a seeker's own question ("What should I do?") is
never one, and quoted words ("my mum says you should try harder") are left out of account.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from .schema import Lang

END_MARKER = "[END]"
_MARKER = re.compile(r"[\[【<(（]\s?/?\s?(?:end|the end|结束|完)\s?[\]】>)）]", re.IGNORECASE)
_BARE_END = re.compile(r"(?:(?<=[\s.!?。！？])|^)END[.!]?$")
_QUOTED = re.compile(r"\"[^\"]{0,300}\"|“[^”]{0,300}”|「[^」]{0,300}」|『[^』]{0,300}』")
_SENTENCE_END = re.compile(r"[.!?。！？…\n]+")

# "~" stands for up to two words between ("i ~ understand": "I do understand").
_HELPER: dict[Lang, tuple[str, ...]] = {
    "en": (
        "how (?:can|may|could|might) i ~(?:help|support|assist) you",
        "what (?:brings|brought) you here",
        "what(?:'s| is) (?:on your mind|troubling you|bothering you)",
        "(?:would|do) you (?:like|want) to (?:talk|share|tell me)",
        "i(?:'m| am) ~here (?:for you|to (?:help|listen|support|offer|guide|talk to you))",
        "i(?:'m| am) ~sorry (?:to hear|for your|(?:that )?you(?:'re| are|'ve been| have been| feel) )",
        "i ~(?:understand|know|hear|see) (?:how|that|what) you(?:'re| are| must be)? ?(?:feel|feeling|going through)",
        "(?:it's|it is|that's|that is) ~(?:normal|understandable|natural) (?:that you|for you|to feel)",
        "you(?:'re| are) not alone",
        "your (?:feelings|emotions) are ~(?:valid|understandable|normal)",
        "have you (?:tried|considered|thought (?:about|of)|spoken|talked)",
        "you (?:should|could|might|may|need to|can) ~(?:try|consider|talk to|take (?:a|some)|seek|focus on|reach out)",
        "i(?:'d| would)? (?:suggest|recommend|advise|encourage) (?:that )?(?:you|trying|talking|taking|seeking)",
        "(?:my|one) (?:advice|suggestion) (?:for|to) you",
        "feel free to (?:share|talk|reach)",
        "(?:tell|share with) me ~(?:how|what|why) you",
        "how does that make you feel",
        "as (?:an ai|a (?:language model|therapist|counsell?or|supporter|supportive|caring))",
    ),
    "zh": (
        "(?:我|有什么)(?:可以|能够|能|怎么|怎样)*(?:帮助|帮到|帮|协助|支持)(?:到)?你",
        "是什么(?:让|使)你来",
        "(?:愿意|想|可以)(?:和|跟|对|向)我(?:说|聊|讲|分享|谈)",
        "我(?:会|一直|就|都)*(?:在这里|在这儿|在)?(?:陪着|陪伴|倾听|支持)(?:着)?你",
        "(?:听到|知道|看到)你.{0,12}(?:抱歉|难过|心疼|遗憾)",
        "我(?:很|非常|完全|特别|十分|真的|能够|能|可以)*(?:理解|明白|体会)你(?:的|现在|此刻)",
        "你(?:并)?不(?:是一个人|孤单|孤独)",
        "你的(?:感受|情绪|心情).{0,4}(?:正常|可以理解|合理)",
        "你(?:可以|不妨|应该|要不|可能需要|需要)(?:先|去|多)?(?:试试|尝试|试着|考虑|找.{0,6}(?:聊聊|谈谈|帮助))",
        "建议你",
        "(?:和|跟)我(?:多)?(?:说说|讲讲|聊聊)你",
        "作为(?:一名|一个|一位)?(?:人工智能|AI|语言模型|咨询师|支持者|倾听者)",
    ),
}
_HELPS = {
    "en": re.compile(rf"\b(?:{'|'.join(_HELPER['en'])})".replace("~", r"(?:\w+ ){0,2}"), re.IGNORECASE),
    "zh": re.compile("|".join(_HELPER["zh"])),
}
_FAREWELL = {
    "en": re.compile(
        r"(?:(?:ok(?:ay)?|well|all\s?right|right|anyway|so|and|i (?:should|have to|need to|must|better) go(?: now)?"
        r"|thanks?(?: you)?(?: so much| again| a lot| for \w+(?: \w+){0,4})?)[\s,;:-]+){0,4}"
        r"(?:good[\s-]?bye|bye(?:[\s-]bye)?|see you|take care(?! of (?!yourself))|good night|farewell"
        r"|talk (?:to you )?(?:later|soon)|have a (?:good|nice|great|lovely) (?:day|night|evening|one))\b"
        r"(?:[\s,]+[\w']+){0,5}\W*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"(?:(?:好的?|那|谢谢(?:你|您)?|嗯|我(?:得|该|要)?(?:先)?走了|就|今天)[了吧，,、\s]*){0,5}"
        r"(?:再见|拜拜|拜|晚安|下次(?:再)?(?:聊|见)|回头(?:再)?(?:聊|见)|(?:先|就)(?:聊到这|到这|这样)(?:里|儿)?|改天(?:再)?聊)[了吧啦哦呀！～~\s]*.{0,6}"
    ),
}


def split_marker(text: str) -> tuple[str, bool]:
    """The text without its stop markers, and whether there was one. Text glued to a marker is kept."""
    without = _BARE_END.sub("", _MARKER.sub(" ", text.strip()).strip())
    return " ".join(without.split()), bool(_MARKER.search(text) or _BARE_END.search(text.strip()))


def acts_as_helper(text: str, lang: Lang) -> bool:
    """Whether the line is one that only the helper would say: offering help, comfort or advice to the other."""
    said = _QUOTED.sub(" ", text.replace("’", "'"))
    return _HELPS[lang].search(said) is not None


def says_goodbye(text: str, lang: Lang) -> bool:
    """Whether the line ends in a farewell. "I never said goodbye to her" is none."""
    sentences = [s.strip() for s in _SENTENCE_END.split(text.replace("’", "'")) if s.strip()]
    return any(_FAREWELL[lang].fullmatch(s) for s in sentences[-2:])


def circles_goodbye(lines: Sequence[str], lang: Lang) -> bool:
    """Whether the last two lines of one speaker both say goodbye."""
    return len(lines) >= 2 and all(says_goodbye(line, lang) for line in lines[-2:])


def repeats(text: str, earlier: Sequence[str]) -> bool:
    """Whether the line says again what one of the earlier ones said, nearly word for word. "Yes." may recur."""
    words = _units(text)
    return sum(words.values()) >= 4 and any(_overlap(words, _units(line)) >= 0.85 for line in earlier)


def loops(text: str) -> bool:
    """Whether one sentence stands three times or more in the line."""
    sentences = Counter(" ".join(s.split()).casefold() for s in _SENTENCE_END.split(text) if s.strip())
    return any(n >= 3 for n in sentences.values())


FAULT_KINDS = {
    "it acts as the helper": "seeker_role",
    "it repeats its opening": "repetition",
    "it repeats itself": "repetition",
    "it repeats the supporter": "repetition",
    "it says one sentence over and over": "repetition",
    "it says goodbye in circles": "goodbye_loop",
}
"""What can be wrong with a seeker's line -> the kind of failure that it becomes."""


def find_faults(text: str, said: Sequence[str], heard: Sequence[str], lang: Lang) -> list[str]:
    """What is wrong with a seeker's new line, in the words of `FAULT_KINDS`. `said` are its own earlier lines, `heard`
    the supporter's.
    """
    found = {
        "it acts as the helper": acts_as_helper(text, lang),
        "it repeats its opening": repeats(text, said[:1]),
        "it repeats itself": repeats(text, said[1:]),
        "it repeats the supporter": repeats(text, heard),
        "it says one sentence over and over": loops(text),
        "it says goodbye in circles": circles_goodbye([*said, text], lang),
    }
    return [fault for fault, has in found.items() if has]


def _units(text: str) -> Counter[str]:
    """Words, and pairs of neighbouring Chinese characters, without case and punctuation."""
    folded = text.casefold()
    hanzi = "".join(re.findall(r"[\u3400-\u9fff]", folded))
    words = re.findall(r"[^\W_\u3400-\u9fff]+(?:['’][^\W_\u3400-\u9fff]+)?", folded)
    return Counter([*words, *(a + b for a, b in pairwise(hanzi))])


def _overlap(a: Counter[str], b: Counter[str]) -> float:
    """Shared share of two bags (Dice), 0 to 1."""
    total = sum(a.values()) + sum(b.values())
    return 2 * sum((a & b).values()) / total if total else 0.0
