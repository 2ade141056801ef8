"""An environment for a server, out of hand-made wheels: made once, whole or not at all, and told when it fails."""

from __future__ import annotations

import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from annotation.environments import WHOLE, environment
from ser_toolkit.errors import AnnotationError, DataError


def a_wheel(folder: Path, name: str, requires: str = "") -> str:
    """A wheel of one module that says its name; as a pip requirement."""
    file = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + (
        f"Requires-Dist: {requires}\n" if requires else ""
    )
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{name}.py", f"print('this is {name}')\n")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", about)
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", f"{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n")
    return str(file)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "cache" / "environments"


def says(python: Path, module: str) -> str:
    return subprocess.run([python, "-m", module], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_is_made_once_shared_and_made_anew_when_not_whole(tmp_path, cache, capsys):
    pins = [a_wheel(tmp_path, "toyserver")]
    found: list[Path] = []
    both = [threading.Thread(target=lambda: found.append(environment("toy", pins))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    python = found[0]
    assert found == [python, python] and says(python, "toyserver") == "this is toyserver"
    told = capsys.readouterr()
    assert told.err.count("installing") == 1 and told.out == "", "stdout is for results"
    assert environment("toy", pins) == python and capsys.readouterr().err == ""

    other = environment("toy", [*pins, a_wheel(tmp_path, "plugin")])
    assert other != python and says(other, "plugin") == "this is plugin" and says(python, "toyserver")

    (python.parent.parent / WHOLE).unlink()  # what a killed install leaves
    next(python.parent.parent.glob("lib/python*/site-packages/toyserver.py")).unlink()
    assert environment("toy", pins) == python and says(python, "toyserver")


def test_a_failed_install_is_told_leaves_nothing_and_can_be_tried_again(tmp_path, cache):
    pins = [a_wheel(tmp_path, "toyserver", requires="no-such-part==9")]
    with pytest.raises(AnnotationError, match="no-such-part") as caught:
        environment("toy", pins)
    assert caught.value.exit_code == 5 and "tries again" in caught.value.hint
    (log,) = cache.glob("toy-*.log")
    assert str(log) in caught.value.hint and "no-such-part" in log.read_text()
    assert [p for p in cache.iterdir() if p.is_dir()] == []
    a_wheel(tmp_path, "toyserver")
    assert says(environment("toy", pins), "toyserver")


def test_a_cache_that_is_no_folder_is_told(tmp_path, cache):
    cache.parent.write_text("a file")
    with pytest.raises(DataError, match="cannot be written") as caught:
        environment("toy", ["x"])
    assert "SER_CACHE" in caught.value.hint
