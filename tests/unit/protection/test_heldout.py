"""Sets that the rules had not seen when they were first run on them (docs/protection.md has those figures).

Batch 1, and batch 2 of private data, were used to mend the rules afterwards; the others never. The floors stand a
little below what was measured: they tell when a change makes strangers' messages be missed, and are no promise for the
next stranger's.
"""

from __future__ import annotations

import tomllib

import pytest

from ser_toolkit.protection.crisis import find_crisis
from ser_toolkit.protection.pii import find_pii
from ser_toolkit.schema import Lang
from tests.unit.protection.marked import SETS, is_covered, is_right, unmark


def crisis(batch: str, lang: Lang) -> tuple[float, float]:
    """Recall and precision."""
    tree = tomllib.loads((SETS / f"{batch}_{lang}.toml").read_text(encoding="utf-8"))
    none = tree.pop("none")
    risk = [text for texts in tree.values() for text in texts]
    found = sum(bool(find_crisis(m, lang)) for m in risk)
    false = sum(bool(find_crisis(m, lang)) for m in none)
    return found / len(risk), found / (found + false)


@pytest.mark.parametrize(
    ("batch", "lang", "recall", "precision"),
    [
        ("heldout1_crisis", "en", 0.95, 0.95),
        ("heldout1_crisis", "zh", 0.95, 0.95),
        ("tuning_crisis", "en", 0.90, 0.95),
        ("tuning_crisis", "zh", 0.90, 0.95),
        ("heldout2_crisis", "en", 0.20, 0.60),
        ("heldout2_crisis", "zh", 0.18, 0.60),
        ("heldout3_crisis", "en", 0.95, 0.95),
        ("heldout3_crisis", "zh", 0.90, 0.95),
        ("heldout4_crisis", "en", 0.05, 0.60),
        ("heldout4_crisis", "zh", 0.12, 0.60),
    ],
)
def test_crisis(batch: str, lang: Lang, recall: float, precision: float):
    found, right = crisis(batch, lang)
    assert found >= recall and right >= precision, (found, right)


@pytest.mark.parametrize(
    ("batch", "lang", "names", "others"),
    [
        ("heldout1_pii", "en", 0.95, 0.95),
        ("heldout1_pii", "zh", 0.90, 0.95),
        ("heldout2_pii", "en", 0.90, 0.95),
        ("heldout2_pii", "zh", 0.85, 0.95),
        ("heldout3_pii", "en", 0.85, 0.75),
        ("heldout3_pii", "zh", 0.50, 0.95),
    ],
)
def test_private_data(batch: str, lang: Lang, names: float, others: float):
    tree = tomllib.loads((SETS / f"{batch}_{lang}.toml").read_text(encoding="utf-8"))
    found: dict[bool, list[bool]] = {True: [], False: []}
    right = wrong = 0
    for text, gold in map(unmark, tree["texts"]):
        spans = find_pii(text, lang)
        for g in gold:
            found[g.kind == "name"].append(is_covered(g, spans))
        right += sum(is_right(s, gold) for s in spans)
        wrong += sum(not is_right(s, gold) for s in spans)
    wrong += sum(len(find_pii(text, lang)) for text in tree["none"])
    assert sum(found[True]) / len(found[True]) >= names
    assert sum(found[False]) / len(found[False]) >= others
    assert right / (right + wrong) >= 0.95
