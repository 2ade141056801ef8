"""What can go wrong, and what the program does about it.

Three kinds of trouble, three answers:

* **A record is bad** (an unreadable line, a reply that cannot be used): that is data, not a
  crash. It becomes a `Failure` row beside the good rows. Code that meets it raises
  `RecordError`, or returns the `Failure`, and the engine writes it down.
* **The run cannot go on** (a missing path, a locked workspace, a refused key): a `SerError`.
  It says what is wrong, where, and what to do; it is printed without a traceback and carries the
  exit code of its kind.
* **We are wrong**: any other exception. It ends the run with code 1; `--debug` shows the
  traceback. The journal keeps every reply that was paid for.

Third-party exceptions are wrapped once, at the boundary where they arise, with `raise ... from`.
"""

from __future__ import annotations


class SerError(Exception):
    """The run cannot go on; the user can mend it.

    `message` says what is wrong and where (file, line, record id), `hint` what to do.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(SerError):
    """A wrong argument, a wrong recipe, an unknown name, a missing path or extra."""

    exit_code = 2


class DataError(SerError):
    """Data or workspace: unreadable, damaged, locked, full, read-only."""

    exit_code = 3


class RemoteError(SerError):
    """A model server or the Hub refuses, or cannot be reached."""

    exit_code = 4


class AnnotationError(SerError):
    """An annotation backend."""

    exit_code = 5


class CheckpointError(SerError):
    """A checkpoint that is missing, damaged, or of another run."""

    exit_code = 6


class TooManyFailures(SerError):
    """More records failed than the recipe allows (`failures.max_share`)."""

    exit_code = 7


INTERRUPTED = 130


class RecordError(Exception):
    """One record cannot be used; the engine turns this into a `Failure` row.

    `kind` is a short stable word (see `FAILURE_KINDS`), `reason` a sentence for people, `text` what
    was at fault (a reply, a line), `request_key` the journal's key where a model call was involved.
    """

    def __init__(self, kind: str, reason: str, *, text: str = "", request_key: str | None = None) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason
        self.text = text
        self.request_key = request_key


FAILURE_KINDS = {
    "unreadable": "the file, line or record could not be read or decoded",
    "malformed": "the record was read, but lacks a field or has one of the wrong type",
    "empty": "the record holds no utterance",
    "one_sided": "only one of the two speakers ever talks",
    "role_tags": "a turn holds role tags: several turns were glued into one",
    "unknown_speaker": "a speaker label that the format does not know",
    "duplicate_id": "an earlier record already has this id",
    "format": "a reply lacks a step or the final response",
    "schema": "a reply does not follow the JSON schema, even after one repair",
    "truncated": "a reply was cut at the token limit",
    "media": "a picture, sound or video is damaged, too large, of another type, or outside its source's folder",
    "filtered": "the server withheld a reply (content filter)",
    "empty_reply": "a reply without text",
    "crisis_reply": "a reply in a crisis that declines to talk, or names a number though no country is known",
    "refused_request": "the server refused the request of this record",
    "timeout": "no whole reply came within the time allowed, after all retries",
    "unavailable": "the server could not answer, after all retries",
    "rewrite": "a rewritten utterance is no single utterance of its speaker, or nothing was rewritten",
    "seeker_role": "a simulated seeker began to act as the helper, or says nothing",
    "supporter_role": "a simulated supporter began to act as the seeker, or speaks for both",
    "repetition": "a simulated speaker repeats its opening, itself or the other",
    "goodbye_loop": "the speakers say goodbye over and over",
    "stock_phrase": "a simulated supporter speaks in stock phrases",
    "near_duplicate": "a synthesized dialogue or scenario repeats an earlier one, or opens as it does",
}
"""Every `Failure.kind`, and what it means."""
