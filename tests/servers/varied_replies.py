"""A model of many voices, for the report: what it answers varies with the talk, derived from the request alone.

Exploration comes early and action late; feelings ease as a talk goes on; judges reject some; a few replies have no
proper form; people are of four kinds.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.ser_replies import mark_of

SAYS = {
    "Small Talk": (
        ["Hello, and welcome", "Good evening", "Hi, it is good that you came"],
        ["how has your day been so far", "what brought you here tonight", "shall we start with whatever is on top"],
    ),
    "Progressive Questioning": (
        ["I would like to understand that better", "Let us stay there for a moment", "You mentioned that in passing"],
        [
            "what weighs most right now",
            "since when has it been like this",
            "what happened just before",
            "who else knows about it",
            "what would you want them to see",
        ],
    ),
    "Content Restatement": (
        ["So if I follow you", "Let me see whether I got it", "In other words"],
        [
            "the evenings are the hardest part",
            "nobody asked what you wanted",
            "everything landed on you in one week",
            "the letter came before you were ready",
        ],
    ),
    "Emotional Mapping": (
        [
            "I notice how tired that sounds",
            "There is some anger in it, and fear below",
            "That must feel incredibly lonely",
        ],
        [
            "would you call it grief",
            "as if the floor had moved",
            "and it comes back every night",
            "which is a lot to hold at once",
        ],
    ),
    "Self-Disclosure": (
        ["I once lost a job myself", "My own first winter in a new town was grey", "I have sat in such a kitchen too"],
        ["it took me months to say so", "and I remember the silence best", "so your words are familiar"],
    ),
    "Affirmation and Comfort": (
        [
            "You kept going although nobody noticed",
            "Thank you for sharing this",
            "Your feelings are valid",
            "It took something to write that down",
        ],
        [
            "you are not alone in this",
            "that was a careful decision",
            "and it matters that you said it",
            "you did what could be done",
        ],
    ),
    "Provide Suggestions": (
        ["One small thing for tomorrow", "If you like", "What about starting very small"],
        [
            "you could write to your sister first",
            "a walk before the call might help",
            "try to name one hour that is yours",
            "take it one day at a time",
        ],
    ),
    "Provide Information": (
        [
            "Many people sleep badly after a loss",
            "Offices like that have an ombudsman",
            "Most clinics answer by phone in the morning",
        ],
        ["and it usually eases within weeks", "they must reply within a month", "a family doctor can arrange it"],
    ),
}
STAGES = {
    "Exploration": ("Small Talk", "Progressive Questioning", "Content Restatement"),
    "Reassurance": ("Emotional Mapping", "Self-Disclosure", "Affirmation and Comfort"),
    "Action": ("Provide Suggestions", "Provide Information"),
}
WITHIN = {"Exploration": (2, 6, 3), "Reassurance": (5, 1, 6), "Action": (5, 2)}
HEAVY = ("Sadness", "Anxiety", "Fear", "Anger", "Depression", "Shame", "Disgust")
LIGHT = ("Trust", "Anticipation", "Joy", "Neutral")
WORDS = {
    "Anxiety": "anx worr nervous exam panic", "Sadness": "sad cry miss lost", "Anger": "angry mad hate unfair",
    "Fear": "afraid scared fear", "Depression": "depress empty hopeless tired", "Shame": "asham embarrass guilt fault",
    "Disgust": "disgust sick gross",
}  # fmt: skip
PEOPLE = ((8, 6, 2, 3), (3, 8, 6, 2), (2, 4, 8, 6), (4, 2, 5, 9))


def build(body: Mapping[str, Any]) -> str:
    """The reply to one request of a build."""
    said = str(body["messages"][-1]["content"])
    draw = random.Random(mark_of(body["messages"]))
    form = body.get("response_format") or {}
    if form.get("type") != "json_schema":
        return _trace(said, draw)
    asked = form["json_schema"]["schema"].get("properties", {})
    if "Dominance" in asked:
        kind = draw.choices(PEOPLE, (3, 2, 4, 2))[0]
        scores = (min(10, max(0, round(draw.gauss(s, 0.8)))) for s in kind)
        return json.dumps({d: {"analysis": f"Seen as {s}.", "score": s} for d, s in zip(asked, scores, strict=True)})
    if "line" in asked:
        found = re.search(r"next line:\n(.*)", said)
        return json.dumps(
            {"line": f"{draw.choice(('Well,', 'Honestly,', 'You know,', 'I mean,'))} {found[1] if found else ''}"}
        )
    if "semantic_consistency" in asked:
        return json.dumps({name: draw.choices((3, 2, 1), (8, 2, 1))[0] for name in asked})
    if "verdict" in asked:
        keep = draw.random() > 0.16
        checks = asked.get("failed", {}).get("items", {}).get("enum", [])
        return json.dumps({"verdict": keep, "failed": [] if keep else [draw.choice(checks)], "reason": "as judged"})
    return json.dumps({name: "It has been a long week." for name in asked})


def _trace(said: str, draw: random.Random) -> str:
    late = min(1.0, len(said) / 4200)
    stage = draw.choices(tuple(STAGES), (2.6 - 2.2 * late, 1.6, 0.2 + 2.2 * late))[0]
    strategy = draw.choices(STAGES[stage], WITHIN[stage])[0]
    of_talk = random.Random(said[:160])
    eased = of_talk.random() < late
    heavy = [e for e, words in WORDS.items() if any(w in said.lower() for w in words.split())] or ["Sadness"]
    main = of_talk.choice([*heavy, *heavy, *HEAVY])
    pool = (
        of_talk.sample(LIGHT, 2) if eased else [main if draw.random() < 0.9 else draw.choice(HEAVY), draw.choice(HEAVY)]
    )
    sentiment = draw.choices(("Positive", "Neutral"), (1, 1))[0] if eased else "Negative"
    intensity = draw.choices(("Mild", "Moderate", "Intense"), (5, 2, 0.3) if eased else (1, 4, 2.2))[0]
    openings, points = SAYS[strategy]
    last = re.findall(r"[a-z']{2,}", said.rpartition("Now write")[0].lower())[-24:]
    words = " ".join(last[(at := draw.randrange(max(1, len(last) - 6))) : at + draw.randint(3, 6)])
    reply = f"{draw.choice(openings)}: {words}. {draw.choice(points).capitalize()}{draw.choice('??..')}"
    if draw.random() < 0.6:
        reply += f" {draw.choice(points).capitalize()}, {draw.choice(SAYS[draw.choice(list(SAYS))][1])}."
    step1 = f"What they bring has not let go of them yet. We are in the {stage} stage."
    step4 = "" if draw.random() < 0.015 else f"\n\nStep 4. Response Generation\n\\boxed{{{reply}}}"
    return (
        f"Step 1. Conversation History Analysis\n{step1}\n\nStep 2. Multimodal Emotional State Inference\n"
        f"Sentiment: {sentiment}. Intensity: {intensity}. Emotions: {', '.join(dict.fromkeys(pool))}.\n\n"
        f"Step 3. Strategy Selection\n{strategy}: it fits what was just said.{step4}"
    )
