"""The built-in model for real, in processes of its own where silence and signals are at stake."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ser_toolkit.errors import DataError, RecordError, RemoteError
from ser_toolkit.llm.chat import Message, Request
from ser_toolkit.llm.embedded import EmbeddedChat, open_model
from ser_toolkit.llm.embedded_files import MODEL_SHA256, builtin_model
from ser_toolkit.recipe import Llm
from tests.needs import lacking

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def gguf() -> Path:
    try:
        return builtin_model()
    except RemoteError as exc:
        lacking(f"the model cannot be fetched here: {exc.message}")


def ask(text: str, **parameters) -> Request:
    return Request((Message("user", text),), **{"seed": 1, "max_tokens": 16, **parameters})


def with_model(settings: Llm, work, spec: str = ""):
    chat = open_model(spec, settings)

    async def main():
        try:
            return await work(chat)
        finally:
            await chat.aclose()

    return asyncio.run(main())


def test_it_tells_what_it_is(gguf):
    async def look(chat: EmbeddedChat):
        return chat.identity, chat.model, chat.vision, chat.languages, chat.max_concurrency, chat.context_tokens

    assert with_model(Llm(context_tokens=512, concurrency=2), look) == (
        "embedded",
        f"SmolLM2-135M-Instruct.Q4_1-{MODEL_SHA256[:12]}",
        False,
        frozenset({"en"}),
        2,
        512,
    )


def test_an_own_gguf_claims_no_language(gguf, tmp_path):
    own = tmp_path / "mine.gguf"
    own.symlink_to(gguf)

    async def look(chat: EmbeddedChat):
        reply = await chat.complete(ask("Hello", temperature=0.0))
        return chat.model, chat.languages, bool(reply.text)

    assert with_model(Llm(context_tokens=256, concurrency=1), look, str(own)) == (
        f"mine-{MODEL_SHA256[:12]}",
        frozenset(),
        True,
    )


def test_too_long_a_prompt_is_this_record_alone(gguf):
    async def work(chat: EmbeddedChat):
        with pytest.raises(RecordError) as caught:
            await chat.complete(ask("word " * 400))
        assert caught.value.kind == "refused_request"
        assert "tokens, a slot holds 256" in caught.value.reason
        with pytest.raises(RecordError) as caught:
            await chat.complete(ask("Hi", schema={"type": "nonsense"}))
        assert caught.value.kind == "refused_request"
        return (await chat.complete(ask("Hello"))).text

    assert with_model(Llm(context_tokens=256, concurrency=2), work)


def test_the_prompt_cache_changes_no_text(gguf):
    history = "Seeker: I moved here in May. Supporter: How was it? Seeker: I know nobody. Supporter: That is hard. " * 4
    parts = [ask(f"{history}\nPart {i}.", temperature=0.7 * (i % 2)) for i in range(3)]

    async def work(chat: EmbeddedChat):
        cold = [(await chat.complete(part)).text for part in parts]
        said = (Message("assistant", cold[0]), Message("user", "Go on."))
        second = Request((*parts[0].messages, *said), seed=1, max_tokens=12)
        after_reply = (await chat.complete(second)).text
        return [(await chat.complete(part)).text for part in reversed(parts)][::-1] == cold, after_reply

    one = with_model(Llm(context_tokens=1024, concurrency=1), work)
    many = with_model(Llm(context_tokens=1024, concurrency=3), work)
    assert one[0] and one == many


def test_a_file_that_only_begins_like_a_model_does_not_load(gguf, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf.read_bytes()[: 1 << 20])
    with pytest.raises(DataError, match="cannot load"):
        open_model(str(broken), Llm(concurrency=1, context_tokens=256))


SCRIPT = """
import asyncio, sys
from ser_toolkit.llm.chat import Message, Request
from ser_toolkit.llm.embedded import open_model
from ser_toolkit.recipe import Llm
chat = open_model("", Llm(context_tokens=1024, concurrency=2))
async def main():
    print("ready", flush=True)
    tokens = int(sys.argv[1])
    asks = [Request((Message("user", f"Tell a long story {i}."),), max_tokens=tokens, seed=i) for i in range(4)]
    await asyncio.gather(*(chat.complete(a) for a in asks))
    await chat.aclose()
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(tokens: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SCRIPT, str(tokens)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ROOT)


def test_it_is_silent_and_opens_no_port(gguf):
    process = start(900)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    sockets = [str(f.readlink()) for f in Path(f"/proc/{process.pid}/fd").iterdir()] if Path("/proc").exists() else []
    inodes = {s[8:-1] for s in sockets if s.startswith("socket:[")}
    listening = {
        line.split()[9]
        for table in ("tcp", "tcp6")
        if (file := Path(f"/proc/{process.pid}/net/{table}")).exists()
        for line in file.read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert not inodes & listening
    assert err == b""


def test_ctrl_c_ends_it_at_once_in_the_middle_of_replies(gguf):
    process = start(900)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    time.sleep(1.0)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert time.monotonic() - asked < 10
