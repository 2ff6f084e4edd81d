"""Frames of the fleet: UTF-8 text, its tokens separated by the byte 0x01.

    request = VERB [SOH token]*          reply = PONG | OK | KIND SOH payload

The verbs, tokens, replies and error texts of the reference are kept to the byte; `requests` has all verbs. JSON
escapes the separator, so a JSON token is always one token. Unknown further tokens are ignored, so that a newer peer
can add some. A log line is one frame of eight fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from afl.fleet.errors import ProtocolError
from afl.kernel.bounds import LAST_MS, LONGEST_NAME
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
    """A reply; the payload may contain the separator."""

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
    """The reply in a frame; an unknown kind is a client error, as in the reference."""
    word, _, payload = frame.decode("utf-8", "replace").partition(SOH)
    try:
        return Reply(Kind(word), payload)
    except ValueError:
        return client_error(f"Unrecognized message type: {word}")


def join(tokens: Sequence[str]) -> bytes:
    """The frame of some tokens; there is no escape, so a token must not contain the separator."""
    for token in tokens:
        if SOH in token:
            raise ProtocolError(f"{token!r} holds the byte 0x01, which separates the tokens of {tokens[0]}")
    return SOH.join(tokens).encode("utf-8", "replace")


_FIELDS = 8
_MARK = re.compile(r"(?:STDOUT|STDERR)(\+?) ")


@dataclass(frozen=True, slots=True)
class LogFrame:
    """One log line. The payload may contain the separator."""

    workflow_id: str
    workflow_name: str
    workflow_instance_id: str
    task_name: str
    task_instance_id: str
    timestamp_ms: int
    level: str
    payload: str

    def frame(self) -> bytes:
        names = (self.workflow_id, self.workflow_name, self.workflow_instance_id, self.task_name)
        rest = (self.task_instance_id, str(self.timestamp_ms), self.level, self.payload)
        return SOH.join(names + rest).encode("utf-8", "replace")

    def shown(self, verbose: bool = False) -> str:
        """The line as a log query answers it."""
        head = f"[{shown_time(self.timestamp_ms)} {self.level}]"
        if verbose:
            workflow = f"{self.workflow_name}={self.workflow_instance_id}"
            return f"{head} [{workflow} / {self.task_name}={self.task_instance_id}] {self.payload}"
        return f"{head} [{self.workflow_instance_id}/{self.task_instance_id}] {self.payload}"


def parse_log_frame(frame: bytes) -> LogFrame:
    """ProtocolError for an invalid frame. NUL, which PostgreSQL cannot store, becomes U+FFFD, as do invalid bytes."""
    fields = cleaned(frame.decode("utf-8", "replace")).split(SOH, _FIELDS - 1)
    if len(fields) != _FIELDS:
        raise ProtocolError(f"a log frame has {len(fields)} fields; expected {_FIELDS}")
    if not re.fullmatch(r"[0-9]{1,15}", fields[5]) or int(fields[5]) > LAST_MS:
        raise ProtocolError(f"the time of a log frame is {fields[5]!r}; expected milliseconds")
    if max(map(len, fields[:-1])) > LONGEST_NAME:
        raise ProtocolError(f"a name in a log frame has more than {LONGEST_NAME} characters")
    workflow_id, workflow_name, instance_id, task_name, task_instance_id, moment, level, payload = fields
    names = (workflow_id, workflow_name, instance_id, task_name, task_instance_id)
    return LogFrame(*names, int(moment), level, payload)


def cleaned(text: str) -> str:
    """Text that every store can hold."""
    return text.replace("\0", "\ufffd")


def mark(stream: str, *, continues: bool = False) -> str:
    """The prefix of a line's text; a continuation of the previous line has a plus."""
    return f"{stream}+ " if continues else f"{stream} "


def read_mark(payload: str) -> tuple[bool, str]:
    """Whether a payload continues the previous line, and its text."""
    found = _MARK.match(payload)
    return (bool(found[1]), payload[found.end() :]) if found else (False, payload)


def whole_lines(payloads: Iterable[str]) -> list[str]:
    """The lines of one stream of a task, reassembled and without their marks."""
    found: list[list[str]] = []
    for payload in payloads:
        continues, text = read_mark(payload)
        if continues and found:
            found[-1].append(text)
        else:
            found.append([text])
    return ["".join(pieces) for pieces in found]


def shown_time(timestamp_ms: int) -> str:
    """RFC 3339 in UTC; whole seconds have no fraction."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{timestamp_ms % 1000:03}" if timestamp_ms % 1000 else ""
    return f"{moment}{fraction}+00:00"
