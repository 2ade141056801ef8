"""Links: an unguessable token for each annotator and one for the owner, derived from the round's secret key.

So a restart prints the same links, nothing more need be kept, and who has the file of the ledger has the links. A token
stands in the path: no cookie, so no other site can act with a browser's rights, and several people can share a browser.
A link that was called back (`Ledger.revoke_links`) is dead; the person's next one is derived from its number.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping


class Access:
    """The tokens of one round."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._tokens: dict[tuple[str, int], str] = {}
        self.owner_token = self._derive("owner", "")

    def token(self, annotator: str, number: int = 0) -> str:
        """32 characters that stand for 192 bits; `number`: how often this person's link was called back."""
        if (annotator, number) not in self._tokens:
            parts = (annotator, str(number)) if number else (annotator,)
            self._tokens[annotator, number] = self._derive("annotator", *parts)
        return self._tokens[annotator, number]

    def annotator(self, token: str, among: Iterable[str], numbers: Mapping[str, int]) -> str | None:
        """Whose token this is. Takes as long for any wrong one."""
        found = None
        for name in among:
            if _equal(self.token(name, numbers.get(name, 0)), token):
                found = name
        return found

    def is_owner(self, token: str) -> bool:
        return _equal(self.owner_token, token)

    def _derive(self, *parts: str) -> str:
        message = "\x1f".join(("link", *parts)).encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(hmac.digest(self._key, message, hashlib.sha256)[:24]).decode("ascii")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "surrogatepass"))
