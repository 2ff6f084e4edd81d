"""The tasks of one worker at a server: claimed, kept, and reported by requests."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from afl.client.store_client import OperationsClient
from afl.kernel import codec
from afl.kernel.bounds import LONGEST_TEXT
from afl.kernel.error_text import error_text
from afl.kernel.errors import FencedError, InputError, NotFoundError, PayloadError, StoreError, Throttled
from afl.kernel.ids import random_id
from afl.operations.problems import RemoteError, RequestError, ServerAway, ServerDefect
from afl.operations.work.remote_claims import ClaimedTask, Heartbeat, LogLine, TaskClaim
from afl.operations.work.remote_work import (
    MOST_TASKS,
    claim_work,
    complete_work,
    fail_work,
    heartbeat_work,
    stop_work,
)
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskState
from afl.runtime.persistence.held_claims import Claim
from afl.runtime.program.policies import MOST_RETRY_AFTER
from afl.runtime.stores.masking import masked_log
from afl.runtime.worker.results import TaskResult

T = TypeVar("T")
_log = logging.getLogger(__name__)

_MOST_LINES = 1_000  # in one request
_MOST_CHARACTERS = 500_000

AWAY = (ServerAway, ServerDefect, StoreError, Throttled)
"""What passes: the server or its store does not answer or fails, or others have this address refused for a while."""
REFUSED = (InputError, RemoteError)
"""What stays: the request is too large, or something in it is wrong."""


class RemoteTasks:
    """What a worker asks of a server. `lease_ms` is what the last claim was given."""

    max_deliveries = 0  # the server writes down itself which tasks have begun

    def __init__(
        self, client: OperationsClient, facets: Sequence[str], task_list: str, name: str, concurrency: int
    ) -> None:
        self._client = client
        self._facets = list(facets)
        self._task_list = task_list
        self._capacity = concurrency
        self.name = name or _made_name()
        self.lease_ms = 60_000
        self._logs: dict[str, list[LogLine]] = defaultdict(list)
        self._sending: set[str] = set()  # tasks whose first lines are on their way
        self._guard = threading.Condition()

    def claim(self, limit: int, wait: float) -> list[TaskDefinition]:
        """Tasks to work on; none if none came within so many seconds."""
        claimed = self._client.call(
            claim_work,
            self._facets,
            worker=self.name,
            task_list=self._task_list,
            limit=min(limit, MOST_TASKS),
            wait=wait,
            capacity=self._capacity,
        )
        for each in claimed.tasks:
            self.lease_ms = each.lease_ms
        return [_task(each) for each in claimed.tasks]

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        """They have begun with their claim."""

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        """Extend one claim; False if it is no longer held."""
        try:
            return not self.heartbeat({(task.uuid, task.epoch)})
        except AWAY as error:  # nobody knows; the report will show
            _log.warning("the heartbeat of task %s did not reach the server: %s", task.uuid, error)
            return True

    def save_log(self, log: LogDefinition) -> None:
        """Keep a line for the next heartbeat or report of its task."""
        masked = masked_log(log)  # here, where the secrets are known
        message = _sendable(masked.message)[:LONGEST_TEXT]
        line = LogLine(message, log.note_type, None, masked.details, log.time, log.uuid)
        with self._guard:
            self._logs[log.object_id].append(line)

    def heartbeat(self, claims: Collection[Claim]) -> set[Claim]:
        """Keep these tasks, and have stored what they logged, or a part of it; those that are lost."""
        lost: set[Claim] = set()
        for some in _parts(list(claims)):
            with self._lines_of([task for task, _ in some], wait=False) as lines:
                found = self._heartbeat([TaskClaim(task, epoch, lines[task]) for task, epoch in some])
            lost |= {(each.task, each.epoch) for each in found.lost}
        return lost

    def _heartbeat(self, tasks: list[TaskClaim]) -> Heartbeat:
        try:
            return self._client.call(heartbeat_work, tasks, worker=self.name)
        except REFUSED as error:  # a line must not cost the tasks their lease
            if not any(each.logs for each in tasks):
                raise
            _log.warning("lines of log are not stored: %s", error)
            bare = [TaskClaim(each.task, each.epoch) for each in tasks]
            return self._client.call(heartbeat_work, bare, worker=self.name)

    def report(self, result: TaskResult) -> None:
        """Tell what a handler returned or raised; a report that comes too late has no effect."""
        while self._has_more(result.task.uuid):
            self.heartbeat({(result.task.uuid, result.task.epoch)})
        with self._lines_of([result.task.uuid], wait=True) as lines:
            try:
                self._report(result, lines[result.task.uuid])
            except (FencedError, NotFoundError) as error:
                _log.info("%s", error)

    def _report(self, result: TaskResult, lines: list[LogLine]) -> None:
        try:
            self._send(result, lines)
        except NotFoundError:
            raise
        except REFUSED as error:
            if not lines:
                raise
            _log.warning("lines of log are not stored: %s", error)
            self._send(result, [])

    def _send(self, result: TaskResult, lines: list[LogLine]) -> None:
        task = result.task
        if result.error is not None:
            self._fail(result, lines, error_text(result.error), result.error_type)
            return
        try:
            value = codec.plain_data(result.value, what=f"the result of {task.name}")
        except PayloadError as error:  # trying again would not change it
            self._fail(result, lines, str(error), type(error).__name__, retryable=False)
            return
        try:
            self._client.call(
                complete_work, task.uuid, epoch=task.epoch, worker=self.name, result=value, logs=lines
            )
        except (RequestError, PayloadError) as error:
            if lines:
                raise
            self._fail(result, [], str(error), PayloadError.__name__, retryable=False)

    def _fail(
        self, result: TaskResult, lines: list[LogLine], message: str, kind: str, *, retryable: bool = True
    ) -> None:
        raised_at = result.raised_at
        self._client.call(
            fail_work,
            result.task.uuid,
            epoch=result.task.epoch,
            worker=self.name,
            message=_sendable(message),
            error_type=kind,
            error_bases=result.error_bases,
            traceback=_sendable(raised_at.text) if raised_at is not None else "",
            location=_sendable(raised_at.location) if raised_at is not None else "",
            retryable=retryable,
            retry_after=min(result.retry_after, MOST_RETRY_AFTER),
            logs=lines,
        )

    def stop(self, begun: Sequence[TaskDefinition] = (), unstarted: Sequence[TaskDefinition] = ()) -> None:
        """Give these back, and say that this worker ends."""
        for ended, left in zip_longest(_parts(begun), _parts(unstarted), fillvalue=()):
            with self._lines_of([task.uuid for task in ended], wait=True) as lines:
                self._client.call(
                    stop_work,
                    worker=self.name,
                    tasks=[TaskClaim(task.uuid, task.epoch, lines[task.uuid]) for task in ended],
                    unstarted=[TaskClaim(task.uuid, task.epoch) for task in left],
                )

    @contextmanager
    def _lines_of(self, tasks: list[str], *, wait: bool) -> Iterator[dict[str, list[LogLine]]]:
        """The first lines of each task, for one request; they are put back if the server is away.

        Lines of a task are not sent side by side: they would be stored in another order, and those of a report
        before others. Who does not wait for a request that is on its way sends none of that task.
        """
        taken = self._take(tasks, wait)
        kept: dict[str, list[LogLine]] = {}
        try:
            yield taken
        except AWAY:
            kept = taken
            raise
        finally:
            with self._guard:
                for task in [task for task, lines in taken.items() if lines]:
                    self._sending.discard(task)
                    if kept:
                        self._logs[task][:0] = kept[task]
                self._guard.notify_all()

    def _take(self, tasks: Sequence[str], wait: bool) -> dict[str, list[LogLine]]:
        """The first lines of each task, in all as many as one request may bring: those who wait longest come first."""
        taken: dict[str, list[LogLine]] = {task: [] for task in tasks}
        room = _Room()
        with self._guard:
            if wait:
                self._wait_for(tasks)
            for task in [task for task in self._logs if task in taken and task not in self._sending]:
                lines = self._logs.pop(task)
                fitting = room.take(lines)
                taken[task] = lines[:fitting]
                if fitting:
                    self._sending.add(task)
                if fitting < len(lines):
                    self._logs[task] = lines[fitting:]
        return taken

    def _has_more(self, task: str) -> bool:
        """Whether a task has more lines than one request may bring."""
        with self._guard:
            self._wait_for([task])
            lines = self._logs.get(task, [])
            return _Room().take(lines) < len(lines)

    def _wait_for(self, tasks: Sequence[str]) -> None:
        """Wait until no lines of these tasks are on their way."""
        self._guard.wait_for(lambda: self._sending.isdisjoint(tasks))


@dataclass
class _Room:
    """What one request has room for: one line at least, however long that is."""

    lines: int = _MOST_LINES
    characters: int = _MOST_CHARACTERS

    def take(self, lines: Sequence[LogLine]) -> int:
        """How many of these lines find room in it."""
        for number, line in enumerate(lines):
            size = len(line.message) + len(str(line.details))
            if not self.lines or (size > self.characters and self.lines < _MOST_LINES):
                self.lines = 0
                return number
            self.lines -= 1
            self.characters -= size
        return len(lines)


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    """As many as one request may name; one part without any if there are none."""
    return [items[start : start + MOST_TASKS] for start in range(0, len(items), MOST_TASKS)] or [[]]


def _sendable(text: str) -> str:
    """A text without NUL, which the server refuses."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _task(each: ClaimedTask) -> TaskDefinition:
    return TaskDefinition(
        uuid=each.task,
        name=each.facet,
        runner_id="",
        workflow_id=each.run,
        flow_id="",
        step_id=each.step,
        state=TaskState.RUNNING,
        epoch=each.epoch,
        deliveries=each.attempt,
        data=each.inputs,
        timeout_ms=each.timeout_ms,
    )


def _made_name() -> str:
    """A name that no other worker has."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()).strip("-.")[:60] or "worker"
    return f"{host}-{os.getpid()}-{random_id()[:8]}"
