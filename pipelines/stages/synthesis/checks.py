"""What no simulated supporter should say: the seeker's part, a repetition, goodbye in circles, worn phrases.

As for a seeker (`ser_toolkit.seeker_checks`), rules are few and look for what only the other one says. Self-disclosure
is a strategy: "I once lost a job myself" is no fault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.history import ROLE_NAMES
from ser_toolkit.protection.crisis import find_crisis
from ser_toolkit.protection.replies import PROBLEMS, refusal_problems
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Lang
from ser_toolkit.seeker_checks import FAULT_KINDS as SEEKER_FAULTS
from ser_toolkit.seeker_checks import circles_goodbye, loops, repeats
from ser_toolkit.stock_phrases import find_in, phrases, read

_QUOTED = re.compile(r"\"[^\"]{0,300}\"|“[^”]{0,300}”|「[^」]{0,300}」|『[^』]{0,300}』")
_SEEKS = {
    "en": re.compile(
        r"\b(?:thank(?:s| you)(?: so much| a lot)? for (?:listening|hearing me)"
        r"|thank(?:s| you)(?: so much| a lot)? for (?:all )?your (?:help|advice|support|time|kind)"
        r"|(?:can|could|will|would) you (?:please )?(?:help|listen to) me"
        r"|i(?:'m| am) (?:so )?glad (?:that )?i (?:talked|spoke|came) to you"
        r"|you(?:'ve| have) (?:really )?helped me"
        r"|i (?:really )?needed to (?:hear|say) that"
        r"|what (?:should|can|do) i do (?:now|about my|with my)"
        r"|i feel (?:much |a (?:bit|little) )?better (?:now|after talking))\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"谢谢你(?:的)?(?:听我|倾听|陪我|帮我|帮助|建议|开导|安慰)|你能(?:不能)?(?:帮帮|帮|听听)我"
        r"|(?:跟|和)你(?:聊|说)(?:完|了|过)?(?:之?后)?，?我(?:心里)?(?:好|舒服|轻松)(?:多|一些|一点)"
        r"|我(?:现在)?(?:该|应该)怎么办|你的话让我(?:好|舒服|轻松)(?:多|一些|一点)"
    ),
}
_TAGS = re.compile(
    rf"(?:^|[\s\"“(（])(?:{'|'.join([*ROLE_NAMES['en'].values(), 'User', 'Client', 'Assistant', 'Therapist'])})\s?[:：]"
    rf"|(?:{'|'.join([*ROLE_NAMES['zh'].values(), '来访者', '咨询师'])})\s?[:：]"
)
FAULT_KINDS = {
    "it acts as the seeker": "supporter_role",
    "it speaks for both": "supporter_role",
    "it repeats itself": "repetition",
    "it repeats the seeker": "repetition",
    "it says one sentence over and over": "repetition",
    "it says goodbye in circles": "goodbye_loop",
}
"""What can be wrong with a supporter's line -> the kind of failure that it becomes."""

REJECTED = frozenset({*FAULT_KINDS.values(), *SEEKER_FAULTS.values(), "stock_phrase", "crisis_reply"})
"""Failures of what was said: another try may say something else."""


def find_supporter_faults(text: str, said: Sequence[str], heard: Sequence[str], lang: Lang) -> list[str]:
    """What is wrong with a supporter's new line, in the words of `FAULT_KINDS`. `said` are its own earlier lines,
    `heard` the seeker's.
    """
    own = _QUOTED.sub(" ", text.replace("’", "'"))
    found = {
        "it acts as the seeker": _SEEKS[lang].search(own) is not None,
        "it speaks for both": _TAGS.search(text) is not None,
        "it repeats itself": repeats(text, said),
        "it repeats the seeker": repeats(text, heard),
        "it says one sentence over and over": loops(text),
        "it says goodbye in circles": circles_goodbye([*said, text], lang),
    }
    return [fault for fault, has in found.items() if has]


class SupporterRules:
    """The rules for one build: stock phrases and their number, crises. Raises UsageError for a list of phrases that
    cannot be read.
    """

    def __init__(self, recipe: Recipe, home: Path) -> None:
        settings = recipe.synthesize
        self.allowed = settings.max_stock_phrases
        if self.allowed is None and not recipe.llm.is_builtin:
            self.allowed = 1
        self._looks_for_crisis = recipe.protect.enabled
        self._phrases: dict[Lang, tuple[str, ...]] = {"en": phrases("en"), "zh": phrases("zh")}
        for lang, name in settings.stock_phrases.items():
            try:
                self._phrases[lang] = read(home / name)
            except (OSError, UnicodeDecodeError) as exc:
                hint = "a text file in UTF-8, one phrase a line; a relative path counts from ser.yaml"
                raise UsageError(
                    f"synthesize.stock_phrases.{lang}: {home / name}: cannot be read: {exc}", hint
                ) from exc

    def stock(self, text: str, lang: Lang) -> list[str]:
        """The stock phrases of a line, the longest of those that overlap; none where any number is allowed."""
        found = [] if self.allowed is None else find_in(text, self._phrases[lang])
        return [p for p in found if not any(p != other and p in other for other in found)]

    def too_many(self, found: Collection[str]) -> bool:
        """Whether these are more than one dialogue may hold."""
        return self.allowed is not None and len(found) > self.allowed

    def check(self, text: str, said: Sequence[str], heard: Sequence[str], lang: Lang) -> None:
        """Raises RecordError where a supporter's line may not stand after these. Stock phrases count in all of them."""
        self.check_crisis(text, heard, lang)
        if faults := find_supporter_faults(text, said, heard, lang):
            raise RecordError(FAULT_KINDS[faults[0]], f"supporter: {'; '.join(faults)}", text=text)
        mine = self.stock(text, lang)
        if mine and self.too_many([*mine, *(p for line in said for p in self.stock(line, lang))]):
            raise RecordError("stock_phrase", f"stock phrases: {', '.join(mine)}", text=text)

    def check_crisis(self, text: str, heard: Sequence[str], lang: Lang) -> None:
        """Raises RecordError ("crisis_reply") for a line that no crisis may meet."""
        if not self._looks_for_crisis or not heard:
            return
        problems = refusal_problems(text, lang)
        if problems and find_crisis(heard[-1], lang):
            raise RecordError("crisis_reply", "; ".join(PROBLEMS[p] for p in problems), text=text)
