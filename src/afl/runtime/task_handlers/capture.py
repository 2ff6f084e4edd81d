"""What handlers print and log, stored as the log of their attempt.

The executor says whose handler runs (`handling`); nothing else happens unless somebody captures. Commands do
(`capturing`): they own their process. An embedded worker captures nothing but, if asked to, `logging`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, TextIO

from afl.runtime.entities import NoteType
from afl.runtime.task_handlers.handler_context import HandlerContext

_running: ContextVar[HandlerContext | None] = ContextVar("afl_handler", default=None)


class handling:
    """What this thread, or a coroutine that it starts, writes meanwhile is of this attempt."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token: Token[HandlerContext | None] = _running.set(self._context)

    def __exit__(self, *error: object) -> None:
        _running.reset(self._token)
        self._context.end_lines()


@contextmanager
def capturing() -> Iterator[None]:
    """For commands: `print` and `logging` of handlers are stored, and still go where they went."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(sys.stdout, "stdout"), _Tee(sys.stderr, "stderr")
    try:
        with capturing_logging():
            yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def capturing_logging(wanted: bool = True) -> Iterator[None]:
    """What handlers say by `logging` is stored; the handler of the root logger that does it is removed at the end."""
    if wanted:
        _handler.add()
    try:
        yield
    finally:
        if wanted:
            _handler.remove()


class _Tee:
    """A text stream that also tells the running attempt what is written to it."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        context = _running.get()
        if context is not None and sys._getframe(1).f_globals.get("__name__") != "logging":
            context.capture_text(text, self._name)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


class _AttemptLogs(logging.Handler):
    """One handler of the root logger for all who capture."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._users = 0

    def add(self) -> None:
        with self._guard:
            self._users += 1
            if self._users == 1:
                logging.getLogger().addHandler(self)

    def remove(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users == 0:
                logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._is_handled(record.name):
            last.handle(record)  # which Python does only where there is no handler at all
        context = _running.get()
        if context is None or record.name.partition(".")[0] == "afl":
            return
        try:
            text = record.getMessage()
            if record.exc_info:
                text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
            context.capture(text, _level(record.levelno), logger=record.name)
        except Exception:
            self.handleError(record)

    def _is_handled(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return NoteType.ERROR
    return NoteType.WARNING if number >= logging.WARNING else NoteType.INFO


_handler = _AttemptLogs()
