"""What a record shows and what an answer says, without a server."""

from __future__ import annotations

import stat
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.argilla import form
from annotation.argilla.accounts import OWNER, AccountsFile
from annotation.argilla.answers import response
from annotation.argilla.route import open_route
from annotation.blinding import blind
from annotation.items import Item, Response, View
from annotation.routes import RouteOptions
from ser_toolkit.errors import DataError, RecordError, UsageError
from ser_toolkit.schema import Media, Turn
from tests.annotation_samples import made_of, photo
from tests.servers.argilla import said, status

KEY = b"k" * 32


def viewed(what: Item) -> View:
    return blind(what, KEY, "ann")


def talk(*turns: Turn) -> Item:
    return made_of((*turns, Turn(speaker="supporter", text="r")), ("a", "b", "c"), "x", "y", 0)


def test_what_one_says_at_a_stretch_is_one_message_and_a_long_one_several(tmp_path):
    view = viewed(
        talk(
            Turn(speaker="seeker", text="One."),
            Turn(speaker="seeker", text="Two."),
            Turn(speaker="supporter", text="三" * 40_000),
        )
    )
    shown = form.fields(view, "zh", tmp_path)["conversation"]
    assert [m["role"] for m in shown] == ["求助者", "支持者", "支持者", "支持者"]
    assert shown[0]["content"] == "One.\n\nTwo."
    assert [m["content"][:6] for m in shown[1:]] == [f"({n}/3) " for n in (1, 2, 3)]
    assert sum(m["content"].count("三") for m in shown) == 40_000


@given(st.text(alphabet="&<>;ab三", max_size=60), st.integers(6, 20))
def test_a_message_that_is_cut_is_the_same_when_put_together(text, longest):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(form, "LONGEST_MESSAGE", longest)
        pieces = form._parts(text)
    heads = [f"({n}/{len(pieces)}) " if len(pieces) > 1 else "" for n in range(1, len(pieces) + 1)]
    bodies = [piece.removeprefix(head) for head, piece in zip(heads, pieces, strict=True)]
    assert max(map(len, bodies)) <= longest and "".join(map(unescape, bodies)) == text
    assert not any("<" in b or ">" in b for b in bodies)


def test_what_hides_or_acts_is_shown_as_an_escape_everywhere(tmp_path):
    bad = "\x1b[31m\u202e\u2066\x00 <b>{{7*7}}</b>"
    view = viewed(
        made_of((Turn(speaker="seeker", text=bad), Turn(speaker="supporter", text="r")), (bad, bad, bad), bad, "r", 0)
    )
    shown = form.fields(view, "en", tmp_path)
    good = "\\x1b[31m\\u202e\\u2066\\x00 &lt;b&gt;{{7*7}}&lt;/b&gt;"
    texts = [shown["conversation"][0]["content"], *(shown[f"step_{n}"] for n in (1, 2, 3))]
    assert texts == [good] * 4 and good in (shown["reply_1"], shown["reply_2"])


def test_pictures_have_numbers_and_those_that_cannot_be_shown_are_told(tmp_path):
    shas = [photo(tmp_path, shade) for shade in range(100, 114)]
    media = [Media(kind="image", path="x", sha256=s, media_type="image/png", status="ok") for s in (*shas, "0" * 64)]
    view = viewed(talk(*(Turn(speaker="seeker", text=f"{n}", media=(m,)) for n, m in enumerate(media))))
    shown = form.fields(view, "en", tmp_path / "media")
    fields, _ = form.names(True)
    assert set(shown) == fields - {"care"}
    (message,) = shown["conversation"]
    told = message["content"].split("\n\n")
    assert told[0] == "0\n[a photo that is not shown here]" and told[6] == "6\n[Photo 1]"
    assert told[13] == "13\n[Photo 8]" and told[14] == "14\n[a photo that is not shown here]"
    assert shown["photo_8"] != shown["photo_7"]


def test_without_a_pair_no_verdict_is_asked():
    fields, questions = form.names(False)
    assert not {"reply_1", "reply_2"} & fields and not {"verdict", "reasons"} & questions
    assert {name for _, name in form.DATASETS.items()} == set(form.KINDS)


def test_every_word_is_there_in_both_languages():
    english, chinese = form.words("en"), form.words("zh")
    assert set(english) == set(chinese)
    own = {k: v for k, v in form.OWN_WORDS.items() if v[0] == v[1]}
    assert own == {}


MARK = st.fixed_dictionaries({"label": st.booleans(), "critique": st.text(max_size=30)})
GOOD = st.builds(
    lambda steps, verdict, reasons, comment: Response.model_validate(
        {"view_id": "v1", "steps": steps, "verdict": verdict, "reasons": reasons, "comment": comment}
    ),
    st.tuples(MARK, MARK, MARK),
    st.sampled_from([None, "first_better", "second_better", "almost_equal", "neither"]),
    st.lists(st.sampled_from(["empathy", "fit", "safety"]), unique=True),
    st.text(max_size=30),
)
SKIPS = st.sampled_from(["distress", "unclear", "language", "technical", "other"]).map(
    lambda reason: Response(view_id="v1", skip=reason)
)


@given(GOOD | SKIPS)
def test_what_the_page_would_send_comes_back_as_it_was_said(given):
    values = {name: {"value": value} for name, value in said(given).items()}
    assert response("v1", status(given), values) == given


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda x: st.lists(x, max_size=3)
)
NAMES = st.sampled_from(["step1", "step2", "step3", "critique1", "verdict", "reasons", "comment", "skip", "x"])


@given(
    st.sampled_from(["submitted", "discarded"]),
    st.dictionaries(NAMES, VALUES | st.fixed_dictionaries({"value": VALUES})),
)
def test_whatever_stands_on_a_server_is_an_answer_or_a_record_error(status, values):
    try:
        found = response("v1", status, values)
    except RecordError as exc:
        assert exc.kind == "malformed" and exc.reason.startswith("v1: ")
    else:
        assert (found.skip is not None) == (status == "discarded")


def test_accounts_are_kept_before_they_are_made_and_for_nobody_else(tmp_path):
    file = AccountsFile(tmp_path / "servers" / "argilla")
    owner = file.owner()
    assert file.owner() == owner and OWNER in owner.passwords and len(owner.owner_key or "") > 40
    word = file.password("李雷")
    assert file.password("李雷") == word != file.password("x") and len(word) == 23
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert word not in repr(file) and owner.owner_key not in repr(owner)
    other = AccountsFile(tmp_path / "servers" / "argilla", "https://argilla.example.org:6900/x")
    assert other.path.name == "accounts-argilla-example-org-6900.json" and other.read().passwords == {}
    file.path.write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        file.read()


def options(tmp_path: Path, **more: Any) -> RouteOptions:
    return RouteOptions(workspace=tmp_path, **more)


def test_a_missing_extra_or_variable_is_told_before_anything_is_done(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="belong together"):
        open_route(options(tmp_path, url="http://127.0.0.1:1"))
    with pytest.raises(UsageError, match="no such variable") as caught:
        open_route(options(tmp_path, url="http://127.0.0.1:1", token_env="NOT_SET_HERE"))
    assert "NOT_SET_HERE" in str(caught.value)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as lacking:
        open_route(options(tmp_path))
    assert lacking.value.exit_code == 2 and lacking.value.hint == "pip install 'ser-toolkit[argilla]'"
