"""One's own dialogues: JSON, JSON Lines, CSV, Parquet and datasets, mapped or guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.sources import joining, tables
from pipelines.sources.base import Imported, ReadContext, SourceFormat
from pipelines.sources.generic import CSV, DATASETS, JSON, JSONL, PARQUET
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Label

Importing = Callable[..., list[Imported]]
TURNS = [{"speaker": "seeker", "text": "I can't sleep."}, {"speaker": "supporter", "text": "Since when?"}]


def read(format: SourceFormat, path: Path, **spec: Any) -> list[Imported]:
    return list(format.read(path, ReadContext(SourceSpec(format=format.name, path=str(path), **spec))))


def talk(record: Imported) -> list[tuple[str, str]]:
    assert isinstance(record, Dialogue), record
    return [(turn.speaker, turn.text) for turn in record.turns]


def outcome(found: list[Imported]) -> list[str]:
    return [record.kind if isinstance(record, Failure) else record.id for record in found]


SAID = [("seeker", "I can't sleep."), ("supporter", "Since when?")]


# Layouts that are guessed


def keyed(turns: str, speaker: str, text: str, seeker: str, supporter: str) -> dict[str, Any]:
    return {turns: [{speaker: seeker, text: SAID[0][1]}, {speaker: supporter, text: SAID[1][1]}]}


@pytest.mark.parametrize(
    ("record", "shape"),
    [
        ({"turns": TURNS}, "objects"),
        (keyed("Dialog", "Speaker", "Utterance", "Client", "Therapist"), "objects"),
        (keyed("conversations", "from", "value", "human", "gpt"), "objects"),
        (keyed("messages", "role", "content", "user", "assistant"), "objects"),
        ({"content": [{"User": SAID[0][1]}, {"AI": SAID[1][1]}]}, "single"),
        ({"history": [{"来访者": SAID[0][1], "咨询师": SAID[1][1]}]}, "paired"),
        ({"dialogue": json.dumps(TURNS)}, "objects"),
        (TURNS, "objects"),
    ],
    ids=["turns", "dialog", "sharegpt", "openai", "keyed", "paired", "JSON text", "bare list"],
)
def test_common_layouts_need_no_mapping(importing: Importing, record: Any, shape: str) -> None:
    (found,) = importing(JSONL, {"a.jsonl": [record]})
    assert talk(found) == SAID
    assert isinstance(found, Dialogue)
    assert found.meta["shape"] == shape


def test_fields_are_found_and_the_others_kept(importing: Importing) -> None:
    turns = [
        {"speaker": "seeker", "text": "Hi", "emotion": ["sadness", "Zorn"], "at": 3},
        TURNS[1] | {"strategy": "small talk"},
    ]
    record = {
        "id": 17,
        "dialog": [{"role": "system", "content": "Be kind."}, *turns],
        "situation": "New town",
        "problem_type": "moving",
        "emotion_type": "Fear",
        "score": 4.5,
        "topic": ["a list is no problem"],
    }
    (found,) = importing(JSON, {"a.json": [record]})
    assert isinstance(found, Dialogue)
    assert (found.id, found.situation, found.problem) == ("json-17", "New town", "moving")
    assert found.emotion == Label(original="Fear", corpus="Fear", ser="Fear")
    assert found.turns[0].emotions == (
        Label(original="sadness", corpus="Sadness", ser="Sadness"),
        Label(original="Zorn"),
    )
    assert found.turns[1].strategies == (Label(original="small talk", corpus="Small Talk", ser="Small Talk"),)
    assert found.meta == {
        "shape": "objects",
        "score": 4.5,
        "topic": ["a list is no problem"],
        "system": "Be kind.",
        "turn_fields": {"2": {"at": 3}},
    }


def test_a_json_list_of_turns_is_one_dialogue_a_file(importing: Importing) -> None:
    other = [{"role": "client", "content": "x"}, {"role": "counselor", "content": "y"}]
    found = importing(JSON, {"a.json": TURNS, "b.json": other})
    assert [talk(record) for record in found] == [SAID, [("seeker", "x"), ("supporter", "y")]]


# Mapping


def test_a_mapping_goes_before_the_guess(importing: Importing) -> None:
    record = {
        "id": "wrong",
        "key": "right",
        "turns": [],
        "log": [
            {"who": "A", "said": "I can't sleep.", "text": "no"},
            {"who": "B", "said": "Since when?", "act": "Question"},
        ],
        "why": "work",
    }
    columns = {
        "id": "key",
        "turns": "log",
        "turns.speaker": "who",
        "turns.text": "said",
        "turns.strategy": "act",
        "problem": "why",
    }
    (found,) = importing(JSON, {"a.json": [record]}, columns=columns, roles={"a": "seeker", "B": "supporter"})
    assert talk(found) == SAID
    assert isinstance(found, Dialogue)
    assert (found.id, found.problem) == ("json-right", "work")
    assert found.turns[1].strategies == (Label(original="Question"),)
    assert found.meta["turn_fields"] == {"1": {"text": "no"}}


def test_an_unknown_field_of_the_mapping_is_a_usage_error(importing: Importing) -> None:
    with pytest.raises(UsageError, match="'txt'") as error:
        importing(JSON, {"a.json": []}, columns={"txt": "x"})
    assert "turns.speaker" in error.value.hint


def test_a_mapped_key_that_a_record_lacks_fails_that_record(importing: Importing) -> None:
    rows = [{"log": TURNS, "why": None}, {"log": TURNS}, {"log": TURNS, "why": 5}, {"why": "x"}]
    found = importing(JSON, {"a.json": rows}, columns={"turns": "log", "problem": "why"})
    assert [record.reason if isinstance(record, Failure) else record.problem for record in found] == [
        "",
        "no column 'why' (for problem); there are: log",
        "'why' (for problem) is of type int",
        "no column 'log' (for turns); there are: why",
    ]


def test_an_unknown_speaker_is_named_with_its_cure(importing: Importing) -> None:
    turns = [TURNS[0], {"speaker": "Guide", "text": "x"}]
    (failure,) = importing(JSON, {"a.json": [{"id": "q", "turns": turns}]})
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.text, failure.record_id) == ("unknown_speaker", "Guide", "q")
    assert "turn 2" in failure.reason
    assert "roles: {Guide: seeker}" in failure.reason


def test_a_workspace_map_adds_words(tmp_path: Path) -> None:
    (tmp_path / "json.toml").write_text(
        'missing = ["none"]\n[strategies]\n"Ask" = {ser = "Progressive Questioning"}\n'
        '[speakers]\nsupporter = ["guide"]\n'
    )
    turns = [TURNS[0], {"speaker": "Guide", "text": "x", "strategy": ["ask", "none", "Small Talk"]}]
    (tmp_path / "a.json").write_text(json.dumps([{"turns": turns}]))
    (found,) = JSON.read(tmp_path / "a.json", ReadContext(SourceSpec(format="json"), maps=tmp_path))
    assert isinstance(found, Dialogue)
    assert [label.ser for label in found.turns[1].strategies] == ["Progressive Questioning", "Small Talk"]


# A row is a turn

ROWS = """Dialogue_ID,Speaker,Utterance,Strategy,Season,Note
7,Client,I can't sleep.,,1,
7,Therapist,Since when?,Small Talk,1,n
8,Client,"Hm,
no",,2,
8,Therapist,Oh.,,2,
"""


def test_neighbouring_rows_of_one_id_are_a_dialogue(importing: Importing) -> None:
    found = importing(CSV, {"a.csv": ROWS})
    assert [talk(record) for record in found] == [SAID, [("seeker", "Hm,\nno"), ("supporter", "Oh.")]]
    first, second = found
    assert isinstance(first, Dialogue)
    assert isinstance(second, Dialogue)
    assert (first.id, first.source.position) == ("csv-7", "line 2")
    assert (second.id, second.source.position) == ("csv-8", "line 4")
    assert first.turns[1].strategies == (Label(original="Small Talk", corpus="Small Talk", ser="Small Talk"),)
    assert first.meta == {"shape": "row a turn", "Season": "1", "Note": "n"}


def test_rows_with_a_mapping(importing: Importing) -> None:
    text = "talk\twho\tsaid\tact\tmood\twhere\nx\tA\tI can't sleep.\t\tFear\thome\nx\tB\tSince when?\tSmall Talk\t\t\n"
    columns = {
        "dialogue_id": "talk",
        "speaker": "who",
        "text": "said",
        "strategy": "act",
        "turns.emotion": "mood",
        "situation": "where",
    }
    (found,) = importing(CSV, {"a.tsv": text}, columns=columns, roles={"A": "seeker", "B": "supporter"})
    assert talk(found) == SAID
    assert isinstance(found, Dialogue)
    assert (found.id, found.situation) == ("csv-x", "home")
    assert [label.ser for turn in found.turns for label in (*turn.emotions, *turn.strategies)] == ["Fear", "Small Talk"]


def test_an_id_that_comes_back_later_is_refused(importing: Importing) -> None:
    found = importing(CSV, {"a.csv": ROWS + "7,Client,more,,1,\n"})
    assert outcome(found) == ["csv-7", "csv-8", "duplicate_id"]
    failure = found[2]
    assert isinstance(failure, Failure)
    assert (failure.position, failure.record_id) == ("line 7", "7")


def test_rows_without_an_id_fail_and_leave_a_flag(importing: Importing) -> None:
    found = importing(CSV, {"a.csv": ROWS.replace("8,Client", ",Client")})
    assert outcome(found) == ["malformed", "csv-7", "one_sided"]
    assert isinstance(found[1], Dialogue)
    assert found[1].flags == ("row_missing",)


def test_a_wrong_id_column_does_not_gather_the_table(importing: Importing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "ROWS_LIMIT", 3)
    rows = (
        "id,season,speaker,text\n" + "".join(f"{n},1,seeker,x\n" for n in range(9)) + "9,2,seeker,x\n9,2,supporter,y\n"
    )
    found = importing(CSV, {"a.csv": rows}, columns={"dialogue_id": "season"})
    assert outcome(found) == ["malformed", "csv-2"]
    assert isinstance(found[0], Failure)
    assert found[0].reason.startswith("9 neighbouring rows have the dialogue id '1'")


def test_json_lines_may_hold_a_turn_a_line(importing: Importing) -> None:
    rows = [{"conv_id": 5, **turn} for turn in TURNS] + [{"conv_id": 6, **turn} for turn in TURNS]
    assert outcome(importing(JSONL, {"a.jsonl": rows})) == ["jsonl-5", "jsonl-6"]


def test_a_csv_row_may_be_a_dialogue(importing: Importing) -> None:
    cell = json.dumps(TURNS).replace('"', '""')
    found = importing(CSV, {"a.csv": f'id,turns,topic\n1,"{cell}",sleep\n2,"[{{",sleep\n3,none,sleep\n'})
    assert outcome(found) == ["csv-1", "malformed", "malformed"]
    assert talk(found[0]) == SAID
    assert isinstance(found[0], Dialogue)
    assert found[0].problem == "sleep"


# Parquet and datasets


def test_parquet_of_dialogues_and_of_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH", 2)
    whole = [
        {"id": n, "turns": TURNS, "made": datetime(2026, 1, 2), "photo": b"\x89", "score": float("nan")}
        for n in range(5)
    ]
    pq.write_table(pa.Table.from_pylist(whole), tmp_path / "a.parquet")
    found = read(PARQUET, tmp_path / "a.parquet")
    assert outcome(found) == [f"parquet-{n}" for n in range(5)]
    last = found[4]
    assert isinstance(last, Dialogue)
    assert last.source.position == "record 5"
    assert last.meta["made"] == "2026-01-02T00:00:00"
    assert last.meta["score"] is None
    assert isinstance(last.meta["photo"], dict)
    assert last.meta["photo"]["bytes"] == 1
    rows = [{"dialogue_id": n, **turn} for n in range(3) for turn in TURNS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    assert [talk(record) for record in read(PARQUET, tmp_path / "b.parquet")] == [SAID] * 3


def test_a_damaged_parquet_is_a_failure_and_a_lacking_column_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    (failure,) = read(PARQUET, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.file) == ("unreadable", "a.parquet")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="there are: a, b"):
        read(PARQUET, tmp_path)


def test_a_dataset_folder_keeps_its_splits_apart(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    one = Dataset.from_list([{"id": n, "turns": TURNS} for n in range(3)])
    DatasetDict(train=one, test=one.select([2, 0])).save_to_disk(tmp_path / "both")
    one.save_to_disk(tmp_path / "one")
    found = read(DATASETS, tmp_path / "both")
    assert outcome(found) == [f"datasets-{id}" for id in ("train-0", "train-1", "train-2", "test-2", "test-0")]
    assert [talk(record) for record in found] == [SAID] * 5
    assert isinstance(found[4], Dialogue)
    assert (found[4].meta["split"], found[4].source.file, found[4].source.position) == ("test", "test", "record 2")
    assert outcome(read(DATASETS, tmp_path / "one")) == ["datasets-0", "datasets-1", "datasets-2"]
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="not a dataset folder"):
            read(DATASETS, path)
