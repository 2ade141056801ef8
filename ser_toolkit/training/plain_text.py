"""Untrusted text as text: what a tokenizer would read as one of its own marks is broken up.

A turn, or a policy's answer, may spell an end of turn and a verdict behind it. A chat template writes such text as it
stands, and the tokenizer then takes it for the template's own: the judge would be told its answer by whom it judges.
"""

from __future__ import annotations

import re
from typing import Any


class PlainText:
    """`plain(text)`: the text with a space behind the first character of every mark; other text stays as it is."""

    def __init__(self, processing: Any) -> None:
        """`processing`: a tokenizer of transformers, or the processor around it."""
        tokenizer = getattr(processing, "tokenizer", processing)
        spelt = {*tokenizer.get_added_vocab(), *(str(t) for t in tokenizer.all_special_tokens)}
        marks = sorted((t for t in spelt if len(t) > 1 and _is_mark(t)), key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, marks))) if marks else None

    def __call__(self, text: str) -> str:
        return self._marks.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text) if self._marks else text

    def messages(self, messages: Any) -> list[dict[str, Any]]:
        """The same for the texts of a chat."""
        return [{**m, "content": self(m["content"])} for m in messages]


def _is_mark(token: str) -> bool:
    """Whether nobody writes it by chance: signs around letters, as <|im_end|> or [INST]; runs of blanks are words."""
    return bool(re.search(r"[^\W_]", token) and re.search(r"[^\w\s]", token))
