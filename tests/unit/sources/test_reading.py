"""Raw records from files in good order: every JSON layout, CSV, text, folders."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import splitting
from pipelines.sources.base import ReadContext
from pipelines.sources.reading import Raw, csv_rows, files_of, json_files, json_records, text_files
from pipelines.sources.splitting import split_json, split_lines
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import SourceSpec

CONTEXT = ReadContext(SourceSpec(format="json"))
ROWS: list[dict[str, Any]] = [{"id": 1, "t": 'a "b" ] , } \\'}, {"id": 2, "t": "很难过\n", "deep": {"x": [1, [2]]}}]


def values(path: Path) -> list[Any]:
    return [record.value if isinstance(record, Raw) else record for record in json_records(path, CONTEXT)]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (json.dumps(ROWS), "record 2"),
        (json.dumps(ROWS, indent=2, ensure_ascii=False), "record 2"),
        ("\n  " + json.dumps(ROWS, indent="\t").replace("\n", "\r\n"), "record 2"),
        ("\n".join(json.dumps(row) for row in ROWS), "line 2"),
        ("\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n\n", "line 3"),
        ("\n".join(json.dumps(row, indent=1) for row in ROWS), "record 2"),
        ("".join(json.dumps(row) for row in ROWS), "record 2"),
        ("\ufeff" + json.dumps(ROWS), "record 2"),
        ("\ufeff" + "\n".join(json.dumps(row) for row in ROWS), "line 2"),
    ],
    ids=["list", "indented", "crlf", "lines", "blank lines", "objects", "glued", "BOM list", "BOM lines"],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt"])
def test_a_json_layout_is_told_by_content(tmp_path: Path, text: str, position: str, name: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    found = list(json_records(tmp_path / name, CONTEXT))
    assert [record.value for record in found if isinstance(record, Raw)] == ROWS
    assert (found[1].file, found[1].position) == (name, position)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_that_is_one_object_is_one_record_without_position(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "one.json").write_text(json.dumps(ROWS[1], indent=indent))
    (record,) = json_records(tmp_path / "one.json", CONTEXT)
    assert record == Raw(ROWS[1], "one.json", "")


def test_lines_that_are_lists_are_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1, 2]\n[3]\n")
    assert values(tmp_path / "a.jsonl") == [[1, 2], [3]]


def test_an_empty_list_and_a_trailing_comma_hold_no_further_record(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("[ ]")
    (tmp_path / "comma.json").write_text('[{"a": 1},\n]')
    assert values(tmp_path / "empty.json") == []
    assert values(tmp_path / "comma.json") == [{"a": 1}]


def test_nan_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": NaN, "b": 1.5}]')
    assert values(tmp_path / "a.json") == [{"a": None, "b": 1.5}]


def test_a_folder_is_read_file_by_file_in_order_with_relative_names(tmp_path: Path) -> None:
    for name in ("b.json", "a/z.JSON", "a/.hidden.json", ".git/c.json", "a/readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('[{"x": 1}]')
    found = [(record.file, record.position) for record in json_records(tmp_path, CONTEXT)]
    assert found == [("a/z.JSON", "record 1"), ("b.json", "record 1")]


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_missing_path_or_a_folder_without_files_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as error:
        files_of(tmp_path / name, (".json",))
    assert str(tmp_path) in error.value.message


def test_whole_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[[1],\n [2]]")
    (tmp_path / "a.txt").write_bytes("来访者：你好\r\n\r\n咨询师：嗯\r".encode())
    assert list(json_files(tmp_path, CONTEXT)) == [Raw([[1], [2]], "a.json", "")]
    assert list(text_files(tmp_path, CONTEXT)) == [Raw("来访者：你好\n\n咨询师：嗯\n", "a.txt", "")]


def test_csv_rows_may_span_lines_and_keep_their_blank_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;text\n1;"one\n\nthree; ""four"""\n\n2;plain\n')
    assert list(csv_rows(tmp_path / "a.csv", CONTEXT)) == [
        Raw({"id": "1", "text": 'one\n\nthree; "four"'}, "a.csv", "line 2"),
        Raw({"id": "2", "text": "plain"}, "a.csv", "line 6"),
    ]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=12)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS.filter(bool)), min_size=1, max_size=6))
def test_what_a_csv_writer_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(out.getvalue().encode())
    assert [record.value for record in csv_rows(path, CONTEXT) if isinstance(record, Raw)] == [
        {"a": a, "b": b} for a, b in rows
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(
    items=st.lists(JSON, max_size=5), chunk=st.integers(1, 40), spaces=st.sampled_from([None, 1]), ascii=st.booleans()
)
def test_a_list_is_cut_into_its_elements_wherever_chunks_end(
    items: list[Any], chunk: int, spaces: int | None, ascii: bool
) -> None:
    data = json.dumps(items, indent=spaces, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "CHUNK", chunk)
        pieces = list(split_json(io.BytesIO(data), 1 << 20, is_list=True))
    assert [json.loads(piece.data or b"") for piece in pieces] == items
    for piece in pieces:
        assert piece.data == data[piece.start : piece.start + len(piece.data or b"")]
        assert piece.line == data[: piece.start].count(b"\n") + 1


TOKENS = [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"a", b" ", b"\n"]


@settings(deadline=None)
@given(
    data=st.lists(st.sampled_from(TOKENS)).map(b"".join),
    chunk=st.integers(1, 7),
    is_list=st.booleans(),
    limit=st.integers(1, 20),
)
def test_any_bytes_are_cut_without_a_loss(data: bytes, chunk: int, is_list: bool, limit: int) -> None:
    source = b"[" + data if is_list else data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "CHUNK", chunk)
        pieces = list(split_json(io.BytesIO(source), limit, is_list=is_list))
        lines = list(split_lines(io.BytesIO(source), limit))
    covered = bytearray(source)
    for piece in pieces:
        assert piece.data is None or len(piece.data) <= limit
        if piece.data is not None:
            assert piece.data == source[piece.start : piece.start + len(piece.data)]
            covered[piece.start : piece.start + len(piece.data)] = b" " * len(piece.data)
    if all(piece.data is not None for piece in pieces):
        assert not covered.strip(b" \n[],"), "bytes outside every piece"
    assert sum(len(line.data or b"") for line in lines) <= len(source)
    assert [line.line for line in lines] == list(range(1, len(lines) + 1))
