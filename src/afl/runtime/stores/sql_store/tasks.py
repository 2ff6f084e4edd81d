"""The task queue in SQL: storing and finding tasks, concurrency keys, and work that goes on elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.database import Query, Row, Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import (
    RATE_KEY,
    RunnerState,
    TaskDefinition,
    TaskHold,
    TaskState,
    as_stored,
    ended_attempts,
    released,
)
from afl.runtime.events import mark_of
from afl.runtime.persistence.changes import Outcome, leaves_word
from afl.runtime.persistence.tasks import ANY_TASK, TaskFilter
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, RUNS_TOPIC, tasks_topic
from afl.runtime.states import StepState
from afl.runtime.stores.sql_store.rows import error_data, event_row, extra_text, values_text
from afl.runtime.stores.sql_store.servers import append_logs, log_row
from afl.runtime.stores.sql_store.tables import LAST_CHARACTER, Q, Tables, via_range
from afl.runtime.stores.sql_store.task_rows import (
    bridge_text,
    closing_params,
    is_plain,
    policy_params,
    task_from,
    task_params,
    write_attempts,
)
from afl.runtime.types import StepId, WorkflowId

RATE_PATIENCE_MS = 5_000  # so long nobody starts a task whose turn it is, before others have theirs


def lock_keys(tx: Transaction, keys: Iterable[str]) -> None:
    """Before tasks of several keys are written: whoever promotes has the key first and the tasks then."""
    for key in sorted({key for key in keys if key}):
        tx.one(Q.lock_key, key=key)


def waiting_keys(select: Callable[..., list[Row]]) -> list[str]:
    """The keys whose next task may be let in by `promote`."""
    return [row["concurrency_key"] for row in select(Q.waiting_keys, patience_ms=RATE_PATIENCE_MS)]


def promote(tx: Transaction, keys: Iterable[str], notifications: Notifications) -> None:
    """Let the first ones that wait for these keys be claimed, as far as there is room.

    It only counts and fills, so it may be called once too often; never calling it again would leave a slot empty.
    """
    for key in sorted(
        {key for key in keys if key}
    ):  # in one order, so that two of these cannot block each other
        tx.one(Q.lock_key, key=key)
        if key.startswith(RATE_KEY):
            _promote_rated(tx, key, notifications)
            continue
        standing = tx.one(Q.key_standing, key=key)
        assert standing is not None  # it counts
        free = 0 if standing["allowed"] is None else standing["allowed"] - standing["active"]
        if free > 0:
            for row in tx.all(Q.promote, key=key, free=free, updated=wall_ms()):
                notifications.add(tx, ELSEWHERE_TOPIC if row["via"] else tasks_topic(row["task_list_name"]))


def _promote_rated(tx: Transaction, key: str, notifications: Notifications) -> None:
    """Let the next task of a rate be claimed when its time has come, one at a time.

    A claim does not write down when it was; it is known to be over when the task can no longer be claimed. The interval
    begins there, so that there is no burst, whoever was away for how long.

    A task that nobody starts must not stop the others of its key: a task of another facet is let in beside it, or one
    of the same facet, as of a run that others work on, instead of it.
    """
    standing = tx.one(Q.rate_standing, key=key)
    assert standing is not None  # it counts
    now, given = standing["now"], bool(standing["given"])
    at = max(now, standing["next_at"] or 0)
    back = tx.run(Q.put_back, key=key, at=at) if standing["promoted"] else 0  # delayed by a retry
    promoted = tx.all(Q.promoted_tasks, key=key) if standing["promoted"] > back else []
    if any(each["not_before"] > now - RATE_PATIENCE_MS for each in promoted):
        return
    turn = max(at, now + standing["interval_ms"]) if given and not back else at
    besides = [each["name"] for each in promoted]
    row = tx.one(Q.promote_rated, key=key, at=turn, besides=besides, updated=wall_ms())
    if row is None and promoted:
        if tx.run(Q.pass_over, key=key) == len(promoted):  # none was started at this moment
            turn = at
        row = tx.one(Q.promote_rated, key=key, at=turn, besides=[], updated=wall_ms())
    if row is not None:
        interval = -(-60_000 // -row["concurrency_limit"])
        tx.run(Q.set_rate, key=key, next_at=turn, given=1, interval_ms=interval)
        notifications.add(tx, tasks_topic(row["task_list_name"]))
    elif given:
        tx.run(Q.set_rate, key=key, next_at=turn, given=0, interval_ms=0)


class TaskTables(Tables):
    """The TaskStore protocol."""

    def get_task(self, uuid: str) -> TaskDefinition | None:
        rows = self.database.select(Q.get_task, uuid=uuid)
        return task_from(rows[0]) if rows else None

    def get_task_by_step(self, step_id: StepId) -> TaskDefinition | None:
        rows = self.database.select(Q.get_task_by_step, step_id=step_id)
        return task_from(rows[0]) if rows else None

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_pending_tasks, task_list=task_list)]

    def get_tasks_by_workflow(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return [
            task_from(row) for row in self.database.select(Q.get_tasks_by_workflow, workflow_id=workflow_id)
        ]

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_all_tasks, limit=limit)]

    def find_tasks(self, wanted: TaskFilter = ANY_TASK) -> list[TaskDefinition]:
        if wanted.hold == TaskHold.ELSEWHERE and not wanted.state:
            wanted = replace(wanted, state=TaskState.PENDING)
        asked = {**asdict(wanted), **via_range(wanted.via), "beyond": wanted.prefix + LAST_CHARACTER}
        rows = [row for query in _queries(wanted) for row in self.database.select(query, **asked)]
        return [task_from(row) for row in sorted(rows, key=lambda row: row["seq"])[: wanted.limit]]

    def save_task(self, task: TaskDefinition) -> None:
        topics = [ELSEWHERE_TOPIC if task.via else tasks_topic(task.task_list_name)]
        topics = topics if task.state == TaskState.PENDING else []
        sent = self.notifier.sent_by_commit()
        carried = self.notifier.payloads(topics) if topics and sent else None
        params = task_params(as_stored(task))
        if is_plain(task):
            self.database.atomic(Q.upsert_plain_task, **params, topics=carried)
        else:
            self.database.atomic(Q.upsert_task, **{**params, **policy_params(task)}, topics=carried)
        self.notifier.after_commit(topics, sent=sent)

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        if tasks:
            claims = [f"{task.uuid} {task.owner} {task.epoch}" for task in tasks]
            self.database.atomic(
                Q.start_tasks, uuids=[task.uuid for task in tasks], claims=claims, started=wall_ms()
            )

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        def work(tx: Transaction, notifications: Notifications) -> list[bool]:
            done = [_finish(tx, outcome) for outcome in outcomes]
            if any(done):
                notifications.add(tx, RUNS_TOPIC)
            kept = [each for ok, each in zip(done, outcomes, strict=True) if ok]
            append_logs(tx, notifications, [log_row(log) for each in kept for log in each.logs])
            write_attempts(tx, notifications, ended_attempts(each.task for each in kept))
            if any(ok and leaves_word(each) for ok, each in zip(done, outcomes, strict=True)):
                notifications.add(tx, CANCEL_TOPIC)
            keys = (each.task.concurrency_key for each in outcomes if each.task is not None)
            promote(tx, keys, notifications)
            return done

        return self.notifying(work)

    def close_tasks(self, tasks: Sequence[TaskDefinition]) -> list[bool]:
        closing = [closing_params(task) for task in tasks]

        def work(tx: Transaction, notifications: Notifications) -> list[bool]:
            done = [close_task(tx, each) for each in closing]
            closed = [task for ok, task in zip(done, tasks, strict=True) if ok]
            write_attempts(tx, notifications, ended_attempts(closed))
            promote(tx, (task.concurrency_key for task in tasks), notifications)
            return done

        return self.notifying(work)

    def requeue(self, task: TaskDefinition, delay_ms: int, error: dict[str, Any]) -> bool:
        def work(tx: Transaction, notifications: Notifications) -> bool:
            run = tx.one(Q.run_state, workflow_id=task.workflow_id)
            row = tx.one(
                Q.requeue_task,
                paused=int(run is not None and run["state"] == RunnerState.PAUSED),
                uuid=task.uuid,
                owner=task.owner,
                epoch=task.epoch,
                delay_ms=delay_ms,
                error=codec.encode(error),
                updated=wall_ms(),
            )
            if row is not None:
                write_attempts(tx, notifications, ended_attempts([task]))
                promote(tx, [row["concurrency_key"]], notifications)
                elsewhere = row["hold"] == TaskHold.ELSEWHERE
                notifications.add(tx, ELSEWHERE_TOPIC if elsewhere else tasks_topic(row["task_list_name"]))
            return row is not None

        return self.notifying(work)

    def return_tasks(self, tasks: Sequence[TaskDefinition], *, begun: bool = False) -> int:
        def work(tx: Transaction, notifications: Notifications) -> int:
            returned = 0
            for task in tasks:
                claim = {"uuid": task.uuid, "owner": task.owner, "epoch": task.epoch}
                if tx.run(Q.return_task, **claim, unused=int(not begun), updated=wall_ms()):
                    returned += 1
                    promote(tx, [task.concurrency_key] if task.per_minute else (), notifications)
                    write_attempts(tx, notifications, [released(task)] if begun else [])
                    notifications.add(tx, tasks_topic(task.task_list_name))
            return returned

        return self.notifying(work) if tasks else 0


def _finish(tx: Transaction, outcome: Outcome) -> bool:
    """One outcome. Everything that can refuse it is looked at before anything is written."""
    step, task, mark = outcome.step, outcome.task, mark_of(outcome)
    stored = tx.one(Q.lock_step, id=step.id)
    if stored is None or stored["state"] != StepState.EVENT_TRANSMIT or tx.one(Q.get_event, id=mark.id):
        return False
    if outcome.signal_id and not tx.one(Q.lock_signal, workflow_id=step.workflow_id, id=outcome.signal_id):
        return False
    if task is not None and not (
        _end_elsewhere(tx, task) if outcome.elsewhere else close_task(tx, closing_params(task))
    ):
        return False
    if outcome.signal_id and task is not None:
        tx.run(Q.receive_signal, workflow_id=step.workflow_id, id=outcome.signal_id, task_id=task.uuid)
    failure = error_data(step.transition.error)
    tx.run(
        Q.finish_step,
        id=step.id,
        state=step.state,
        returns=values_text(step.attributes.returns, f"the result of step {step.id}"),
        error=None if failure is None else codec.encode(failure),
        extra=extra_text(step),
        ended=step.ended,
    )
    tx.many(Q.insert_mark, [event_row(mark)])
    if outcome.child:
        tx.run(Q.tell_parent, workflow_id=outcome.child)
    return True


def _end_elsewhere(tx: Transaction, task: TaskDefinition) -> bool:
    """The other side itself says how it ended, so it need not be told."""
    closing = {**closing_params(task), "via": task.via, "bridge": bridge_text(task)}
    return bool(tx.run(Q.close_elsewhere, **{name: closing[name] for name in Q.close_elsewhere.parameters}))


def close_all(tx: Transaction, tasks: Sequence[Mapping[str, Any]]) -> bool:
    """Give tasks their last state; False if one has an owner that no longer holds it."""
    held = [task for task in tasks if task["owner"]]
    for task in tasks:
        if not task["owner"]:
            close_task(tx, task)
    return not held or tx.many(Q.close_held_task, held) == len(held)


def close_task(tx: Transaction, task: Mapping[str, Any]) -> bool:
    """Give a task its last state; False if it has an owner that no longer holds it."""
    if task["owner"]:
        return bool(tx.run(Q.close_held_task, **task))
    tx.run(Q.close_task, **{name: task[name] for name in Q.close_task.parameters})
    return True


def _queries(wanted: TaskFilter) -> list[Query]:
    """Of the open tasks there are few, and indexes of their own have them."""
    if wanted.hold == TaskHold.ELSEWHERE:
        return [Q.find_tasks_elsewhere]
    if wanted.workflow_id:
        return [Q.find_tasks_of_run]
    if wanted.state == TaskState.RUNNING:
        return [Q.find_running_tasks]
    if wanted.state == TaskState.PENDING:
        return [Q.find_tasks_on_hold] if wanted.hold else [Q.find_held_tasks, Q.find_pending_tasks]
    return [Q.find_tasks_named if wanted.prefix else Q.find_tasks]


class ElsewhereTables(Tables):
    """The ElsewhereStore protocol."""

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        text = None if bridge is None else codec.encode(bridge, what=f"the bridge of task {task.uuid}")

        def work(tx: Transaction, notifications: Notifications) -> bool:
            claim = {"uuid": task.uuid, "owner": task.owner, "epoch": task.epoch}
            place = {"via": via, "bridge": text, "patience_ms": patience_ms}
            done = bool(tx.run(Q.hand_over, **claim, **place, updated=wall_ms()))
            if done:
                notifications.add(tx, ELSEWHERE_TOPIC)
            return done

        return self.notifying(work)

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.unanswered, limit=limit)]

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        def work(tx: Transaction, notifications: Notifications) -> bool:
            stands = {"uuid": task.uuid, "via": task.via, "epoch": task.epoch}
            asked = {"next": via, "bridge": bridge_text(task), "patience_ms": task.patience_ms}
            done = bool(tx.run(Q.ask_next, **stands, **asked, updated=wall_ms()))
            if done:
                notifications.add(tx, ELSEWHERE_TOPIC)
            return done

        return self.notifying(work)

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        rows = self.database.select(Q.ended_elsewhere, **via_range(kind), limit=limit)
        return [task_from(row) for row in rows]

    def told(self, task: TaskDefinition) -> bool:
        return bool(self.database.execute(Q.told, uuid=task.uuid))


class TimerTables(Tables):
    """The TimerStore protocol."""

    def next_timer(self) -> int | None:
        due: int | None = self.database.select(Q.next_timer)[0]["due"]
        return due

    def due_timers(self, limit: int = 500) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.due_timers, limit=limit)]
