"""Log lines in the store: appended in blocks, found by position or by time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import msgspec

from afl.fleet.errors import ProtocolError
from afl.fleet.messages import LogLine, LogPage, LogRecord
from afl.fleet.principal.store import LOGS, Change, Q, logs_topic
from afl.fleet.protocol import LogFrame, cleaned
from afl.fleet.requests import GetLogs, QueryLogs
from afl.kernel.database import Row, Transaction

_DAY_MS = 86_400_000
_FOREVER = 1 << 62
_MOST_LINES = 10_000
_PAGE_TEXT = 4 * 1024 * 1024  # characters of the lines in one page: a line may have 64 KiB
_MOST_TEXT = 64 * 1024 * 1024  # in an answer that no other can continue
_MOST_QUERIED = 100_000  # lines in one answer to an old peer, which has no paging
_QUERIED_BLOCKS = 100
_BLOCKS = 4  # read at a time: a block may hold thousands of lines
_LINES = msgspec.json.Decoder(list[str])
_NUL = b"\\u0000"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of one task, level and time; `lines` is a JSON array of `count` strings."""

    workflow_id: str
    workflow_name: str
    instance_id: str
    task_name: str
    task_instance_id: str
    timestamp_ms: int
    level: str
    count: int
    lines: str

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """The workflow, run and task of the lines."""
        run = (self.workflow_id, self.workflow_name, self.instance_id)
        return (*run, self.task_name, self.task_instance_id)

    def frames(self) -> Iterator[LogFrame]:
        """One frame per line."""
        for payload in _LINES.decode(self.lines):
            yield LogFrame(*self.names, self.timestamp_ms, self.level, payload)


def block_of_record(record: LogRecord) -> Block:
    """The lines stay JSON; anything but an array of `count` strings is refused, since it could not be read later."""
    raw = bytes(record.lines)
    try:
        lines = _LINES.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the lines of log record {record.seq}: {error}") from error
    if len(lines) != record.count or not lines:
        raise ProtocolError(f"log record {record.seq} has {len(lines)} lines and says {record.count}")
    if _NUL in raw:  # PostgreSQL cannot store this character
        raw = msgspec.json.encode([cleaned(line) for line in lines])
    run = (cleaned(record.workflow_id), cleaned(record.workflow_name), cleaned(record.run_id))
    task = (cleaned(record.task_name), cleaned(record.task_instance_id))
    return Block(*run, *task, record.at, record.level.value, record.count, raw.decode())


def blocks_of_frames(frames: Iterable[LogFrame]) -> list[Block]:
    """Adjacent frames that differ only in their text become one block."""
    blocks = []
    for names, group in groupby(frames, _names):
        lines = [frame.payload for frame in group]
        blocks.append(Block(*names, len(lines), msgspec.json.encode(lines).decode()))
    return blocks


def append(change: Change, blocks: Sequence[Block]) -> None:
    """Store blocks in order; every line gets the next position."""
    if not blocks:
        return
    row = change.tx.one(Q.count_lines, count=sum(block.count for block in blocks))
    assert row is not None
    position = row["value"] - sum(block.count for block in blocks) + 1
    rows = []
    for block in blocks:
        last = position + block.count - 1
        rows.append((position, last, *block.names, block.timestamp_ms, block.level, block.lines))
        position += block.count
    change.tx.many(Q.add_block, rows)
    change.notifications.topics.add(LOGS)
    change.notifications.topics.update({logs_topic(block.instance_id) for block in blocks})


def query(tx: Transaction, request: QueryLogs, now: int) -> list[str]:
    """The lines of QUERYLOGS by time, formatted; only the last ones of very many, since they are one answer."""
    end = now if request.end_ms is None else request.end_ms
    start = end - _DAY_MS if request.start_ms is None else request.start_ms
    shown = _shown_before(tx, request, start, end)
    return _bounded(shown, _MOST_QUERIED, _MOST_TEXT, len)[::-1]


def _shown_before(tx: Transaction, request: QueryLogs, start: int, end: int) -> Iterator[str]:
    """Newest first."""
    before = 0
    while True:
        times = {"start": start, "end": end, "before": before, "limit": _QUERIED_BLOCKS}
        rows = _rows_between(tx, request, times)
        for row in rows:
            yield from reversed([frame.shown(request.verbose) for frame in _block(row).frames()])
        if len(rows) < _QUERIED_BLOCKS:
            return
        end, before = rows[-1]["timestamp_ms"], rows[-1]["position"]


def _rows_between(tx: Transaction, request: QueryLogs, times: dict[str, int]) -> list[Row]:
    workflow_id = request.workflow_id or ""
    if request.workflow_instance_id:
        instance = request.workflow_instance_id
        return tx.all(Q.blocks_of_instance, instance_id=instance, workflow_id=workflow_id, **times)
    if workflow_id:
        return tx.all(Q.blocks_of_workflow, workflow_id=workflow_id, **times)
    return tx.all(Q.blocks_between, **times)


def page(tx: Transaction, request: GetLogs) -> LogPage:
    """The lines after a position, or the last ones, in the order they arrived."""
    limit = max(1, min(request.limit, _MOST_LINES))
    instance = instance_of(tx, request.run_id)
    # Read before the lines: lines that are added meanwhile must not be skipped.
    row = tx.one(Q.lines_counted)
    end = max(request.after, row["value"] if row is not None else 0)
    if request.last and not request.after:
        most = max(1, min(request.last, _MOST_LINES))
        newest = _bounded(_lines_before(tx, request, instance, end), most, _MOST_TEXT, _length)
        return LogPage(lines=newest[::-1], position=end, more=False)
    following = _lines_after(tx, request, instance)
    lines = _bounded(following, limit, _PAGE_TEXT, _length)
    more = next(following, None) is not None
    # A reader whose filter matches nothing need not scan the same lines again.
    position = lines[-1].position if more else max(end, lines[-1].position if lines else 0)
    return LogPage(lines=lines, position=position, more=more)


T = TypeVar("T")


def _bounded(items: Iterator[T], most: int, most_text: int, length: Callable[[T], int]) -> list[T]:
    """The first items: at most so many, and until they have so many characters together."""
    found: list[T] = []
    text = 0
    while len(found) < most and text < most_text and (item := next(items, None)) is not None:
        found.append(item)
        text += length(item)
    return found


def _length(line: LogLine) -> int:
    return len(line.payload)


def _lines_after(tx: Transaction, request: GetLogs, instance: str) -> Iterator[LogLine]:
    after = request.after
    while True:
        rows = _rows_after(tx, request, instance, after)
        for row in rows:
            yield from _lines_of(row, after)
            after = row["last"]
        if len(rows) < _BLOCKS:
            return


def _lines_before(tx: Transaction, request: GetLogs, instance: str, end: int) -> Iterator[LogLine]:
    """Newest first."""
    before = end
    while True:
        rows = _rows_before(tx, request, instance, before)
        for row in rows:
            yield from reversed(list(_lines_of(row, 0)))
            before = row["position"] - 1
        if len(rows) < _BLOCKS:
            return


def _rows_after(tx: Transaction, request: GetLogs, instance: str, after: int) -> list[Row]:
    if instance:
        return tx.all(Q.blocks_of_instance_after, instance_id=instance, after=after, **_filters(request))
    return tx.all(Q.blocks_after, after=after, **_filters(request))


def _rows_before(tx: Transaction, request: GetLogs, instance: str, before: int) -> list[Row]:
    if instance:
        return tx.all(Q.blocks_of_instance_before, instance_id=instance, before=before, **_filters(request))
    return tx.all(Q.blocks_before, before=before, **_filters(request))


def _filters(request: GetLogs) -> dict[str, str | int]:
    return {
        "workflow_id": request.workflow_id,
        "task_instance_id": request.task_instance_id,
        "level": request.level,
        "start": 0 if request.start_ms is None else request.start_ms,
        "end": _FOREVER if request.end_ms is None else request.end_ms,
        "limit": _BLOCKS,
    }


def instance_of(tx: Transaction, run_id: str) -> str:
    """The instance id that the lines of a run carry."""
    run = tx.one(Q.get_run, run_id=run_id) if run_id else None
    return run_id if run is None else str(run["instance_id"])


def _lines_of(row: Row, after: int) -> Iterator[LogLine]:
    for position, frame in enumerate(_block(row).frames(), start=row["position"]):
        if position > after:
            yield LogLine(
                position=position,
                workflow_id=frame.workflow_id,
                workflow_name=frame.workflow_name,
                workflow_instance_id=frame.workflow_instance_id,
                task_name=frame.task_name,
                task_instance_id=frame.task_instance_id,
                timestamp_ms=frame.timestamp_ms,
                level=frame.level,
                payload=frame.payload,
            )


def _block(row: Row) -> Block:
    names = (row["workflow_id"], row["workflow_name"], row["workflow_instance_id"], row["task_name"])
    rest = (row["task_instance_id"], row["timestamp_ms"], row["level"])
    return Block(*names, *rest, row["last"] - row["position"] + 1, row["lines"])


def _names(frame: LogFrame) -> tuple[str, str, str, str, str, int, str]:
    names = (frame.workflow_id, frame.workflow_name, frame.workflow_instance_id, frame.task_name)
    return (*names, frame.task_instance_id, frame.timestamp_ms, frame.level)
