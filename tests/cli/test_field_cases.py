"""Cases from the field, end to end on the command line (their parts are tested beside each room)."""

import json

import pytest

from tests.integration.conftest import REPLIES
from tests.servers.openai_stand_in import StandIn

SHAPES = """[{"id":"a","content":[{"User":"My flat feels empty."},{"AI":"That sounds lonely."}]},
 {"id":"b","content":[{"User":"I failed again.","AI":"That hurts."},{"User":"Yes.","AI":"What weighs most?"}]},
 {"id":"c","content":[{"User":"Can't sleep.","AI":{"AI":"Since when?"}}]},
 {"id":"d","content":[{"User":"Hm.","AI":["x","y"]}]}]"""

MOVING = """{"experience_type":"Current","emotion_type":"fear","problem_type":"moving","situation":"New town",
 "survey_score":{"seeker":{"initial_emotion_intensity":"4","final_emotion_intensity":null}, "supporter":{}},
 "dialog":[{"speaker":"listener","annotation":{"strategy":"Questions"},"content":"Hi, how was the move?\\n"},
 {"speaker":"speaker","annotation":{},"content":"I know nobody here.\\n"},
 {"speaker":"speaker","annotation":{"feedback":"2"},"content":"It scares me.\\n"},
 {"speaker":"listener","annotation":{"strategy":"Approval and Reassurance"},"content":"That is understandable."},
 {"speaker":"listener","annotation":{"strategy":"Cheering up"},"content":"Nice weather too."}]}"""


@pytest.fixture(scope="module")
def url():
    with StandIn(reply=f"{REPLIES}:build") as server:
        yield server.base_url


def test_c1_turn_shapes(ser, tmp_path, url):
    (tmp_path / "shapes.json").write_text(SHAPES)
    report = json.loads(ser("sources", "check", "extes", "shapes.json", "--json").stdout)
    assert (report["records"], report["dialogues"], report["failures"]) == (4, 3, 1)
    assert sorted(report["shapes"].values()) == [1, 1, 1]
    assert report["first_failures"][0]["record_id"].endswith("d")
    assert report["first_failures"][0]["position"] == "record 4"
    build = ("build", "--source", "extes:shapes.json", "--model", "openai:m", "--set", f"llm.base_url={url}")
    refused = ser(*build)
    assert refused.returncode == 7 and "failures.max_share" in refused.stderr
    done = ser(*build, "--set", "failures.max_share=0.3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failures"] == 1


def test_c2_helper_first_is_told_and_gets_a_legal_opening(ser, tmp_path, url):
    (tmp_path / "moving.json").write_text(MOVING)
    report = json.loads(ser("sources", "check", "esconv", "moving.json", "--json").stdout)
    assert report["unmapped"]["strategies"] == {"Cheering up": 1}
    assert report["unmapped"]["problems"] == {"moving": 1}
    done = ser(
        "build", "--source", "esconv:moving.json", "--model", "openai:m", "--set", f"llm.base_url={url}", "--json"
    )
    assert done.returncode == 0, done.stderr
    release = tmp_path / json.loads(done.stdout)["release"]
    assert "In 1 traces the supporter speaks first." in (release / "README.md").read_text()
    import polars

    prompt = polars.concat(polars.read_parquet(p) for p in (release / "traces").glob("*.parquet")).to_dicts()[0][
        "prompt"
    ]
    assert [m["role"] for m in prompt] == ["system", "user", "assistant", "user"]
    assert prompt[-1]["content"] == "I know nobody here.\nIt scares me."
