import os
import subprocess
import sys
from pathlib import Path

import pytest

from ser_toolkit.errors import DataError
from ser_toolkit.workspace import Workspace

HOLD = """
import sys, time
from pathlib import Path
from ser_toolkit.workspace import Workspace
with Workspace(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_commands_at_once_are_told_apart(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(DataError, match=f"process {holder.pid}"), Workspace(tmp_path).locked():
            pass
    finally:
        holder.kill()
        holder.wait()
    with Workspace(tmp_path).locked():
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "w").write_text("x")
    with pytest.raises(DataError, match="a file stands where a folder is needed"), Workspace(tmp_path / "w").locked():
        pass


def test_a_read_only_place(tmp_path):
    with pytest.raises(DataError, match=r"cannot be written to|No such file"), Workspace(Path("/proc/ser")).locked():
        pass
