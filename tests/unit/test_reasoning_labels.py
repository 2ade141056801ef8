"""Labels are read from the steps as they are named, and none where none is."""

import pytest

from ser_toolkit.reasoning import (
    Labels,
    read_labels,
)
from ser_toolkit.taxonomy import STAGE_OF, STRATEGIES, ZH

LABEL_CASES = [
    (
        (
            "Stage: Exploration.",
            "Sentiment: Negative. Intensity: Moderate. Emotions: Sadness, Anxiety.",
            "Strategy: Small Talk",
        ),
        Labels("Exploration", "Small Talk", "Negative", "Moderate", ("Sadness", "Anxiety")),
    ),
    (
        (
            "The talk is in the reassurance stage.",
            "Sentiment: Neutral\nIntensity: Mild\nEmotions: Joy and Trust",
            "Rather than Provide Suggestions, the strategy is Emotional Mapping.",
        ),
        Labels("Reassurance", "Emotional Mapping", "Neutral", "Mild", ("Joy", "Trust")),
    ),
    (
        (
            "She wants to take action now.",
            "Her sentiment is negative, of moderate intensity, with sadness and fear but no anger.",
            "I choose self disclosure.",
        ),
        Labels("Reassurance", "Self-Disclosure", "Negative", "Moderate", ("Sadness", "Fear")),
    ),
    (("From Exploration to Reassurance", "Positive or Negative", "Small Talk or Provide Information"), Labels()),
    (
        ("", "Sentiment: Positive/Negative/Neutral", "**Strategy:** providing suggestions"),
        Labels("Action", "Provide Suggestions"),
    ),
    (
        ("Stage: Exploration", "Emotions: Neutral", "Strategy: Provide Suggestions"),
        Labels(None, "Provide Suggestions", emotions=("Neutral",)),
    ),
    ((None, "Trustworthy, joyful, depressionless", None), Labels()),
    (
        ("", "Sentiment: Negative, Emotions: Sadness, Intensity: Intense", ""),
        Labels(sentiment="Negative", intensity="Intense", emotions=("Sadness",)),
    ),
    (
        (
            "核心问题是失业，目前处于探索阶段。",
            "情感倾向：消极。强度：中等。情绪：悲伤、焦虑。",
            "采用递进提问策略。",
        ),
        Labels("Exploration", "Progressive Questioning", "Negative", "Moderate", ("Sadness", "Anxiety")),
    ),
    (
        ("她想采取行动。", "她很悲伤，没有愤怒，情绪强度为强烈", "选择提供建议"),
        Labels("Action", "Provide Suggestions", None, "Intense", ("Sadness",)),
    ),
]


@pytest.mark.parametrize(("steps", "labels"), LABEL_CASES)
def test_labels_are_read_as_named_and_none_where_not(steps, labels):
    assert read_labels(steps, "en") == labels
    assert read_labels(steps, "zh") == labels


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_tells_its_stage(strategy):
    assert read_labels(("", "", f"Strategy: {strategy}"), "en") == Labels(STAGE_OF[strategy], strategy)
    assert read_labels(("", "", f"策略：{ZH[strategy]}"), "zh") == Labels(STAGE_OF[strategy], strategy)
