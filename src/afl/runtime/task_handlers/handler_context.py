"""What a handler can know about its work, and say while it is at it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from afl.kernel import codec, telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text
from afl.kernel.errors import StoreError
from afl.kernel.ids import sortable_id
from afl.kernel.telemetry import traceparent_of
from afl.runtime.entities import LogDefinition, NoteOriginator, NoteType, TaskDefinition
from afl.runtime.errors import WorkCanceled

_log = logging.getLogger(__name__)

_CAPTURED_LINES = 1000
_UNFINISHED_CHARACTERS = 65_536
_REST = f"more than {_CAPTURED_LINES:,} lines: what this attempt prints or logs from here on is not stored"
_LEVELS = (NoteType.INFO, NoteType.WARNING, NoteType.ERROR)


def _nowhere(entry: LogDefinition) -> None:
    """For a context that no worker made, as in a test of a handler."""


@dataclass
class HandlerContext:
    """A parameter named `context` gets it. `idempotency_key` is the same on every attempt."""

    task_id: str
    step_id: str
    workflow_id: str
    facet: str
    attempt: int = 1
    deadline: datetime | None = None
    write: Callable[[LogDefinition], None] = _nowhere
    renew: Callable[[], bool] = lambda: True
    write_soon: Callable[[LogDefinition], None] | None = None

    _callbacks: list[Callable[[], object]] = field(default_factory=list)
    _canceled: bool = False
    _event: threading.Event | None = None
    _reason: str = ""
    _ends: float | None = None
    _order: int = 0
    _captured: int = 0
    _unfinished: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        task: TaskDefinition,
        write: Callable[[LogDefinition], None],
        renew: Callable[[], bool],
        write_soon: Callable[[LogDefinition], None] | None = None,
    ) -> HandlerContext:
        """The context of a claimed task; what is captured goes to `write_soon`."""
        return cls(
            task.uuid,
            task.step_id,
            task.workflow_id,
            task.name,
            task.deliveries,
            write=write,
            renew=renew,
            write_soon=write_soon,
        )

    def start_clock(self, milliseconds: int) -> None:
        """For the worker: the handler begins, and has so much time."""
        self.deadline = datetime.now(UTC) + timedelta(milliseconds=milliseconds)
        self._ends = time.monotonic() + milliseconds / 1000

    @property
    def idempotency_key(self) -> str:
        """Give this to systems that should do the work once, however often it is delivered or retried."""
        return self.step_id or self.task_id

    @property
    def traceparent(self) -> str:
        """The place of this work in the trace of its run, for spans of one's own and for those one calls (W3C)."""
        return telemetry.here() or traceparent_of(self.workflow_id or self.task_id, self.task_id)

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, never below 0; None without one."""
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    @property
    def canceled(self) -> bool:
        """Whether nobody waits for the answer any more: the run was canceled, or the time is up."""
        return self._canceled

    @property
    def cancellation(self) -> threading.Event:
        """Set when the work is canceled: something to wait on."""
        if self._event is None:  # most handlers never ask, and making one takes longer than all the rest
            self._event = threading.Event()
            if self._canceled:
                self._event.set()
        return self._event

    def log(self, message: str, level: str = NoteType.INFO, **details: Any) -> None:
        """A line in the run's log."""
        if level not in _LEVELS:
            raise ValueError(f"level is {level!r}; expected one of {', '.join(_LEVELS)}")
        codec.encode(
            [str(message), details], what="a log entry"
        )  # refused here, where the handler can see it
        self.write(self._line(str(message), level, details))

    def _line(self, message: str, level: str, details: dict[str, Any]) -> LogDefinition:
        now = wall_ms()
        self._order = max(self._order + 1, now * 1000)
        return LogDefinition(
            uuid=sortable_id(),
            order=self._order,
            runner_id=self.workflow_id,
            step_id=self.step_id,
            object_id=self.task_id,
            object_type="task",
            note_originator=NoteOriginator.AGENT,
            note_type=level,
            message=message,
            details=details,
            time=now,
            attempt=self.attempt,
        )

    def capture(self, message: str, level: str = NoteType.INFO, **details: str) -> None:
        """For the worker: a line that the handler printed or logged; a long one is cut, and the number is bounded."""
        self._captured += 1
        if self._captured > _CAPTURED_LINES + 1:
            return
        if self._captured > _CAPTURED_LINES:
            message, level, details = _REST, NoteType.WARNING, {}
        (self.write_soon or self.write)(self._line(error_text(message), level, details))

    def capture_text(self, text: str, stream: str) -> None:
        """For the worker: something that was written to a stream, line by line."""
        *lines, rest = (self._unfinished.get(stream, "") + text).split("\n")
        if len(rest) > _UNFINISHED_CHARACTERS:
            lines, rest = [*lines, rest], ""
        self._unfinished[stream] = rest
        for line in lines:
            shown = line.rstrip("\r").rpartition("\r")[2]  # of a progress bar, what is seen at the end
            if shown.strip():
                self.capture(shown, stream=stream)

    def end_lines(self) -> None:
        """For the worker: the handler has returned, and lines that it did not end are as they are."""
        while self._unfinished:
            stream, rest = self._unfinished.popitem()
            if rest:
                self.capture_text(f"{rest}\n", stream)
                del self._unfinished[stream]

    def progress(self, fraction: float, message: str = "") -> None:
        """How far the work is, from 0 to 1."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress is {fraction!r}; expected a number from 0 to 1")
        self.log(message or f"{fraction:.0%}", progress=fraction)

    def heartbeat(self) -> None:
        """Say that the work goes on, and learn whether it still should: WorkCanceled if not."""
        if not self.canceled and not self._renewed():
            self.cancel("another worker has the task now")
        if self.canceled:
            raise WorkCanceled(self._reason)

    def _renewed(self) -> bool:
        try:
            return self.renew()
        except StoreError as error:  # nobody knows; the answer will show, and the work must not fail for this
            _log.warning("the heartbeat of task %s did not reach the store: %s", self.task_id, error)
            return True

    def cancel(self, reason: str) -> None:
        """For the worker: tell the handler that nobody waits for it any more."""
        if not self._canceled:
            self._reason, self._canceled = reason, True
            if self._event is not None:
                self._event.set()
            for callback in list(self._callbacks):
                self._call(callback)

    def _call(self, callback: Callable[[], object]) -> None:
        """Whoever tells of the cancellation has others to tell, and leases to renew."""
        try:
            callback()
        except Exception:
            _log.exception("task %s could not be told that it is canceled", self.task_id)

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call this, from another thread, when the work is canceled."""
        self._callbacks.append(callback)
        try:
            if self.canceled:
                self._call(callback)
            yield
        finally:
            self._callbacks.remove(callback)
