import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.unit.release.making import crowd, make


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make(tmp_path / "releases", crowd(20)).path


def test_eval_dataset_prints_figures_and_with_json_all_tables(ser, release):
    done = ser("eval", "dataset", release)
    assert done.returncode == 0 and done.stderr == ""
    assert "self-BLEU (reply, en)" in done.stdout and "no rewriting in this release" in done.stdout
    tree = json.loads(ser("eval", "dataset", release, "--json").stdout)
    assert tree["figures"]["size.dialogues"]["value"] == 20
    assert tree["figures"]["rewriting.kept"] == {
        "title": "Rewritten dialogues", "value": None, "unit": "count", "over": "",
        "reason": "no rewriting in this release",
    }  # fmt: skip
    assert tree["tables"]["size.rows"]["columns"] == ["config", "train", "validation", "test", "why absent"]


def test_two_releases_stand_side_by_side_in_a_terminal_too(ser, release, tmp_path):
    other = make(tmp_path / "more", crowd(25), name="other").path
    lines = [line.split() for line in ser("eval", "dataset", release, other).stdout.splitlines()]
    assert ["Dialogues", "20", "->", "25", "(+5)"] in lines


def test_report_writes_one_page_here_or_where_it_is_told(ser, release, tmp_path):
    done = json.loads(ser("report", release, "--json").stdout)
    assert done == {"report": "ser-0.1.0-report.html", "releases": ["ser-0.1.0"]}
    assert (tmp_path / "ser-0.1.0-report.html").read_text().startswith("<!doctype html>")
    assert ser("report", release, release, "--out", "two.html").returncode == 0
    assert "two releases" in (tmp_path / "two.html").read_text()


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("eval", "dataset", "nowhere"), 2, "no such folder"),
        (("report", "nowhere"), 2, "no such folder"),
        (("report", "."), 3, "not a release"),
        (("eval", "dataset", ".", "--embed", "nope"), 2, "openai:MODEL or local:MODEL"),
        (("eval", "dataset", ".", "--embed", "openai:m"), 2, "llm.base_url"),
        (("eval", "dataset", ".", "--sample", "1"), 2, "--sample"),
    ],
)
def test_what_the_user_can_mend_is_told(ser, args, code, says):
    done = ser(*args, env={"OPENAI_API_KEY": ""})
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def embeddings():
    """`/embeddings` of an OpenAI-compatible server: texts of even length lie at right angles to those of odd length."""
    asked: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**body, "path": self.path, "key": self.headers["Authorization"]})
            data = [
                {"object": "embedding", "index": i, "embedding": [1.0, 0.0] if len(t) % 2 else [0.0, 1.0]}
                for i, t in reversed(list(enumerate(body["input"])))
            ]
            answer = {"object": "list", "data": data, "model": "e", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
            payload = json.dumps(answer).encode()
            self.send_response(401 if self.headers["Authorization"] == "Bearer wrong" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()


def test_embedding_distance_by_a_server(ser, release, embeddings):
    url, asked = embeddings
    args = ("eval", "dataset", release, "--json", "--embed", "openai:small", "--set", f"llm.base_url={url}")
    tree = json.loads(ser(*args, env={"OPENAI_API_KEY": "k"}).stdout)
    found = tree["figures"]["variety.en.seeker.embedding_distance"]
    texts = [t for a in asked if a["model"] == "small" for t in a["input"]]
    assert {a["path"] for a in asked} == {"/v1/embeddings"} and {a["key"] for a in asked} == {"Bearer k"}
    assert len(texts) == 20 + 40 + 40 and found["over"].endswith("small")
    odd = sum(len(t) % 2 for t in texts[20:60])
    assert found["value"] == pytest.approx(odd * (40 - odd) / (40 * 39 / 2))
    refused = ser(*args, env={"OPENAI_API_KEY": "wrong"})
    assert refused.returncode == 4 and "does not answer" in refused.stderr
