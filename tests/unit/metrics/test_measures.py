"""The measures of small releases whose answers are known by hand."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipelines.evaluating import evaluate
from ser_toolkit import stock_phrases
from ser_toolkit.errors import DataError
from ser_toolkit.releases.manifest import file_hash
from ser_toolkit.schema import Dialogue, Label, Risk, Trace
from tests.unit.release.making import crowd, dialogue, make, six, trace

PROTECTED = {"recipe": {"protect": {"enabled": True}}}


def talk(id: str, *, lang: str = "en", feelings: tuple[str, ...] = ()) -> Dialogue:
    """Ten turns; the seeker's carry these emotions as the source's labels."""
    words = ("rain", "bread", "clock", "shore", "lamp", "stone", "field", "road", "wind", "sea")
    said = [f"Turn {n} of {id}, {word}." for n, word in enumerate(words)]
    made = dialogue(id, *said, lang=lang)  # pyright: ignore[reportArgumentType]
    marks = iter(feelings)
    turns = []
    for turn in made.turns:
        felt = next(marks, "") if turn.speaker == "seeker" else ""
        labels = (Label(original=felt, ser=felt),) if felt else ()
        turns.append(turn.model_copy(update={"emotions": labels}))
    return made.model_copy(update={"turns": tuple(turns)})


def named(of: Dialogue, target: int, emotions: tuple[str, ...], intensity: str | None, strategy: str | None) -> Trace:
    return trace(of, target).model_copy(update={"emotions": emotions, "intensity": intensity, "strategy": strategy})


def figures(path: Path, **options: object) -> dict[str, object]:
    found = evaluate([path], **options).measured[0]  # pyright: ignore[reportArgumentType]
    return {k: f.value for k, f in found.figures.items()}


def measured(path: Path):
    return evaluate([path]).measured[0]


def test_feelings_flow_from_the_first_trace_to_the_last(tmp_path):
    one, two, three = talk("one"), talk("two"), talk("three")
    traces = [
        named(one, 1, ("Sadness", "Fear"), "Intense", "Small Talk"),
        named(one, 9, ("Trust",), "Mild", "Provide Suggestions"),
        named(one, 5, ("Anger",), "Moderate", None),
        named(two, 1, ("Sadness",), "Mild", "Small Talk"),
        named(two, 9, ("Trust", "Joy"), "Moderate", "Provide Suggestions"),
        named(three, 1, ("Fear",), None, "Small Talk"),  # alone in its talk: it moves nowhere
    ]
    found = measured(make(tmp_path, [one, two, three], traces=traces).path)
    assert found.tables["flow.emotion"].rows == (("Sadness", "Trust", 2),)
    assert found.tables["flow.emotion"].over.startswith("2 dialogues")
    assert set(found.tables["flow.intensity"].rows) == {("Mild", "Moderate", 1), ("Intense", "Mild", 1)}
    assert found.figures["flow.eased"].value == 0.5
    part = {r[0]: r[1:] for r in found.tables["strategy.part"].rows}
    assert part["Small Talk"] == (3, 0, 0, 0, 0) and part["Provide Suggestions"] == (0, 0, 0, 0, 2)
    assert part["not named"] == (0, 0, 1, 0, 0), "a trace that names no strategy is counted as such"
    emotion = {r[0]: r for r in found.tables["labels.emotions"].rows}
    assert sum(emotion["Trust"][1:]) == 2 and "not named" not in emotion


def test_emotions_move_from_utterance_to_utterance_where_the_source_labels_them(tmp_path):
    one = talk("one", feelings=("Fear", "Fear", "Joy"))
    found = measured(make(tmp_path, [one], traces=[trace(one, 9)]).path)
    assert set(found.tables["flow.turns"].rows) == {("Fear", "Joy", 1), ("Fear", "Fear", 1)}
    plain = measured(make(tmp_path / "plain", [talk("x")], traces=[]).path)
    assert plain.tables["flow.turns"].rows == () and "no source" in plain.tables["flow.turns"].reason


def test_what_cannot_be_measured_is_none_with_a_reason(tmp_path):
    path = make(tmp_path, crowd(12), traces=[]).path
    found = measured(path)
    missing = {k: f.reason for k, f in found.figures.items() if f.value is None}
    assert {"size.traces", "making.filter_dropped", "rewriting.kept", "rewriting.rejected", "safety.crisis"} <= set(
        missing
    )
    assert {"variety.en.seeker.embedding_distance", "stock.en", "copies.replies", "flow.eased"} <= set(missing)
    assert all(missing.values()), "each with a reason"
    assert "--embed" in missing["variety.en.seeker.embedding_distance"]
    assert missing["rewriting.kept"] == "no rewriting in this release"
    empty = [t for t in found.tables.values() if not t.rows]
    assert empty and all(t.reason for t in empty)
    tree = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert tree["figures"]["size.traces"]["value"] is None


def test_protection_that_was_off_found_nothing_because_nobody_looked(tmp_path):
    off = make(tmp_path / "off", crowd(6), lineage={"recipe": {"protect": {"enabled": False}}}).path
    assert measured(off).figures["safety.crisis"].reason == "protect.enabled was off: nobody looked"
    risky = [d.model_copy(update={"risk": "high"}) if n == 0 else d for n, d in enumerate(crowd(6))]
    turns = list(risky[0].turns)
    turns[0] = turns[0].model_copy(update={"risk": Risk(level="high", category="self_harm", start=0, end=4)})
    risky[0] = risky[0].model_copy(update={"turns": tuple(turns)})
    on = measured(make(tmp_path / "on", risky, lineage=PROTECTED).path)
    assert on.figures["safety.crisis"].value == pytest.approx(1 / 6)
    assert dict((r[0], r[1:]) for r in on.tables["safety.crisis"].rows)["high"] == (1, 1, 0)


def test_failures_of_form_are_a_share_of_all_that_was_asked(tmp_path):
    counts = {"format": 2, "truncated, high risk": 1, "timeout": 5}
    found = measured(make(tmp_path, crowd(9), failures=counts).path)
    assert found.figures["making.format_failures"].value == pytest.approx(3 / 12)
    assert ("truncated", "high", 1) in {r[:3] for r in found.tables["making.failures"].rows}


def test_the_filter_s_share_is_of_what_was_judged(tmp_path):
    verdicts = {"judged": 8, "rejected": 2, "enforced": 0, "rejected: incoherent": 2}
    found = measured(make(tmp_path, crowd(6), verdicts=verdicts).path)
    assert found.figures["making.filter_dropped"].value == 0.25
    assert "not enforced" in found.figures["making.filter_dropped"].over
    assert found.tables["making.filter"].rows == (("incoherent", 2),)


def test_rewriting_is_read_from_the_lineage_and_copies_of_a_reply_do_not_count(tmp_path):
    told = {
        "personality": True, "rewritten": 1, "traces": 1, "kept": 1, "left_out": {"crisis": 2},
        "verdicts": {"judged": 4, "rejected": 1},
        "quality": {"scored": 3, "mean": {"language_fluency": 2.5, "semantic_consistency": 2.9}},
        "clusters": [
            {
                "role": "seeker", "lang": "en", "profiles": 4, "k": 2,
                "curve": [{"k": 1, "sse": 9.0}, {"k": 2, "sse": 1.5}],
                "centres": [
                    {"cluster": 0, "size": 4, "dominance": 1, "influence": 2, "steadiness": 3, "compliance": 4}
                ],
            }
        ],
    }  # fmt: skip
    one = talk("one")
    again = dialogue("one~", *[t.text.upper() for t in one.turns], root_id="one", rewritten_from="one")
    first = trace(one)
    second = trace(again).model_copy(update={"rewritten_from": first.id, "root_id": "one"})
    found = measured(make(tmp_path, [one, again], traces=[first, second], lineage={"rewriting": told}).path)
    assert found.tables["rewriting.quality"].rows == (("semantic consistency", 2.9), ("language fluency", 2.5))
    assert found.tables["rewriting.curve"].rows == (("seeker", "en", 1, 9.0, False), ("seeker", "en", 2, 1.5, True))
    assert found.tables["rewriting.centres"].rows == (("seeker", "en", 1, 4, 1, 2, 3, 4),)
    assert found.figures["rewriting.rejected"].value == 0.25
    assert found.figures["size.rewritten"].value == 0.5
    assert found.figures["copies.replies"].value == 0.0, "the rewrite repeats its source's reply by design"
    assert found.figures["copies.dialogues"].value == 0.0, "a rewrite is no copy"


def test_copies_and_leaks(tmp_path):
    clean = measured(make(tmp_path / "clean", [*crowd(30), *six()]).path)
    assert clean.figures["leaks.groups"].value == 0
    assert clean.figures["copies.replies"].value == 1.0, "all traces of the crowd have one reply"
    bad = measured(bad_split(tmp_path / "clean", tmp_path / "bad"))
    assert bad.figures["leaks.groups"].value == 1
    (ids, why, opening) = bad.tables["leaks.listed"].rows[0]
    assert "copy" in str(ids).split(", ") and str(why) == "near duplicate, same opening" and opening


def bad_split(folder: Path, target: Path) -> Path:
    """A release as somebody else might have made it: a copy of a dialogue stands in another split."""
    source = next(folder.iterdir())
    shutil.copytree(source, target)
    manifest = json.loads((target / "manifest.json").read_text())
    home, away = list(manifest["rows"]["dialogues"])[:2]
    copied = pl.read_parquet(target / "dialogues" / f"{home}.parquet").head(1)
    copied = copied.with_columns(id=pl.lit("copy"), root_id=pl.lit("copy"))
    file = target / "dialogues" / f"{away}.parquet"
    pl.concat([pl.read_parquet(file), copied]).write_parquet(file)
    manifest["rows"]["dialogues"][away] += 1
    manifest["files"][f"dialogues/{away}.parquet"] = {"sha256": file_hash(file), "rows": 0}
    (target / "manifest.json").write_text(json.dumps(manifest))
    return target


def test_stock_phrases_are_counted_whatever_the_case_and_the_apostrophe(tmp_path):
    one, two, three = crowd(3)
    twice = "Your feelings are valid. Your feelings are valid."
    said = ("I’M HERE FOR YOU, and your feelings are valid.", twice, "Tell me.")
    traces = [trace(d).model_copy(update={"reply": r}) for d, r in zip((one, two, three), said, strict=True)]
    found = measured(make(tmp_path, [one, two, three], traces=traces).path)
    assert found.figures["stock.en"].value == pytest.approx(2 / 3)
    assert found.tables["stock.en.phrases"].rows[0] == ("your feelings are valid", 2), "in two replies, not three times"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_list_of_stock_phrases_has_each_once_and_finds_itself(lang):
    known = stock_phrases.phrases(lang)
    assert len(known) > 40 and len(set(known)) == len(known)
    assert all(p in stock_phrases.find_phrases(f"so: {p.upper()}!", lang) for p in known)
    assert stock_phrases.find_phrases("My bicycle is green.", lang) == []


def test_chinese_is_measured_in_characters_and_apart_from_english(tmp_path):
    en = crowd(2)
    zh = [dialogue(f"z{n}", f"我最近第{n}次睡不着觉。", "是从什么时候开始的？", lang="zh") for n in range(2)]
    found = measured(make(tmp_path, [*en, *zh]).path)
    lengths = {r[0]: r for r in found.tables["lengths.zh"].rows}
    assert found.tables["lengths.zh"].over == "characters" and lengths["supporter"][2] == 9.0
    assert found.figures["variety.zh.supporter.distinct_1"].value == 0.5, "two equal texts of nine different characters"
    assert {"variety.en.seeker.self_bleu", "variety.zh.seeker.self_bleu"} <= set(found.figures)


def test_two_releases_are_sampled_alike_and_compared(tmp_path):
    small, large = make(tmp_path / "a", crowd(12)).path, make(tmp_path / "b", crowd(30)).path
    both = evaluate([small, large])
    a, b = (m.figures["variety.en.seeker.self_bleu"] for m in both.measured)
    assert "24 texts" in a.over and b.over.startswith("24 of 60 texts")
    assert both.difference["size.dialogues"] == 18
    assert both.difference["rewriting.kept"] is None, "missing on both sides: no difference, and no zero"
    tree = both.to_json()
    assert set(tree) == {"a", "b", "difference"}
    assert "12 -> 30  (+18)" in both.render()


class Halves:
    """Two directions, turn by turn: the mean cosine distance of an even sample is known."""

    name = "halves"

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[1.0, 0.0] if n % 2 else [0.0, 1.0] for n in range(len(texts))])


def test_embedding_distance_over_the_sample(tmp_path):
    path = make(tmp_path, crowd(30)).path
    found = figures(path, embedder=Halves(), sample=10)
    assert found["variety.en.seeker.embedding_distance"] == pytest.approx(25 / 45)


def test_the_same_release_gives_the_same_measures(tmp_path):
    path = make(tmp_path, crowd(40), lineage=PROTECTED).path
    assert evaluate([path], sample=20).to_json() == evaluate([path], sample=20).to_json()


def test_the_turns_of_an_empty_text_are_no_trouble(tmp_path):
    odd = dialogue("odd", "", "...", "My cat ran away in the storm.", "Oh no.")
    assert measured(make(tmp_path, [odd], traces=[]).path).figures["size.turns"].value == 4


@pytest.mark.parametrize("damage", ["lost", "other"])
def test_a_column_that_is_not_as_it_was_written_is_named(tmp_path, damage):
    """The file's hash agrees with the manifest: somebody wrote both anew."""
    path = make(tmp_path, crowd(4)).path
    (file,) = [f for f in (path / "traces").glob("train.parquet")]
    frame = pl.read_parquet(file)
    (frame.drop("reply") if damage == "lost" else frame.with_columns(reply=pl.lit(7))).write_parquet(file)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["traces/train.parquet"]["sha256"] = file_hash(file)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"traces/train\.parquet: its column reply is"):
        evaluate([path])
