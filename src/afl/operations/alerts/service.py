"""AlertService: a thread that looks for what is new and sends it. Of the processes that could, one does at a time.

What a destination was sent is stored after it was delivered, so a process that dies in between leads to a message twice
and never to one that is missing. A destination that is new is not sent what was there before it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from afl.kernel.backoff import Backoff
from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import Settings
from afl.operations.alerts.destinations import Destination, read_destinations
from afl.operations.alerts.messages import Links, Message, approvals_message, stopped_message
from afl.operations.people.questions import Approval, Questions
from afl.operations.people.tool_calls import ToolCalls
from afl.operations.spans import DAY, MINUTE, span
from afl.operations.work.process_lock import take_lock
from afl.runtime.entities import RunDefinition, RunnerState, child_via
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.alerts import AlertStore
from afl.runtime.persistence.run_lists import Waits
from afl.runtime.persistence.runs import RunFilter
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC
from afl.runtime.stores.alert_store import alert_store
from afl.runtime.types import StepId, WorkflowId

_log = logging.getLogger(__name__)
_LOCK = "afl:alerts"
_LOCK_MS = MINUTE
_SECONDS = 5.0
_APART_SECONDS = 1.0  # several questions that are asked together make one message
_MOST = 10_000
_MOST_PAUSED = 1_000  # the newest, which are read at every look
_OVERLAP_MS = 10 * MINUTE  # clocks of machines may differ so much
_KEPT_MS = 30 * DAY  # a question that is open for longer is sent once more
_RETRY_SECONDS = Backoff(5, cap=300)
_senders: dict[str, AlertService] = {}  # by the owner that they are in the store
_KNOWN = ""  # the subject that says that a destination is known


def alert_service(store: PersistenceAPI, settings: Settings) -> AlertService | None:
    """One for the destinations that the settings name; None for a store that keeps no alerts.

    SettingError, MissingExtraError. It has not started.
    """
    destinations = read_destinations(settings.alerts)
    known = alert_store(store)
    return AlertService(store, known, destinations, Links(settings.dashboard_url)) if known else None


@dataclass(frozen=True)
class Candidate:
    """What may have to be sent. `group`: who is asked, empty for a run that stopped; `id`: of the task or run."""

    subject: str
    group: str
    id: str
    call: Approval | None = None  # of a tool call of a turn


class AlertService:
    """Sends alerts while its block runs."""

    def __init__(
        self, store: PersistenceAPI, known: AlertStore, destinations: Sequence[Destination], links: Links
    ) -> None:
        self._store = store
        self._known = known
        self._writer = _Writer(store, links)
        self._outboxes = [_Outbox(each, known, self._writer) for each in destinations]
        self._since = wall_ms() - DAY
        self._stopped = threading.Event()
        self._wake: Callable[[], None] = self._stopped.set
        self._thread = JoinableThread(self._serve, "afl-alerts")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop after the message that is being sent; another process goes on."""
        self._stopped.set()
        self._wake()
        self._thread.join()

    def _serve(self) -> None:
        with self._store.subscribe([ELSEWHERE_TOPIC]) as subscription:
            self._wake = subscription.wake
            while not self._stopped.is_set():
                self._look_safely()
                self._stopped.wait(_APART_SECONDS) or subscription.wait(_SECONDS)
        self._leave()

    def _look_safely(self) -> None:
        try:
            if self._is_mine():
                self.look()
        except Exception as error:  # the next look may succeed, and no other process does it
            expected = isinstance(error, AgentFlowError)
            _log.warning("alerts could not be looked for, retrying: %s", error, exc_info=not expected)

    def _is_mine(self) -> bool:
        """Whether this one sends: the lock is the process's, and several may be in one."""
        owner = self._store.owner_id
        return _senders.setdefault(owner, self) is self and take_lock(self._store, _LOCK, _LOCK_MS)

    def _leave(self) -> None:
        owner = self._store.owner_id
        if _senders.get(owner) is not self:
            return
        try:
            self._store.release_lock(_LOCK, owner=owner)
        except AgentFlowError as error:  # then it expires
            _log.debug("the lock of the alerts was not released: %s", error)
        del _senders[owner]

    def look(self) -> None:
        """Send what is new; what cannot be delivered now is sent by a later look."""
        looked = wall_ms()
        failures = self._known.get_failures(self._since, _MOST)
        found = [*self._questions()]
        found += [Candidate(f"{each.workflow_id}@{each.ended}", "", each.workflow_id) for each in failures]
        found += [
            Candidate(f"{each.workflow_id}:{each.reason}", "", each.workflow_id)
            for each in self._out_of_budget()
        ]
        with self._writer.one_look():
            sent = [outbox.send(found) for outbox in self._outboxes]
        if all(sent):
            all_seen = len(failures) < _MOST
            self._since = max(self._since, looked - _OVERLAP_MS if all_seen else failures[-1].ended)
        self._known.forget_alerted(looked - _KEPT_MS, _MOST)

    def _out_of_budget(self) -> list[RunDefinition]:
        """Paused until somebody gives them more. One that used that up as well has another reason."""
        paused = RunFilter(state=RunnerState.PAUSED, waits=(Waits.BUDGET,), limit=_MOST_PAUSED)
        return self._store.find_runs(paused)

    def _questions(self) -> Iterator[Candidate]:
        for each in self._known.get_questions(_MOST):
            yield Candidate(f"{each.task_id}:{each.group}", each.group, each.task_id)
        for call in ToolCalls.of(self._store).waiting(limit=_MOST):
            yield Candidate(f"{call.id}:{call.group}", call.group, call.id, call)


class _Writer:
    """Reads what candidates are about, once for all destinations of a look."""

    def __init__(self, store: PersistenceAPI, links: Links) -> None:
        self._store = store
        self._links = links
        self._approvals: dict[str, Approval | None] = {}
        self._runs: dict[str, RunDefinition | None] = {}

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """What was read is forgotten behind it."""
        try:
            yield
        finally:
            self._approvals.clear()
            self._runs.clear()

    def approvals(self, candidates: Iterable[Candidate]) -> Message | None:
        """None if none of them is open any more."""
        found = [
            each for each in map(self._approval, candidates) if each is not None and each.state == "open"
        ]
        return approvals_message(found, self._links) if found else None

    def stopped(self, candidates: Iterable[Candidate]) -> Message | None:
        """None if all of them are gone, go on, or are child runs whose failure is for their parents to handle."""
        found = [each for each in map(self._run, candidates) if each is not None]
        return stopped_message(found, self._links) if found else None

    def _approval(self, candidate: Candidate) -> Approval | None:
        if candidate.call is not None:
            return candidate.call
        if candidate.id not in self._approvals:
            task = self._store.get_task(candidate.id)
            self._approvals[candidate.id] = Questions(self._store).approval(task) if task else None
        return self._approvals[candidate.id]

    def _run(self, candidate: Candidate) -> RunDefinition | None:
        if candidate.id not in self._runs:
            run = self._store.get_run(WorkflowId(candidate.id))
            self._runs[candidate.id] = run if run is not None and self._is_for_people(run) else None
        return self._runs[candidate.id]

    def _is_for_people(self, run: RunDefinition) -> bool:
        if run.state == RunnerState.PAUSED:
            return True
        return run.state == RunnerState.FAILED and not self._is_awaited(run)

    def _is_awaited(self, run: RunDefinition) -> bool:
        """Whether a step of another run waits, or waited, for this one."""
        task = self._store.get_task_by_step(StepId(run.parent_step)) if run.parent_step else None
        return task is not None and task.via == child_via(run.workflow_id)


class _Outbox:
    """One destination, and what it was sent."""

    def __init__(self, destination: Destination, known: AlertStore, writer: _Writer) -> None:
        self._destination = destination
        self._known = known
        self._writer = writer
        self._begun = False
        self._sent: set[str] = set()
        self._failures = 0
        self._due = 0.0

    def send(self, candidates: Sequence[Candidate]) -> bool:
        """Send what is new to it; False if something is left to be sent later."""
        wanted = [each for each in candidates if self._destination.wants(each.group)]
        if not self._begun:
            self._begin(wanted)
        self._sent &= {each.subject for each in wanted}
        fresh = self._fresh([each for each in wanted if each.subject not in self._sent])
        if fresh and time.monotonic() < self._due:
            return False
        asked, failed = [each for each in fresh if each.group], [each for each in fresh if not each.group]
        return self._deliver(asked, self._writer.approvals) and self._deliver(failed, self._writer.stopped)

    def _begin(self, candidates: Sequence[Candidate]) -> None:
        """A new destination is taken to know what is there already."""
        key = self._destination.key
        if not self._known.get_alerted(key, [_KNOWN]):
            self._known.save_alerted(key, [*(each.subject for each in candidates), _KNOWN])
        self._begun = True

    def _fresh(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that it was not sent."""
        if candidates:
            subjects = [each.subject for each in candidates]
            self._sent |= self._known.get_alerted(self._destination.key, subjects)
        return [each for each in candidates if each.subject not in self._sent]

    def _deliver(
        self, candidates: Sequence[Candidate], written: Callable[[Iterable[Candidate]], Message | None]
    ) -> bool:
        if not candidates:
            return True
        message = written(candidates)
        if message is not None and not self._destination.send(
            message.title, message.body, is_failure=message.is_failure
        ):
            self._failed()
            return False
        self._failures = 0
        subjects = [each.subject for each in candidates]
        self._known.save_alerted(self._destination.key, subjects)
        self._sent.update(subjects)
        return True

    def _failed(self) -> None:
        self._failures += 1
        pause = _RETRY_SECONDS.delay(self._failures)
        self._due = time.monotonic() + pause
        _log.warning(
            "an alert could not be delivered by %s; trying again in %s",
            self._destination.scheme,
            span(pause * 1000),
        )
