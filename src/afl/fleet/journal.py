"""What an agent reports of one run: statuses and output lines, numbered in the order they happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from afl.fleet.messages import FetchedRun, Level, LogRecord, RunRecord, Status, TaskRecord
from afl.fleet.protocol import mark
from afl.fleet.spool import Spool
from afl.fleet.workflow import Workflow
from afl.kernel.clock import wall_ms


class RunJournal:
    """Writes the records of one run, all under the epoch it was fetched with."""

    def __init__(self, spool: Spool, run: FetchedRun, workflow: Workflow) -> None:
        self.spool = spool
        self._run, self._workflow = run, workflow

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def workflow_id(self) -> str:
        return self._workflow.id

    def run(self, status: Status, error: str = "") -> None:
        """The run has a new status."""
        self.spool.add(
            RunRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                status=status,
                at=wall_ms(),
                error=_text(error),
            )
        )

    def task(
        self,
        task_id: str,
        instance: str,
        status: Status,
        *,
        attempt: int = 1,
        exit_code: int | None = None,
        error: str = "",
    ) -> None:
        """A task has a new status."""
        self.spool.add(
            TaskRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                task_id=task_id,
                task_instance_id=instance,
                status=status,
                at=wall_ms(),
                attempt=attempt,
                exit_code=exit_code,
                error=_text(error),
            )
        )

    def log(self, task_name: str, instance: str, level: Level, count: int, lines: msgspec.Raw) -> None:
        """Lines that a task wrote: a JSON array of `count` texts."""
        self.spool.add(
            LogRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                workflow_id=self._workflow.id,
                workflow_name=self._workflow.name,
                task_name=task_name,
                task_instance_id=instance,
                at=wall_ms(),
                level=level,
                count=count,
                lines=lines,
            )
        )


def _text(error: str) -> str:
    """System messages may contain file names that are not valid text, which could not be encoded."""
    return error.encode("utf-8", "backslashreplace").decode()


LONGEST_LINE = 64 * 1024
# No program writes it into a line of text, and JSON does not escape it: so it can stand for the end of a line while
# many lines are encoded as one. Text that contains it takes the slow path.
_STAND_IN = "\x7f"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Block:
    """Lines, each with its newline; or one line that continues the last line of the previous block."""

    lines: bytes
    continues: bool = False


class LineSplitter:
    """Splits one stream into whole lines.

    A line is cut, between two characters, whenever it reaches `LONGEST_LINE`, so that memory is bounded. The rest
    of the line is marked as a continuation.
    """

    __slots__ = ("_is_cut", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._is_cut = False  # the beginning of the rest was already returned

    def feed(self, data: bytes) -> list[Block]:
        """The lines that are complete now."""
        blocks: list[Block] = []
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            blocks += self._ended(self._rest + whole + newline)
            self._rest = rest
        else:
            self._rest += data
        while len(self._rest) > LONGEST_LINE:
            end = _boundary(self._rest, LONGEST_LINE)
            blocks.append(Block(self._rest[:end] + b"\n", self._is_cut))
            self._rest, self._is_cut = self._rest[end:], True
        return blocks

    def finish(self) -> list[Block]:
        """The last line without a newline; nothing when the stream ended with one."""
        rest, self._rest = self._rest, b""
        return list(self._ended(rest + b"\n")) if rest else []

    def _ended(self, lines: bytes) -> Iterable[Block]:
        if self._is_cut:
            self._is_cut = False
            first, newline, lines = lines.partition(b"\n")
            yield Block(first + newline, continues=True)
        if lines:
            yield Block(lines)


def json_lines(lines: bytes, mark: str) -> tuple[int, bytes]:
    """The number of lines, and a JSON array of them, each with the mark in front.

    Invalid UTF-8 becomes replacement characters. A hundred thousand lines take a few passes over their text, and no
    Python object per line.
    """
    text = lines.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    count, text = text.count("\n"), text[:-1]
    if _STAND_IN in text:
        return count, _encode([mark + line for line in text.split("\n")])
    inner = _encode(text.replace("\n", _STAND_IN))[1:-1]
    start = _encode(mark)[1:-1]
    return count, b'["%b%b"]' % (start, inner.replace(_STAND_IN.encode(), b'","' + start))


def _boundary(data: bytes, most: int) -> int:
    """The end of the last whole character within `most` bytes; a character has at most three bytes more."""
    end = most
    while end > most - 3 and data[end] & 0xC0 == 0x80:
        end -= 1
    return end


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
        self._cutters = {1: LineSplitter(), 2: LineSplitter()}
        self._kind = (1, False)  # of the buffered lines: their stream, and whether they continue a line
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
        """The streams have ended: an unterminated line is a line too, and everything goes to the spool."""
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
