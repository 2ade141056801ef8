"""Accounts on an Argilla: made here, kept in `W/servers/argilla/accounts*.json`, which only its owner may read.

A password is written down before its account is made, so that one which is interrupted is made with the same.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from annotation.server_process import write_private
from ser_toolkit.errors import DataError
from ser_toolkit.workspace import writing

OWNER = "owner"


class Accounts(BaseModel):
    """What stands in the file: passwords by user name; for a server of ours, what its owner needs as well."""

    passwords: dict[str, str] = Field(default_factory=dict)
    owner_key: str | None = Field(default=None, repr=False)
    secret: str | None = Field(default=None, repr=False)


class AccountsFile:
    """The accounts on one server: our own, or the one at `url`."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        place = "" if url is None else "-" + "".join(c if c.isalnum() else "-" for c in urlsplit(url).netloc)
        self.path = folder / f"accounts{place}.json"

    def read(self) -> Accounts:
        """What is known; nothing yet where there is no file. Raises DataError for a damaged one."""
        try:
            return Accounts.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return Accounts()
        except (OSError, ValidationError) as exc:
            raise DataError(f"{self.path}: cannot be read", "bring it back from a copy: it holds passwords") from exc

    def owner(self) -> Accounts:
        """The accounts of a server of ours, with its owner's; drawn now where there are none."""
        known = self.read()
        if known.owner_key is None or known.secret is None:
            known.owner_key, known.secret = secrets.token_urlsafe(40), secrets.token_hex(32)
            known.passwords.setdefault(OWNER, _draw())
            self.write(known)
        return known

    def password(self, username: str) -> str:
        """This person's password, written down now where there is none."""
        known = self.read()
        if username not in known.passwords:
            known.passwords[username] = _draw()
            self.write(known)
        return known.passwords[username]

    def write(self, accounts: Accounts) -> None:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(
            self.path, json.dumps(accounts.model_dump(exclude_none=True), ensure_ascii=False, indent=1) + "\n"
        )


def _draw() -> str:
    """A password that is easily typed: four groups of five letters and digits, none that look alike."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4))
