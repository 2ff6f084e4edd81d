"""The output of one attempt of a task on its way to the spool: bytes in, log records out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from afl.fleet.executors.output import Block, LineCutter, json_lines
from afl.fleet.journal import RunJournal
from afl.fleet.log_frame import mark
from afl.fleet.records import Level

_GATHER_SECONDS = 0.01
_LARGE = 128 * 1024
_STREAMS = {1: "STDOUT", 2: "STDERR"}
_LEVELS = {1: Level.INFO, 2: Level.ERROR}


class TaskOutput:
    """Lines of one stream that come close together are one record; a change of stream, or a piece of a line that is
    too long for one, begins the next.

    So the order of both streams is kept as they were read, and a hundred thousand lines are a few hundred records.
    """

    def __init__(self, journal: RunJournal, task_name: str, instance: str) -> None:
        self._journal = journal
        self._task_name, self._instance = task_name, instance
        self._cutters = {1: LineCutter(), 2: LineCutter()}
        self._kind = (1, False)  # of the lines at hand: their stream, and whether they continue a line
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def full(self) -> bool:
        return self._journal.spool.full

    def when_room(self, call: Callable[[], None]) -> None:
        self._journal.spool.when_room(call)

    def receive(self, stream: int, data: bytes) -> None:
        """Bytes of stream 1 (output) or 2 (errors)."""
        for block in self._cutters[stream].feed(data):
            self._add(stream, block)

    def finish(self) -> None:
        """The streams have ended: what has no newline is a line too, and everything goes to the spool."""
        for stream, cutter in self._cutters.items():
            for block in cutter.finish():
                self._add(stream, block)
        self._flush()

    def _add(self, stream: int, block: Block) -> None:
        if (stream, block.continues) != self._kind:
            self._flush()
            self._kind = (stream, block.continues)
        self._lines.append(block.lines)
        self._size += len(block.lines)
        if self._size >= _LARGE:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._lines:
            return
        stream, continues = self._kind
        count, lines = json_lines(b"".join(self._lines), mark(_STREAMS[stream], continues=continues))
        self._lines, self._size = [], 0
        self._journal.log(self._task_name, self._instance, _LEVELS[stream], count, msgspec.Raw(lines))
