"""`ser chat` over a loopback model server, line by line and as a process on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.chatting import DIM, Exchange, chat
from ser_toolkit.errors import UsageError
from ser_toolkit.protection.helplines import helplines
from tests.servers.openai_stand_in import StandIn

REPLIES = Path(__file__).parents[1] / "servers" / "policy_replies.py"


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn(reply=f"{REPLIES}:reply") as stand_in:
        yield stand_in


@pytest.fixture
def talk(server, tmp_path):
    def run(model: str, *lines: str, sets: tuple[str, ...] = (), **options) -> list[Any]:
        """What is shown, in its order: exchanges, and help as text."""
        server.reset()
        found: list[Any] = []
        keys = (f"llm.base_url={server.base_url}", "llm.check_model=false", *sets)
        chat(
            f"openai:{model}",
            workspace=tmp_path,
            sets=keys,
            lines=lines,
            show=found.append,
            warn=found.append,
            **options,
        )
        return found

    return run


def test_it_answers_with_its_steps_and_remembers(talk, server):
    one, two = talk("kind", "I failed my exam.", "", "My father will be angry.")
    assert one.answer.is_formatted and "alone" in one.answer.reply
    shown = one.render(dim=True)
    assert shown.count(DIM) == 3 and shown.splitlines()[-1] == one.answer.reply
    said = [m["content"] for m in server.bodies()[1]["messages"]]
    assert said[1:] == ["I failed my exam.", one.answer.reply, "My father will be angry."] and two.help is None


def test_it_can_begin_anew_and_be_left(talk, server):
    talk("kind", "I failed my exam.", "/new", "My cat is ill.", "/quit", "Never said.")
    assert [[m["content"] for m in b["messages"]][1:] for b in server.bodies()] == [
        ["I failed my exam."],
        ["My cat is ill."],
    ]


def test_a_crisis_brings_up_the_dated_helplines_of_the_country(talk):
    told, here = talk("kind", "I want to kill myself.", sets=("protect.locale=en-US",))
    known = [n for line in helplines("en-US") for n in line.numbers]
    assert known and all(n in told for n in known) and str(here.help.checked) in told
    assert here.to_json()["crisis"]["helplines"][0]["numbers"] == list(helplines("en-US")[0].numbers)
    told, nowhere = talk("kind", "I want to kill myself.")
    assert "emergency number of your country" in told and not any(c.isdigit() for c in told)
    assert nowhere.to_json()["crisis"] == {"level": here.help.level, "helplines": [], "emergency": [], "checked": None}
    told, chinese = talk("kind", "我不想活了，今晚就结束自己。", sets=("protect.locale=zh-CN",))
    assert chinese.lang == "zh" and helplines("zh-CN")[0].numbers[0] in told
    told, unanswered = talk("dumb", "I want to kill myself.", sets=("protect.locale=en-US",))
    assert known[0] in told and unanswered.answer is None


def test_a_reply_that_does_not_come_is_told_and_the_talk_goes_on(talk):
    one, two = talk("silent", "I failed.", "Hm.")
    assert one.problem == "" and two.answer is None
    assert "no reply: empty_reply" in two.render(dim=False) and two.to_json()["reply"] is None


def test_what_would_act_on_the_terminal_is_shown_as_an_escape():
    from rl_training.policy import read_answer

    evil = Exchange("hi", "en", read_answer("\x1b[2J\u202eboo"), "", None)
    assert "\x1b" not in evil.render(dim=False) and "\\x1b[2J\\u202eboo" in evil.render(dim=False)
    broken = Exchange("hi", "en", None, "refused_request: \x1b]0;x", None)
    assert "\x1b" not in broken.render(dim=True)


def command(server: StandIn, *more: str) -> list[str]:
    sets = ["--set", f"llm.base_url={server.base_url}", "--set", "llm.check_model=false"]
    return [sys.executable, "-m", "pipelines", "chat", "openai:kind", *sets, *more]


def test_lines_of_json_for_machines(server, tmp_path):
    done = subprocess.run(
        command(server, "--json"), input=b"I failed.\nI am \xff tired.\n", capture_output=True, timeout=60,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [r["is_formatted"] for r in rows] == [True, True] and len(rows[0]["steps"]) == 3


@pytest.mark.parametrize("leave", ["eof", "interrupt"])
def test_a_person_at_a_terminal_leaves_cleanly(server, tmp_path, leave):
    owner, side = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb"}
    process = subprocess.Popen(
        command(server), stdin=side, stdout=side, stderr=side, cwd=tmp_path, env=env, start_new_session=True
    )
    os.close(side)
    try:
        read_until(owner, b"> ")
        os.write(owner, b"I failed my exam.\n")
        said = read_until(owner, b"What about", b"> ")
        assert DIM.encode() in said
        if leave == "eof":
            os.write(owner, b"\x04")
        else:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        os.close(owner)


def read_until(handle: int, *marks: bytes) -> bytes:
    """All that is shown until each mark has come after the one before it."""
    seen, at, end = b"", 0, time.monotonic() + 60
    for mark in marks:
        while (found := seen.find(mark, at)) < 0:
            assert time.monotonic() < end, seen
            seen += os.read(handle, 4096)
        at = found + len(mark)
    return seen


def test_a_run_that_is_not_there_is_told_as_a_folder(tmp_path):
    with pytest.raises(UsageError, match="runs/nope: no such folder"):
        chat("runs/nope", workspace=tmp_path, lines=())
