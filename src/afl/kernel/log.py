"""The set-up of logging: lines for people, or one JSON object per line for machines.

Every module logs to `logging.getLogger(__name__)` and passes facts as `extra=`; both formats show them. What is being
worked on (`working_on(run=..., task=...)`) is a fact of every line that is logged meanwhile.
"""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from afl.kernel.control_characters import escaped_json, visible_controls
from afl.kernel.errors import SettingError
from afl.kernel.redaction import redacted, redacted_data

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Working(ABC):
    """What is being worked on here, until the block ends. Its ids are asked for only when a line is logged."""

    __slots__ = ("_around", "_token")

    @abstractmethod
    def ids(self) -> dict[str, str]:
        """What it is called."""

    def facts(self) -> dict[str, str]:
        """Its ids, and those of what it is a part of."""
        return self.ids() if self._around is None else {**self._around.facts(), **self.ids()}

    def __enter__(self) -> None:
        self._around = _work.get()
        self._token: Token[Working | None] = _work.set(self)

    def __exit__(self, *error: object) -> None:
        _work.reset(self._token)


_work: ContextVar[Working | None] = ContextVar("afl_work", default=None)


class working_on(Working):
    """`with working_on(run=..., step=..., task=...):` these are facts of what is logged here until the block ends."""

    __slots__ = ("_ids",)

    def __init__(self, **ids: str) -> None:
        self._ids = ids

    def ids(self) -> dict[str, str]:
        return self._ids


def configure_logging(level: str = "INFO", json: bool = False, stream: TextIO | None = None) -> None:
    """Send what `afl` logs to `stream` (standard error); a second call replaces the first.

    The root logger is left alone: it belongs to the program that AgentFlow is part of.
    """
    name = level.upper()
    if name not in _LEVELS:
        raise SettingError(f"log level is {level!r}; expected one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else LineFormatter())
    logger = logging.getLogger("afl")
    for previous in [old for old in logger.handlers if isinstance(old.formatter, _Formatter)]:
        logger.removeHandler(previous)
    logger.addHandler(handler)
    logger.setLevel(name)
    logger.propagate = False


class _Formatter(logging.Formatter):
    """What both formats need of a record."""

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        """What is worked on, and what the caller passed as `extra`."""
        own = vars(record).items()  # other libraries mark records with names that begin with _
        given = {name: value for name, value in own if name not in _STANDARD and name[0] != "_"}
        work = _work.get()
        return given if work is None else {**work.facts(), **given}

    def message(self, record: logging.LogRecord) -> str:
        return redacted(record.getMessage())

    def trace(self, record: logging.LogRecord) -> str:
        return redacted(self.formatException(record.exc_info)) if record.exc_info else ""

    def time(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class RedactingFormatter(logging.Formatter):
    """The formats of the standard library, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_controls(redacted(super().format(record)))


class LineFormatter(_Formatter):
    """`2026-01-02T03:04:05.678+00:00 WARNING afl.kernel.notify: connection lost host=db`."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.time(record)} {record.levelname} {record.name}: {self.message(record)}"
        facts = redacted("".join(f" {name}={value}" for name, value in self.facts(record).items()))
        trace = self.trace(record)
        return visible_controls(f"{line}{facts}\n{trace}" if trace else line + facts)


class JsonFormatter(_Formatter):
    """One object per line: time, level, logger, message, the facts, and the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        entry = redacted_data(self.facts(record)) | {
            "time": self.time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self.message(record),
        }
        if trace := self.trace(record):
            entry["exception"] = trace
        return escaped_json(msgspec.json.encode(entry, enc_hook=lambda value: redacted(str(value))).decode())
