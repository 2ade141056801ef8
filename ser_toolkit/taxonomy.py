"""The words of structured empathetic reasoning, and how each corpus' own words map to them.

Source: PEER, arXiv 2508.09521, section 3 (stages and strategies after Hill's helping skills). A corpus' labels are
mapped by a readable table, `maps/<format>.toml`; a workspace may lay its own `maps/<format>.toml` over it. A word
that no table holds is kept as written, mapped to nothing, and listed by `ser sources check`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import UsageError
from .schema import Label

STAGES: dict[str, tuple[str, ...]] = {
    "Exploration": ("Small Talk", "Progressive Questioning", "Content Restatement"),
    "Reassurance": ("Emotional Mapping", "Self-Disclosure", "Affirmation and Comfort"),
    "Action": ("Provide Suggestions", "Provide Information"),
}
"""Stage -> its strategies, in order."""

STRATEGIES: tuple[str, ...] = tuple(s for group in STAGES.values() for s in group)
STAGE_OF: dict[str, str] = {s: stage for stage, group in STAGES.items() for s in group}
SENTIMENTS = ("Positive", "Negative", "Neutral")
INTENSITIES = ("Mild", "Moderate", "Intense")
EMOTIONS = (
    "Joy", "Trust", "Anticipation", "Fear", "Anger", "Disgust", "Sadness", "Anxiety", "Depression", "Shame", "Neutral",
)  # fmt: skip
VERDICTS = ("first_better", "second_better", "almost_equal", "neither")
DISC = ("Dominance", "Influence", "Steadiness", "Compliance")

ZH: dict[str, str] = {
    "Exploration": "探索", "Reassurance": "安抚", "Action": "行动",
    "Small Talk": "寒暄", "Progressive Questioning": "递进提问", "Content Restatement": "内容复述",
    "Emotional Mapping": "情感映射", "Self-Disclosure": "自我表露", "Affirmation and Comfort": "肯定与安慰",
    "Provide Suggestions": "提供建议", "Provide Information": "提供信息",
    "Positive": "积极", "Negative": "消极", "Neutral": "中性",
    "Mild": "轻微", "Moderate": "中等", "Intense": "强烈",
    "Joy": "喜悦", "Trust": "信任", "Anticipation": "期待", "Fear": "恐惧", "Anger": "愤怒", "Disgust": "厌恶",
    "Sadness": "悲伤", "Anxiety": "焦虑", "Depression": "抑郁", "Shame": "羞愧",
}  # fmt: skip
"""The Chinese words for the English ones, for prompts and for reading Chinese traces."""


def fold(word: str) -> str:
    """A label's spelling for look-up: case, spaces and hyphens do not count."""
    return re.sub(r"[\s_\-]+", " ", word).strip().casefold()


@dataclass(frozen=True, slots=True)
class LabelMap:
    """The tables of one corpus: strategies, emotions, problems and speakers.

    Each table: folded spelling -> (the corpus' canonical spelling, the SER word or None). `missing` holds the
    spellings that mean "no label" ("undefined").
    """

    strategies: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    emotions: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    problems: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    speakers: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    def strategy(self, word: str | None) -> Label | None:
        return self._label(self.strategies, word)

    def emotion(self, word: str | None) -> Label | None:
        return self._label(self.emotions, word)

    def problem(self, word: str | None) -> Label | None:
        return self._label(self.problems, word)

    def speaker(self, word: str) -> str | None:
        """ "seeker", "supporter", another role that the table names (such as "system"), or None."""
        return self.speakers.get(fold(word))

    def _label(self, table: Mapping[str, tuple[str, str | None]], word: str | None) -> Label | None:
        if word is None or not word.strip() or fold(word) in self.missing:
            return None
        corpus, ser = table.get(fold(word), (None, None))
        return Label(original=word.strip(), corpus=corpus, ser=ser)


MAPS = Path(__file__).parent / "maps"


def load_map(format: str, overrides: Path | None = None) -> LabelMap:
    """The label map of a format, with a workspace's `overrides/<format>.toml` laid over it. Raises UsageError.

    The file's tables are [strategies], [emotions] and [problems], each of lines such as
    `"Canonical spelling" = {ser = "SER word", aliases = [...]}` (both optional); [speakers], of lines such as
    `seeker = [...]`; and `missing = [...]` at the top.
    """
    merged = LabelMap()
    for folder in (MAPS, overrides):
        file = folder / f"{format}.toml" if folder else None
        if file is None or not file.exists():
            continue
        try:
            tree = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise UsageError(f"{file}: not valid TOML: {exc}", "mend that line") from exc
        merged = LabelMap(
            strategies={**merged.strategies, **_table(tree.get("strategies", {}), STRATEGIES, file)},
            emotions={**merged.emotions, **_table(tree.get("emotions", {}), EMOTIONS, file)},
            problems={**merged.problems, **_table(tree.get("problems", {}), None, file)},
            speakers={
                **merged.speakers,
                **{fold(a): role for role, words in tree.get("speakers", {}).items() for a in words},
            },
            missing=merged.missing | {fold(w) for w in tree.get("missing", [])},
        )
    return merged


def _table(
    tree: Mapping[str, Mapping[str, object]], allowed: tuple[str, ...] | None, file: Path
) -> dict[str, tuple[str, str | None]]:
    out: dict[str, tuple[str, str | None]] = {}
    for canonical, entry in tree.items():
        ser = entry.get("ser")
        if ser is not None and (not isinstance(ser, str) or (allowed is not None and ser not in allowed)):
            raise UsageError(f"{file}: {canonical!r} is mapped to {ser!r}", f"known: {', '.join(allowed or ())}")
        aliases = entry.get("aliases", [])
        for word in (canonical, *(aliases if isinstance(aliases, list) else [])):
            out[fold(str(word))] = (canonical, ser)
    return out
