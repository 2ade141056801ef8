"""Ids and names of files: what names a person is hashed, the same everywhere; what does not stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.protection.ids import protect_id, protect_name


@pytest.mark.parametrize(
    "id",
    [
        "esconv-12",
        "messages-d3-r2",
        "jsonl-3f9a1c22e0b1",
        "mesc-Dialogue_7",
        "session_2021-03-04",
        "chat-may-3",
        "syn-s",
        "chat-hope",
        "4f2e9d71-1c2b-4e5f-8a9b-0123456789ab",
        "esc-judge-17071955-0788-4081-9021-138123456780",
        "",
        "zh-男朋友-1",
    ],
)
def test_ordinary_ids_stay(id: str):
    assert protect_id(id) == id


@pytest.mark.parametrize(
    ("id", "private"),
    [
        ("chat-sarah-miller-3", ("sarah", "miller")),
        ("sarahMiller_2", ("sarah", "Miller")),
        ("tom.becker@example.org-1", ("tom", "becker", "example")),
        ("13812345678", ("1381",)),
        ("王小明-3", ("王小明",)),
        ("访谈_李雷", ("李雷",)),
    ],
)
def test_an_id_that_names_someone_is_hashed_and_two_stay_two(id: str, private: tuple[str, ...]):
    made = protect_id(id)
    assert not [p for p in private if p in made]
    assert made == protect_id(id) and made != protect_id(f"{id}0")
    assert protect_id(made) == made, "a second pass changes nothing"


def test_names_of_files_keep_folders_and_endings():
    assert protect_name("data/train.jsonl") == "data/train.jsonl"
    made = protect_name("interviews/sarah miller.txt")
    assert made.startswith("interviews/x") and made.endswith(".txt") and "miller" not in made


@given(st.text(max_size=60))
def test_any_id_is_survived(id: str):
    protect_id(id)
    protect_name(id)
