"""What a maker of pictures or speech answered: the path of a file in the store (`making`)."""

from __future__ import annotations

from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import ChatModel, Request, usable

from .store import MediaStore

UNUSABLE = "unusable_media"
"""A finish reason of ours: what came is no picture or sound that can be kept, and `text` says why. Kept like any."""


async def made_path(maker: ChatModel, request: Request, store: MediaStore) -> str:
    """The path of what `maker` made for this request, asked once more where its file is no longer there.

    Raises RecordError: media, filtered, and what the maker raises.
    """
    for asked in (request, request.again()):
        reply = await maker.complete(asked)
        if reply.finish_reason == UNUSABLE:
            raise RecordError("media", reply.text, request_key=reply.request_key)
        if store.has(path := usable(reply).text):
            return path
    raise RecordError("media", "the file that was made is gone", request_key=reply.request_key)
