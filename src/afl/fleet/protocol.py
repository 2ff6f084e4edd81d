"""Frames on the request socket: UTF-8 text, its tokens separated by the byte 0x01.

    request = VERB [SOH token]*          reply = PONG | OK | KIND SOH payload

The verbs, tokens, replies and error texts of the reference are kept to the byte; `requests` has all verbs. JSON
escapes the separator, so a JSON token is always one token. Tokens that nobody expects are ignored, as they always
were, so that a newer peer can add some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from afl.fleet.errors import ProtocolError
from afl.kernel.error_text import error_text

SOH = "\x01"


class Kind(StrEnum):
    """The first token of a reply."""

    PONG = "PONG"
    OK = "OK"
    SUCCESS = "SUCCESS"
    CLIENTERROR = "CLIENTERROR"
    SERVERERROR = "SERVERERROR"
    UNPROC = "UNPROC"
    NETWORKERROR = "NETWORKERROR"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; the payload may hold anything, the separator too."""

    kind: Kind
    payload: str = ""

    @property
    def is_error(self) -> bool:
        return self.kind not in (Kind.PONG, Kind.OK, Kind.SUCCESS)

    def frame(self) -> bytes:
        if self.kind in (Kind.PONG, Kind.OK):
            return self.kind.value.encode()
        return f"{self.kind.value}{SOH}{self.payload}".encode("utf-8", "replace")


PONG = Reply(Kind.PONG)
OK = Reply(Kind.OK)


def success(payload: str) -> Reply:
    return Reply(Kind.SUCCESS, payload)


def client_error(message: str) -> Reply:
    return Reply(Kind.CLIENTERROR, error_text(message))


def server_error(message: str) -> Reply:
    return Reply(Kind.SERVERERROR, error_text(message))


def parse_reply(frame: bytes) -> Reply:
    """The reply in a frame; one of an unknown kind is an error of the client, as the reference has it."""
    word, _, payload = frame.decode("utf-8", "replace").partition(SOH)
    try:
        return Reply(Kind(word), payload)
    except ValueError:
        return client_error(f"Unrecognised message type: {word}")


def join(tokens: Sequence[str]) -> bytes:
    """The frame of some tokens; there is no escape, so the separator must not be inside one."""
    for token in tokens:
        if SOH in token:
            raise ProtocolError(f"{token!r} holds the byte 0x01, which separates the tokens of {tokens[0]}")
    return SOH.join(tokens).encode("utf-8", "replace")
