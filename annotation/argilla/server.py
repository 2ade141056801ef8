"""An Argilla of our own, one a workspace: argilla-server in an environment of its own, on loopback."""

from __future__ import annotations

from pathlib import Path

from annotation.environments import environment
from annotation.server_process import Running, ServerProcess

from .accounts import OWNER, AccountsFile

NAME = "argilla"
PINS = (
    "argilla-server==2.8.0",
    "huggingface_hub<1",
    "datasets<4",
    "click<8.2",  # its command line and newer ones do not agree
    "requests",
    "fakeredis>=2.26,<3",
)
"""What was seen to work together; argilla-server itself pins the rest."""
READY = "/api/v1/version"
EMBEDDED = Path(__file__).with_name("embedded")


def process(workspace: Path) -> ServerProcess:
    """This workspace's server, whether it runs or not."""
    return ServerProcess(workspace.resolve(), NAME)


def start(workspace: Path) -> Running:
    """The server, running and ready; its environment made and its owner drawn where they lack."""
    server = process(workspace)
    if server.running() is None:
        python = environment(NAME, PINS)
        folder = server.make_folder()
    else:
        python, folder = Path(), server.folder
    owner = AccountsFile(folder).owner()
    env = {
        "ARGILLA_HOME_PATH": str(folder),
        "ARGILLA_AUTH_SECRET_KEY": owner.secret or "",
        "ARGILLA_CORS_ORIGINS": "[]",
        "ARGILLA_SHOW_HUGGINGFACE_SPACE_PERSISTENT_STORAGE_WARNING": "false",
        "HF_HUB_OFFLINE": "1",
        "SER_USERNAME": OWNER,
        "SER_PASSWORD": owner.passwords[OWNER],
        "SER_API_KEY": owner.owner_key or "",
    }
    return server.start(lambda port: [str(python), str(EMBEDDED), str(port)], env, ready=READY)
