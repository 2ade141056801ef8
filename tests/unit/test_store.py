import pytest

from ser_toolkit.errors import DataError
from ser_toolkit.schema import Cue, Dialogue, Failure, Label, Media, Source, Speaker, Survey, Trace, Turn
from ser_toolkit.schema import Step as S
from ser_toolkit.store import TableWriter, read_table, write_table

FULL = Dialogue(
    id="d1",
    root_id="d1",
    lang="zh",
    source=Source(format="x", file="f.json", position="line 1", licence="MIT"),
    situation="搬家",
    emotion=Label(original="fear", corpus="fear", ser="Fear"),
    survey=Survey(initial_intensity=4),
    speakers=(Speaker(role="seeker", persona="p", attributes={"age": 30, "tags": ["a", None]}),),
    turns=(
        Turn(
            speaker="seeker",
            text="你好",
            raw="你好\n",
            strategies=(Label(original="q"),),
            cues=(Cue(channel="face", text="smile", source="corpus:x"),),
            media=(Media(kind="image", path="a.png"),),
            start_s=1.5,
            flags=("f",),
        ),
        Turn(speaker="supporter", text="hi", feedback=3),
    ),
    meta={"nested": {"a": [1, 2.5, None, "ü"]}, "": ""},
)
BARE = Dialogue(id="d2", root_id="d1", lang="en", source=Source(format="x"), turns=())
TRACE = Trace(
    id="t", dialogue_id="d1", root_id="d1", lang="en", round=1, target=1, reply="r", emotions=("Fear",),
    steps=(S(number=1, title="a", text="b"), S(number=2, title="a", text="b"), S(number=3, title="a", text="b")),
)  # fmt: skip


def test_records_come_back_equal(tmp_path):
    path = tmp_path / "tables" / "t.parquet"
    assert write_table(path, Dialogue, [FULL, BARE]) == 2
    assert list(read_table(path, Dialogue)) == [FULL, BARE]
    write_table(path, Trace, [TRACE])
    assert list(read_table(path, Trace)) == [TRACE]


def test_equal_records_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        write_table(tmp_path / f"{name}.parquet", Dialogue, [FULL, BARE] * 700)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_no_table_appears_before_it_is_finished(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, Dialogue, [FULL])
    writer = TableWriter(path, Dialogue)
    for _ in range(3000):
        writer.append(BARE)
    assert list(read_table(path, Dialogue)) == [FULL]
    writer.abandon()
    assert list(read_table(path, Dialogue)) == [FULL]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_an_absent_table_has_no_rows(tmp_path):
    assert list(read_table(tmp_path / "t.parquet", Dialogue)) == []


@pytest.mark.parametrize("damage", ["cut", "flip", "other"])
def test_a_damaged_table_is_named(tmp_path, damage):
    path = tmp_path / "t.parquet"
    write_table(path, Dialogue, [FULL] * 2000)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    else:
        write_table(path, Failure, [Failure(kind="empty", stage="import", reason="r")])
    with pytest.raises(DataError, match=r"t\.parquet: damaged"):
        list(read_table(path, Dialogue))
