import json
import subprocess
import sys

import pytest

HEAVY = (
    *("polars", "pyarrow", "pydantic", "openai", "aiohttp", "pyreqwest", "numpy", "datasets", "rich", "xllamacpp"),
    "yaml",
)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['ser', '--help']\n"
        "from pipelines.cli import main\n"
        "try: main()\n"
        f"except SystemExit as end: print(end.code, [m for m in sys.modules if m in {HEAVY!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_every_command_has_help_in_one_line(ser):
    done = ser("--help")
    commands = done.stdout.split("Commands:")[1].split("\n\n")[0].strip().splitlines()
    assert done.returncode == 0 and len(commands) >= 9
    assert not [line for line in commands if line.endswith("...")]
    for line in commands:
        assert "--json" in ser(line.split()[0], "--help").stdout


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("nope",), 2, "No such command"),
        (("build", "--limit", "0"), 2, "--limit"),
        (("build", "--source", "esconv"), 2, "not of the form FORMAT:PATH"),
        (("build", "--source", "esconf:x.json"), 2, "esconv"),
        (("build", "--source", "esconv:absent.json"), 2, "absent.json"),
        (("build", "--set", "llm.nope=1"), 2, "unknown key 'llm.nope'"),
        (("build", "--model", "gpt-4o"), 2, "embedded"),
        (("build", "--model", "openai:gpt-4o"), 2, "llm.base_url"),
        (("build", "--engine", "slurm"), 2, "known: local"),
        (("build", "--version", "1.2"), 2, "not of the form X.Y.Z"),
        (("export", "-w", "nowhere"), 2, "there is no such workspace"),
        (("withdraw", "-w", "nowhere", "x"), 2, "there is no such workspace"),
        (("export",), 3, "no finished build is here"),
        (("show", "x"), 2, "nothing in"),
        (("withdraw", "x"), 2, "no dialogue or scenario"),
        (("sources", "check", "esconv", "absent.json"), 2, "absent.json"),
        (("sources", "check", "nope", "absent.json"), 2, "known:"),
        (("diff", "a", "b"), 2, "no such folder"),
        (("push", "a", "me/x"), 2, "no such folder"),
    ],
)
def test_what_the_user_can_mend_is_told_without_a_traceback(ser, tmp_path, args, code, says):
    done = ser(*args)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_debug_shows_the_traceback(ser):
    done = ser("export", "--debug")
    assert "Traceback" in done.stderr and done.returncode == 3, "the exit code stays"


def test_a_file_that_is_not_understood_at_all_is_no_success(ser, tmp_path):
    (tmp_path / "x.json").write_text('[{"a": 1}, {"b": 2}]')
    assert ser("sources", "check", "esconv", "x.json").returncode == 3


def test_sources_lists_every_format(ser):
    rows = json.loads(ser("sources", "--json").stdout)
    names = {r["format"] for r in rows}
    assert names >= {
        "esconv", "mesc", "escot", "extes", "cpsycoun", "smilechat", "soulchat", "psydt", "avamerg", "sage", "esc-eval",
        "esc-judge", "messages", "json", "jsonl", "csv", "parquet", "datasets",
    }  # fmt: skip
    assert all(r["licence"] and r["expects"] for r in rows)
    assert "esconv" in ser("sources").stdout


def test_init_and_doctor(ser, tmp_path):
    assert ser("init", "w").returncode == 0
    assert "there is a recipe already" in ser("init", "w").stderr
    done = ser("doctor", "-w", "w", "--json")
    checks = {c["name"]: c["state"] for c in json.loads(done.stdout)}
    assert done.returncode == 0 and checks["recipe"] == "ok" and checks["[vllm]"] in ("ok", "missing")
    (tmp_path / "w" / "ser.yaml").write_text("llm: {model: openai:x, base_url: http://127.0.0.1:9/v1}")
    done = ser("doctor", "-w", "w")
    assert done.returncode == 2 and "not reachable" in done.stdout
    (tmp_path / "w" / "ser.yaml").write_text("nope: 1")
    done = ser("doctor", "-w", "w")
    assert done.returncode == 2 and "line 1" in done.stdout
